"""A WebRTC client of the server, by aiortc over this machine's own network."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

import httpx2
import numpy as np
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCDataChannel,
    RTCPeerConnection,
    RTCSessionDescription,
)
from av import AudioFrame
from numpy.typing import NDArray
from server_fixture import Running

Json = dict[str, Any]

RATE = 48_000  # Hz
FRAME = RATE // 50  # samples of a packet
PACE = 4.0  # times as fast as it is said: nobody but a clock could tell
HELD = 12 * FRAME  # samples that the encoder and the other side's buffer may hold back
SDP = {"Content-Type": "application/sdp"}


class Voice(MediaStreamTrack):
    """Samples, and then silence, in the time that it takes to say them; or faster."""

    kind = "audio"

    def __init__(self, samples: NDArray[np.int16], *, pace: float = PACE) -> None:
        super().__init__()
        self._samples = samples
        self._pace = pace
        self._at = 0
        self._begun: float | None = None
        self.said = asyncio.Event()  # all has been sent, and what buffers hold back of it
        self.started = asyncio.Event()  # may speak: until then nothing is sent

    async def recv(self) -> AudioFrame:
        """The next 20 ms, when it is their time."""
        await self.started.wait()
        now = asyncio.get_running_loop().time()
        self._begun = now if self._begun is None else self._begun
        await asyncio.sleep(self._begun + self._at / RATE / self._pace - now)
        said = self._samples[self._at : self._at + FRAME]
        pcm = np.zeros(FRAME, np.int16)
        pcm[: len(said)] = said
        frame = AudioFrame.from_ndarray(pcm[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE, self._at, Fraction(1, RATE)
        self._at += FRAME
        if self._at > len(self._samples) + HELD:
            self.said.set()
        return frame


class Caller:
    """One call. Frames are kept as they come by the data channel."""

    def __init__(self, voice: Voice | None) -> None:
        self.peer = RTCPeerConnection(RTCConfiguration([]))
        self.voice = voice
        self.location = ""
        self.headers = httpx2.Headers()  # of the answer
        self.changed = asyncio.Event()  # the connection's state
        self.frames: list[Json] = []
        self.closed = asyncio.Event()  # the data channel
        self._news: asyncio.Queue[Json] = asyncio.Queue()
        self.channel: RTCDataChannel | None = None
        if voice:
            self.peer.addTrack(voice)
        self.peer.on("connectionstatechange", self._changed)

    def open_channel(self) -> None:
        """`oai-events`."""
        self.channel = self.peer.createDataChannel("oai-events")
        self.channel.on("open", self._begin)
        self.channel.on("message", self._take)
        self.channel.on("close", self.closed.set)

    def _changed(self) -> None:
        self.changed.set()
        if self.peer.connectionState == "connected" and not self.channel:
            self._begin()

    def _begin(self) -> None:
        """Speak. When a channel is open, the other side is ready, and misses no packet."""
        if self.voice:
            self.voice.started.set()

    def _take(self, message: str) -> None:
        frame = json.loads(message)
        self.frames.append(frame)
        self._news.put_nowait(frame)

    async def offer(self) -> str:
        """The offer, with all addresses."""
        await self.peer.setLocalDescription(await self.peer.createOffer())
        return self.peer.localDescription.sdp

    async def accept(self, answer: httpx2.Response) -> None:
        """Connect by the answer."""
        assert answer.status_code == 201, answer.text
        assert answer.headers["content-type"].startswith("application/sdp")
        self.location, self.headers = answer.headers["location"], answer.headers
        await self.peer.setRemoteDescription(RTCSessionDescription(answer.text, "answer"))

    async def connected(self) -> None:
        """Wait until it is."""
        while self.peer.connectionState != "connected":
            self.changed.clear()
            await self.changed.wait()

    def send(self, kind: str, **fields: Any) -> None:
        """One client event."""
        assert self.channel
        self.channel.send(json.dumps({"type": kind, **fields}))

    async def has_spoken(self) -> None:
        """Wait until all has been said."""
        assert self.voice
        await self.voice.said.wait()

    async def until(self, kind: str) -> Json:
        """The next frame whose type ends like that. Fails at errors, unless they are wanted."""
        while not (frame := await self._news.get())["type"].endswith(kind):
            assert frame["type"] != "error", frame
        return frame

    async def transcripts(self, count: int) -> list[str]:
        """The next final texts."""
        return [(await self.until(".completed"))["transcript"] for _ in range(count)]


@asynccontextmanager
async def http(server: Running) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client of the server's HTTP."""
    async with httpx2.AsyncClient(base_url=f"http://{server.host}", timeout=30) as client:
        yield client


@asynccontextmanager
async def calling(
    server: Running,
    samples: NDArray[np.int16],
    *,
    path: str = "/v1/realtime/calls",
    channel: bool = True,
    change: Callable[[str], str] = lambda offer: offer,
    headers: Mapping[str, str] = SDP,
    pace: float = PACE,
    prepare: Callable[["Caller"], object] = lambda caller: None,
) -> AsyncGenerator[Caller]:
    """A call that is answered and connects; `change`: what becomes of the offer on its way."""
    caller = Caller(Voice(samples, pace=pace))
    if channel:
        caller.open_channel()
    prepare(caller)
    try:
        async with http(server) as client:
            offer = change(await caller.offer())
            await caller.accept(await client.post(path, content=offer, headers={**SDP, **headers}))
        await caller.connected()
        yield caller
    finally:
        await caller.peer.close()
