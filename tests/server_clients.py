"""A client of /v1/realtime on a real socket, which checks every frame, and what it has to say."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import numpy as np
import realtime_frames
import tones
from command import jfk
from numpy.typing import NDArray
from server_fixture import PATIENCE, Running
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from livecap.events import RATE

Json = dict[str, Any]
Result = TypeVar("Result")

MS = RATE // 1000
REALTIME = "/v1/realtime?intent=transcription"
VAD = {"type": "server_vad"}


def run(work: Callable[[], Awaitable[Result]]) -> Result:
    """Run it to its end, which comes."""

    async def bounded() -> Result:
        async with asyncio.timeout(PATIENCE):
            return await work()

    return asyncio.run(bounded())


def utterance(
    seed: int, count: int = 5, *, after: int = 1000, rate: int = RATE
) -> tuple[bytes, str]:
    """Some words, and silence of so many ms -> PCM as events carry it, and their text."""
    words = tones.some(seed, count)
    return pcm16(tones.say(words, after=after, rate=rate)), tones.text(words)


def pcm16(samples: NDArray[np.int16]) -> bytes:
    """Samples -> bytes."""
    return samples.astype("<i2").tobytes()


def speech(rate: int = RATE, *, silence: int = 1000) -> bytes:
    """The README's recording, and so many ms of silence, at any rate."""
    pcm = np.concatenate([jfk(), np.zeros(silence * MS, np.float32)])
    count = len(pcm) * rate // RATE
    pcm = np.fft.irfft(np.fft.rfft(pcm), count) * (count / len(pcm))
    return pcm16(np.rint(pcm * 32767).clip(-32768, 32767).astype(np.int16))


def pieces(raw: bytes, size: int) -> list[bytes]:
    """Audio as it is sent."""
    return [raw[at : at + size] for at in range(0, len(raw), size)]


def encoded(raw: bytes) -> str:
    """Bytes -> base64."""
    return base64.b64encode(raw).decode()


class Socket:
    """One connection. All frames of the GA dialect are checked as they come."""

    def __init__(self, connection: ClientConnection, *, ga: bool = True) -> None:
        self.connection = connection
        self.frames: list[Json] = []
        self._ga = ga

    async def send(self, kind: str, **fields: Any) -> None:
        """One client event."""
        await self.connection.send(json.dumps({"type": kind, **fields}))

    async def append(self, raw: bytes, size: int = 6400) -> None:
        """Audio, in pieces of so many bytes."""
        for piece in pieces(raw, size):
            await self.send("input_audio_buffer.append", audio=encoded(piece))

    async def commit(self, **fields: Any) -> None:
        """Commit what was appended."""
        await self.send("input_audio_buffer.commit", **fields)

    async def receive(self) -> Json:
        """The next frame."""
        frame: Json = json.loads(await self.connection.recv())
        if self._ga:
            realtime_frames.check(frame)
        self.frames.append(frame)
        return frame

    async def until(self, kind: str) -> Json:
        """The next frame whose type ends like that. Fails at errors, unless they are wanted."""
        while not (frame := await self.receive())["type"].endswith(kind):
            assert frame["type"] != "error", frame
        return frame

    async def only(self, kind: str) -> Json:
        """The next frame, which is of that type."""
        frame = await self.receive()
        assert frame["type"] == kind, frame
        return frame

    async def configure(self, *, include: Sequence[str] = (), **heard: Any) -> Json:
        """Update `audio.input`, at 16 kHz -> the session it leads to."""
        heard = {"format": {"type": "audio/pcm", "rate": RATE}, **heard}
        session: Json = {"type": "transcription", "audio": {"input": heard}}
        if include:
            session["include"] = list(include)
        await self.send("session.update", session=session)
        told: Json = (await self.only("session.updated"))["session"]
        return told

    async def say(self, raw: bytes) -> str:
        """Append audio and commit it -> its transcript, when it is there."""
        await self.append(raw)
        await self.commit()
        text: str = (await self.until(".completed"))["transcript"]
        return text

    async def code(self) -> int:
        """How it is closed, after whatever is still said."""
        try:
            while True:
                await self.receive()
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 1006

    def finished(self) -> None:
        """Nothing is awaited any more, and all came in order."""
        realtime_frames.check_order(self.frames, finished=True)

    @property
    def kinds(self) -> list[str]:
        """What came, each by the last part of its type."""
        return [frame["type"].rsplit(".", 1)[-1] for frame in self.frames]

    @property
    def transcripts(self) -> list[str]:
        """The final texts, in order."""
        return [frame["transcript"] for frame in self.frames if "transcript" in frame]


@asynccontextmanager
async def client(
    server: Running, path: str = REALTIME, *, ga: bool = True, created: bool = True, **options: Any
) -> AsyncGenerator[Socket]:
    """Connect, and take the first frame. `options` are those of websockets."""
    url = f"ws://{server.host}{path}"
    async with connect(url, proxy=None, max_size=None, **options) as connection:
        socket = Socket(connection, ga=ga)
        if created:
            frame = await socket.receive()
            assert frame["type"].endswith("session.created"), frame
        yield socket


@asynccontextmanager
async def manual(server: Running, **heard: Any) -> AsyncGenerator[Socket]:
    """A client without turn detection, at 16 kHz."""
    async with client(server) as socket:
        session = await socket.configure(turn_detection=None, **heard)
        assert session["audio"]["input"]["turn_detection"] is None
        yield socket


async def ask(server: Running, text: str) -> bytes:
    """Raw HTTP, until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(text.encode())
        return await reader.read()
    finally:
        writer.close()


@asynccontextmanager
async def neighbour(server: Running) -> AsyncGenerator[None]:
    """Somebody who goes on meanwhile: gets every word, and finds the server in good health."""
    over, done = False, 0

    async def go_on() -> None:
        nonlocal done
        async with manual(server) as socket:
            while not over:
                raw, text = utterance(done)
                assert await socket.say(raw) == text
                assert b"200 OK" in await ask(server, HEALTH)
                done += 1
                await asyncio.sleep(0.02)
            socket.finished()

    going = asyncio.create_task(go_on())
    try:
        yield
        before = done
        while done < before + 2 and not going.done():  # one of them has begun after all that
            await asyncio.sleep(0.002)
    finally:
        over = True
        await going


HEALTH = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
