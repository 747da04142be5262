"""Whisper on a segment that grows: the window is encoded anew, the text goes on from what is said.

The decoder is led by the tokens that are published, and the rest of the last hypothesis is verified
as a draft, so a text that stays costs one pass. Words after those published are aligned in time.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from livecap.config import DecodeConfig
from livecap.engine.request import Memory
from livecap.engine.whisper_decoder import WhisperDecoder
from livecap.events import RATE
from livecap.models.protocol import Ask, Listen, Pcm, Recognition
from livecap.models.whisper_fallback import Attempt, Fallback
from livecap.models.whisper_text import Aligner
from livecap.work import Hypothesis, Passage, Update, Work

BRIEF = 2.0  # seconds

Detect = Callable[[Memory], Generator[Ask, Any, tuple[str, float]]]


@dataclass(frozen=True, slots=True)
class Updates:
    """Hears growing segments for one model."""

    decoder: WhisperDecoder
    fallback: Fallback
    aligner: Aligner
    detect: Detect  # the language and its probability

    def recognise(self, work: Work, update: Update, config: DecodeConfig) -> Recognition:
        """The way from an update to its hypothesis."""
        language, chance = work.language, None
        config = replace(config, no_timestamps=True)
        memory: Memory = yield Listen(work.segment.pcm, work.deadline)
        try:
            if language is None:
                language, chance = yield from self.detect(memory)
            attempt = yield from self._decode(memory, language, config, work, update)
            heard = self._align(update, attempt, memory, language, config, work.segment.pcm)
        finally:
            self.decoder.forget(memory)
        passages, tokens = ((heard[0],), heard[1]) if heard else ((), ())
        reason = _reason(attempt, update)
        return Hypothesis(
            work,
            passages,
            language,
            chance,
            reason,
            unsure=_lost(passages, update) if reason else None,
            tokens=tuple(chain.from_iterable(tokens)),
            counts=tuple(map(len, tokens)),
        )

    def _decode(
        self, memory: Memory, language: str, config: DecodeConfig, work: Work, update: Update
    ) -> Generator[Ask, Any, Attempt]:
        """With all care where nothing is said yet and speech has paused; else greedily."""
        seconds, before = len(work.segment.pcm) / RATE, work.before
        context = self.fallback.tokenizer.encode(before) if before else []
        if update.said or not update.whole:
            return (
                yield from self.fallback.go_on(
                    memory,
                    language,
                    config,
                    context,
                    update,
                    seconds=seconds,
                    deadline=work.deadline,
                )
            )
        attempt = yield from self._with_care(memory, language, config, context, work)
        if seconds < BRIEF and (context or self.fallback.given(config)):
            # So little audio is easily outweighed by a prompt: the likelier text counts.
            bare = replace(config, prompt="", hotwords="")
            other = yield from self._with_care(memory, language, bare, (), work)
            if other.scores.average_logprob > attempt.scores.average_logprob:
                return other
        return attempt

    def _with_care(
        self,
        memory: Memory,
        language: str,
        config: DecodeConfig,
        context: Sequence[int],
        work: Work,
    ) -> Generator[Ask, Any, Attempt]:
        assert work.update is not None
        return (
            yield from self.fallback.decode(
                memory,
                language,
                config,
                context,
                seconds=len(work.segment.pcm) / RATE,
                seed=work.number * 100_003,
                draft=work.update.draft,
                deadline=work.deadline,
            )
        )

    def _align(
        self,
        update: Update,
        attempt: Attempt,
        memory: Memory,
        language: str,
        config: DecodeConfig,
        pcm: Pcm,
    ) -> tuple[Passage, Sequence[Sequence[int]]] | None:
        """The words after those that are said, with times, and each one's tokens."""
        tokens = _tokens(attempt)
        if not tokens:
            return None
        return self.aligner.words_after(
            update.said,
            tokens,
            memory,
            fixed=update.fixed,
            start=self.fallback.tokenizer.prompt(language, task=config.task, timestamps=False),
            pcm=pcm,
            language=language,
            scores=attempt.scores,
        )


def _tokens(attempt: Attempt) -> Sequence[int]:
    """Those of the text; marks alone are none."""
    is_text = any(character.isalnum() for character in attempt.text)
    return attempt.tokens if is_text and not attempt.is_silence else ()


def _reason(attempt: Attempt, update: Update) -> str | None:
    """Why an update's audio has no text, or none that can be relied on."""
    if attempt.looped:
        return "the model kept repeating itself"
    if not update.said and not _tokens(attempt):
        return "the model found no speech in it"
    return None


def _lost(passages: Sequence[Passage], update: Update) -> int | None:
    """The sample from which a segment has no text."""
    return passages[-1].stop if passages else update.fixed
