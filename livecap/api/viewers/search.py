"""What somebody looks for -> words that have to be in a line.

They may be within other words there, and case does not matter.
"""

from collections.abc import Sequence

MOST = 12  # words
LONGEST = 100  # characters of one
GRAM = 3  # characters that SQLite's index of trigrams needs


def words_of(query: str) -> list[str]:
    """Any text at all -> the words to look for."""
    shown = "".join(char if char.isprintable() else " " for char in query)
    return [word[:LONGEST] for word in shown.split()[:MOST]]


def has_all(text: str, words: Sequence[str]) -> bool:
    """Whether all words are in a text."""
    inside = text.casefold()
    return all(word.casefold() in inside for word in words)


def phrase(words: Sequence[str]) -> str:
    """Words -> what SQLite's FTS5 is asked for; empty if it can't know any of them.

    Each is a string to it, in which only quotes mean something.
    """
    known = [word.replace('"', '""') for word in words if len(word) >= GRAM]
    return " AND ".join(f'"{word}"' for word in known)
