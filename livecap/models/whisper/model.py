"""Whisper, every size: 30 s windows, an encoder-decoder, prompts of special tokens.

Source: openai-whisper (transcribe.py, decoding.py), whose thresholds are the defaults here.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import torch

from livecap.checkpoints import WhisperCheckpoint
from livecap.config import DecodeConfig
from livecap.engine.layers import Precisions
from livecap.engine.request import Memory, Request
from livecap.engine.request import Sequence as Decoded
from livecap.engine.sampler import Only
from livecap.errors import ConfigError
from livecap.events import RATE
from livecap.models.protocol import DecodeSteps, EncodeRequest, Step, StreamingDefaults
from livecap.models.whisper.attempt import Attempt
from livecap.models.whisper.decode import Fallback
from livecap.models.whisper.decoder import PoolSizes, WhisperDecoder
from livecap.models.whisper.streaming import StreamingDecoder
from livecap.models.whisper.timestamps import (
    Aligner,
    Parsed,
    Stretch,
    clamped,
    parse,
    split_span,
    untimed,
)
from livecap.online.job import DecodeJob, Hypothesis, TextSpan
from livecap.online.speech_buffer import Pcm
from towers.layers import MakeLinear
from towers.mel import Mel
from towers.whisper import FRAMES, SAMPLES_PER_ROW, WhisperTower

WINDOW = 30 * RATE  # samples that the encoder hears at once
LONGEST = 28  # seconds of a piece of job: leaves the last words some air before the window's end
MARGIN = 50  # encoder rows (1 s) behind the audio that the decoder sees; none costs accuracy
SHORTEST = RATE // 2  # samples: what is left of a window below this is not heard again
PROGRESS = 2 * RATE  # samples that a window must be done with for another to follow
UNTOLD = 3 * RATE  # samples behind the last text that are reported

SPLIT_SILENCE = 2 * RATE  # samples that were left out: no text reaches over them
GUESSED = 0.5  # temperature above which text is not carried on to the next window
CARRIED = 223  # most tokens of context, half a decoder's positions


class Whisper:
    """A loaded Whisper model."""

    def __init__(
        self,
        checkpoint: WhisperCheckpoint,
        precisions: Precisions,
        *,
        room: PoolSizes,
        device: torch.device,
        segment: int = LONGEST,
    ) -> None:
        dims = checkpoint.dims
        tensors = {name: tensor.to(device) for name, tensor in checkpoint.tensors.items()}
        self.segment = segment * RATE
        self.name = checkpoint.name
        self.tokenizer = checkpoint.tokenizer
        self.facts = checkpoint.generation
        self.languages = tuple(self.facts.languages or ("en",))
        self.device = device
        # A window costs the same however little speech is in it, and short ones cost accuracy: only
        # its length ends a live segment (measured in benchmarks/README.md).
        self.streaming = StreamingDefaults(
            ("align-att", "local-agreement"),
            interval=2 * RATE,
            first_update=0,
            pause_update=RATE,
            endpoint_silence=RATE * 8 // 10,
            min_sentence=self.segment,
            max_silence=30 * RATE,
            max_segment=self.segment,
        )
        wide: MakeLinear = precisions.make_tower_linear()
        self.mel = Mel(dims.mels, device=device)
        self.tower = WhisperTower(tensors, heads=dims.encoder_heads, make=wide)
        self.decoder = WhisperDecoder(
            tensors,
            heads=dims.decoder_heads,
            room=room,
            make=precisions.make_decoder_linear(),
            make_wide=wide,
            dtype=precisions.decoder,
            device=device,
        )
        self.fallback = Fallback(self.tokenizer, self.facts, self.decoder.limit, device)
        upper = range(dims.decoder_layers // 2, dims.decoder_layers)
        heads = self.facts.alignment_heads or tuple(
            (layer, head) for layer in upper for head in range(dims.decoder_heads)
        )
        self.aligner = Aligner(self.decoder, self.tokenizer, heads)
        self.streaming_decoder = StreamingDecoder(
            self.decoder, self.fallback, self.aligner, self._detect
        )

    def free(self, encoder_state: object) -> None:
        """Nothing is kept: every update encodes the window anew."""

    def check(self, config: DecodeConfig) -> None:
        """Raise ConfigError for options that this model can't follow."""
        if config.language and config.language not in self.languages:
            raise ConfigError(
                f"{self.name} has no language {config.language!r}",
                remedy=f"It has: {', '.join(self.languages)}.",
            )
        if config.task == "translate" and not self.facts.is_multilingual:
            raise ConfigError(
                f"{self.name} only knows English, so it can't translate",
                remedy="Choose a multilingual model, e.g. --model small.",
            )
        self.fallback.given(config)  # a vocabulary without merges can't encode a prompt

    def untimed(self, language: str | None) -> str | None:
        """Words always get times."""

    @torch.inference_mode()
    def encode(self, requests: Sequence[EncodeRequest]) -> list[Memory]:
        """Answer the first question, if there is room: a window fills a CPU's cache, and batches of
        them gain nothing there.
        """
        request = requests[0]
        rows = min(-(-len(request.pcm) // SAMPLES_PER_ROW) + MARGIN, FRAMES // 2)
        if self.decoder.memory.available < self.decoder.memory.needed(rows):
            return []
        pcm = torch.from_numpy(request.pcm).to(self.device)
        encoded = self.tower.encode(self.mel.offline(pcm, FRAMES)[None], rows)[0]
        memory = self.decoder.project_cross_kv(encoded)
        assert memory is not None
        return [memory]

    def decode(self, job: DecodeJob, config: DecodeConfig) -> DecodeSteps:
        """Hear the work window by window; what a window leaves undone starts the next one."""
        if job.prefix:
            return (yield from self.streaming_decoder.decode(job, job.prefix, config))
        language, probability = job.language, None
        spans: list[TextSpan] = []
        context, at = job.context, 0
        while True:
            pcm = job.segment.pcm[at : at + WINDOW]
            memory: Memory = yield EncodeRequest(pcm)
            try:
                if language is None:
                    language, probability = yield from self._detect(memory)
                seed = job.number * 100_003 + at // RATE * 101
                attempt = yield from self.fallback.decode(
                    memory, language, config, context, seconds=len(pcm) / RATE, seed=seed
                )
                parsed = self._parse(attempt, len(pcm), config)
                if config.long_form == "parallel":
                    parsed = _cut_short(parsed, len(pcm))
                cuts = [cut - at for cut in job.segment.silences(SPLIT_SILENCE)]
                found = self._spans(parsed, attempt, memory, language, config, pcm, cuts)
            finally:
                self.decoder.free(memory)
            spans += [_shifted(span, at) for span in found]
            at += parsed.consumed
            # Sequential long form takes one window; its session asks for the next.
            if config.long_form == "sequential" or not _more(job, at, parsed):
                break
        reason = _reason(attempt, parsed, len(pcm))
        return Hypothesis(
            job,
            tuple(spans),
            language,
            probability,
            reason,
            consumed=at,
            context=_carried(job, attempt, parsed),
        )

    def _detect(self, memory: Memory) -> Generator[Step, Any, tuple[str, float]]:
        """The language that the decoder would name first, of those it has, and its probability."""
        ids = self.facts.languages
        if ids is None:
            return "en", 1.0
        only = Only(torch.tensor(sorted(ids.values()), device=self.device))
        prompt = (self.tokenizer.specials.sot,)
        decoded: Decoded = yield Request(
            prompt, len(prompt) + 1, frozenset(), (only,), memory=memory
        )
        codes = {number: code for code, number in ids.items()}
        return codes[decoded.sampled[0]], float(torch.tensor(decoded.logprobs[0]).exp())

    def _parse(self, attempt: Attempt, samples: int, config: DecodeConfig) -> Parsed:
        if attempt.is_silence:
            return Parsed((), samples, 0)
        if not config.timestamps:
            text = attempt.tokens
            return Parsed((Stretch(0, samples, text),) if text else (), samples, len(text))
        return parse(self.tokenizer, attempt.tokens, samples)

    def _spans(
        self,
        parsed: Parsed,
        attempt: Attempt,
        memory: Memory,
        language: str,
        config: DecodeConfig,
        pcm: Pcm,
        cuts: Sequence[int],
    ) -> list[TextSpan]:
        """Stretches as spans; one that reaches over a silence (at the samples `cuts`) is split
        there, by the times of its words.
        """
        stretches = [clamped(one, cuts) for one in parsed.stretches]
        plain = untimed(self.tokenizer, stretches, language, attempt.scores)
        reaches = [any(one.start < cut < one.stop for cut in cuts) for one in stretches]
        if not config.words and not any(reaches):
            return plain
        timed = self.aligner.spans(
            stretches,
            memory,
            start=self.tokenizer.prompt(language, task=config.task, timestamps=False),
            pcm=pcm,
            language=language,
            scores=attempt.scores,
        )
        found: list[TextSpan] = []
        for one, span, is_split in zip(plain, timed, reaches, strict=True):
            if is_split:
                found += split_span(self.tokenizer, span, cuts, language, timed=config.words)
            else:
                found.append(span if config.words else one)
        return found


def _carried(job: DecodeJob, attempt: Attempt, parsed: Parsed) -> tuple[int, ...]:
    """The tokens that the next window goes on from; none after a text that was guessed at."""
    if attempt.looped or attempt.scores.temperature > GUESSED:
        return ()
    return (*job.context, *attempt.tokens[: parsed.token_count])[-CARRIED:]


def _cut_short(parsed: Parsed, samples: int) -> Parsed:
    """Where the text ends long before the audio, the rest is heard again: it holds speech too."""
    if not parsed.stretches or samples - parsed.stretches[-1].stop <= UNTOLD:
        return parsed
    return replace(parsed, consumed=parsed.stretches[-1].stop)


def _more(job: DecodeJob, at: int, parsed: Parsed) -> bool:
    """Whether enough audio is left after sample `at` for another window, and there is progress."""
    return len(job.segment.pcm) - at > SHORTEST and parsed.consumed >= PROGRESS


def _reason(attempt: Attempt, parsed: Parsed, samples: int) -> str | None:
    """Why the last window's audio, or its end, has no text, where that is so."""
    if attempt.looped:
        return "the model kept repeating itself"
    if attempt.is_silence or not parsed.stretches:
        return "the model found no speech in it"
    if samples - parsed.stretches[-1].stop > UNTOLD:
        return "the model ended its text before it"
    return None


def _shifted(span: TextSpan, by: int) -> TextSpan:
    """The same span, `by` samples later."""
    words = tuple(
        word
        if word.start is None or word.end is None
        else replace(word, start=word.start + by, end=word.end + by)
        for word in span.words
    )
    return replace(span, start=span.start + by, stop=span.stop + by, words=words)
