"""Captions -> cues, as they come. Text is placed once; what may still grow is a draft."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from livecap.captions.breaking import split_cues, split_lines, text_of
from livecap.captions.layout import Layout
from livecap.captions.pieces import CuePiece, cut, glue
from livecap.captions.width import columns, unspaced
from livecap.events import RATE, Caption

ADJACENT = RATE // 2  # samples; captions closer than this may share a cue
FOLLOWS = RATE  # samples; a pause that begins within these follows the text before it
BRIEFEST = RATE // 10  # samples a cue lasts where the times leave it no room at all

Mark = tuple[int, int]  # characters of a line before a word, and the sample at which that begins


@dataclass(frozen=True, slots=True)
class Cue:
    """What stands on the screen at one time."""

    start: int  # samples at 16 kHz
    end: int  # samples, after start
    lines: tuple[str, ...]
    speaker: str | None = None
    estimated: bool = False  # its start or end is not from alignment, or had to be moved
    fast: bool = False  # it asks for more than the layout's reading speed, as the speech does
    spoken: int = 0  # samples: where its last word ends
    speakers: tuple[str | None, ...] = ()  # of each line, if there are several
    marks: tuple[tuple[Mark, ...], ...] = ()  # of each line: its words whose times are known


@dataclass(frozen=True, slots=True)
class _CueSpan:
    """A run of pieces on its way to becoming a cue."""

    pieces: Sequence[CuePiece]
    speaker: str | None
    until: int | None  # sample at which the next text starts, if any is known
    least: int = BRIEFEST  # samples the cue lasts even where that delays the next one


class Shaper:
    """Captions in, cues out that keep a layout's rules.

    Cues never overlap and never go back in time, lines never exceed the layout, and no text is
    lost. At most one cue's text is held back, until the caption after it shows where it ends;
    `draft` shows that text at any time. Two speakers never share a cue. Where both talk at
    once, the later cue waits for the earlier one, is as short as the layout allows and counts
    as estimated.
    """

    def __init__(self, layout: Layout, *, label: bool = False) -> None:
        """With `label`, every cue of a named speaker begins with 'Name: '."""
        self._layout = layout
        self._label = label
        self._held: list[CuePiece] = []  # the pieces of the one cue that may still change
        self._speaker: str | None = None  # who says them
        self._segment = -1  # of the last caption with words
        self._end: int | None = None  # samples: where the last finished cue ends
        self._heard = 0  # samples: what the stream has reached; no cue lasts beyond

    @property
    def held_from(self) -> int | None:
        """The sample at which text begins that may still change; None if there is none."""
        return self._held[0].start if self._held else None

    def feed(self, caption: Caption) -> list[Cue]:
        """A caption -> the cues that are final now. Its tail is not looked at."""
        self._heard = max(self._heard, caption.processed_until)
        limit = self._layout.max_line_width - self._indent(caption.speaker)
        same = caption.speaker == self._speaker
        pieces = cut(
            caption,
            limit,
            after=self._held[-1].start if self._held and same else 0,
            apart=bool(self._held) and self._apart(caption),
        )
        if not pieces:
            return []
        cues: list[Cue] = []
        if self._held and not (same and pieces[0].start - self._held[-1].end < ADJACENT):
            least = BRIEFEST if same else self._layout.min_duration
            cues = self._finish(until=pieces[0].start, least=least)
        self._speaker, self._segment = caption.speaker, caption.segment
        glue(self._held, pieces, limit)
        runs = self._split(closing=caption.final)
        for run, after in pairwise(runs):
            cues.append(self._place(_CueSpan(run, self._speaker, after[0].start)))
        self._held = list(runs[-1])
        return cues

    def pause(self, start: int, end: int) -> list[Cue]:
        """No text comes from sample `start` to `end`: the held cue, if that settles its time."""
        self._heard = max(self._heard, end)
        if not self._held:
            return []
        spoken = self._held[-1].end
        room = max(self._layout.hang_over + self._layout.close_gap, ADJACENT)
        # A pause that begins later may be known before the speech that comes before it.
        if start - spoken > FOLLOWS or end - spoken < room:
            return []
        return self._finish(until=None)

    def draft(self) -> list[Cue]:
        """The cues that `close` would give now. They do not count as given out."""
        end = self._end
        cues = self._settle(None)
        self._end = end
        return cues

    def close(self) -> list[Cue]:
        """No more captions: the rest."""
        return self._finish(until=None)

    def _finish(self, *, until: int | None, least: int = BRIEFEST) -> list[Cue]:
        cues = self._settle(until, least)
        self._held = []
        return cues

    def _settle(self, until: int | None, least: int = BRIEFEST) -> list[Cue]:
        if not self._held:
            return []
        runs = self._split(closing=True)
        starts = [*(run[0].start for run in runs[1:]), until]
        return [
            self._place(_CueSpan(run, self._speaker, start, least))
            for run, start in zip(runs, starts, strict=True)
        ]

    def _split(self, *, closing: bool) -> list[Sequence[CuePiece]]:
        indent = self._indent(self._speaker)
        return split_cues(self._held, self._layout, indent=indent, closing=closing)

    def _place(self, span: _CueSpan) -> Cue:
        """A run of pieces -> a cue with lines and times, after all cues before it."""
        first, last = span.pieces[0], span.pieces[-1]
        indent = self._indent(span.speaker)
        rows = split_lines(span.pieces, self._layout, indent=indent)
        lines = tuple(map(text_of, rows))
        marks = tuple(map(_marks, rows))
        start = first.start
        if self._end is not None:
            start = max(start, self._end + self._layout.min_gap)
        width = sum(map(columns, lines)) + len(lines) - 1 + indent
        end = self._cue_end(start, width, span)
        self._end = end
        if indent:
            label = f"{self._name(span.speaker)}: "
            lines = (label + lines[0], *lines[1:])
            marks = (tuple((len(label) + at, time) for at, time in marks[0]), *marks[1:])
        return Cue(
            start=start,
            end=end,
            lines=lines,
            speaker=span.speaker,
            estimated=not (first.start_known and last.end_known)
            or start - first.start > self._layout.lead,
            fast=width * RATE > self._layout.max_speed * (end - start),
            spoken=max(piece.end for piece in span.pieces),
            marks=marks,
        )

    def _cue_end(self, start: int, width: int, span: _CueSpan) -> int:
        """Samples: long enough to read `width` columns, within the silence that follows."""
        layout = self._layout
        wanted = start + max(layout.min_duration, -(-width * RATE // layout.max_speed))
        spoken = max(piece.end for piece in span.pieces)
        late = start - span.pieces[0].start > layout.lead
        briefest = start + (layout.min_duration if late else BRIEFEST)
        end = max(briefest, spoken, min(wanted, spoken + layout.hang_over))
        end = min(end, start + layout.max_duration)
        if span.until is None:
            return max(min(max(briefest, spoken), end), min(end, self._heard))
        limit = span.until - layout.min_gap
        if end < limit < end + layout.close_gap:
            end = max(end, min(limit, spoken + layout.hang_over, start + layout.max_duration))
        if limit < wanted:  # the next cue may start a little later
            limit = min(wanted, limit + layout.lead)
        return min(end, max(limit, start + span.least))

    def _apart(self, caption: Caption) -> bool:
        """Whether a space belongs between the held text and a caption that starts without one."""
        text = caption.text
        if caption.segment == self._segment or not text:
            return False
        return not (unspaced(self._held[-1].text[-1]) or unspaced(text[0]))

    def _indent(self, speaker: str | None) -> int:
        """Columns that the speaker's label takes from the first line."""
        return columns(f"{self._name(speaker)}: ") if self._label and speaker else 0

    def _name(self, speaker: str | None) -> str:
        """The label, cut to a half of the line."""
        name = " ".join((speaker or "").split())
        while columns(name) + 2 > self._layout.max_line_width // 2:
            name = name[:-1]
        return name


def _marks(row: Sequence[CuePiece]) -> tuple[Mark, ...]:
    """The words of a line whose beginnings are known."""
    found, at = list[Mark](), 0
    for index, piece in enumerate(row):
        at += piece.spaced and index > 0
        if piece.heads and piece.start_known:
            found.append((at, piece.start))
        at += len(piece.text)
    return tuple(found)
