"""Which words of a hypothesis were heard, and which the model made up, by the time each takes.

A decoder that has nothing more to hear may say once more what was said just before. The alignment
has audio for one of the copies, and leaves the other a row a word, or none.
"""

from collections.abc import Sequence

from livecap.events import Word
from livecap.models.whisper.word_times import is_brief

SQUEEZED = 2  # words without audio in a row that are made up; a single one may be short


def heard_words(words: Sequence[Word]) -> int:
    """How many of the aligned words were heard, not made up at the end.

    What is made up there is mostly a copy, and its last word takes whatever audio is left.
    """
    count = len(words)
    while again := _repeated(_plain(words[:count]), count):
        if not _is_squeezed(words[count - again : count]):
            break
        count -= again
    if count < len(words):
        return count
    last = count - 1
    while last > 0 and is_brief(words[last - 1]):
        last -= 1
    if last < count - 1 and count - last > SQUEEZED:
        return last  # with the last word, which got what was left
    while count and words[count - 1].start == words[count - 1].end:
        count -= 1
    return count if 0 < count <= len(words) - SQUEEZED else len(words)


def _is_squeezed(words: Sequence[Word]) -> bool:
    """Whether there is no time for most of the words."""
    return 2 * sum(map(is_brief, words)) >= len(words)


def _repeated(text: Sequence[str], new: int) -> int:
    """The length in words of the block that the text ends in twice over; 0 if there is none.

    The second copy, of two words or more, is among the last `new` of them.
    """
    for size in range(min(len(text) // 2, new), 1, -1):
        if text[-size:] == text[-2 * size : -size]:
            return size
    return 0


def _plain(words: Sequence[Word]) -> list[str]:
    """The text, word by word, without case and marks."""
    return ["".join(filter(str.isalnum, word.text.casefold())) for word in words]
