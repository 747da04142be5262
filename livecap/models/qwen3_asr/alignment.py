"""Text -> the units that Qwen3-ForcedAligner times; its times -> those of words.

Source: the processor of Qwen3-ASR in transformers, and the package qwen-asr.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from livecap.events import RATE

LONGEST = 180 * RATE  # samples: what is longer is cut by the published package too
ALIGNED_LANGUAGES = frozenset({"de", "en", "es", "fr", "it", "ja", "ko", "pt", "ru", "yue", "zh"})

# As the aligner's own code has them: up to extension E, and the compatibility ideographs.
IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf"
IDEOGRAPHS += "\U0002f800-\U0002fa1f"
HIRAGANA = "\u3041-\u309f"
KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
VOICED = "\u3099\u309a"  # marks that a decomposed kana of either kind is followed by

IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")
SPACED = re.compile(rf"[{IDEOGRAPHS}]|[^\s{IDEOGRAPHS}]+")
KOREAN = re.compile(r"\S+")
JAPANESE = re.compile(
    rf"[{IDEOGRAPHS}]々*|[{HIRAGANA}ー]+|[{KATAKANA}{VOICED}]+"
    rf"|(?:[^\W{IDEOGRAPHS}{HIRAGANA}{KATAKANA}]|')+"
)
PIECES = {"ja": JAPANESE, "ko": KOREAN}  # how text falls apart; everything else is SPACED

Span = tuple[str, int, int]  # a word of the text: as written, first character, past the last one


@dataclass(frozen=True, slots=True)
class Unit:
    """What the aligner gives one start and one end."""

    text: str  # letters, numbers and apostrophes only
    start: int  # its first character in the whole text
    stop: int  # past its last one; what stands between may hold marks that `text` lacks


def units(text: str, language: str | None) -> list[Unit]:
    """Text and the language's code -> its units, in order. None: any with spaces.

    Units are what white space parts, and single ideographs. Korean keeps ideographs inside its
    words; qwen-asr cuts endings off by a dictionary as well, transformers does not. Japanese is an
    approximation, for the aligner was made for words of a morphological analyser (nagisa): here an
    ideograph with its iteration marks is a unit, and so is a run of hiragana, of katakana, or of
    other letters and numbers. Compounds fall into more units than words, hiragana into fewer.
    """
    pieces = PIECES.get(language or "", SPACED).finditer(text)
    found = (_unit(text, piece.start(), piece.end()) for piece in pieces)
    return [unit for unit in found if unit]


def _unit(text: str, start: int, stop: int) -> Unit | None:
    """A piece of the text -> its unit, None if nothing in it is spoken."""
    spoken = [at for at in range(start, stop) if _spoken(text[at])]
    if not spoken:
        return None
    return Unit("".join(text[at] for at in spoken), spoken[0], spoken[-1] + 1)


def _spoken(character: str) -> bool:
    if character == "'" or unicodedata.category(character)[0] in "LN":
        return True
    return IDEOGRAPH.match(character) is not None  # one that Unicode has not assigned yet


def repair(milliseconds: Sequence[int]) -> list[int]:
    """Times as the aligner has them, two a unit -> the same, never decreasing.

    The longest subsequence that never falls is kept. Between two kept times, one or two others
    take the nearer of them, and more are spread evenly; before the first and after the last kept
    time all take that one. Equal to what transformers makes of them.
    """
    if not milliseconds:
        return []
    rising = _longest_rise(milliseconds)
    repaired = [milliseconds[rising[0]]] * rising[0]
    for left, right in pairwise(rising):
        low, high = milliseconds[left], milliseconds[right]
        repaired += [low, *_between(low, high, right - left - 1)]
    return repaired + [milliseconds[rising[-1]]] * (len(milliseconds) - rising[-1])


def _between(low: int, high: int, count: int) -> list[int]:
    """Two times -> that many between them, rounded toward zero."""
    if count <= 2:
        return [low, high][:count]
    step = (high - low) / (count + 1)
    return [int(low + step * index) for index in range(1, count + 1)]


def _longest_rise(values: Sequence[int]) -> list[int]:
    """Values -> the places of the longest subsequence that never falls.

    Of several, the one that ends first, and before each place the earliest that can be. Patience
    sorting: O(n log n).
    """
    # Places by the length of the longest rise that ends there; within a length, values only fall.
    ends: list[list[int]] = []
    before: list[int] = []  # the place before each place in its rise, -1 at the start of one
    for index, value in enumerate(values):
        length = bisect_right(ends, value, key=lambda run: values[run[-1]])
        if length:
            shorter = ends[length - 1]
            fits = bisect_left(shorter, -value, key=lambda at: -values[at])
            before.append(shorter[fits])
        else:
            before.append(-1)
        if length == len(ends):
            ends.append([])
        ends[length].append(index)
    rise, at = list[int](), ends[-1][0] if ends else -1
    while at >= 0:
        rise.append(at)
        at = before[at]
    return rise[::-1]


def word_times(
    units: Sequence[Unit], milliseconds: Sequence[int], words: Sequence[Span], duration: int
) -> list[tuple[int, int]]:
    """Units, their repaired times, and words of the same text -> start and end of each word.

    All times are in milliseconds. Those of words never decrease and lie in [0, duration]. A word
    reaches from its first unit to its last. A unit that reaches over several words is shared out
    by characters, which is an estimate inside the unit's own time. A word without letters and
    numbers has no length: it stands at the end of the word before, at the very start of the text
    at the start of the word after; at 0 if there is no unit at all.
    """
    assert len(milliseconds) == 2 * len(units), "two times a unit"
    timed = [_heard(units, milliseconds, word) for word in words]
    clock = max(next((span[0] for span in timed if span), 0), 0)
    times: list[tuple[int, int]] = []
    for span in timed:
        start, end = span or (clock, clock)
        start = min(max(start, clock), duration)
        clock = min(max(start, end), duration)
        times.append((start, clock))
    return times


def _heard(
    units: Sequence[Unit], milliseconds: Sequence[int], word: Span
) -> tuple[int, int] | None:
    """From when to when the units in a word are spoken, None if there are none."""
    text, start, stop = word
    first = bisect_right(units, start, key=lambda unit: unit.stop)
    last = bisect_left(units, stop, key=lambda unit: unit.start) - 1
    if first > last or not any(map(_spoken, text)):
        return None
    return (
        _moment(units[first], *milliseconds[2 * first : 2 * first + 2], at=start),
        _moment(units[last], *milliseconds[2 * last : 2 * last + 2], at=stop),
    )


def _moment(unit: Unit, start: int, end: int, *, at: int) -> int:
    """A unit spoken from start to end -> when it gets to a character; its edges are its ends."""
    done = min(max(at, unit.start), unit.stop) - unit.start
    return start + (end - start) * done // (unit.stop - unit.start)
