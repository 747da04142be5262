"""The open segment: what a hypothesis tells a commit policy."""

import numpy as np
import pytest
from live_models import SCORES

from livecap.commit import AlignAtt, LocalAgreement
from livecap.events import RATE, Word
from livecap.opened import Opened
from livecap.segments import Piece, Segment
from livecap.work import Hypothesis, Passage, Work

PCM = np.zeros(2 * RATE, np.float32)


def told(opened: Opened, *words: Word) -> list[str]:
    """What is said once these words are heard."""
    update = opened.update(whole=False, last=False)
    work = Work(0, Segment(PCM, (Piece(0, 0, len(PCM)),)), "en", update=update)
    passage = Passage(0, len(PCM), words, SCORES)
    ids, counts = tuple(range(len(words))), (1,) * len(words)
    assert opened.take(Hypothesis(work, (passage,), "en", tokens=ids, counts=counts))
    part = opened.decide(AlignAtt(hold_back=0), final=False)
    return [word.text for word in part.words]


@pytest.mark.parametrize(("chance", "count"), [(0.1, 0), (0.9, 2), (None, 2)])
def test_the_probabilities_of_first_words_count(chance: float | None, count: int) -> None:
    """Words without one count as certain, and so does what has been said."""
    first = (Word(" a", 0, RATE // 2, chance), Word(" b", RATE // 2, RATE, 0.9))
    assert told(Opened(0), *first) == [" a", " b"][:count]


def test_once_something_is_said_they_count_no_more() -> None:
    opened = Opened(0)
    assert told(opened, Word(" a", 0, RATE // 2, 0.9)) == [" a"]
    assert told(opened, Word(" b", RATE // 2, RATE, 0.1)) == [" b"]


@pytest.mark.parametrize(
    ("before", "new", "seconds", "is_stuck"),
    [
        ("he said no", "No!", 1, False),  # so people speak
        ("he said no", "No!", 2, True),
        ("that one", "that one.", 3, False),
        ("that one", "that one.", 4, True),
        ("that one", "that", 2, False),
        ("one", "that one", 4, False),
        ("", "no no no", 1, False),  # within one breath
        ("that one", "", 9, False),  # nothing at all is another matter
        ("that one", "A", 4, True),
        ("that one", "A", 3, False),
        ("", "A B", 7, True),
    ],
)
def test_a_decoder_is_stuck(before: str, new: str, seconds: int, is_stuck: bool) -> None:
    """By what it makes of the speech since the last pause."""
    opened = Opened(0)
    for text, heard in ((before, RATE), (new, RATE + seconds * RATE)):
        opened.decide(LocalAgreement(), final=True)
        opened.heard, opened.words = heard, tuple(Word(f" {word}") for word in text.split())
        opened.draft_counts = (1,) * len(opened.words)
    assert opened.is_stuck == is_stuck
    opened.decide(LocalAgreement(), final=True)
    assert not opened.is_stuck
