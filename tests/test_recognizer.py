"""Work of many streams in one recognizer: what is asked for first, and what is begun ahead."""

import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import pytest
from test_service import Readers

from livecap.config import DecodeConfig
from livecap.engine.pages import Table
from livecap.engine.request import Request
from livecap.engine.request import Sequence as Decoded
from livecap.models.protocol import Ahead, Ask, Heard, Listen
from livecap.recognizer import HOPELESS, OVERDUE, Recognizer
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


class Slow:
    """An engine that finishes nothing until it is told to."""

    def __init__(self) -> None:
        self.running: list[Request] = []
        self.may_finish = False

    def submit(self, request: Request) -> None:
        self.running.append(request)

    def drop(self, request: Request) -> None:
        self.running = [one for one in self.running if one is not request]

    def step(self) -> list[Decoded]:
        finished = self.running if self.may_finish else []
        self.running = [] if self.may_finish else self.running
        return [Decoded(request, [], Table(), None) for request in finished]


class Looping(Strict):
    """Decodes what it has heard, and begins what it may ask for after that."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[int] = []  # numbers of work

    def recognise(self, work: Work, config: DecodeConfig) -> Generator[Ask, Any, Hypothesis]:
        yield Listen(work.segment.pcm, work.deadline)
        self.heard.append(work.number)
        first, second, third = (Request((), 1, frozenset(), deadline=work.deadline) for _ in "123")
        assert (yield first).request is first
        yield Ahead((second, third))
        assert (yield second).request is second
        return Hypothesis(work, ())


def slow(clock: Callable[[], float], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Looping, Slow]:
    model, engine = Looping(), Slow()
    recognizer: Recognizer[int] = Recognizer(model, DecodeConfig(), most=8, clock=clock)
    monkeypatch.setattr(recognizer, "engine", engine)
    return recognizer, model, engine


def test_what_is_begun_ahead_is_used_or_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    recognizer, _, engine = slow(lambda: 0.0, monkeypatch)
    recognizer.submit(1, work(1, 0.0))
    recognizer.step()
    assert len(engine.running) == 1
    engine.may_finish = True
    recognizer.step()
    assert len(engine.running) == 2, "the second and the third at once"
    assert [key for key, _ in recognizer.step()] == [1]
    assert recognizer.is_idle
    engine.may_finish = False
    recognizer.submit(2, work(2, 0.0))
    recognizer.step()
    engine.may_finish = True
    recognizer.step()
    recognizer.drop(2)
    assert not engine.running, "nobody asks for them any more"


def test_a_text_that_is_late_goes_before_what_has_just_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But not for ever: other streams are heard in the end."""
    now = 0.0
    recognizer, model, _ = slow(lambda: now, monkeypatch)
    recognizer.submit(1, work(1, 0.0))
    recognizer.step()
    now = (OVERDUE + HOPELESS) / 2
    recognizer.submit(2, work(2, now))
    recognizer.step()
    assert model.heard == [1]
    now = HOPELESS + 0.1
    recognizer.step()
    assert model.heard == [1, 2]
