"""Text -> grapheme clusters, their display width, and where a line may break between two.

Standard library only: the cluster rules are the part of Unicode TR 29 that captions meet, the
break rules the part of TR 14 (and of Japanese kinsoku) that concerns scripts without spaces.
"""

import unicodedata

JOINER = "\u200d"  # zero width joiner: emoji families
NO_BREAK = "\u00a0\u2007\u202f"  # spaces that hold a line together
EMOJI_FORM = "\ufe0f"  # asks for the emoji form of the character before it
SKIN_TONES = range(0x1F3FB, 0x1F400)
FLAG_LETTERS = range(0x1F1E6, 0x1F200)  # two of them make a flag
JAMO_TAILS = range(0x1160, 0x1200)  # Hangul vowels and final consonants complete a syllable
PREPOSED = range(0x0E40, 0x0E45)  # Thai vowels written before their consonant
PREPOSED_LAO = range(0x0EC0, 0x0EC5)
FOLLOWING = "\u0e33\u0eb3"  # Thai and Lao am: a spacing letter that ends its cluster

UNSPACED = (  # scripts that put no space between words
    range(0x0E00, 0x0F00),  # Thai, Lao
    range(0x1000, 0x10A0),  # Myanmar
    range(0x1780, 0x1800),  # Khmer
    range(0x2E80, 0x3130),  # CJK radicals, CJK punctuation, kana, bopomofo
    range(0x31A0, 0xA4D0),  # more bopomofo and kana, ideographs, Yi
    range(0xF900, 0xFB00),  # compatibility ideographs
    range(0xFE30, 0xFE50),  # vertical forms
    range(0xFF00, 0xFFEF),  # fullwidth and halfwidth forms
    range(0x1B000, 0x1B170),  # historic kana
    range(0x20000, 0x323B0),  # ideographs beyond the first plane
)

OPENING = frozenset("¡¿")  # besides Ps and Pi
CLOSING = frozenset(  # besides Pe and Pf: what must not begin a line
    "!?.,:;%…‥。、，．：；！？％・·ー々〻〜～ゝゞヽヾ"
    "ぁぃぅぇぉっゃゅょゎゕゖァィゥェォッャュョヮヵヶ"
    "ๆฯ؟،؛।॥"
)


def clusters(text: str) -> list[str]:
    """What a reader calls characters; joined they are `text`."""
    found: list[str] = []
    for char in text:
        if found and _continues(found[-1], char):
            found[-1] += char
        else:
            found.append(char)
    return found


def cluster_width(cluster: str) -> int:
    """Columns of one cluster: 0 for lone combining marks, 2 for wide characters and emoji."""
    if EMOJI_FORM in cluster or (len(cluster) > 1 and ord(cluster[0]) in FLAG_LETTERS):
        return 2
    return min(2, sum(_char_width(char) for char in cluster))


def columns(text: str) -> int:
    """Display width of a line in columns of a fixed-width font."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(cluster_width(cluster) for cluster in clusters(text))


def unspaced(cluster: str) -> bool:
    """Whether the cluster is of a script that puts no space between words."""
    return any(ord(cluster[0]) in script for script in UNSPACED)


def opening(cluster: str) -> bool:
    """Whether the cluster must not end a line."""
    return cluster[0] in OPENING or unicodedata.category(cluster[0]) in {"Ps", "Pi"}


def closing(cluster: str) -> bool:
    """Whether the cluster must not begin a line."""
    return cluster[0] in CLOSING or unicodedata.category(cluster[0]) in {"Pe", "Pf"}


def may_break(left: str, right: str) -> bool:
    """Whether a line may end between two clusters that no space separates."""
    if opening(left) or closing(right) or left[0] in NO_BREAK or right[0] in NO_BREAK:
        return False
    return unspaced(left) or unspaced(right)


def _continues(cluster: str, char: str) -> bool:
    code, first, last = ord(char), ord(cluster[0]), ord(cluster[-1])
    if code < 0x300:
        return False
    if unicodedata.category(char) in {"Mn", "Me", "Mc", "Cf"} or char in FOLLOWING:
        return True
    if code in SKIN_TONES or code in JAMO_TAILS or cluster[-1] == JOINER:
        return True
    if last in PREPOSED or last in PREPOSED_LAO:
        return True
    return code in FLAG_LETTERS and first in FLAG_LETTERS and len(cluster) == 1


def _char_width(char: str) -> int:
    code = ord(char)
    if code in JAMO_TAILS or unicodedata.category(char) in {"Mn", "Me", "Cf", "Cc"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
