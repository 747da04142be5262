"""Text -> the characters that CEA-608 has: those of Latin-1. The same as web/cea608.js.

Typographic signs become plain ones, and letters of other Latin alphabets lose their marks. What it
has no letters for at all is left out whole, and the caller is told.
"""

import re
import unicodedata
from dataclasses import replace
from types import MappingProxyType

from livecap.events import Caption

SIGNS = MappingProxyType({
    "‘": "'", "’": "'", "‚": ",", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"',
    "‹": "<", "›": ">", "′": "'", "″": '"', "‐": "-", "‑": "-", "‒": "-", "–": "-",
    "—": "-", "―": "-", "−": "-", "…": "...", "•": "*", "⁄": "/", "€": "EUR", "™": "(TM)",
})  # fmt: skip
LETTERS = MappingProxyType({  # those that no mark tells apart from a plain one
    "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ħ": "h", "Ħ": "H", "ı": "i", "œ": "oe", "Œ": "OE",
    "ŋ": "n", "Ŋ": "N", "ŧ": "t", "Ŧ": "T", "ẞ": "SS",
})  # fmt: skip
PLAIN = MappingProxyType({**SIGNS, **LETTERS})
HAS = re.compile(r"[\x20-\x7e\u00a1-\u00ff]*")
WORD = re.compile(r"\S+")


def folded(word: str) -> str | None:
    """A word as it can be shown; None if letters of it can't be."""
    shown = ""
    for char in unicodedata.normalize("NFC", word):
        plain = PLAIN.get(char, char)
        if not HAS.fullmatch(plain):
            parts = unicodedata.normalize("NFKD", plain)
            plain = "".join(part for part in parts if not unicodedata.combining(part))
        if HAS.fullmatch(plain):
            shown += plain
        elif unicodedata.category(char)[0] in "LN":
            return None
    return shown


def folded_caption(caption: Caption) -> tuple[Caption, bool]:
    """A caption as it can be shown, and whether words had to be left out."""
    left_out: list[str] = []

    def fold(found: re.Match[str]) -> str:
        shown = folded(found[0])
        if shown is None:
            left_out.append(found[0])
        return shown or ""

    words = [replace(word, text=WORD.sub(fold, word.text)) for word in caption.words]
    shown = tuple(word for word in words if word.text.strip())
    return replace(caption, words=shown), bool(left_out)
