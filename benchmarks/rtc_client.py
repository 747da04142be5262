"""A WebRTC client that speaks at the speed of speech, by aiortc, and notes what it is told."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import httpx
import numpy as np
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCPeerConnection,
    RTCSessionDescription,
)
from av import AudioFrame
from numpy.typing import NDArray

RATE = 48_000  # Hz: Opus
FRAME = RATE // 50  # samples of a packet
CALLS = "/v1/realtime/calls"
PATIENCE = 60.0  # seconds until the session begins, and from the end of speech to the last word

Samples = NDArray[np.int16]


class Voice(MediaStreamTrack):
    """Samples when it is their time, from when it may begin; then silence."""

    kind = "audio"

    def __init__(self, samples: Samples) -> None:
        super().__init__()
        self._samples = samples
        self._at = 0
        self.begun = 0.0  # time.perf_counter() of the first sample
        self.late = 0.0  # seconds that this client itself was behind, at most
        self.may_begin = asyncio.Event()
        self.is_over = asyncio.Event()

    async def recv(self) -> AudioFrame:
        """The next 20 ms."""
        await self.may_begin.wait()
        self.begun = self.begun or time.perf_counter()
        due = self.begun + self._at / RATE
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        self.late = max(self.late, time.perf_counter() - due)
        said = self._samples[self._at : self._at + FRAME]
        pcm = np.zeros(FRAME, np.int16)
        pcm[: len(said)] = said
        frame = AudioFrame.from_ndarray(pcm[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE, self._at, Fraction(1, RATE)
        self._at += FRAME
        if self._at >= len(self._samples):
            self.is_over.set()
        return frame


@dataclass(slots=True)
class Told:
    """What came of a call."""

    session: str = ""  # its id
    finals: list[dict[str, Any]] = field(default_factory=list)  # `completed`, with the moment `at`
    problems: list[str] = field(default_factory=list)


class Call:
    """One call, from its offer to its hang-up. Moments are seconds since the voice began."""

    def __init__(self, base: str, voice: Voice) -> None:
        """`base`: http://HOST:PORT."""
        self.voice = voice
        self.told = Told()
        self.has_begun = asyncio.Event()
        self.is_closed = asyncio.Event()
        self._base = base
        self._peer = RTCPeerConnection(RTCConfiguration([]))
        self._peer.addTrack(voice)
        self._channel = self._peer.createDataChannel("oai-events")
        self._channel.on("message", self._take)
        self._channel.on("close", self.is_closed.set)

    async def open(self) -> None:
        """Connect, and have words with their times."""
        await self._peer.setLocalDescription(await self._peer.createOffer())
        async with httpx.AsyncClient(base_url=self._base, trust_env=False) as web:
            answer = await web.post(
                CALLS,
                content=self._peer.localDescription.sdp,
                headers={"Content-Type": "application/sdp"},
                timeout=PATIENCE,
            )
        answer.raise_for_status()
        await self._peer.setRemoteDescription(RTCSessionDescription(answer.text, "answer"))
        async with asyncio.timeout(PATIENCE):
            await self.has_begun.wait()
        session = {"type": "transcription", "include": ["livecap.words"]}
        self._send({"type": "session.update", "session": session})

    async def speak(self) -> None:
        """All of it, until the last word has been told."""
        self.voice.may_begin.set()
        await self.voice.is_over.wait()
        self._send({"type": "session.close"})
        async with asyncio.timeout(PATIENCE):
            await self.is_closed.wait()

    async def close(self) -> None:
        """Free everything."""
        await self._peer.close()

    def _send(self, event: dict[str, Any]) -> None:
        self._channel.send(json.dumps(event))

    def _take(self, message: str) -> None:
        event = json.loads(message)
        kind = event["type"]
        if kind == "session.created":
            self.told.session = event["session"]["id"]
            self.has_begun.set()
        elif kind.endswith(".completed"):
            self.told.finals.append(event | {"at": time.perf_counter() - self.voice.begun})
        elif kind == "error" or kind.endswith(".failed"):
            self.told.problems.append(str(event["error"]))
