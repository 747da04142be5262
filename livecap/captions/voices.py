"""Captions of several speakers -> one series of cues, where those who speak at once stand at once.

Each speaker has a `Shaper`. What they say together shares a cue, a line each, or has cues that
overlap, as the layout wants it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from livecap.captions.layout import Layout
from livecap.captions.shape import Cue, Shaper
from livecap.captions.width import columns
from livecap.events import RATE, Caption

TALK_OVER = RATE // 2  # samples that two speak at once before their lines have to stand at once


@dataclass(frozen=True, slots=True)
class Unmet:
    """Cues that don't keep their layout's rules, since the speech leaves them no time."""

    fast: int = 0  # that ask for more than its reading speed
    short: int = 0  # that stand for less than its shortest time


class Voices:
    """Captions in, cues out, like a `Shaper`. Starts never go back, and no text is lost.

    A cue is given out once no caption can come that would begin before it: captions come in the
    order of their starts. `fast` counts those that ask for more than the layout's reading speed,
    `short` those that stand for less than its shortest time.
    """

    def __init__(self, layout: Layout, *, label: bool = False) -> None:
        """With `label`, every cue of a named speaker begins with 'Name: '."""
        self._layout = layout
        self._label = label
        self._shapers: dict[str | None, Shaper] = {}  # by speaker
        self._reached = 0  # samples: where the last event begins
        self._waiting: list[Cue] = []  # those before which another may still come, by start
        self._series = _Series(layout)
        self.fast = self.short = 0

    def feed(self, caption: Caption) -> list[Cue]:
        """A caption -> the cues that are final now. Its tail is not looked at."""
        self._reached = max(self._reached, caption.start)
        self._waiting += self._shaper(caption.speaker).feed(caption)
        return self._release()

    def pause(self, start: int, end: int, speaker: str | None = None) -> list[Cue]:
        """No text comes from sample `start` to `end`, of one speaker or of all."""
        self._reached = max(self._reached, start)
        for name, shaper in self._shapers.items():
            if speaker is None or name == speaker:
                self._waiting += shaper.pause(start, end)
        return self._release()

    def draft(self) -> list[Cue]:
        """The cues that `close` would give now. They do not count as given out."""
        drafts = [cue for shaper in self._shapers.values() for cue in shaper.draft()]
        series = self._series.copy()
        return [*series.feed(_ordered([*self._waiting, *drafts])), *series.close()]

    def close(self) -> list[Cue]:
        """No more captions: the rest."""
        for shaper in self._shapers.values():
            self._waiting += shaper.close()
        cues = [*self._series.feed(_ordered(self._waiting)), *self._series.close()]
        self._waiting = []
        return self._counted(cues)

    @property
    def unmet(self) -> Unmet:
        """What the cues so far, and those of the draft, ask too much of."""
        drafts = self.draft()
        return Unmet(
            self.fast + sum(cue.fast for cue in drafts),
            self.short + sum(self._is_short(cue) for cue in drafts),
        )

    def _is_short(self, cue: Cue) -> bool:
        return cue.end - cue.start < self._layout.min_duration

    def _shaper(self, speaker: str | None) -> Shaper:
        if speaker not in self._shapers:
            layout = self._layout
            if speaker is not None and layout.together == "lines":
                layout = replace(layout, max_lines=max(1, layout.max_lines // 2))
            self._shapers[speaker] = Shaper(layout, label=self._label)
        return self._shapers[speaker]

    def _release(self) -> list[Cue]:
        waiting, self._waiting = _ordered(self._waiting), []
        if self._shapers.keys() <= {None}:  # nobody else speaks: nothing has to wait
            return self._counted([*self._series.feed(waiting), *self._series.close()])
        held = [shaper.held_from for shaper in self._shapers.values()]
        bound = min([self._reached, *(start for start in held if start is not None)])
        self._waiting = [cue for cue in waiting if cue.start > bound]
        cues = self._series.feed([cue for cue in waiting if cue.start <= bound])
        return self._counted(cues + self._series.settled(bound))

    def _counted(self, cues: list[Cue]) -> list[Cue]:
        self.fast += sum(cue.fast for cue in cues)
        self.short += sum(self._is_short(cue) for cue in cues)
        return cues


class _Series:
    """Cues by their start -> the same in one series; the last one stays open for the next."""

    def __init__(self, layout: Layout, last: Cue | None = None, end: int | None = None) -> None:
        self._layout = layout
        self._last = last  # with which the next may stand at once
        self._end = end  # samples: where the cue before it ends; where it begins, if cues overlap

    def copy(self) -> "_Series":
        return _Series(self._layout, self._last, self._end)

    def feed(self, cues: Iterable[Cue]) -> list[Cue]:
        """Those that no later one changes."""
        if self._layout.together == "cues":
            return [self._overlapping(cue) for cue in cues]
        found = []
        for cue in cues:
            last = self._last
            if last is None:
                self._last = self._after(cue)
            elif self._belong(last, cue):
                self._last = self._joined(last, cue)
            else:
                found.append(self._finish(self._cut(last, cue)))
                self._last = self._after(cue)
        return found

    def settled(self, bound: int) -> list[Cue]:
        """The last one, if no cue comes that starts before sample `bound` or long enough after."""
        if self._last is None or self._last.end + self._layout.lead >= bound:
            return []
        return self.close()

    def close(self) -> list[Cue]:
        """The last one."""
        last, self._last = self._last, None
        return [] if last is None else [self._finish(last)]

    def _finish(self, cue: Cue) -> Cue:
        self._end = cue.end
        width = _width(cue)
        return replace(cue, fast=width * RATE > self._layout.max_speed * (cue.end - cue.start))

    def _overlapping(self, cue: Cue) -> Cue:
        start = max(cue.start, self._end or 0)
        self._end = start
        return replace(cue, start=start, end=max(cue.end, start + 1))

    def _after(self, cue: Cue) -> Cue:
        """A cue that begins when the one before it is over."""
        layout = self._layout
        if self._end is None or cue.start >= self._end + layout.min_gap:
            return cue
        start = self._end + layout.min_gap
        end = max(cue.end, start + min(layout.min_duration, cue.end - cue.start))
        late = start - cue.start > layout.lead
        return replace(cue, start=start, end=end, estimated=cue.estimated or late)

    def _belong(self, last: Cue, cue: Cue) -> bool:
        """Whether two cues of different speakers have to stand at once."""
        layout = self._layout
        fit = (
            len(last.lines) + len(cue.lines) <= layout.max_lines
            and cue.speaker not in _speakers(last)
            and max(last.end, cue.end) - last.start <= layout.max_duration
        )
        unread = self._read(last) > cue.start + layout.lead - layout.min_gap
        return fit and (unread or cue.start < last.spoken - TALK_OVER)

    def _joined(self, last: Cue, cue: Cue) -> Cue:
        layout = self._layout
        both = replace(
            last,
            end=max(last.end, cue.end),
            lines=(*last.lines, *cue.lines),
            marks=(*last.marks, *cue.marks),
            speakers=(*_speakers(last), *_speakers(cue)),
            spoken=max(last.spoken, cue.spoken),
            estimated=last.estimated or cue.estimated,
        )
        read = min(self._read(both), both.spoken + layout.hang_over)
        return replace(both, end=max(both.end, min(read, both.start + layout.max_duration)))

    def _cut(self, last: Cue, cue: Cue) -> Cue:
        """A cue that leaves the next one its time: that may start a little later at most, unless
        this one would flash by.
        """
        layout = self._layout
        limit = cue.start - layout.min_gap
        limit = max(limit, min(self._read(last), limit + layout.lead))
        return replace(last, end=min(last.end, max(limit, last.start + layout.min_duration)))

    def _read(self, cue: Cue) -> int:
        """Samples: when a cue has been read."""
        time = -(-_width(cue) * RATE // self._layout.max_speed)
        return cue.start + max(self._layout.min_duration, time)


def _ordered(cues: Sequence[Cue]) -> list[Cue]:
    return sorted(cues, key=lambda cue: cue.start)


def _speakers(cue: Cue) -> tuple[str | None, ...]:
    return cue.speakers or (cue.speaker,) * len(cue.lines)


def _width(cue: Cue) -> int:
    return sum(map(columns, cue.lines)) + len(cue.lines) - 1
