"""Those who are not let in: what they may send, and how long they stay."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress

import pytest
from server_clients import REALTIME, client, run, utterance
from server_fixture import Running, serving, until
from uploads import BOUNDARY

from livecap.api.access.refusal_pace import BURST
from livecap.api.server.uvicorn_http import PromptHead
from livecap.api.server.uvicorn_websocket import LEFT, FirmSocket

KEY = {"Authorization": "Bearer right"}
FRAME = 20 << 20  # bytes of a message that nobody who isn't let in needs
PIECE = bytes(1 << 16)
SOON = 8.0  # seconds, below those after which uvicorn gives up a close
UPGRADE = (
    f"GET {REALTIME} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(keys=("right",)) as running:
        yield running
        running.settle()


def sockets(server: Running) -> list[FirmSocket]:
    """Those that are open."""
    found = list(server.server.server_state.connections)
    return [one for one in found if isinstance(one, FirmSocket)]


def held(server: Running) -> int:
    """Bytes of messages that are not whole."""
    return sum(len(one.conn.reader.buffer) for one in sockets(server))


async def flood(server: Running) -> int:
    """Most of a large message by one without a key -> how many bytes were taken off its hands."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    sent = 0
    try:
        writer.write(UPGRADE.encode())
        assert b" 101 " in await reader.readline()
        writer.write(b"\x82\xff" + (FRAME + 1).to_bytes(8, "big") + bytes(4))
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(SOON):
                while sent < FRAME:
                    writer.write(PIECE)
                    await writer.drain()
                    sent += len(PIECE)
                while await reader.read(1 << 16):
                    pass
        return sent
    finally:
        writer.transport.abort()


def test_who_has_no_key_costs_no_memory(server: Running) -> None:
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, held(server))
            await asyncio.sleep(0.01)

    async def work() -> None:
        watching = asyncio.create_task(watch())
        begun = asyncio.get_running_loop().time()
        sent = await asyncio.gather(*(flood(server) for _ in range(12)))
        assert asyncio.get_running_loop().time() - begun < SOON
        watching.cancel()
        assert max(sent) < FRAME

    run(work)
    assert most < 1 << 20
    server.settle()


def test_who_has_no_key_still_reads_why(server: Running) -> None:
    """Although it sends audio at once, as clients do."""

    async def work() -> None:
        raw, _ = utterance(1, 50)
        for first in (b"", raw):
            async with client(server, created=False) as socket:
                with suppress(Exception):
                    await socket.append(first, 100_000)
                assert (await socket.receive())["error"]["code"] == "invalid_api_key"
                assert await socket.code() == 3000

    run(work)
    server.settle()


def test_who_has_no_key_and_sends_on_still_reads_why(server: Running) -> None:
    """All that the system takes, before it reads anything."""

    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        frame = b"\x82\xfe" + (1000).to_bytes(2, "big") + bytes(4 + 1000)
        try:
            reader._transport.pause_reading()  # type: ignore[attr-defined]  # no other way
            writer.write(UPGRADE.encode())
            until(lambda: any(one.close_sent for one in sockets(server)))
            (one,) = sockets(server)
            big = b"\x82\xff" + FRAME.to_bytes(8, "big") + bytes(4)
            writer.write(frame + big + bytes(4 << 20))
            until(lambda: one.poured > LEFT)
            assert not one.transport.is_closing()
            reader._transport.resume_reading()  # type: ignore[attr-defined]
            told = await reader.readuntil(b"invalid_request_error.invalid_api_key")
            assert told.startswith(b"HTTP/1.1 101 ")
            assert b'"code":"invalid_api_key"' in told
        finally:
            writer.transport.abort()

    run(work)
    server.settle()


def test_who_is_let_in_may_send_much(server: Running) -> None:
    async def work() -> None:
        raw, text = utterance(2, 40)
        async with client(server, additional_headers=KEY) as socket:
            await socket.configure(turn_detection=None)
            await socket.append(raw, len(raw))
            await socket.commit()
            assert (await socket.until(".completed"))["transcript"] == text

    run(work)
    server.settle()


def test_half_a_message_is_freed_with_its_connection(server: Running) -> None:
    """At once, and not when the garbage collector comes to it."""

    async def work() -> None:
        async with client(server, additional_headers=KEY) as socket:
            (one,) = sockets(server)
            head = b"\x82\xff" + FRAME.to_bytes(8, "big") + bytes(4)
            socket.connection.transport.write(head + bytes(1 << 20))
            while len(one.conn.reader.buffer) < 1 << 20:
                await asyncio.sleep(0.005)
            socket.connection.transport.abort()
            while one in server.server.server_state.connections:
                await asyncio.sleep(0.005)
            assert not one.conn.reader.buffer

    run(work)
    server.settle()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("POST /v1/audio/transcriptions HTTP/1.1\r\n", 401),
        ("GET /v1/models HTTP/1.1\r\n", 401),
        ("POST /v1/nowhere HTTP/1.1\r\nAuthorization: Bearer right\r\n", 404),
        ("POST /health HTTP/1.1\r\n", 405),
        ("GET /health HTTP/1.1\r\n", 200),
        ("POST /v1/realtime/client_secrets HTTP/1.1\r\nAuthorization: Bearer right\r\n", 413),
        ("POST /v1/whip HTTP/1.1\r\nAuthorization: Bearer right\r\n", 415),
        (
            "POST /v1/audio/transcriptions HTTP/1.1\r\nAuthorization: Bearer right\r\n"
            f"Content-Type: multipart/form-data; boundary={BOUNDARY.decode()}\r\n",
            400,
        ),
    ],
)
@pytest.mark.parametrize("size", ["Content-Length: 400000000", "Transfer-Encoding: chunked"])
def test_nobody_is_listened_to_after_the_answer(
    server: Running, head: str, status: int, size: str
) -> None:
    """Hundreds of megabytes are on their way. It is answered, and then closed."""

    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        chunk = b"%x\r\n%s\r\n" % (len(PIECE), PIECE) if "chunked" in size else PIECE
        sent, told = 0, bytearray()

        async def read() -> None:
            with suppress(ConnectionError):
                while piece := await reader.read(1 << 16):
                    told.extend(piece)

        reading = asyncio.create_task(read())
        try:
            writer.write(f"{head}Host: localhost\r\n{size}\r\n\r\n".encode())
            with suppress(ConnectionError):
                while sent < 64 << 20:
                    writer.write(chunk)
                    await writer.drain()
                    sent += len(chunk)
            await reading
        finally:
            writer.transport.abort()
        assert sent < 32 << 20
        assert told.startswith(f"HTTP/1.1 {status} ".encode())
        assert b"\r\nconnection: close\r\n" in told.lower()
        assert status == 200 or json.loads(bytes(told).rpartition(b"\r\n\r\n")[2])["error"]

    run(work)
    server.settle()


def test_of_an_address_that_is_refused_again_and_again_nothing_more_is_read() -> None:
    """Of the first ones some megabytes are, so that they find out. All of them get the answer."""

    async def work(server: Running) -> None:
        read: list[int] = []

        def poured(self: PromptHead, data: bytes) -> None:
            read[-1] += len(data)
            h11_received(self, data)

        h11_received = PromptHead.data_received
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PromptHead, "data_received", poured)
            for _ in range(2):
                read.append(0)
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\n")
                writer.write(b"Content-Length: 400000000\r\n\r\n" + bytes(16 << 20))
                assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
                with suppress(ConnectionError):
                    await reader.read()
                writer.transport.abort()
                for _ in range(2 * int(BURST)):
                    server.parts.crowd.refusals.refuse("127.0.0.1")
        assert read[0] > 2 << 20
        assert read[1] < 1 << 20

    with serving(keys=("right",)) as server:
        run(lambda: work(server))
        server.settle()


def test_a_connection_is_kept_after_a_small_body(server: Running) -> None:
    async def work() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for _ in range(3):
            writer.write(
                b"POST /v1/nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n"
            )
            writer.write(b"{}")
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 401 ")
            size = next(line for line in answer.lower().split(b"\r\n") if b"content-length" in line)
            await reader.readexactly(int(size.split()[1]))
        writer.close()

    run(work)
    server.settle()


def test_frames_before_the_answer_wait_for_it(server: Running) -> None:
    """Nobody has to send them so early; who does breaks nothing, and is let in or not."""

    async def work() -> None:
        for key in ("right", "wrong"):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = UPGRADE.removesuffix("\r\n") + f"Authorization: Bearer {key}\r\n\r\n"
            writer.write(head.encode())
            await writer.drain()
            for _ in range(20):
                writer.write(b"\x82\xff" + (FRAME + 1).to_bytes(8, "big") + bytes(4) + PIECE)
            with suppress(ConnectionError):
                await writer.drain()
                assert b" 101 " in await reader.readline()
            writer.transport.abort()

    run(work)
    server.settle()
