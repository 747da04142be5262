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
from aiortc.rtp import is_rtcp
from av import AudioFrame
from command import jfk
from rtc_clients import FRAME, RATE, Caller, calling
from server_clients import run
from server_fixture import MANY, Running, embedded, serving

from livecap.frontends.webrtc.peer import BUFFER, HIGH, RtcPeer, mono

COUNT = 30  # words
BEFORE, EACH = 400, tones.LENGTH + tones.PAUSE  # ms until the first, and from one to the next
NEAR = 100  # ms: a frame of the voice activity detector, a piece of the reader, and a resampler
PATTERN = EACH // 20  # packets of a word and its pause
LOST = (15, 16)  # of each pattern, the first of which begins with the recording: pauses

Send = Callable[[bytes], Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """One for all."""
    with serving() as running:
        yield running


class Network:
    """Loses and swaps packets of media by their number, always the same ones."""

    def __init__(self, send: Send, lost: tuple[int, ...], swapped: int) -> None:
        self._send = send
        self._lost = lost
        self._swapped = swapped
        self._count = 0
        self._kept: bytes | None = None

    async def send(self, data: bytes) -> None:
        """In the place of the transport's."""
        if is_rtcp(data):
            await self._send(data)
            return
        number = self._count
        self._count += 1
        if number % PATTERN in self._lost:
            return
        if self._swapped and number % self._swapped == 0 and self._kept is None:
            self._kept = data
            return
        await self._send(data)
        if self._kept is not None:
            kept, self._kept = self._kept, None
            await self._send(kept)


@pytest.mark.parametrize(("lost", "swapped"), [((), 0), (LOST, 0), ((), 7)])
def test_losses_and_jitter_move_no_word(
    server: Running, lost: tuple[int, ...], swapped: int
) -> None:
    words = tones.some(11, COUNT)
    samples = tones.say(words, before=BEFORE, after=1500, rate=RATE)

    async def work() -> None:
        def cut(caller: Caller) -> None:
            transport: Any = caller.peer.getTransceivers()[0].sender.transport
            transport._send_rtp = Network(transport._send_rtp, lost, swapped).send

        async with calling(server, samples, pace=6, prepare=cut) as caller:
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
