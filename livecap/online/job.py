"""All that passes between a stream and a model: what is to be decoded, and what came of it."""

import math
from dataclasses import dataclass

from livecap.events import Scores, Word
from livecap.online.speech_buffer import Segment


@dataclass(frozen=True, slots=True)
class PrefixState:
    """What is known of a segment that grows, from its updates so far. Samples are of its audio."""

    endpointed: bool  # speech has paused or ended: decode with all care
    final: bool  # the segment ends here: free what is kept for it
    # Tokens that are likely to come again: of the last hypothesis, whole; or, where that was
    # conditioned on `committed`, of what followed it.
    draft: tuple[int, ...] = ()
    committed: tuple[int, ...] = ()  # tokens of the committed words
    committed_until: int = 0  # sample by which those had been spoken
    # What the family made of the segment's beginning, from the last hypothesis; None at first.
    # Whoever has it gives it back by `Model.free`, or passes it on.
    encoder_state: object | None = None


@dataclass(frozen=True, slots=True)
class DecodeJob:
    """A segment to be decoded."""

    number: int  # of the segment in its stream, from 0
    segment: Segment
    language: str | None  # ISO 639-1 code; None: to be detected
    context: tuple[int, ...] = ()  # tokens before it, where one window goes on from another
    context_text: str = ""  # the text before it, where it is to be conditioned on that
    prefix: PrefixState | None = None  # None: the segment is decoded once
    deadline: float = math.inf  # seconds on the caller's clock; the earliest goes first


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A run of words that the model set apart, with its times."""

    start: int  # samples of the segment's audio
    stop: int
    words: tuple[Word, ...]  # times in samples of the segment's audio, or None
    scores: Scores


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What a model made of a job."""

    job: DecodeJob
    spans: tuple[TextSpan, ...]
    language: str | None = None
    language_probability: float | None = None  # only where it was detected
    reason: str | None = None  # why (part of) the audio has no text
    consumed: int | None = None  # samples that are done with, where windows overlap
    context: tuple[int, ...] = ()  # tokens for the window after it
    untranscribed_from: int | None = None  # sample; None: behind the last span
    # For jobs with a prefix:
    conditioned: bool = False  # the words follow `prefix.committed`; else they are the segment's
    tokens: tuple[int, ...] = ()  # of these words
    token_counts: tuple[int, ...] = ()  # how many of them each word takes
    encoder_state: object | None = None  # for the next update

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of all spans."""
        return tuple(word for span in self.spans for word in span.words)
