"""Long without speech, voice activity detection begins anew: at one frame, however it is fed."""

import numpy as np
import pytest
import torch
from noises import at_level, music
from oddities import between, word

from livecap.events import RATE
from livecap.segments import Pcm
from livecap.session import Session, SessionConfig
from livecap.stream import RENEWAL, SourceStream, feed_together
from livecap.vad import CONTEXT, FRAME, Silero, load


class Noted(Session):
    """Keeps the probabilities that it is told."""

    def __init__(self) -> None:
        super().__init__(SessionConfig())
        self.chances: list[float] = []

    def feed(self, pcm: Pcm, probabilities: object) -> None:
        assert isinstance(probabilities, list)
        self.chances += probabilities
        super().feed(pcm, probabilities)


@pytest.fixture(scope="module")
def silero() -> Silero:
    return load()


def chances(silero: Silero, pcm: Pcm, size: int, *, renews: bool = True) -> list[float]:
    session = Noted()
    stream = SourceStream([session], silero, renews=renews)
    for at in range(0, len(pcm), size):
        stream.feed(at, pcm[None, at : at + size])
    return session.chances


def sound() -> Pcm:
    """Music for longer than it takes, and a word."""
    found = [at_level(music(20), -20), between(1, word(), 1)]
    return np.concatenate(found).astype(np.float32)


@pytest.mark.parametrize("size", [333, 3200, 5 * RATE, 1 << 20])
def test_whatever_the_feeds(silero: Silero, size: int) -> None:
    pcm = sound()
    assert np.allclose(chances(silero, pcm, size), chances(silero, pcm, RATE), atol=1e-4)


def test_what_follows_is_as_a_fresh_state_hears_it(silero: Silero) -> None:
    pcm = np.zeros((RENEWAL + 100) * FRAME, np.float32)
    pcm[RENEWAL * FRAME :] = sound()[-100 * FRAME :]
    found = chances(silero, pcm, 10_000)
    state = silero.open()
    start = RENEWAL * FRAME
    rest = torch.from_numpy(pcm[start:])
    assert not pcm[start - CONTEXT : start].any()  # as the context of a state that is new
    ((fresh, _),) = silero.listen([state], [rest])
    assert np.allclose(found[RENEWAL:], fresh.tolist(), atol=1e-4)


def test_files_are_judged_in_one_go(silero: Silero) -> None:
    pcm = sound()
    ((whole, _),) = silero.listen([silero.open()], [torch.from_numpy(pcm)])
    assert np.allclose(chances(silero, pcm, 7777, renews=False), whole.tolist(), atol=1e-4)


def test_streams_that_are_judged_together_are_as_each_alone(silero: Silero) -> None:
    pcm = sound()
    sessions = [Noted() for _ in range(3)]
    streams = [SourceStream([one], silero, renews=n != 1) for n, one in enumerate(sessions)]
    for at in range(0, len(pcm), 40_000):
        feed_together([(one, at, pcm[None, at : at + 40_000], "") for one in streams])
    for n, one in enumerate(sessions):
        alone = chances(silero, pcm, 1600, renews=n != 1)
        assert np.allclose(one.chances, alone, atol=1e-4)
