"""What passes between a session and a model: work to do, and what came of it. Pure data."""

import math
from dataclasses import dataclass

from livecap.events import Scores, Word
from livecap.segments import Segment


@dataclass(frozen=True, slots=True)
class Update:
    """What makes work one of several updates about a segment that grows."""

    whole: bool  # speech has paused or ended: spare nothing, it may be the last update
    last: bool  # it is: free what is kept
    said: tuple[int, ...] = ()  # tokens that are published: the text goes on from them
    fixed: int = 0  # samples of the segment by whose end those had been spoken
    draft: tuple[int, ...] = ()  # tokens that followed them last time: a guess, to be verified
    # What the family made of the segment's beginning, from the last hypothesis; None at first.
    # Whoever has it gives it back by `Model.forget`, or passes it on.
    kept: object | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What a session wants done next. Pure data."""

    number: int  # of the segment in its stream, from 0
    segment: Segment  # 16 kHz audio, and where it was on the media timeline
    language: str | None  # ISO 639-1 code; None: to be detected
    context: tuple[int, ...] = ()  # tokens before it, where one segment goes on from another
    before: str = ""  # text of the segments before it, where it is to go on from that
    update: Update | None = None  # None: the segment is heard once
    deadline: float = math.inf  # seconds on the caller's clock; the earliest goes first


@dataclass(frozen=True, slots=True)
class Passage:
    """A run of words that the model set apart, with its times."""

    start: int  # samples of the segment's audio
    stop: int
    words: tuple[Word, ...]  # times in samples of the segment's audio, or None
    scores: Scores


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What a model made of a piece of work."""

    work: Work
    passages: tuple[Passage, ...]
    language: str | None = None
    language_probability: float | None = None  # only where it was detected
    reason: str | None = None  # why (part of) the audio has no text
    consumed: int | None = None  # samples that are done with, where work overlaps (long form)
    context: tuple[int, ...] = ()  # tokens for the work after it
    unsure: int | None = None  # samples from which text may be missing, if not behind the passages
    # For updates, whose passages hold only the words after those published:
    tokens: tuple[int, ...] = ()  # of these words
    counts: tuple[int, ...] = ()  # how many of them each word takes
    kept: object | None = None  # for the next update
