"""Whether speech makes text: a decoder that has got stuck must not pass for silence. No I/O."""

from collections.abc import Iterable
from itertools import takewhile

from livecap.events import RATE
from livecap.online.policy import plain
from livecap.online.speech_buffer import Segment

# Samples of speech without a new word. Updates come every second or two, and pauses are no speech:
# so much in a row is music, another language, or a decoder that has got stuck.
MAX_UNHEARD = 20 * RATE


class Watchdog:
    """Counts the speech that was decoded since the last new word, through all segments.

    A word is new whether it is committed or pending. Audio that is decoded again counts once.
    """

    def __init__(self) -> None:
        self.since = 0  # media time from which there is no text
        self._unheard = 0  # samples
        self._processed = 0  # samples of the open segment that have been counted
        self._words: tuple[str, ...] = ()  # its last ones, without case and marks
        self._seen: list[int] = []  # samples of it that had been decoded when each first came
        self._text: tuple[str, ...] = ()  # all of them when there was a new one

    def decoded(self, segment: Segment, committed: Iterable[str], pending: Iterable[str]) -> int:
        """The open segment so far and its words -> samples without text if those are too many, from
        where on it counts anew; else 0.
        """
        length, expected = len(segment.pcm), tuple(map(plain, pending))
        if length > self._processed:
            if not self._unheard:
                self.since, _ = segment.span(self._processed, self._processed + 1)
            self._unheard += length - self._processed
            self._processed = length
        words = (*map(plain, committed), *expected)
        pairs = zip(words, self._words, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        self._seen[same:] = [length] * (len(words) - same)
        self._words = words
        if expected and words != self._text:
            self._text, self._unheard = words, 0
        if self._unheard <= MAX_UNHEARD:
            return 0
        unheard, self._unheard = self._unheard, 0
        return unheard

    def heard_by(self, count: int) -> int:
        """Samples of the open segment in which its first `count` words had been heard."""
        return max(self._seen[:count], default=0)

    def cut(self, length: int, words: Iterable[str] = ()) -> None:
        """The segment's first `length` samples are over; `words`, its last ones, belong to what
        follows.
        """
        self._processed = max(self._processed - length, 0)
        self._words = self._text = tuple(map(plain, words))
        seen = self._seen[len(self._seen) - len(self._words) :]
        self._seen = [max(at - length, 0) for at in seen]
