"""Pieces -> cues and lines, by dynamic programming over what each break costs the reader."""

from collections.abc import Sequence
from itertools import pairwise

from livecap.captions import sense_units
from livecap.captions.layout import Layout
from livecap.captions.pieces import PAUSE, CuePiece, pause, sense_cost
from livecap.events import RATE

HUSH = RATE * 3 // 2  # samples; a longer silence inside a caption shows an empty screen

# Costs of a cue, on the scale of sense_cost.
CUE = 40  # each cue: as few as the rest allows
LATER = 80  # a full cue that may still have to be cut short by what follows
SENTENCES = 25  # each sentence that ends inside
PAUSED = 40  # each pause inside
RUSHED = 200  # no time at all for it; in proportion up to the preset's shortest
FAST = 60  # twice the reading speed; in proportion from once
ORPHAN = 40  # less than a quarter of a line that does not begin a sentence


def split_cues(
    pieces: Sequence[CuePiece], layout: Layout, *, indent: int, closing: bool
) -> list[Sequence[CuePiece]]:
    """Pieces in a row -> the runs of them that make good cues.

    `indent` columns of a cue's first line are taken. Without `closing`, more text may follow
    the last cue, so its being short costs nothing and the room it has used up does.
    """
    count = len(pieces)
    capacity = layout.max_line_width * layout.max_lines
    best = [0.0] + [float("inf")] * count  # cost of the best cues for the first n pieces
    origin = [0] * (count + 1)  # where the last of them begins
    for begin in range(count):
        for end in _ends(pieces, begin, layout, indent):
            last = end == count
            cost = best[begin] + CUE
            if last and not closing:
                cost += LATER * _width(pieces[begin:end]) / capacity
            else:
                cost += _cue_cost(pieces, begin, end, layout)
            if cost < best[end]:
                best[end], origin[end] = cost, begin
    cuts = [count]
    while cuts[-1] > 0:
        cuts.append(origin[cuts[-1]])
    cuts.reverse()
    return [pieces[a:b] for a, b in pairwise(cuts)]


def split_lines(
    pieces: Sequence[CuePiece], layout: Layout, *, indent: int
) -> tuple[Sequence[CuePiece], ...]:
    """One cue's pieces -> as few lines as hold them, balanced, rather longer at the bottom."""
    count, rows = len(pieces), _rows(pieces, layout, indent)
    if rows == 1:
        return (pieces,)
    mean = (indent + _width(pieces)) / rows
    best = {(0, 0): 0.0}  # (row, pieces used) -> cost
    origin: dict[tuple[int, int], int] = {}
    for row in range(rows):
        # a tenth shorter at the top: the pyramid covers less of the picture
        ideal = mean * (0.9 + 0.2 * row / (rows - 1))
        for begin in range(count):
            if (row, begin) not in best:
                continue
            for end, width in _line_ends(pieces, begin, layout, 0 if row else indent):
                cost = best[row, begin] + 200 * ((width - ideal) / layout.max_line_width) ** 2
                cost += sense_cost(pieces[end - 1], pieces[end]) if end < count else 0
                if cost < best.get((row + 1, end), float("inf")):
                    best[row + 1, end], origin[row + 1, end] = cost, begin
    lines, end = list[Sequence[CuePiece]](), count
    for row in range(rows, 0, -1):
        begin = origin[row, end]
        lines.append(pieces[begin:end])
        end = begin
    return tuple(reversed(lines))


def must_part(left: CuePiece, right: CuePiece) -> bool:
    """Whether a new cue has to begin between two pieces of one caption."""
    silence = pause(left, right)
    return silence >= HUSH or (silence >= PAUSE and sense_units.ends_sentence(left.text))


def _ends(pieces: Sequence[CuePiece], begin: int, layout: Layout, indent: int) -> list[int]:
    """Where a cue that starts at `begin` may end: it has to fit, in space and in time."""
    ends = [begin + 1]
    row, width = 1, indent + pieces[begin].width
    for index in range(begin + 1, len(pieces)):
        piece = pieces[index]
        if must_part(pieces[index - 1], piece):
            break
        if piece.end - pieces[begin].start > layout.max_duration:
            break
        width += piece.spaced + piece.width
        if width > layout.max_line_width:
            row, width = row + 1, piece.width
        if row > layout.max_lines:
            break
        ends.append(index + 1)
    return ends


def _cue_cost(pieces: Sequence[CuePiece], begin: int, end: int, layout: Layout) -> float:
    cue = pieces[begin:end]
    cost = 0.0
    for left, right in pairwise(cue):
        cost += SENTENCES if sense_units.ends_sentence(left.text) else 0
        cost += PAUSED if pause(left, right) > PAUSE else 0
    width = _width(cue)
    fresh = begin == 0 or sense_units.ends_sentence(pieces[begin - 1].text)
    if width * 4 < layout.max_line_width and not fresh:
        cost += ORPHAN
    if end == len(pieces):
        return cost
    cost += sense_cost(cue[-1], pieces[end])
    time = max(1, pieces[end].start - layout.min_gap - cue[0].start)
    time = min(time, cue[-1].end + layout.hang_over - cue[0].start)
    cost += RUSHED * max(0.0, 1 - time / layout.min_duration)
    speed = width * RATE / (max(time, 1) * layout.max_speed)
    return cost + FAST * min(1.0, max(0.0, speed - 1))


def _rows(pieces: Sequence[CuePiece], layout: Layout, indent: int) -> int:
    rows, width = 1, indent + pieces[0].width
    for piece in pieces[1:]:
        width += piece.spaced + piece.width
        if width > layout.max_line_width:
            rows, width = rows + 1, piece.width
    return rows


def _line_ends(
    pieces: Sequence[CuePiece], begin: int, layout: Layout, indent: int
) -> list[tuple[int, int]]:
    """Where a line that starts at `begin` may end, and how wide it is then."""
    ends = []
    width = indent
    for index in range(begin, len(pieces)):
        width += pieces[index].width + (pieces[index].spaced and index > begin)
        if width > layout.max_line_width:
            break
        ends.append((index + 1, width))
    return ends


def _width(pieces: Sequence[CuePiece]) -> int:
    return sum(p.width for p in pieces) + sum(p.spaced for p in pieces[1:])


def text_of(pieces: Sequence[CuePiece]) -> str:
    """Pieces -> one line."""
    first, *rest = pieces
    return first.text + "".join(" " * piece.spaced + piece.text for piece in rest)
