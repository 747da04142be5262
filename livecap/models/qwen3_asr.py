"""Qwen3-ASR: audio rows inside a chat prompt, read by a language model that answers with text.

Source: Qwen3-ASR technical report, and the package qwen-asr, whose prompt and rules for the
answer these are.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
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
from livecap.models.protocol import Ask, Listen, LiveTraits, Pcm, Recognition
from livecap.models.qwen3_live import GrowingTower, Hearing, hear, open_hearing
from livecap.models.qwen3_prompt import Answer, Prompt
from livecap.models.qwen3_text import LANGUAGES, code_for
from livecap.models.runaway import SPOKEN, Runaway
from livecap.text import collapse, compression_ratio
from livecap.words import UNSPACED, split_text, split_words
from livecap.work import Hypothesis, Passage, Update, Work
from towers.mel import Mel

SHORTEST = RATE // 2  # samples: a shorter clip is heard with silence after it
DENSEST = 10  # tokens a second, the most that are decoded; speech has about three
SPARE = 32  # tokens on top of that: the header, and a short clip's words
UNTIMED = "Fetch its aligner, `livecap pull qwen3-forced-aligner-0.6b`, or leave --words out."
UPDATE = 2 * RATE  # samples between two updates of live speech
BLOCK = RATE * 192 // 100  # those of the causal tower: 192 mel frames
LEAD = RATE // 100  # samples more: by then the last mel frame is whole
LIVE_SEGMENT = 16 * RATE  # samples of live speech that are read at once
CONTEXT = 2048  # most tokens of prompt and hotwords


class Tower(GrowingTower, Protocol):
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
        self.live = LiveTraits(
            ("append-only", "rollback", "local-agreement")
            if checkpoint.kind == "causal"
            else ("rollback", "local-agreement", "append-only"),
            interval=BLOCK if checkpoint.kind == "causal" else UPDATE,
            lead=LEAD,
            most=min(LIVE_SEGMENT, segment),
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
    def hear(self, asked: Sequence[Listen]) -> list[Tensor] | list[Hearing]:
        """Audio -> rows [row, hidden], or of growing audio the next Hearing, of each question.

        Only as many of the questions, from the first on, as are alike.
        """
        first = asked[0]
        if first.hearing is not None:
            alike = [one for one in asked if one.hearing is not None and one.whole == first.whole]
            count = next((n for n, one in enumerate(asked) if one not in alike), len(asked))
            return hear(self.mel, self.tower, asked[:count])
        return [
            self.tower.clip(self.mel.offline(_padded(ask.pcm).to(self.decoder.device)))
            for ask in takewhile(lambda one: one.hearing is None, asked)
        ]

    def recognise(self, work: Work, config: DecodeConfig) -> Recognition:
        """Hear the segment, then have it written down."""
        pcm = work.segment.pcm
        if work.update:
            return (yield from self._update(work, work.update, config))
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

    def _update(self, work: Work, update: Update, config: DecodeConfig) -> Recognition:
        """Hear what is new of a growing segment, and go on from what has been said of it."""
        kept = update.kept or open_hearing(self.mel, self.tower, self.decoder.embedding)
        assert isinstance(kept, Hearing)
        try:
            pcm = work.segment.pcm[kept.samples :]
            now: Hearing = yield Listen(pcm, work.deadline, kept, update.whole)
            forced = code_for(work.language) if work.language else None
            found = yield from self._go_on(now, forced, config, work, update)
        except GeneratorExit:  # nobody wants it any more
            if update.kept is None:
                self.forget(kept)
            raise
        if update.last:
            self.forget(kept)
            return replace(found, kept=None)
        # Speech that has paused may go on: from what was heard before the pause was taken for the end.
        return replace(found, kept=kept if update.whole else now)

    def _go_on(
        self,
        now: Hearing,
        language: str | None,
        config: DecodeConfig,
        work: Work,
        update: Update,
    ) -> Generator[Ask, Any, Hypothesis]:
        seconds, rows = len(work.segment.pcm) / RATE, now.rows
        context = [*self.prompt.context(config), *self.prompt.before(work.before)]
        ids, start = self.prompt.ids(len(rows), context=context, language=language)
        prompt, limit = (*ids, *update.said), len(ids) + budget(seconds)
        runaway = Runaway(self.tokenizer.specials.endoftext, int(SPOKEN * seconds))
        decoded: Decoded = yield Request(
            prompt=prompt,
            limit=max(limit, len(prompt) + 2),
            ends=self.ends,
            draft=update.draft[: max(limit - len(prompt) - 2, 0)] if language else (),
            embedded=Embedded(start, rows),
            kept=now.kept,
            identity=(*prompt[:start], *now.names),
            halt=runaway,
            deadline=work.deadline,
        )
        attempt = self._judge(decoded, runaway, is_forced=language is not None)
        told = language or attempt.answer.language
        tokens = self._text_tokens(decoded.sampled, attempt, is_forced=language is not None)
        pieces = split_words(self.tokenizer, tokens, told)
        words = [Word(text) for text, _ in pieces]
        if words and not update.said and told not in UNSPACED:
            words[0] = Word(" " + words[0].text.lstrip())
        reason = _reason(attempt) if not update.said or attempt.looped or attempt.cut else None
        passages = (Passage(0, len(work.segment.pcm), tuple(words), attempt.scores),)
        return Hypothesis(
            work,
            passages if words else (),
            told,
            None if language else attempt.answer.probability,
            reason,
            unsure=None if update.said else 0 if reason else None,
            tokens=tuple(tokens),
            counts=tuple(len(ids) for _, ids in pieces),
        )

    def _text_tokens(self, sampled: list[int], attempt: Attempt, *, is_forced: bool) -> list[int]:
        """The tokens of the text: without header, marks and what repeats."""
        if not attempt.answer.text:
            return []
        tokens = list(collapse(sampled)) if attempt.looped else sampled
        marker = self.tokenizer.specials.asr_text
        if not is_forced and marker in tokens:
            tokens = tokens[tokens.index(marker) + 1 :]
        return [token for token in tokens if self.tokenizer.is_text(token)]

    def forget(self, kept: object) -> None:
        """Free the keys and values of a segment's beginning."""
        assert isinstance(kept, Hearing)
        self.decoder.pages.release(kept.kept.table)
        kept.kept.identity = ()

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
