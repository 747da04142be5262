"""Whisper on a segment that grows: its window is encoded anew and decoded from the start.

The prompt is the start tokens and the context alone, so no early mistake leads the decoder on; but
of two texts that are about as likely the committed one stays. The last hypothesis is the draft: a
text that stays costs one pass, one that differs in a word a few.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from livecap.config import DecodeConfig
from livecap.engine.request import Memory
from livecap.events import RATE
from livecap.models.protocol import DecodeSteps, EncodeRequest, Step
from livecap.models.whisper.attempt import Attempt
from livecap.models.whisper.decode import Fallback
from livecap.models.whisper.decoder import WhisperDecoder
from livecap.models.whisper.timestamps import Aligner
from livecap.online.job import DecodeJob, Hypothesis, PrefixState, TextSpan
from livecap.online.speech_buffer import Pcm

BRIEF_S = 2.0  # audio that is easily outweighed by a prompt: the likelier text counts

Detect = Callable[[Memory], Generator[Step, Any, tuple[str, float]]]


@dataclass(frozen=True, slots=True)
class StreamingDecoder:
    """Decodes growing segments for one model."""

    decoder: WhisperDecoder
    fallback: Fallback
    aligner: Aligner
    detect: Detect  # the language and its probability

    def decode(self, job: DecodeJob, prefix: PrefixState, config: DecodeConfig) -> DecodeSteps:
        """The way from an update to its hypothesis: all words of the segment."""
        language, probability = job.language, None
        config = replace(config, no_timestamps=True)
        memory: Memory = yield EncodeRequest(job.segment.pcm, job.deadline)
        try:
            if language is None:
                language, probability = yield from self.detect(memory)
            attempt = yield from self._decode(memory, language, config, job, prefix)
            aligned = self._align(attempt, memory, language, config, job.segment.pcm)
        finally:
            self.decoder.free(memory)
        spans, tokens = ((aligned[0],), aligned[1]) if aligned else ((), ())
        reason = _reason(attempt, prefix)
        stop = spans[-1].stop if spans else prefix.committed_until
        return Hypothesis(
            job,
            spans,
            language,
            probability,
            reason,
            untranscribed_from=stop if reason else None,
            tokens=tuple(chain.from_iterable(tokens)),
            token_counts=tuple(map(len, tokens)),
        )

    def _decode(
        self,
        memory: Memory,
        language: str,
        config: DecodeConfig,
        job: DecodeJob,
        prefix: PrefixState,
    ) -> Generator[Step, Any, Attempt]:
        """With all care where speech has paused; else greedily, once."""
        seconds, text = len(job.segment.pcm) / RATE, job.context_text
        context = self.fallback.tokenizer.encode(text) if text else []

        def attempt(config: DecodeConfig, context: Sequence[int]) -> Generator[Step, Any, Attempt]:
            decode = self.fallback.decode if prefix.endpointed else self.fallback.decode_once
            return decode(
                memory,
                language,
                config,
                context,
                seconds=seconds,
                seed=job.number * 100_003,
                prefix=prefix,
                deadline=job.deadline,
            )

        found = yield from attempt(config, context)
        if prefix.endpointed and seconds < BRIEF_S and (context or self.fallback.given(config)):
            other = yield from attempt(replace(config, prompt="", hotwords=""), ())
            if other.scores.average_logprob > found.scores.average_logprob:
                return other
        return found

    def _align(
        self, attempt: Attempt, memory: Memory, language: str, config: DecodeConfig, pcm: Pcm
    ) -> tuple[TextSpan, Sequence[Sequence[int]]] | None:
        """The words with times, and each one's tokens."""
        if not _has_text(attempt):
            return None
        return self.aligner.spoken_words(
            attempt.tokens,
            attempt.probs,
            memory,
            start=self.fallback.tokenizer.prompt(language, task=config.task, timestamps=False),
            pcm=pcm,
            language=language,
            scores=attempt.scores,
        )


def _has_text(attempt: Attempt) -> bool:
    """Whether there are words; marks alone are none."""
    return not attempt.is_silence and any(character.isalnum() for character in attempt.text)


def _reason(attempt: Attempt, prefix: PrefixState) -> str | None:
    """Why an update's audio has no text, or none that can be relied on."""
    if attempt.looped:
        return "the model kept repeating itself"
    if not prefix.committed_until and not (attempt.tokens and _has_text(attempt)):
        return "the model found no speech in it"
    return None
