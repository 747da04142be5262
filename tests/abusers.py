"""Twelve kinds of hostile clients, for the abuse test and its benchmark. Sockets, and nothing else.

Each goes on until it is cancelled, and begins anew when it is let go.
"""

import asyncio
import base64
import os
import struct
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count, cycle, islice
from random import Random

PIECE = bytes(1 << 16)
BOUNDARY = "a-boundary"
LONGEST = 20.0  # seconds that one attempt may take
REST = 0.05  # seconds until the next one


@dataclass(frozen=True, slots=True)
class Target:
    """A server, and what its attackers know."""

    host: str
    port: int
    key: str  # some of them are clients who have one
    read: str  # the path of a reader's events, with its token


@asynccontextmanager
async def _connection(
    to: Target,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(to.host, to.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def _head(method: str, path: str, *lines: str, key: str = "") -> bytes:
    said = [f"{method} {path} HTTP/1.1", "Host: localhost", *lines]
    if key:
        said.append(f"Authorization: Bearer {key}")
    return "\r\n".join([*said, "", ""]).encode()


def _upgrade(key: str = "") -> bytes:
    nonce = base64.b64encode(os.urandom(16)).decode()
    return _head(
        "GET",
        "/v1/realtime?intent=transcription",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {nonce}",
        key=key,
    )


def _text(message: bytes) -> bytes:
    """One masked frame; the mask is zeros."""
    return b"\x81\xff" + struct.pack(">Q", len(message)) + bytes(4) + message


async def _pour(writer: asyncio.StreamWriter, size: int, piece: bytes = PIECE) -> None:
    for _ in range(size // len(piece)):
        writer.write(piece)
        await writer.drain()


async def _listen(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 16):
        pass


async def keyless_frames(to: Target, chance: Random) -> None:
    """Most of a large message before anybody knows who sends it."""
    async with _connection(to) as (reader, writer):
        writer.write(_upgrade() + b"\x82\xff" + struct.pack(">Q", 20 << 20) + bytes(4))
        await _pour(writer, (20 << 20) - (1 << 16))
        await _listen(reader)


async def keyless_bodies(to: Target, chance: Random) -> None:
    """A body that goes on after its refusal."""
    async with _connection(to) as (_, writer):
        path = chance.choice(("/v1/audio/transcriptions", "/nowhere", "/v1/whip"))
        writer.write(_head("POST", path, "Content-Length: 4000000000"))
        await _pour(writer, 256 << 20)


async def slow_heads(to: Target, chance: Random) -> None:
    """A request that never gets whole."""
    async with _connection(to) as (_, writer):
        writer.write(b"GET /health HTTP/1.1\r\n")
        for number in count():
            writer.write(f"X-{number}: y\r\n".encode())
            await writer.drain()
            await asyncio.sleep(0.2)


async def silent(to: Target, chance: Random) -> None:
    """A connection for its own sake."""
    async with _connection(to) as (reader, _):
        await _listen(reader)


async def slow_bodies(to: Target, chance: Random) -> None:
    """An upload that never gets whole, by somebody with a key."""
    async with _connection(to) as (_, writer):
        kind = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
        writer.write(
            _head("POST", "/v1/audio/transcriptions", kind, "Content-Length: 99999", key=to.key)
        )
        for _ in range(1000):
            writer.write(b"-")
            await writer.drain()
            await asyncio.sleep(0.2)


def picture(side: int = 12_000) -> bytes:
    """A PNG of half a megabyte, and of half a gigabyte when it is decoded."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    pack, row = zlib.compressobj(1), bytes(1 + side * 3)
    data = b"".join(pack.compress(row) for _ in range(side)) + pack.flush()
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


class Pictures:
    """Uploads of one picture, made once."""

    def __init__(self) -> None:
        name = 'Content-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
        begin = f"--{BOUNDARY}\r\n{name}".encode()
        self._body = begin + picture() + f"\r\n--{BOUNDARY}--\r\n".encode()

    async def __call__(self, to: Target, chance: Random) -> None:
        """One upload, and its answer."""
        async with _connection(to) as (reader, writer):
            kind = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
            size = f"Content-Length: {len(self._body)}"
            path = "/v1/audio/transcriptions"
            writer.write(_head("POST", path, kind, size, "Connection: close", key=to.key))
            writer.write(self._body)
            await writer.drain()
            await _listen(reader)


async def nested_json(to: Target, chance: Random) -> None:
    """A configuration of millions of lists, by somebody with a key, who may be let in."""
    async with _connection(to) as (reader, writer):
        writer.write(_upgrade(to.key))
        await reader.readuntil(b"\r\n\r\n")
        lists = b"[]," * (chance.choice((80_000, 6_000_000)))
        writer.write(_text(b'{"type":"session.update","session":{"x":[' + lists + b"[]]}}"))
        await writer.drain()
        await asyncio.sleep(1)


async def deaf_readers(to: Target, chance: Random) -> None:
    """A reader's link, from which nothing is taken."""
    async with _connection(to) as (reader, writer):
        reader._transport.pause_reading()  # type: ignore[attr-defined]  # there is no other way
        writer.write(_head("GET", to.read))
        await asyncio.sleep(LONGEST)


async def guesses(to: Target, chance: Random) -> None:
    """Keys, one after the other."""
    async with _connection(to) as (reader, writer):
        for _ in range(50):
            writer.write(_head("GET", "/v1/models", key=f"{chance.getrandbits(64):x}"))
            await writer.drain()
            await reader.readuntil(b"}}")


async def candidates(to: Target, chance: Random) -> None:
    """An offer with thousands of addresses."""
    lines = (f"a=candidate:1 1 udp 1 10.{n >> 8}.{n & 255}.1 9 typ host" for n in range(4000))
    offer = "\r\n".join(["v=0", "m=audio 9 UDP/TLS/RTP/SAVPF 111", *lines, ""]).encode()
    async with _connection(to) as (reader, writer):
        size = f"Content-Length: {len(offer)}"
        kind = "Content-Type: application/sdp"
        writer.write(_head("POST", "/v1/whip", kind, size, "Connection: close", key=to.key) + offer)
        await _listen(reader)


async def garbage(to: Target, chance: Random) -> None:
    """Bytes at random, to HTTP and to a WebSocket that is let in."""
    async with _connection(to) as (reader, writer):
        if chance.random() < 0.5:
            writer.write(_upgrade(to.key))
            await reader.readuntil(b"\r\n\r\n")
        writer.write(chance.randbytes(10_000))
        await writer.drain()
        await _listen(reader)


async def documents(to: Target, chance: Random) -> None:
    """Everything that a reader can have made."""
    base, _, token = to.read.partition("/events?")
    async with _connection(to) as (reader, writer):
        form = chance.choice(("txt", "srt", "vtt", "json", "nothing"))
        writer.write(_head("GET", f"{base}.{form}?{token}", "Connection: close"))
        await _listen(reader)


def kinds() -> Sequence[Callable[[Target, Random], Awaitable[None]]]:
    """All twelve."""
    return (
        keyless_frames,
        keyless_bodies,
        slow_heads,
        silent,
        slow_bodies,
        Pictures(),
        nested_json,
        deaf_readers,
        guesses,
        candidates,
        garbage,
        documents,
    )


async def attack(to: Target, number: int, seconds: float) -> int:
    """So many connections at once for so long -> how many attempts there were."""
    attempts = 0

    async def go_on(kind: Callable[[Target, Random], Awaitable[None]], seed: int) -> None:
        nonlocal attempts
        chance = Random(seed)
        while True:
            attempts += 1
            with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                async with asyncio.timeout(LONGEST):
                    await kind(to, chance)
            await asyncio.sleep(REST)

    all_kinds = islice(cycle(kinds()), number)
    tasks = [asyncio.create_task(go_on(kind, seed)) for seed, kind in enumerate(all_kinds)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    for one in found:
        if isinstance(one, Exception):
            raise one
    return attempts
