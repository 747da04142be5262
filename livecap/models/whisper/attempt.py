"""One decoding of a window of Whisper's, and how believable it is.

Source: openai-whisper (transcribe.py), whose thresholds these are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from livecap.events import Scores

UNLIKELY = -1.0  # mean log-probability below which text counts as wrong
HOPELESS = -2.0  # mean log-probability below which no text is kept: none was ever right
NO_SPEECH = 0.6  # probability of "no speech" from which unlikely text counts as none


@dataclass(frozen=True, slots=True)
class Attempt:
    """One decoding of a window, judged."""

    tokens: tuple[int, ...]
    probs: tuple[float, ...]  # of each token
    text: str
    scores: Scores
    looped: bool  # it was stopped, or its text repeats itself
    cut: bool  # it reached the most tokens there may be

    @property
    def is_bad(self) -> bool:
        """Whether a higher temperature should be tried."""
        return self.looped or not (self.is_likely or self.is_silence)

    @property
    def is_likely(self) -> bool:
        """Whether the model believes in it."""
        return self.scores.average_logprob >= UNLIKELY

    @property
    def is_hopeless(self) -> bool:
        """Whether it is no better than no text."""
        return self.scores.average_logprob < HOPELESS

    def with_no_speech(self, probability: float) -> "Attempt":
        """The same, judged by another probability of no speech."""
        return replace(self, scores=replace(self.scores, no_speech_probability=probability))

    @property
    def is_silence(self) -> bool:
        """Whether there was nothing to hear."""
        return not self.is_likely and self.scores.no_speech_probability > NO_SPEECH

    def without_text(self, *, looped: bool) -> "Attempt":
        """The same, with nothing kept of it."""
        return replace(self, tokens=(), probs=(), looped=looped)

    def untimed(self, begin: int) -> "Attempt":
        """The same without timestamps, the ids from `begin` on."""
        text = [index for index, token in enumerate(self.tokens) if token < begin]
        return replace(
            self,
            tokens=tuple(self.tokens[index] for index in text),
            probs=tuple(self.probs[index] for index in text),
        )


def best_of(attempts: Sequence[Attempt]) -> Attempt:
    """None is believable: the likeliest, if it may be right at all."""
    whole = [attempt for attempt in attempts if not attempt.looped]
    decoded = whole or [attempt for attempt in attempts if attempt.tokens] or attempts
    best = max(decoded, key=lambda attempt: attempt.scores.average_logprob)
    if not best.is_hopeless:
        return best
    return best.without_text(looped=any(one.looped for one in attempts))
