"""Whether a text repeats itself: the loops that decoders fall into."""

import zlib
from collections.abc import Hashable, Sequence

LONGEST_PERIOD = 24  # tokens; a longer loop than this is caught by the compression ratio
SHORT_PERIOD = 8  # tokens; up to here a repetition can be meant, so more of it must be there
COPIES_OF_SHORT = 4
COPIES_OF_LONG = 3
SHORTEST_LOOP = 20  # tokens in all copies together; "no, no, no, no, no, no" has 12

FASTEST = 7  # words a second: auctioneers reach it, conversation has 3
WORDS_BESIDES = 2  # that short audio may have more: its ends are cut close


def compression_ratio(text: str) -> float:
    """How many times shorter zlib makes the text; above 2.4 it most likely repeats itself.

    Bytes of UTF-8 over bytes of zlib's default level; 0.0 for no text. Source: OpenAI's whisper.
    """
    data = text.encode()
    return len(data) / len(zlib.compress(data))


def is_crowded(text: str, seconds: float) -> bool:
    """Whether nobody can say so much in the time. Only words between spaces are counted: how many
    characters can be said depends on the script.
    """
    return len(text.split()) > int(FASTEST * seconds) + WORDS_BESIDES


def loop_start(items: Sequence[Hashable], shortest: int = SHORTEST_LOOP) -> int | None:
    """Tokens or words -> where the repetition begins that they end in, None if they don't.

    `items[:loop_start(items)]` keeps one copy. A block of up to 8 tokens must be there 4 times
    and more, one of up to 24 tokens 3 times and more, and the copies must make up 20 tokens at
    least (`shortest`): so people may say "no" 19 times, a chant of two tokens 9 times and a
    sentence of 12 tokens twice. A started last copy counts for its length. Of several periods the
    shortest wins.
    """
    period = loop_period(items, shortest)
    return None if period is None else _first_copy(items, period) + period


def loop_period(items: Sequence[Hashable], shortest: int = SHORTEST_LOOP) -> int | None:
    """Tokens or words -> the length of the block that they end in copies of, as in `loop_start`."""
    for period in range(1, min(LONGEST_PERIOD, len(items) // COPIES_OF_LONG) + 1):
        length = len(items) - _first_copy(items, period)
        copies = COPIES_OF_SHORT if period <= SHORT_PERIOD else COPIES_OF_LONG
        if length >= max(shortest, copies * period):
            return period
    return None


def _first_copy(items: Sequence[Hashable], period: int) -> int:
    """Where the longest tail with this period begins."""
    at = len(items) - 1
    while at >= period and items[at] == items[at - period]:
        at -= 1
    return at - period + 1
