"""Captions -> pieces, the smallest stretches of text that a line may not split, with times."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from livecap.captions import sense_units
from livecap.captions.width import (
    NO_BREAK,
    closing,
    cluster_width,
    clusters,
    columns,
    may_break,
    opening,
)
from livecap.events import RATE, Caption, Word

SPACES = re.compile(r"[^\S\u00a0\u2007\u202f]+")  # white space at which a line may break
PAUSE = RATE * 3 // 10  # samples of silence that a listener hears as a pause
SLOWEST = RATE // 4  # samples a column takes at most where a time has to be estimated


@dataclass(frozen=True, slots=True)
class CuePiece:
    """A word, or a character of a script without spaces, with the punctuation bound to it."""

    text: str
    width: int  # columns
    spaced: bool  # a space stands before it
    start: int  # samples
    end: int  # samples, not before start
    start_known: bool  # from alignment, not estimated
    end_known: bool
    heads: bool  # a word begins with it
    language: str


@dataclass(frozen=True, slots=True)
class Timed:
    """A word's text and a time for it, estimated where alignment gave none."""

    text: str
    start: int  # samples
    end: int  # samples
    known: bool


def cut(caption: Caption, limit: int, *, after: int = 0, apart: bool = False) -> list[CuePiece]:
    """A caption's words -> pieces of at most `limit` columns, in order, times never decreasing.

    `after` is the sample before which none may start; `apart` puts a space before the first
    piece even where the text has none.
    """
    pieces: list[CuePiece] = []
    language = (caption.language or "en").partition("-")[0]
    spaced = apart
    for word in _timed(caption, after):
        tokens = _tokens(word.text)
        total = max(1, sum(columns(token) for token, _ in tokens))
        done = 0  # columns of the word that stand in pieces already
        for token, space in tokens:
            spaced = spaced or space
            if token:
                glue(pieces, _split(word, token, language, spaced, (done, total)), limit)
                done += columns(token)
                spaced = False
    return pieces


def glue(pieces: list[CuePiece], more: Iterable[CuePiece], limit: int) -> None:
    """Appends `more` to `pieces`, joined where no line may break between two of them.

    Punctuation stays with its word even across a space (French), unless that is too wide or a
    pause lies between. What is wider than `limit` columns is broken hard.
    """
    for piece in more:
        if pieces and _inseparable(pieces[-1], piece):
            both = _join(pieces[-1], piece)
            if both.width <= limit:
                pieces[-1] = both
                continue
        pieces.extend(_chop(piece, limit))


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Stretches between white space, and whether white space stands before each.

    Control characters are dropped: no file format has a place for them.
    """
    clean = "".join(c for c in text if c.isspace() or unicodedata.category(c) != "Cc")
    return [
        (part.strip(NO_BREAK), number > 0 or part != part.lstrip(NO_BREAK))
        for number, part in enumerate(SPACES.split(clean))
    ]


def _split(
    word: Timed, token: str, language: str, spaced: bool, index: tuple[int, int]
) -> list[CuePiece]:
    """One token -> pieces at every place where a line may break inside it.

    `place` is the number of columns of the word before the token and in all.
    """
    parts: list[str] = []
    before = ""
    for cluster in clusters(token):
        if before and not may_break(before, cluster):
            parts[-1] += cluster
        else:
            parts.append(cluster)
        before = cluster
    done, total = index
    pieces = []
    for number, part in enumerate(parts):
        width = columns(part)
        span = word.end - word.start
        pieces.append(
            CuePiece(
                text=part,
                width=width,
                spaced=spaced and number == 0,
                start=word.start + span * min(done, total) // total,
                end=word.start + span * min(done + width, total) // total,
                start_known=word.known and done == 0,
                end_known=word.known and done + width >= total,
                heads=number == 0,
                language=language,
            )
        )
        done += width
    return pieces


def _inseparable(last: CuePiece, piece: CuePiece) -> bool:
    left, right = clusters(last.text)[-1], clusters(piece.text)
    if piece.start - last.end > PAUSE:
        return False
    if piece.spaced:
        return all(map(closing, right)) or all(map(opening, clusters(last.text)))
    return not may_break(left, right[0])


def _join(last: CuePiece, piece: CuePiece) -> CuePiece:
    text = last.text + (" " if piece.spaced else "") + piece.text
    return replace(
        last,
        text=text,
        width=columns(text),
        end=max(last.end, piece.end),
        end_known=piece.end_known,
    )


def _chop(piece: CuePiece, limit: int) -> Iterator[CuePiece]:
    """The piece itself, or parts of at most `limit` columns of a piece that is wider."""
    if piece.width <= limit:
        yield piece
        return
    parts, width = [""], 0
    for cluster in clusters(piece.text):
        if width + cluster_width(cluster) > limit:
            parts.append("")
            width = 0
        parts[-1] += cluster
        width += cluster_width(cluster)
    done, span, gap = 0, piece.end - piece.start, piece.spaced
    for number, part in enumerate(parts):
        first, last = number == 0, number == len(parts) - 1
        text = part.strip(NO_BREAK)  # a space, after all, where it meets the end of a line
        start = piece.start + span * min(done, piece.width) // piece.width
        done += columns(part)
        if text:
            yield replace(
                piece,
                text=text,
                width=columns(text),
                spaced=gap or part[0] in NO_BREAK,
                start=start,
                end=piece.start + span * min(done, piece.width) // piece.width,
                start_known=piece.start_known and first,
                end_known=piece.end_known and last,
                heads=piece.heads and first,
            )
            gap = False
        gap = gap or part[-1] in NO_BREAK


def _timed(caption: Caption, after: int) -> list[Timed]:
    """Every word with a time; runs without one share the span between their neighbours'."""
    timed: list[Timed] = []
    run: list[Word] = []
    edge = max(0, after)  # no time lies before it
    floor = max(edge, caption.start)
    for word in caption.words:
        if word.start is None or word.end is None:
            run.append(word)
            continue
        start = max(edge, word.start)
        timed += _share(run, max(edge, min(floor, start)), start)
        run = []
        timed.append(Timed(word.text, start, max(start, word.end), known=True))
        edge, floor = start, max(start, word.end)
    timed += _share(run, max(edge, floor), caption.processed_until)
    return timed


def _share(run: Sequence[Word], start: int, end: int) -> list[Timed]:
    """Words -> times in proportion to their width, from `start` and never slower than speech."""
    widths = [columns(word.text.strip()) for word in run]
    total = max(1, sum(widths))
    span = min(max(0, end - start), total * SLOWEST)
    shared, done = [], 0
    for word, width in zip(run, widths, strict=True):
        begin = start + span * done // total
        done += width
        shared.append(Timed(word.text, begin, start + span * done // total, known=False))
    return shared


def sense_cost(left: CuePiece, right: CuePiece) -> int:
    """What a break between two pieces costs the reader, from 0 (a sentence ends) to 100."""
    if not right.heads:
        return 90  # inside a word
    if sense_units.ends_sentence(left.text):
        return 0
    if sense_units.ends_clause(left.text):
        return 15
    if pause(left, right) > PAUSE:
        return 20
    if sense_units.binds(left.text, left.language):
        return 100
    if sense_units.named(left.text, left.language) and sense_units.named(
        right.text, right.language
    ):
        return 85
    if sense_units.begins_clause(right.text, right.language):
        return 25
    return 35 if sense_units.leads(right.text, right.language) else 60


def pause(left: CuePiece, right: CuePiece) -> int:
    """Samples of silence between two pieces."""
    return max(0, right.start - left.end)
