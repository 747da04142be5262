"""Qwen3-ASR: audio rows inside a chat prompt, read by a language model that answers with text.

Source: Qwen3-ASR technical report, and the package qwen-asr, whose prompt and rules for the
answer these are.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from livecap.checkpoints import Qwen3AsrCheckpoint
from livecap.config import DecodeConfig
from livecap.engine.qwen3_decoder import Qwen3Decoder
from livecap.engine.request import Embedded, Request
from livecap.engine.request import Sequence as Decoded
from livecap.errors import ConfigError
from livecap.events import RATE, Scores, Word
from livecap.models.forced_alignment import ALIGNED_LANGUAGES, LONGEST
from livecap.models.protocol import Ask, Listen, Pcm, Recognition
from livecap.models.qwen3_prompt import Answer, Prompt
from livecap.models.qwen3_text import LANGUAGES, code_for
from livecap.models.runaway import SPOKEN, Runaway
from livecap.text import collapse, compression_ratio
from livecap.words import UNSPACED, split_text
from livecap.work import Hypothesis, Passage, Work
from towers.mel import Mel

SHORTEST = RATE // 2  # samples: a shorter clip is heard with silence after it
DENSEST = 10  # tokens a second, the most that are decoded; speech has about three
SPARE = 32  # tokens on top of that: the header, and a short clip's words
UNTIMED = "Fetch its aligner, `livecap pull qwen3-forced-aligner-0.6b`, or leave --words out."
CONTEXT = 2048  # most tokens of prompt and hotwords


class Tower(Protocol):
    """What both towers come to when a clip is there as a whole."""

    def clip(self, mel: Tensor) -> Tensor:
        """Mel [bins, frame] -> rows [row, hidden]."""


class WordAligner(Protocol):
    """Times the words of a known text."""

    def times(self, pcm: Pcm, words: Sequence[str], language: str) -> list[tuple[int, int]] | None:
        """Start and end of each in samples; None if it can't be done."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One decoding of a clip, judged."""

    answer: Answer
    scores: Scores
    looped: bool
    cut: bool  # it reached the most tokens there may be


class Qwen3Asr:
    """A loaded Qwen3-ASR model."""

    def __init__(
        self,
        checkpoint: Qwen3AsrCheckpoint,
        *,
        mel: Mel,
        tower: Tower,
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
    def hear(self, asked: Sequence[Listen]) -> list[Tensor]:
        """Audio -> rows [row, hidden] of each question."""
        return [
            self.tower.clip(self.mel.offline(_padded(ask.pcm).to(self.decoder.device)))
            for ask in asked
        ]

    def recognise(self, work: Work, config: DecodeConfig) -> Recognition:
        """Hear the segment, then have it written down."""
        pcm = work.segment.pcm
        rows: Tensor = yield Listen(pcm)
        forced = code_for(work.language) if work.language else None
        attempt = yield from self._decode(rows, forced, config, work, len(pcm) / RATE)
        language = forced or attempt.answer.language
        words = self._words(attempt.answer.text, language, pcm, config)
        passages = (Passage(0, len(pcm), tuple(words), attempt.scores),) if words else ()
        detected = None if forced else attempt.answer.probability
        reason = _reason(attempt)
        # Where in the audio a text broke off, nobody knows.
        unsure = 0 if reason else None
        return Hypothesis(work, passages, language, detected, reason, unsure=unsure)

    def _decode(
        self, rows: Tensor, language: str | None, config: DecodeConfig, work: Work, seconds: float
    ) -> Generator[Ask, Any, Attempt]:
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
                seed=work.number,
                embedded=Embedded(start, rows),
                halt=runaway,
            )
            attempt = self._judge(decoded, runaway, is_forced=language is not None)
            if not attempt.looped:
                break
        return attempt

    def _judge(self, decoded: Decoded, runaway: Runaway, *, is_forced: bool) -> Attempt:
        tokens = decoded.sampled
        looped = decoded.status == "halted" or (
            runaway.repeats(tokens) and not runaway.could_be_said(tokens)
        )
        answer = self.prompt.answer(
            list(collapse(tokens)) if looped else tokens, decoded.logprobs, is_forced=is_forced
        )
        scores = Scores(
            tokens=tuple(tokens),
            temperature=decoded.request.temperature,
            average_logprob=sum(decoded.logprobs) / (len(decoded.logprobs) or 1),
            compression_ratio=compression_ratio(answer.text),
            no_speech_probability=0.0,
        )
        return Attempt(answer, scores, looped, decoded.status == "limit")

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


def budget(seconds: float) -> int:
    """Seconds of audio -> most tokens that are decoded for it."""
    return math.ceil(DENSEST * seconds) + SPARE


def _padded(pcm: Pcm) -> Tensor:
    """Samples as the published extractor takes them: in -1 to 1, and half a second at least."""
    samples = torch.from_numpy(pcm)
    peak = float(samples.abs().max()) if len(samples) else 0.0
    if peak > 1:
        samples = samples / peak
    return torch.nn.functional.pad(samples, (0, max(SHORTEST - len(samples), 0)))


def _reason(attempt: Attempt) -> str | None:
    """Why the audio, or its end, has no text, where that is so."""
    if attempt.looped:
        return "the model kept repeating itself"
    if attempt.cut:
        return "the text grew longer than speech can be, and was cut"
    if not attempt.answer.text.strip():
        return "the model found no speech in it"
    return None
