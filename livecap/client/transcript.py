"""What a server has heard, stretch by stretch -> events on the media timeline, each once."""

import re
from bisect import insort
from collections.abc import Callable, Sequence

from livecap.events import RATE, Caption, Event, Gap, Silence, Unrecognised, Word

BRIEF = RATE // 10  # samples: less than that between two turns is no silence worth telling

Spoken = tuple[str, int | None, int | None]  # a word and its times
Place = Callable[[int, int], tuple[int, int]]  # a stretch sent -> the same in media time


class Story:
    """All times are samples of media time."""

    def __init__(self) -> None:
        self.until = 0  # up to here all has been told
        self.events: list[Event] = []  # that have not been taken
        self.language: str | None = None  # of the last words
        self._segment = 0  # of the next turn
        self._gaps: list[Gap] = []  # that have not been told, in order
        self._passed: list[Gap] = []  # told, and not behind `until` yet
        self._tail = ""

    def gap(self, start: int, end: int, reason: str) -> None:
        """There is no audio. What follows such a gap for the same reason makes it longer."""
        for index, gap in enumerate(self._gaps):
            if gap.end == start and gap.reason == reason:
                self._gaps[index] = Gap(gap.start, end, reason)
                return
        insort(self._gaps, Gap(start, end, reason), key=lambda gap: gap.start)

    def pass_gaps(self, until: int) -> None:
        """Tell those gaps that begin before that time: no text comes before them any more."""
        while self._gaps and self._gaps[0].start < until:
            gap = self._gaps.pop(0)
            self.events.append(gap)
            self._passed.append(gap)

    def turn(self, start: int, end: int, words: Sequence[Word]) -> None:
        """Words that are said for good, from there to there."""
        start = self._reach(start)
        processed_until = max(end, start + 1)
        caption = Caption(
            self._segment, start, processed_until, tuple(words), language=self.language
        )
        self.events.append(caption)
        self._segment += 1
        self._tail = ""
        self.until = max(self.until, end)

    def nothing(self, start: int, end: int, reason: str) -> None:
        """There is no text from there to there, although somebody spoke."""
        start = self._reach(start)
        self.expect(start, end, "")
        if end > start:
            self.events.append(Unrecognised(start, end, reason))
        self.until = max(self.until, end)

    def expect(self, start: int, processed_until: int, tail: str) -> None:
        """What may be said next, from `start` on; it replaces what that was before."""
        if tail != self._tail:
            self._tail = tail
            processed_until = max(processed_until, start + 1)
            self.events.append(
                Caption(self._segment, start, processed_until, (), tail=tail, final=False)
            )

    def end(self, at: int) -> None:
        """There is no more."""
        self.expect(self.until, at, "")
        self._reach(at)

    @property
    def has_text(self) -> bool:
        """Whether there were any words at all."""
        return self._segment > 0

    def _reach(self, to: int) -> int:
        """Nobody spoke up to there, as far as there was audio -> that time, if it is not in a gap
        or told already.
        """
        self.pass_gaps(to)
        while self._passed and self._passed[0].start < to:
            gap = self._passed.pop(0)
            self._silence(gap.start)
            self.until = max(self.until, gap.end)
        self._silence(to)
        return max(to, self.until)

    def _silence(self, to: int) -> None:
        if to - self.until >= BRIEF:
            self.events.append(Silence(self.until, to))
        self.until = max(self.until, to)


def words_of(transcript: str, spoken: Sequence[Spoken], locate: Place) -> list[Word]:
    """A text and its words as far as they are told -> words that are the text when joined.

    Where the two don't fit together, the words have no times.
    """
    found: list[Word] = []
    at = 0
    for word, start, end in spoken:
        begin = transcript.find(word, at) if word else -1
        if begin < 0 or transcript[at:begin].strip():
            return [Word(part) for part in re.findall(r"\s*\S+", transcript.rstrip())]
        stop = begin + len(word)
        times = (None, None) if start is None or end is None else locate(start, end)
        found.append(Word(transcript[at:stop], *times))
        at = stop
    if transcript[at:].strip() or not found:
        return [Word(part) for part in re.findall(r"\s*\S+", transcript.rstrip())]
    return found
