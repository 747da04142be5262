"""What Whisper repeats at the end without audio is dropped; what is said twice is kept."""

from livecap.events import RATE, Word
from livecap.models.whisper.hallucination import heard_words

TICK = RATE // 50  # samples that a word takes at least


def words(text: str, *lengths: int) -> list[Word]:
    """Words, and how many ticks each of them takes; the last number goes for the rest, too."""
    pieces, at, made = text.split(), 0, list[Word]()
    for place, piece in enumerate(pieces):
        stop = at + TICK * lengths[min(place, len(lengths) - 1)]
        made.append(Word(f" {piece}", at, stop))
        at = stop
    return made


def test_the_last_copy_has_no_audio() -> None:
    """So it is left out."""
    assert heard_words(words("all of it all of it", 9, 9, 9, 0, 0, 9)) == 3
    assert heard_words(words("all of it all of it", 9, 9, 9, 0, 1, 30)) == 3
    assert heard_words(words("all of it all of it", 9)) == 6
    assert heard_words(words("all of it and then some", 9, 9, 9, 0, 0, 9)) == 3
    assert heard_words(words("all of it", 9, 0, 9)) == 3
