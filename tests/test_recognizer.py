"""Live work and recordings in one recognizer: each is asked for only where there is some."""

import math
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import pytest
from test_service import Readers

from livecap.config import DecodeConfig
from livecap.models.protocol import Ask, Heard, Listen
from livecap.recognizer import Recognizer
from livecap.segments import Piece, Segment
from livecap.work import Hypothesis, Work


class Strict(Readers):
    """Counts on being asked something, as the families do, and answers one question at a time."""

    def hear(self, asked: Sequence[Listen]) -> Sequence[Heard]:
        return [asked[0].deadline]

    def recognise(self, work: Work, config: DecodeConfig) -> Generator[Ask, Any, Hypothesis]:
        for _ in range(2):
            heard = yield Listen(work.segment.pcm, work.deadline)
            assert heard == work.deadline, "the answer to another's question"
        return Hypothesis(work, ())


def work(number: int, deadline: float) -> Work:
    segment = Segment(np.zeros(1600, np.float32), (Piece(0, 0, 1600),))
    return Work(number, segment, "en", deadline=deadline)


@pytest.mark.parametrize("deadlines", [(1.0, math.inf), (math.inf, 1.0), (1.0, math.inf, 2.0)])
def test_a_recording_waits_behind_live_work(deadlines: Sequence[float]) -> None:
    """On a machine so quick that the clock stands still, too."""
    recognizer: Recognizer[int] = Recognizer(Strict(), DecodeConfig(), most=8, clock=lambda: 0.0)
    for number, deadline in enumerate(deadlines):
        recognizer.submit(number, work(number, deadline))
    done: list[int] = []
    for _ in range(20):
        done += [key for key, _ in recognizer.step(patience=0.25)]
    assert sorted(done) == list(range(len(deadlines)))
    assert recognizer.is_idle
