"""Events of a live run -> its summary: how long, how many words, how late."""

from collections import Counter
from collections.abc import Sequence

from livecap.captions import Layout, Unmet
from livecap.events import RATE, Caption, Event, Gap, Unrecognised
from livecap.output.live_text import clock

STEP = RATE // 10  # samples: lags are counted in tenths of a second, so that memory stays flat


class Tally:
    """Counts what leaves."""

    def __init__(self) -> None:
        self.words = 0
        self.gaps = 0
        self.missing = 0  # samples of speech without text
        self._lags: Counter[int] = Counter()  # of words, in steps

    def add(self, event: Event, now: int) -> None:
        """An event that leaves when the source has come to sample `now`."""
        match event:
            case Caption():
                self.words += len(event.words)
                for word in event.words:
                    end = event.processed_until if word.end is None else word.end
                    self._lags[max(now - end, 0) // STEP] += 1
            case Gap():
                self.gaps += 1
            case Unrecognised():
                self.missing += event.end - event.start
            case _:
                pass

    def lag(self, share: float) -> float:
        """Seconds within which that share of the words was said after it was spoken."""
        wanted, seen = share * sum(self._lags.values()), 0
        for steps in sorted(self._lags):
            seen += self._lags[steps]
            if seen >= wanted:
                return (steps + 0.5) * STEP / RATE
        return 0.0

    def summary(self, captured: int) -> str:
        """One line."""
        text = f"{clock(captured)} captured, {self.words} words"
        if self.words:
            text += f", lag {self.lag(0.5):.1f} s (95 % within {self.lag(0.95):.1f} s)"
        if self.gaps:
            text += f", {self.gaps} gap{'s' if self.gaps > 1 else ''}"
        if self.missing >= RATE:
            text += f", {self.missing / RATE:.0f} s of speech without text"
        return text


def hurried(unmet: Sequence[Unmet], layout: Layout) -> str:
    """How many captions can't be read in their time, as the rest of a line; empty if all can.

    Of the writers of one run: they have the same captions.
    """
    fast = max((one.fast for one in unmet), default=0)
    short = max((one.short for one in unmet), default=0)
    text = ""
    if fast:
        text += f", {_captions(fast)} faster than {layout.max_speed} characters a second"
    if short:
        text += f", {_captions(short)} shorter than {layout.min_duration / RATE:.2f} s"
    return text


def _captions(count: int) -> str:
    return "1 caption is" if count == 1 else f"{count} captions are"
