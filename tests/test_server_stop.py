"""uvicorn as the server runs it, over real sockets: how it stops, TLS, and clients that dawdle."""

import asyncio
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from server_parts import PATIENCE, ROUTES, Loader, application
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from livecap.api.options import ServeConfig
from livecap.api.server.app import build
from livecap.api.server.listen import bind, counted
from livecap.api.server.tls import PUBLIC, Names, context
from livecap.api.server.uvicorn_http import PromptHead
from livecap.api.server.uvicorn_server import MESSAGE, CaptionServer, settings
from livecap.api.server.uvicorn_websocket import let_in
from livecap.api.sessions.state import AppState


class Running:
    """A server in this process, and what a test does with it meanwhile."""

    def __init__(self, server: CaptionServer, sockets: list[socket.socket]) -> None:
        self.server = server
        self.sockets = sockets
        self.port = sockets[0].getsockname()[1]

    def stop(self) -> None:
        self.server.handle_exit(signal.SIGTERM, None)

    def socket(self, path: str = "/v1/realtime") -> connect:
        return connect(f"ws://127.0.0.1:{self.port}{path}", max_size=None, proxy=None)

    async def ask(
        self, text: str, *, secure: ssl.SSLContext | None = None, name: str | None = None
    ) -> bytes:
        """Raw HTTP, until the server closes."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=secure, server_hostname=name
        )
        writer.write(text.encode())
        try:
            return await reader.read()
        finally:
            writer.close()


def run(
    meanwhile: Callable[[Running], Awaitable[None]],
    realtime: Callable[[AppState, WebSocket], Awaitable[None]] | None = None,
    *,
    slow: Callable[[Request], Awaitable[Response]] | None = None,
    load: Loader | None = None,
    secure: ssl.SSLContext | None = None,
    grace: int = 20,
    leave: Callable[[int], object] = lambda status: None,
    patience: float = 30.0,
) -> None:
    """A server until `meanwhile` has had it stopped."""

    class Hasty(PromptHead):
        pass

    Hasty.patience = patience
    warm = asyncio.Event()
    parts, _ = application(ServeConfig(grace=grace), load=load)

    async def session(websocket: WebSocket) -> None:
        assert realtime
        await realtime(parts, websocket)

    routes = [*ROUTES, Route("/health/slow", slow)] if slow else ROUTES
    app = build(parts, session, routes, lambda task: warm.set())
    config = settings(app, secure, parts.crowd)
    config.http = Hasty
    server = CaptionServer(config, parts.drain, grace, leave)
    sockets = counted(bind("127.0.0.1", 0), parts.crowd, secure=secure is not None)

    async def both() -> None:
        serving = asyncio.create_task(server.serve(sockets=sockets))
        try:
            async with asyncio.timeout(PATIENCE):
                if not (load and load.held):
                    await warm.wait()
                await meanwhile(Running(server, sockets))
                await serving
        finally:
            serving.cancel()

    try:
        asyncio.run(both())
    finally:
        for one in sockets:
            one.close()


GET = "GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def lasting(parts: AppState, websocket: WebSocket) -> None:
    """A session that has something to say when the server stops."""
    await websocket.accept()
    await websocket.send_text("begun")
    done = asyncio.Event()

    async def finish() -> None:
        await websocket.send_text("the last words")
        await websocket.close(1012)
        done.set()

    with parts.drain.hook(finish):
        await done.wait()


async def said(socket: ClientConnection) -> tuple[list[Any], int | None]:
    """Everything until the end, and how it was closed."""
    found: list[Any] = []
    try:
        while True:
            found.append(await socket.recv())
    except ConnectionClosed as closed:
        return found, closed.rcvd.code if closed.rcvd else None


def test_a_stop_delivers_the_last_words_and_closes_with_1012() -> None:
    async def meanwhile(running: Running) -> None:
        async with running.socket() as one, running.socket() as two:
            assert [await one.recv(), await two.recv()] == ["begun", "begun"]
            running.stop()
            for socket in (one, two):
                assert await said(socket) == (["the last words"], 1012)

    run(meanwhile, lasting)


def test_sessions_that_do_not_finish_are_not_waited_for() -> None:
    async def stuck(parts: AppState, websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text("begun")
        never = asyncio.Event()

        async def finish() -> None:
            await never.wait()

        with parts.drain.hook(finish):
            while (await websocket.receive())["type"] != "websocket.disconnect":
                pass

    async def meanwhile(running: Running) -> None:
        async with running.socket() as socket:
            assert await socket.recv() == "begun"
            running.stop()
            assert await said(socket) == ([], 1012)

    run(meanwhile, stuck, grace=0)


def test_nobody_is_let_in_while_the_server_stops() -> None:
    calm, closed = asyncio.Event(), asyncio.Event()

    async def session(parts: AppState, websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text("begun")

        async def finish() -> None:
            await calm.wait()
            await websocket.close(1012)
            closed.set()

        with parts.drain.hook(finish):
            await closed.wait()

    async def meanwhile(running: Running) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        with closing(writer):
            async with running.socket() as socket:
                assert await socket.recv() == "begun"
                running.stop()
                refused = False
                while not refused:
                    try:
                        (await asyncio.open_connection("127.0.0.1", running.port))[1].close()
                    except OSError:
                        refused = True
                writer.write(GET.format("/health/ready").encode())
                assert b"503 Service Unavailable" in await reader.read()
                calm.set()
                assert await said(socket) == ([], 1012)

    run(meanwhile, session)


def test_answers_under_way_are_finished() -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        asked.set()
        await go.wait()
        return PlainTextResponse("the whole text")

    async def meanwhile(running: Running) -> None:
        asking = asyncio.create_task(running.ask(GET.format("/health/slow")))
        await asked.wait()
        running.stop()
        while not running.server.should_exit:
            await asyncio.sleep(0)
        go.set()
        assert (await asking).endswith(b"the whole text")

    run(meanwhile, slow=slow)


def test_a_second_signal_leaves_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    left: list[int] = []

    async def meanwhile(running: Running) -> None:
        running.stop()
        assert left == []
        running.stop()
        assert left == [128 + signal.SIGTERM]

    run(meanwhile, leave=left.append)
    assert "once more to leave at once" in capsys.readouterr().err


def test_a_model_that_is_still_loading_does_not_hold_up_a_stop() -> None:
    load = Loader(held={"tiny.en"})

    async def meanwhile(running: Running) -> None:
        assert b"200 OK" in await running.ask(GET.format("/health"))
        assert b"model_loading" in await running.ask(GET.format("/health/ready"))
        running.stop()

    run(meanwhile, load=load)
    load.go.set()


def test_messages_may_be_as_large_as_the_largest_audio() -> None:
    async def count(parts: AppState, websocket: WebSocket) -> None:
        await websocket.accept()
        let_in(websocket)
        message = await websocket.receive()
        if message["type"] == "websocket.receive":
            await websocket.send_text(str(len(message["text"])))
            await websocket.receive()

    async def meanwhile(running: Running) -> None:
        async with running.socket() as socket:
            await socket.send("x" * MESSAGE)
            assert await socket.recv() == str(MESSAGE)
        async with running.socket() as socket:
            with suppress(ConnectionClosed):  # it may be refused before it is all there
                await socket.send("x" * (MESSAGE + 1))
            assert await said(socket) == ([], 1009)
        running.stop()

    run(meanwhile, count)
    assert MESSAGE >= 22 << 20


def test_over_tls(tmp_path: Path) -> None:
    names = Names(("localhost",), ("127.0.0.1",))
    secure = context("auto", tmp_path, names, datetime.now(UTC))

    async def meanwhile(running: Running) -> None:
        trusting = ssl.create_default_context(cafile=tmp_path / PUBLIC)
        answer = await running.ask(GET.format("/health"), secure=trusting, name="localhost")
        assert b"200 OK" in answer
        assert b"uvicorn" not in answer
        running.stop()

    run(meanwhile, secure=secure)


@pytest.mark.parametrize("head", ["", "GET /health HTTP/1.1\r\nHost: local"])
def test_a_head_that_does_not_come_is_not_waited_for(head: str) -> None:
    async def meanwhile(running: Running) -> None:
        assert await running.ask(head) == b""
        running.stop()

    run(meanwhile, patience=0.05)


def test_neither_is_the_next_one_on_a_connection() -> None:
    async def meanwhile(running: Running) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        with closing(writer):
            for _ in range(2):
                writer.write(GET.format("/health").replace("Connection: close\r\n", "").encode())
                assert await reader.readuntil(b"}")
            writer.write(b"GET /hea")
            assert await reader.read() == b""
        running.stop()

    run(meanwhile, patience=0.05)


def test_a_socket_is_not_taken_for_a_head_that_does_not_come() -> None:
    go = asyncio.Event()

    async def wait(parts: AppState, websocket: WebSocket) -> None:
        await websocket.accept()
        await go.wait()
        await websocket.send_text("still there")
        await websocket.close()

    async def meanwhile(running: Running) -> None:
        async with running.socket() as socket:
            for _ in range(2):  # each takes as long as heads are waited for
                assert await running.ask("") == b""
            go.set()
            assert await said(socket) == (["still there"], 1000)
        running.stop()

    run(meanwhile, wait, patience=0.05)
