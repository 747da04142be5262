"""Long without speech, voice activity detection begins anew: at one frame, however it is fed."""

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from noises import at_level, music
from oddities import between, word

from livecap.events import RATE
from livecap.online.config import StreamConfig
from livecap.online.speech_buffer import Pcm
from livecap.online.stream import OnlineStream
from livecap.runtime.source import RESET_FRAMES, MultichannelSource, push_all
from livecap.vad.endpointer import FRAME
from livecap.vad.silero import CONTEXT, Silero, load


class Noted(OnlineStream):
    """Keeps the probabilities that it is given."""

    def __init__(self) -> None:
        super().__init__(StreamConfig())
        self.seen: list[float] = []

    def push(self, pcm: Pcm, probs: Iterable[float]) -> None:
        found = list(probs)
        self.seen += found
        super().push(pcm, found)


@pytest.fixture(scope="module")
def silero() -> Silero:
    return load()


def probs_of(silero: Silero, pcm: Pcm, size: int, *, resets: bool = True) -> list[float]:
    session = Noted()
    stream = MultichannelSource([session], silero, resets=resets)
    for at in range(0, len(pcm), size):
        stream.push(at, pcm[None, at : at + size])
    return session.seen


def sound() -> Pcm:
    """Music for longer than it takes, and a word."""
    found = [at_level(music(20), -20), between(1, word(), 1)]
    return np.concatenate(found).astype(np.float32)


@pytest.mark.parametrize("size", [333, 3200, 5 * RATE, 1 << 20])
def test_whatever_the_feeds(silero: Silero, size: int) -> None:
    pcm = sound()
    assert np.allclose(probs_of(silero, pcm, size), probs_of(silero, pcm, RATE), atol=1e-4)


def test_what_follows_is_as_a_fresh_state_hears_it(silero: Silero) -> None:
    pcm = np.zeros((RESET_FRAMES + 100) * FRAME, np.float32)
    pcm[RESET_FRAMES * FRAME :] = sound()[-100 * FRAME :]
    found = probs_of(silero, pcm, 10_000)
    state = silero.open()
    start = RESET_FRAMES * FRAME
    rest = torch.from_numpy(pcm[start:])
    assert not pcm[start - CONTEXT : start].any()  # as the context of a state that is new
    ((fresh, _),) = silero.probs([state], [rest])
    assert np.allclose(found[RESET_FRAMES:], fresh.tolist(), atol=1e-4)


def test_files_are_judged_in_one_go(silero: Silero) -> None:
    pcm = sound()
    ((whole, _),) = silero.probs([silero.open()], [torch.from_numpy(pcm)])
    assert np.allclose(probs_of(silero, pcm, 7777, resets=False), whole.tolist(), atol=1e-4)


def test_streams_that_are_judged_together_are_as_each_alone(silero: Silero) -> None:
    pcm = sound()
    sessions = [Noted() for _ in range(3)]
    streams = [MultichannelSource([one], silero, resets=n != 1) for n, one in enumerate(sessions)]
    for at in range(0, len(pcm), 40_000):
        push_all([(one, (at, pcm[None, at : at + 40_000], "")) for one in streams])
    for n, one in enumerate(sessions):
        alone = probs_of(silero, pcm, 1600, resets=n != 1)
        assert np.allclose(one.seen, alone, atol=1e-4)
