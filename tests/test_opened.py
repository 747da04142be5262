"""The open segment: what a hypothesis tells a commit policy."""

import numpy as np
import pytest
from live_models import SCORES

from livecap.commit import AlignAtt
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
