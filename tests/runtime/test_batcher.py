"""Jobs of many streams in one batcher: what is asked for first, and what is begun ahead."""

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
from livecap.models.protocol import Ahead, EncodeRequest, EncoderOutput, Step
from livecap.online.job import DecodeJob, Hypothesis
from livecap.online.speech_buffer import Piece, Segment
from livecap.runtime.batcher import Batcher


class Strict(Readers):
    """Counts on being asked something, as the families do, and answers one question at a time."""

    def encode(self, requests: Sequence[EncodeRequest]) -> Sequence[EncoderOutput]:
        return [requests[0].deadline]

    def decode(self, job: DecodeJob, config: DecodeConfig) -> Generator[Step, Any, Hypothesis]:
        for _ in range(2):
            answer = yield EncodeRequest(job.segment.pcm, job.deadline)
            assert answer == job.deadline, "the answer to another's question"
        return Hypothesis(job, ())


def job_of(number: int, deadline: float) -> DecodeJob:
    segment = Segment(np.zeros(1600, np.float32), (Piece(0, 0, 1600),))
    return DecodeJob(number, segment, "en", deadline=deadline)


@pytest.mark.parametrize("deadlines", [(1.0, math.inf), (math.inf, 1.0), (1.0, math.inf, 2.0)])
def test_a_recording_waits_behind_live_work(deadlines: Sequence[float]) -> None:
    """On a machine so quick that the clock stands still, too."""
    batcher: Batcher[int] = Batcher(Strict(), DecodeConfig(), max_jobs=8, clock=lambda: 0.0)
    for number, deadline in enumerate(deadlines):
        batcher.submit(number, job_of(number, deadline))
    done: list[int] = []
    for _ in range(20):
        done += [key for key, _ in batcher.step()]
    assert sorted(done) == list(range(len(deadlines)))
    assert batcher.is_idle


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
        self.encoded: list[int] = []  # numbers of work

    def decode(self, job: DecodeJob, config: DecodeConfig) -> Generator[Step, Any, Hypothesis]:
        yield EncodeRequest(job.segment.pcm, job.deadline)
        self.encoded.append(job.number)
        first, second, third = (Request((), 1, frozenset(), deadline=job.deadline) for _ in "123")
        assert (yield first).request is first
        yield Ahead((second, third))
        assert (yield second).request is second
        return Hypothesis(job, ())


def slow(clock: Callable[[], float], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Looping, Slow]:
    model, engine = Looping(), Slow()
    batcher: Batcher[int] = Batcher(model, DecodeConfig(), max_jobs=8, clock=clock)
    monkeypatch.setattr(batcher, "engine", engine)
    return batcher, model, engine


def test_what_is_begun_ahead_is_used_or_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    batcher, _, engine = slow(lambda: 0.0, monkeypatch)
    batcher.submit(1, job_of(1, 0.0))
    batcher.step()
    assert len(engine.running) == 1
    engine.may_finish = True
    batcher.step()
    assert len(engine.running) == 2, "the second and the third at once"
    assert [key for key, _ in batcher.step()] == [1]
    assert batcher.is_idle
    engine.may_finish = False
    batcher.submit(2, job_of(2, 0.0))
    batcher.step()
    engine.may_finish = True
    batcher.step()
    batcher.cancel(lambda key: key == 2)
    assert not engine.running, "nobody asks for them any more"


def test_encoding_leaves_the_decoder_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is to be encoded: each step encodes for one time slice."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.1
        return now

    batcher, model, _ = slow(clock, monkeypatch)
    for number in range(6):
        batcher.submit(number, job_of(number, 0.0))
    batcher.step()
    assert 0 < len(model.encoded) < 6
    for _ in range(5):
        batcher.step()
    assert model.encoded == list(range(6))
