"""What clients do to a server in an hour: those who talk, upload, leave, stall, and send rubbish.

Each takes a `Place` and random numbers, and returns when it has done with the server. What the
server should not have answered is raised as Unexpected.
"""

import asyncio
import base64
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import httpx
from load_clients import RATE, pieces
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

PIECE = 0.1  # seconds of audio in a message
PATIENCE = 60.0  # seconds that an answer may take
DRIBBLE = 16  # pieces of an upload that never ends
FLOOD = 6000  # messages that are answered by an error each, by one who reads nothing
SMALL = 4096  # bytes that such a client's socket takes
UPLOADS = ("/v1/audio/transcriptions", "/v1/audio/translations")
RUBBISH: tuple[str | bytes, ...] = (
    "",
    "{",
    "[]",
    "null",
    '"text"',
    '{"type": 7}',
    '{"type": "no.such.event"}',
    '{"type": "input_audio_buffer.append"}',
    '{"type": "input_audio_buffer.append", "audio": "%%%"}',
    '{"type": "input_audio_buffer.append", "audio": "QQ=="}',
    '{"type": "input_audio_buffer.append", "audio": ""}',
    '{"type": "input_audio_buffer.commit"}',
    '{"type": "input_audio_buffer.clear"}',
    '{"type": "session.update", "session": {"audio": {"input": {"format": "mp3"}}}}',
    '{"type": "session.update", "session": {"audio": {"input": {"turn_detection": 5}}}}',
    '{"type": "conversation.item.retrieve", "item_id": "../../etc/passwd"}',
    '{"type": "response.create"}',
    "x" * 100_000,
    "[" * 10_000,
    b"\x00\xff" * 500,
)


class Unexpected(Exception):
    """The server did what it must not."""


class Refused(Exception):
    """The server had no room; it may say so."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the server is, and what is said to it."""

    host: str
    pcm: bytes  # 16 kHz, s16le
    clips: Mapping[str, bytes]  # file names and contents

    @property
    def realtime(self) -> str:
        """The URL of live sessions."""
        return f"ws://{self.host}/v1/realtime?intent=transcription"

    def excerpt(self, seconds: float, random: Random) -> bytes:
        """Some of the speech."""
        start = random.randrange(max(len(self.pcm) // 2 - round(seconds * RATE), 1)) * 2
        return self.pcm[start : start + round(seconds * RATE) * 2]


async def talk(place: Place, random: Random) -> None:
    """A session to its end: with server VAD, or with commits; some with all extras."""
    manual = random.random() < 0.3
    async with connect(place.realtime, proxy=None, max_size=None) as ws:
        await _let_in(ws)
        await _configure(ws, random, manual=manual)
        frames: list[str] = []
        reading = asyncio.create_task(_read(ws, frames))
        pcm = place.excerpt(random.uniform(8, 50), random)
        await _speak(ws, pcm, every=random.randrange(20, 80) if manual else 0)
        with suppress(ConnectionClosed):  # what it was closed with is looked at below
            await _send(ws, "session.close")
            async with asyncio.timeout(PATIENCE):
                await reading
    if ws.close_code != 1000:
        raise Unexpected(f"a session that was closed by its client ended with {ws.close_code}")
    committed = frames.count("input_audio_buffer.committed")
    completed = sum(frame.endswith("transcription.completed") for frame in frames)
    if committed != completed or "error" in frames:
        errors = frames.count("error")
        raise Unexpected(f"{committed} commits, {completed} transcripts, {errors} errors")


async def drop(place: Place, random: Random) -> None:
    """A session that breaks off in the middle, politely or not."""
    async with connect(place.realtime, proxy=None, max_size=None) as ws:
        await _let_in(ws)
        await _configure(ws, random, manual=random.random() < 0.5)
        reading = asyncio.create_task(_read(ws, []))
        await _speak(ws, place.excerpt(random.uniform(2, 25), random))
        if ws.close_code is not None:
            raise Unexpected(f"a session ended by itself, with {ws.close_code}")
        if random.random() < 0.7:
            ws.transport.abort()
        else:
            await ws.close()
        with suppress(ConnectionClosed):
            await reading


async def stall(place: Place, random: Random) -> None:
    """A session that speaks and asks, and reads nothing."""
    with socket.socket() as narrow:
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
        narrow.setblocking(False)
        host, port = place.host.split(":")
        await asyncio.get_running_loop().sock_connect(narrow, (host, int(port)))
        async with connect(place.realtime, proxy=None, sock=narrow, max_queue=1) as ws:
            await _speak(ws, place.excerpt(random.uniform(2, 8), random))
            with suppress(ConnectionClosed, TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    for _ in range(FLOOD):
                        await _send(ws, "no.such.event")
                    await asyncio.sleep(random.uniform(5, 20))
            ws.transport.abort()


async def garble(place: Place, random: Random) -> None:
    """Messages that mean nothing, between some that do."""
    async with connect(place.realtime, proxy=None, max_size=None) as ws:
        await _let_in(ws)
        reading = asyncio.create_task(_read(ws, []))
        with suppress(ConnectionClosed):
            for _ in range(random.randrange(10, 60)):
                await ws.send(random.choice(RUBBISH))
                audio = base64.b64encode(place.excerpt(0.1, random)).decode()
                await _send(ws, "input_audio_buffer.append", audio=audio)
                await asyncio.sleep(random.uniform(0, 0.1))
            await _send(ws, "session.close")
        async with asyncio.timeout(PATIENCE):
            await reading


async def knock(place: Place, random: Random) -> None:
    """Connections that are gone at once."""
    for _ in range(random.randrange(5, 30)):
        async with connect(place.realtime, proxy=None) as ws:
            if random.random() < 0.5:
                ws.transport.abort()


async def scribble(place: Place, random: Random) -> None:
    """Bytes that are no HTTP, or only begin like it."""
    host, port = place.host.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(random.choice((b"GET / HTTP/1.1\r\nHost: ", random.randbytes(300), b"\r\n" * 50)))
    with suppress(ConnectionError, TimeoutError):
        await writer.drain()
        async with asyncio.timeout(random.uniform(0.1, 5)):
            await reader.read()
    writer.close()


async def upload(place: Place, random: Random) -> None:
    """A file, whose text is waited for, at once or as it comes."""
    name = random.choice(sorted(place.clips))
    fields = {"model": "whisper-1", "response_format": random.choice(("json", "text", "srt"))}
    if random.random() < 0.3:
        fields |= {"stream": "true", "response_format": "json"}
    elif random.random() < 0.3:
        fields["response_format"] = "verbose_json"
    async with httpx.AsyncClient(timeout=300, trust_env=False) as client:
        files = {"file": (name, place.clips[name])}
        answer = await client.post(f"http://{place.host}{UPLOADS[0]}", data=fields, files=files)
    if answer.status_code == 429:
        raise Refused
    if answer.status_code != 200 or not answer.text:
        raise Unexpected(f"an upload was answered with {answer.status_code}: {answer.text[:200]}")


async def leave(place: Place, random: Random) -> None:
    """A file whose text nobody waits for: it ends in the middle, or after all of it was sent."""
    name = random.choice(sorted(place.clips))
    head, body = _form(name, place.clips[name])
    _, writer = await _begin(place, head)
    whole = random.random() < 0.5
    writer.write(body if whole else body[: random.randrange(len(body))])
    with suppress(ConnectionError):
        await writer.drain()
    await asyncio.sleep(random.uniform(0, 2))
    writer.transport.abort()


async def dribble(place: Place, random: Random) -> None:
    """A file that comes a little at a time, and never to its end."""
    head, body = _form("../../slow\r\n.flac", place.clips[min(place.clips)])
    _, writer = await _begin(place, head)
    size = len(body) // (2 * DRIBBLE)
    with suppress(ConnectionError):
        for number in range(DRIBBLE):
            writer.write(body[number * size : (number + 1) * size])
            await writer.drain()
            await asyncio.sleep(random.uniform(0, 1))
    writer.transport.abort()


async def rubbish(place: Place, random: Random) -> None:
    """A file that is none: the answer is 400."""
    async with httpx.AsyncClient(timeout=300, trust_env=False) as client:
        files = {"file": (f"{'../' * 9}x.wav", random.randbytes(random.randrange(1, 200_000)))}
        url = f"http://{place.host}{random.choice(UPLOADS)}"
        answer = await client.post(url, data={"model": "whisper-1"}, files=files)
    if answer.status_code == 429:
        raise Refused
    if answer.status_code != 400:
        raise Unexpected(f"rubbish was answered with {answer.status_code}: {answer.text[:200]}")


Deed = Callable[[Place, Random], Awaitable[None]]
TALKERS: Mapping[Deed, int] = {talk: 6, drop: 3}  # and how often, one against the other
PESTS: Mapping[Deed, int] = {
    upload: 6, leave: 3, garble: 3, rubbish: 2, knock: 1, stall: 1, scribble: 1, dribble: 1,
}  # fmt: skip


async def _let_in(ws: ClientConnection) -> None:
    first = json.loads(await ws.recv())
    if first["type"] == "error" and first["error"]["code"] == "rate_limit_exceeded":
        raise Refused
    if first["type"] != "session.created":
        raise Unexpected(f"the first frame was {first}")


async def _configure(ws: ClientConnection, random: Random, *, manual: bool) -> None:
    heard: dict[str, Any] = {"format": {"type": "audio/pcm", "rate": RATE}}
    if manual:
        heard["turn_detection"] = None
    session: dict[str, Any] = {"type": "transcription", "audio": {"input": heard}}
    if random.random() < 0.5:
        session["include"] = ["livecap.partial", "livecap.words"]
    await _send(ws, "session.update", session=session)


async def _speak(ws: ClientConnection, pcm: bytes, *, every: int = 0) -> None:
    """At the speed of speech; with a commit after so many pieces."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    with suppress(ConnectionClosed):
        for number, (end, piece) in enumerate(pieces(pcm, RATE), 1):
            await asyncio.sleep(begun + end - loop.time())
            audio = base64.b64encode(piece).decode()
            await _send(ws, "input_audio_buffer.append", audio=audio)
            if every and number % every == 0:
                await _send(ws, "input_audio_buffer.commit")


async def _read(ws: ClientConnection, into: list[str]) -> None:
    async for message in ws:
        into.append(json.loads(message)["type"])


async def _send(ws: ClientConnection, kind: str, **fields: Any) -> None:
    await ws.send(json.dumps({"type": kind, **fields}))


def _form(name: str, content: bytes) -> tuple[bytes, bytes]:
    """A form of one file -> the request's head and its body."""
    request = httpx.Request("POST", f"http://server{UPLOADS[0]}", files={"file": (name, content)})
    body = request.read()
    fields = "".join(f"{key}: {value}\r\n" for key, value in request.headers.items())
    return f"POST {UPLOADS[0]} HTTP/1.1\r\n{fields}\r\n".encode(), body


async def _begin(place: Place, head: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = place.host.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(head)
    return reader, writer
