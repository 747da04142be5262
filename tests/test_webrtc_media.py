"""What becomes of a call's audio on a bad network, and on the way back."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tones
from aiortc import RTCConfiguration, RTCPeerConnection
from aiortc.jitterbuffer import JitterBuffer
from av import AudioFrame
from command import jfk
from rtc_clients import FRAME, RATE, calling
from rtc_network import Fate, between, shaken, unharmed
from server_clients import run
from server_fixture import MANY, Running, embedded, serving

from livecap.api.webrtc.peer import HIGH, RtcPeer, mono
from livecap.api.webrtc.reorder import BUFFER

COUNT = 30  # words
BEFORE, EACH = 400, tones.LENGTH + tones.PAUSE  # ms until the first, and from one to the next
NEAR = 100  # ms: a frame of the voice activity detector, a piece of the reader, and a resampler
PATTERN = EACH // 20  # packets of a word and its pause
LOST = (15, 16)  # of each pattern, the first of which begins with the recording: pauses


def pauses(number: int) -> int | None:
    """What is between words is lost."""
    return None if number % PATTERN in LOST else number


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """One for all."""
    with serving() as running:
        yield running


@pytest.mark.parametrize("fate", [unharmed, pauses, shaken(7, 4)], ids=["well", "loss", "jitter"])
def test_losses_and_jitter_move_no_word(server: Running, fate: Fate) -> None:
    words = tones.some(11, COUNT)
    samples = tones.say(words, before=BEFORE, after=1500, rate=RATE)

    async def work() -> None:
        async with calling(
            server, samples, pace=6, prepare=lambda caller: between(caller, fate)
        ) as caller:
            await caller.until("session.created")
            session = {"type": "transcription", "include": ["livecap.words"]}
            caller.send("session.update", session=session)
            found: list[dict[str, Any]] = []
            while len(found) < COUNT:
                found += (await caller.until(".completed"))["words"]
            assert [one["word"] for one in found] == [tones.text([one]) for one in words]
            for number, one in enumerate(found):
                begun = (BEFORE + number * EACH) / 1000
                assert one["start"] == pytest.approx(begun, abs=NEAR / 1000)

    run(work)
    server.settle()


def test_the_embedded_model_hears_a_call() -> None:
    with serving(embedded, MANY, names=("tiny.en",)) as real:
        pcm = np.rint(jfk() * 32767).astype(np.int16)
        samples = np.concatenate([np.repeat(pcm, 3), np.zeros(2 * RATE, np.int16)])

        async def work() -> None:
            async with calling(real, samples, pace=6) as caller:
                told = ""
                while "do for your country" not in told:
                    told += " " + (await caller.until(".completed"))["transcript"]
            assert "what you can do for your country" in told

        run(work)
        real.settle()


@pytest.mark.parametrize("layout", ["mono", "stereo"])
def test_channels_are_mixed(layout: str) -> None:
    left = np.arange(FRAME, dtype=np.int16)
    packed = np.stack([left, -left - 2], axis=1) if layout == "stereo" else left[:, None]
    frame = AudioFrame.from_ndarray(packed.reshape(1, -1), format="s16", layout=layout)
    wanted = np.full(FRAME, -1, np.int16) if layout == "stereo" else left
    assert np.array_equal(mono(frame), wanted)


class Channel:
    """A data channel whose other side reads when it is told to."""

    readyState = "open"
    label = "oai-events"
    bufferedAmountLowThreshold = 0

    def __init__(self) -> None:
        self.bufferedAmount = 0
        self.sent: list[str] = []
        self.handlers: dict[str, Callable[[], None]] = {}

    def on(self, event: str, handler: Callable[[], None]) -> None:
        """As pyee has it."""
        self.handlers[event] = handler

    def send(self, text: str) -> None:
        """It waits."""
        self.sent.append(text)
        self.bufferedAmount += len(text)

    def read(self) -> None:
        """All of it."""
        self.bufferedAmount = 0
        self.handlers["bufferedamountlow"]()


def test_who_does_not_read_is_not_sent_more() -> None:
    """So partials are replaced where they wait, and what is sent is whole however long it is."""

    async def work() -> None:
        peer, channel = RtcPeer(()), Channel()
        take: Any = peer._take_channel
        take(channel)
        assert peer.opened.is_set()
        await peer.send("x" * (HIGH + 1))
        second = asyncio.create_task(peer.send(json.dumps({})))
        await asyncio.sleep(0)
        assert len(channel.sent) == 1
        channel.read()
        await second
        assert channel.sent[1:] == ["{}"]
        channel.readyState = "closed"
        with pytest.raises(ConnectionError):
            await peer.send("")
        await peer.close()

    run(work)


def test_the_library_still_has_the_buffer_that_is_replaced() -> None:
    """Should it be renamed, captions would only be later: nothing else would tell."""

    async def work() -> None:
        peer = RTCPeerConnection(RTCConfiguration([]))
        receiver = peer.addTransceiver("audio").receiver
        assert isinstance(vars(receiver)[BUFFER], JitterBuffer)
        assert vars(receiver)["_enabled"] is True
        await peer.close()

    run(work)
