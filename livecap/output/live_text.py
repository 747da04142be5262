"""Text -> rows that a terminal can show; and what there is to say about a live run. No I/O."""

import math
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from livecap.captions.pieces import SPACES
from livecap.captions.width import cluster_width, clusters, columns, may_break
from livecap.events import RATE, Event, Gap, Language, Stalled, Unrecognised

CELLS = 8  # of the level meter
FLOOR = -60.0  # dBFS at which the meter is empty; it is full at 0
BEHIND = "behind: updates are rarer"
RIGHT_TO_LEFT = frozenset({"R", "AL"})  # Unicode's classes of Hebrew and Arabic letters
FIRST_STRONG, POP = "\u2068", "\u2069"  # begin and end an isolate
ROOMY = 60  # columns from which there is room to say what "behind" means


@dataclass(frozen=True, slots=True)
class Status:
    """How a live run goes at this moment."""

    level: float  # dBFS of the newest audio; -inf is digital silence
    lag: float  # seconds from the newest audio to the newest whose text is out, or that is silence
    speed: float  # times real time; 0 when unknown
    behind: bool  # updates are being made rarer
    state: Literal["listening", "finishing"]
    language: str | None  # ISO 639-1 code
    elapsed: float  # seconds


def status_line(status: Status, language: str | None, limit: int) -> str:
    """The state in at most `limit` columns: what matters least is left out where they are few."""
    finishing = status.state == "finishing"
    behind = BEHIND if limit >= ROOMY else "behind"
    ranked = [  # in the order of display; the lowest rank is the last to go
        (0 if finishing else 6, status.state),
        (5, clock(round(max(status.elapsed, 0.0) * RATE))),
        (2, meter(status.level)),
        (7, f"{status.level:3.0f} dB" if math.isfinite(status.level) else "no sound"),
        (1, f"lag {status.lag:.1f} s" if math.isfinite(status.lag) else ""),
        (3, f"{status.speed:.1f} x" if status.speed > 0 else ""),
        (4, language or ""),
        (1, behind if status.behind else ""),
    ]
    chosen: set[int] = set()
    room = limit + 2  # two spaces stand before every field but the first
    for position in sorted(range(len(ranked)), key=lambda index: ranked[index][0]):
        text = ranked[position][1]
        if text and columns(text) + 2 <= room:
            chosen.add(position)
            room -= columns(text) + 2
    return "  ".join(ranked[index][1] for index in sorted(chosen))


def meter(level: float) -> str:
    """A level in dBFS as a bar."""
    share = 1 - level / FLOOR if math.isfinite(level) else 0.0
    cells = round(min(max(share, 0.0), 1.0) * CELLS)
    return f"[{'#' * cells}{'-' * (CELLS - cells)}]"


def account(event: Event) -> str:
    """What there is to say about an event beside what was said; nothing for most."""
    if isinstance(event, Language):
        return f"language {event.code} ({event.probability:.2f})"
    if not isinstance(event, Gap | Stalled | Unrecognised):
        return ""
    stretch = f"{clock(event.start)} to {clock(event.end)}"
    if isinstance(event, Gap):
        return f"{stretch}: gap; {event.reason}"
    if isinstance(event, Stalled):
        voiced = round(event.voiced / RATE)
        return f"{label(event.speaker)}{stretch}: {voiced} s of speech made no text; decoded anew"
    return f"{label(event.speaker)}{stretch}: speech without text; {event.reason}"


def clock(samples: int) -> str:
    """Samples -> h:mm:ss."""
    seconds = samples // RATE
    return f"{seconds // 3600}:{seconds % 3600 // 60:02}:{seconds % 60:02}"


def label(speaker: str | None) -> str:
    """What stands before a speaker's words."""
    name = plain(speaker or "").strip()
    return f"{name}: " if name else ""


def runs_from_right(text: str) -> bool:
    """Whether some of the text does."""
    return any(unicodedata.bidirectional(char) in RIGHT_TO_LEFT for char in text)


def isolated(text: str) -> str:
    """Text that a terminal orders by its own first letter, without an effect on what stands beside
    it. Source: Unicode's annex 9, FSI and PDI.
    """
    return f"{FIRST_STRONG}{text}{POP}"


def plain(text: str) -> str:
    """The text with all that ends a line or a column as a space, and no other control character."""
    return "".join(map(_harmless, text))


def _harmless(char: str) -> str:
    if unicodedata.category(char) not in {"Cc", "Zl", "Zp"}:
        return char
    return " " if char.isspace() else ""


def wrap(text: str, limit: int) -> list[str]:
    """Rows of at most `limit` columns, broken where a line may end; no row is empty.

    What is wider than a row is broken anywhere. The rows joined are the text, but for the white
    space at its ends and at the breaks.
    """
    rows: list[str] = []
    used = 0  # columns of the last row
    for space, part in _parts(text):
        before = space
        for piece in _chopped(part, limit):
            width = columns(before) + columns(piece)
            if rows and used + width <= limit:
                rows[-1] += before + piece
                used += width
            else:
                rows.append(piece)
                used = columns(piece)
            before = ""
    return rows


def crop(text: str, limit: int) -> str:
    """The beginning of the text that takes at most `limit` columns."""
    return next(_chopped(text, limit), "") if limit > 0 else ""


def letters(text: str) -> int:
    """Characters that are no white space: wrapping changes nothing about them."""
    return sum(not char.isspace() for char in text)


def split(row: str, count: int) -> tuple[str, str]:
    """A row -> what holds its first `count` letters, with the white space behind; and the rest."""
    at = 0
    while at < len(row) and (count > 0 or row[at].isspace()):
        count -= not row[at].isspace()
        at += 1
    return row[:at], row[at:]


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """The stretches that a row should not split, each with the white space before it."""
    at = 0
    while at < len(text):
        space = SPACES.match(text, at)
        start = space.end() if space else at
        following = SPACES.search(text, start)
        end = following.start() if following else len(text)
        before = text[at:start]
        part = last = ""
        for cluster in clusters(text[start:end]):
            if part and may_break(last, cluster):
                yield before, part
                before = part = ""
            part += cluster
            last = cluster
        if part:
            yield before, part
        at = end


def _chopped(part: str, limit: int) -> Iterator[str]:
    """Pieces of at most `limit` columns; one cluster alone may be wider."""
    piece, used = "", 0
    for cluster in clusters(part):
        width = cluster_width(cluster)
        if piece and used + width > limit:
            yield piece
            piece, used = "", 0
        piece += cluster
        used += width
    if piece:
        yield piece
