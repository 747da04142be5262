"""Token ids -> words as they are written, each with its ids. For word times and captions."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from livecap.text.detokenizer import Utf8

UNSPACED = frozenset({"zh", "ja", "th", "lo", "my", "yue"})  # written without spaces between words
# As in OpenAI's whisper/timing.py, and the brackets of Chinese and Japanese.
OPENING = frozenset("“¿([{「『（《")  # belongs to the word after it
OPENING_IF_SPACED = OPENING | frozenset("\"'-")  # so does this, with a space before it
CLOSING = frozenset("\"'.。,，!！?？:：”)]}、」』）》")  # belongs to the word before it

Piece = tuple[str, list[int]]


class Vocabulary(Protocol):
    """What ids stand for: the tokenizer of any family."""

    def is_text(self, number: int) -> bool:
        """Whether an id stands for text."""

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Ids -> the bytes they stand for."""


def split_words(tokenizer: Vocabulary, ids: Sequence[int], language: str | None) -> list[Piece]:
    """Ids and the language's code -> (text, ids) of each word, punctuation merged into words.

    A word begins with the white space before it. The texts, joined, are the ids' text,
    and the ids, joined, are `ids` without special ones. In languages written without spaces the
    smallest run of tokens that makes whole characters stands for a word. None: any with spaces.
    """
    pieces = _characters(tokenizer, ids)
    if language not in UNSPACED:
        pieces = _spaced(pieces)
    return _close(_open(pieces))


def split_text(text: str, language: str | None) -> list[str]:
    """As `split_words`, for text without ids: joined, the words are the text.

    In languages written without spaces every character stands for a word.
    """
    pieces: list[Piece] = [(character, []) for character in text]
    if language not in UNSPACED:
        pieces = _spaced(pieces)
    return [word for word, _ in _close(_open(pieces))]


def _characters(tokenizer: Vocabulary, ids: Sequence[int]) -> list[Piece]:
    """Ids -> the smallest runs of ids that are whole characters."""
    characters, pieces = Utf8(), list[Piece]()
    text, run = "", list[int]()  # what isn't whole yet
    for number in ids:
        if not tokenizer.is_text(number):
            continue
        text += characters.push(tokenizer.decode_bytes([number]))
        run.append(number)
        if not characters.pending:
            pieces.append((text, run))
            text, run = "", []
    if run and pieces and not text:  # the start of a character that never came
        pieces[-1] = (pieces[-1][0], pieces[-1][1] + run)
    elif run:
        pieces.append((text, run))
    return pieces


def _spaced(pieces: list[Piece]) -> list[Piece]:
    # OpenAI also splits at marks inside words: "well", "-known"; "3", ",000"; "U", ".S", ".A.".
    words: list[Piece] = []
    for text, ids in pieces:
        if words and not text[:1].isspace():
            words[-1] = _joined(words[-1], (text, ids))
        else:
            words.append((text, ids))
    return words


def _open(pieces: list[Piece]) -> list[Piece]:
    """Join opening marks, and white space that stands alone, to the word that follows."""
    words: list[Piece] = []
    for piece in reversed(pieces):
        text, mark = piece[0], piece[0].strip()
        marks = OPENING_IF_SPACED if text.startswith(" ") else OPENING
        if words and (not mark or mark in marks):
            words[-1] = _joined(piece, words[-1])
        else:
            words.append(piece)
    return words[::-1]


def _close(pieces: list[Piece]) -> list[Piece]:
    """Join closing marks, and white space at the very end, to the word before."""
    words: list[Piece] = []
    for piece in pieces:
        text = piece[0]
        if words and (CLOSING.issuperset(text) or text.isspace()):
            words[-1] = _joined(words[-1], piece)
        else:
            words.append(piece)
    return words


def _joined(first: Piece, second: Piece) -> Piece:
    return first[0] + second[0], first[1] + second[1]
