"""Qwen3-ASR: audio rows inside a chat prompt, read by a language model that answers with text.

Source: Qwen3-ASR technical report, and the package qwen-asr, whose prompt and rules for the
answer these are.
"""

from collections.abc import Generator, Sequence
from itertools import takewhile
from typing import Any, Protocol

import torch
from torch import Tensor

from livecap.checkpoints import Qwen3AsrCheckpoint
from livecap.config import DecodeConfig
from livecap.engine.request import Embedded, Request
from livecap.engine.request import Sequence as Decoded
from livecap.errors import ConfigError
from livecap.events import RATE, Word
from livecap.models.protocol import (
    DecodeSteps,
    EncodeRequest,
    EncoderOutput,
    Step,
    StreamingDefaults,
)
from livecap.models.qwen3_asr.alignment import ALIGNED_LANGUAGES, LONGEST
from livecap.models.qwen3_asr.answer import JudgedAnswer, budget, judge
from livecap.models.qwen3_asr.decoder import Qwen3Decoder
from livecap.models.qwen3_asr.encoder_state import GrowingTower, encode_more
from livecap.models.qwen3_asr.prompt import Prompt
from livecap.models.qwen3_asr.streaming import SHORTEST, Updates
from livecap.models.qwen3_asr.text import LANGUAGES, code_for
from livecap.models.stopping import SPOKEN, Runaway
from livecap.online.job import DecodeJob, Hypothesis, TextSpan
from livecap.online.speech_buffer import Pcm
from livecap.text.words import UNSPACED, split_text
from towers.mel import Mel

UNTIMED = "Fetch its aligner, `livecap pull qwen3-forced-aligner-0.6b`, or leave --words out."
UPDATE = 2 * RATE  # samples between two updates of live speech
BLOCK = RATE * 192 // 100  # those of the causal tower: 192 mel frames
LEAD = RATE // 100  # samples more: by then the last mel frame is whole
LIVE_SEGMENT = 16 * RATE  # samples of live speech that are read at once
CONTEXT = 2048  # most tokens of prompt and hotwords


class QwenTower(GrowingTower, Protocol):
    """What both towers come to when a clip is there as a whole."""

    def clip(self, mel: Tensor) -> Tensor:
        """Mel [bins, frame] -> rows [row, hidden]."""


class WordAligner(Protocol):
    """Times the words of a known text."""

    def times(self, pcm: Pcm, words: Sequence[str], language: str) -> list[tuple[int, int]] | None:
        """Start and end of each in samples; None if it can't be done."""


class Qwen3Asr:
    """A loaded Qwen3-ASR model."""

    def __init__(
        self,
        checkpoint: Qwen3AsrCheckpoint,
        *,
        mel: Mel,
        tower: QwenTower,
        decoder: Qwen3Decoder,
        segment: int,
        aligner: WordAligner | None = None,
    ) -> None:
        self.name = checkpoint.name
        self.tokenizer = checkpoint.tokenizer
        self.ends = checkpoint.ends
        self.mel, self.tower, self.decoder = mel, tower, decoder
        self.segment = segment
        self.aligner = aligner
        # The streaming tower was trained on English only.
        self.languages = ("en",) if checkpoint.kind == "causal" else tuple(LANGUAGES)
        self.prompt = Prompt(self.tokenizer)
        self.updates = Updates(self.prompt, self.ends, self.mel, self.tower, self.decoder)
        is_causal = checkpoint.kind == "causal"
        self.streaming = StreamingDefaults(
            ("append-only", "rollback", "local-agreement")
            if is_causal
            else ("rollback", "local-agreement", "append-only"),
            interval=BLOCK if is_causal else UPDATE,
            first_update=LEAD,
            pause_update=0,
            endpoint_silence=RATE * 6 // 10,
            min_sentence=12 * RATE,
            max_silence=2 * RATE,
            max_segment=min(LIVE_SEGMENT, segment),
        )

    def check(self, config: DecodeConfig) -> None:
        """Raise ConfigError for options that this model can't follow."""
        if config.language and code_for(config.language) not in self.languages:
            known = ", ".join(f"{code} ({LANGUAGES[code]})" for code in self.languages)
            raise ConfigError(
                f"{self.name} has no language {config.language!r}", remedy=f"It has: {known}."
            )
        for option, given in (
            ("--task translate", config.task == "translate"),
            ("--long-form sequential", config.long_form == "sequential"),
            ("--no-timestamps", config.no_timestamps),
        ):
            if given:
                raise ConfigError(
                    f"{self.name} has no {option}: that is Whisper's",
                    remedy="Leave the option out, or choose a Whisper model.",
                )
        length = len(self.prompt.context(config))
        if length > CONTEXT:
            raise ConfigError(
                f"The prompt and hotwords come to {length} tokens",
                remedy=f"Shorten them to {CONTEXT}; more than twenty terms rarely help.",
            )

    def untimed(self, language: str | None) -> str | None:
        """What keeps words from getting times, and what to do: the aligner's limits, or none."""
        if self.aligner is None:
            return UNTIMED
        if language and code_for(language) not in ALIGNED_LANGUAGES:
            known = ", ".join(sorted(ALIGNED_LANGUAGES))
            return f"Its aligner knows {known}; leave --words out."
        if self.segment > LONGEST:
            return f"Its aligner takes {LONGEST // RATE} s: use --max-segment {LONGEST // RATE}."
        return None

    @torch.inference_mode()
    def encode(self, requests: Sequence[EncodeRequest]) -> Sequence[EncoderOutput]:
        """Audio -> rows [row, hidden], or of growing audio the next EncoderState, of each request.

        Only as many of the requests, from the first on, as are alike.
        """
        first = requests[0]
        if first.encoder_state is not None:
            alike = takewhile(
                lambda one: one.encoder_state is not None and one.final == first.final, requests
            )
            return encode_more(self.mel, self.tower, list(alike))
        return [
            self.tower.clip(self.mel.offline(_padded(request.pcm).to(self.decoder.device)))
            for request in takewhile(lambda one: one.encoder_state is None, requests)
        ]

    def decode(self, job: DecodeJob, config: DecodeConfig) -> DecodeSteps:
        """Hear the segment, then have it written down."""
        pcm = job.segment.pcm
        if job.prefix:
            return (yield from self.updates.decode(job, job.prefix, config))
        rows: Tensor = yield EncodeRequest(pcm)
        forced = code_for(job.language) if job.language else None
        attempt = yield from self._decode(rows, forced, config, job, len(pcm) / RATE)
        language = forced or attempt.answer.language
        words = self._words(attempt.answer.text, language, pcm, config)
        spans = (TextSpan(0, len(pcm), tuple(words), attempt.scores),) if words else ()
        detected = None if forced else attempt.answer.probability
        reason = attempt.reason
        # Where in the audio a text broke off, nobody knows.
        untranscribed_from = 0 if reason else None
        return Hypothesis(
            job, spans, language, detected, reason, untranscribed_from=untranscribed_from
        )

    def free(self, encoder_state: object) -> None:
        """Free the keys and values of a segment's beginning."""
        self.updates.free(encoder_state)

    def _decode(
        self,
        rows: Tensor,
        language: str | None,
        config: DecodeConfig,
        job: DecodeJob,
        seconds: float,
    ) -> Generator[Step, Any, JudgedAnswer]:
        """A text that loops is tried again without the context, which may have led it there."""
        context = self.prompt.context(config)
        runaway = Runaway(self.tokenizer.specials.endoftext, int(SPOKEN * seconds))
        for given in dict.fromkeys((context, ())):
            ids, start = self.prompt.ids(len(rows), context=given, language=language)
            decoded: Decoded = yield Request(
                prompt=ids,
                limit=len(ids) + budget(seconds),
                ends=self.ends,
                temperature=config.temperature or 0.0,
                seed=job.number,
                embedded=Embedded(start, rows),
                halt=runaway,
            )
            attempt = judge(self.prompt, decoded, runaway, is_forced=language is not None)
            if not attempt.looped:
                break
        return attempt

    def _words(self, text: str, language: str | None, pcm: Pcm, config: DecodeConfig) -> list[Word]:
        """Text -> words, with times where they were asked for and an aligner is there."""
        text = text.strip()
        if text and language not in UNSPACED:
            text = " " + text  # what follows another segment is set apart from it
        pieces = split_text(text, language)
        times = None
        if config.words and self.aligner and language:
            times = self.aligner.times(pcm, pieces, language)
        if times is None:
            return [Word(piece) for piece in pieces]
        return [Word(piece, start, end) for piece, (start, end) in zip(pieces, times, strict=True)]


def _padded(pcm: Pcm) -> Tensor:
    """Samples as the published extractor takes them: in -1 to 1, and half a second at least."""
    samples = torch.from_numpy(pcm)
    peak = float(samples.abs().max()) if len(samples) else 0.0
    if peak > 1:
        samples = samples / peak
    return torch.nn.functional.pad(samples, (0, max(SHORTEST - len(samples), 0)))
