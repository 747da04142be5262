"""Servers that are not livecap's: some speak OpenAI's API all the same, and some don't."""

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest
from remote_pair import check_times, silence
from test_remote_stream import QUICK, listening
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from livecap.client.wire import Wanted
from livecap.errors import LivecapError
from livecap.events import RATE, Caption, Silence, Word

MS = RATE // 1000
TRANSCRIPTION = "conversation.item.input_audio_transcription"

Handler = Callable[[ServerConnection], Awaitable[None]]
Refuse = Callable[[ServerConnection, Request], Response | None]


@contextmanager
def sockets(
    handler: Handler, refuse: Refuse | None = None, secure: ssl.SSLContext | None = None
) -> Iterator[int]:
    """A server of WebSockets in a thread -> its port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="other")
    thread.start()

    async def begin() -> Server:
        return await serve(handler, "127.0.0.1", 0, process_request=refuse, ssl=secure)

    async def end(server: Server) -> None:
        server.close()
        await server.wait_closed()

    server = asyncio.run_coroutine_threadsafe(begin(), loop).result(30)
    try:
        yield next(iter(server.sockets)).getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(end(server), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Plain:
    """Speaks the API as OpenAI documents it, and hears "hello there" once 2.5 s have come."""

    def __init__(self, *, commits: bool) -> None:
        self.commits = commits  # a last commit makes an item; otherwise there is nothing to commit
        self.updates: list[dict[str, Any]] = []
        self.samples = 0
        self.closed: int | None = None

    async def __call__(self, socket: ServerConnection) -> None:
        self.samples, is_heard = 0, False
        await self.say(socket, "session.created", session={"type": "transcription"})
        with suppress(ConnectionClosed):
            async for message in socket:
                event = json.loads(message)
                if event["type"] == "session.update":
                    self.updates.append(event["session"])
                    await self.say(socket, "session.updated", session=event["session"])
                elif event["type"] == "input_audio_buffer.append":
                    self.samples += len(base64.b64decode(event["audio"], validate=True)) // 2
                else:
                    await self.end(socket, event)
                if self.samples >= 60_000 and not is_heard:
                    is_heard = True
                    await self.hear(socket)
        self.closed = socket.close_code

    async def hear(self, socket: ServerConnection) -> None:
        buffer = "input_audio_buffer."
        await self.say(socket, f"{buffer}speech_started", item_id="a", audio_start_ms=500)
        await self.say(socket, f"{buffer}speech_stopped", item_id="a", audio_end_ms=2500)
        await self.say(socket, f"{buffer}committed", item_id="a", previous_item_id=None)
        await self.say(socket, "conversation.item.added", item={"id": "a"})
        for delta in ("hello", " there"):
            await self.say(socket, f"{TRANSCRIPTION}.delta", item_id="a", delta=delta)
        await self.say(socket, f"{TRANSCRIPTION}.completed", item_id="a", transcript="hello there")

    async def end(self, socket: ServerConnection, event: dict[str, Any]) -> None:
        if event["type"] != "input_audio_buffer.commit":
            await self.error(socket, "invalid_value", "Unknown type", event)
        elif self.commits:
            await self.say(socket, "input_audio_buffer.committed", item_id="b")
            text = f"{TRANSCRIPTION}.completed"
            await self.say(socket, text, item_id="b", transcript="and this")
        else:
            await self.error(socket, "input_audio_buffer_commit_empty", "Empty", event)

    async def error(
        self, socket: ServerConnection, code: str, message: str, event: dict[str, Any]
    ) -> None:
        error = {"type": "invalid_request_error", "code": code, "message": message}
        await self.say(socket, "error", error=error | {"event_id": event.get("event_id")})

    async def say(self, socket: ServerConnection, kind: str, **fields: Any) -> None:
        await socket.send(json.dumps({"type": kind, "event_id": "event_1", **fields}))


@pytest.mark.parametrize("commits", [True, False])
def test_a_server_that_knows_nothing_of_livecap(commits: bool) -> None:
    plain = Plain(commits=commits)
    with sockets(plain) as port, listening(port, Wanted(model="other")) as listener:
        listener.say(silence(3000))
        listener.until(lambda: listener.words == ["hello", "there"])
        assert listener.events[0] == Caption(0, 500 * MS, 2500 * MS, (), "hello", final=False)
        assert Silence(0, 500 * MS) in listener.events
        words = (Word("hello"), Word(" there"))
        assert listener.events[-1] == Caption(0, 500 * MS, 2500 * MS, words)
        listener.say(silence(1000))
        listener.finish()
        assert listener.words == ["hello", "there", *(["and", "this"] if commits else [])]
        check_times(listener.events, 4 * RATE)
        assert listener.notices == []
    assert plain.samples == pytest.approx(4 * 24_000, abs=50)
    assert plain.updates[0]["audio"]["input"]["transcription"] == {"model": "other"}
    assert len(plain.updates) == 1
    assert plain.closed == 1000


def test_what_it_says_is_passed_on() -> None:
    class Chatty(Plain):
        async def hear(self, socket: ServerConnection) -> None:
            await self.error(socket, "quota", "You have little money left", {})
            await super().hear(socket)

    with sockets(Chatty(commits=False)) as port, listening(port) as listener:
        listener.say(silence(3000))
        listener.finish()
        assert listener.words == ["hello", "there"]
        assert listener.told("says: You have little money left")


def test_one_that_does_not_answer_at_the_end_is_not_waited_for_without_end() -> None:
    class Mute(Plain):
        async def end(self, socket: ServerConnection, event: dict[str, Any]) -> None:
            pass

    patience = replace(QUICK, answer=0.1, ending=0.3)
    with sockets(Mute(commits=False)) as port, listening(port, patience=patience) as listener:
        listener.say(silence(3000))
        listener.until(lambda: listener.words == ["hello", "there"])
        listener.stream.finish()
        with pytest.raises(LivecapError, match="what was said last is not captioned"):
            listener.until(lambda: listener.stream.is_done)


# -- those that don't ---------------------------------------------------------------------------


def failure(port: int, **patience: float) -> str:
    with listening(port, patience=replace(QUICK, **patience)) as listener:  # type: ignore[arg-type]  # all are numbers
        listener.say(silence(1000))
        with pytest.raises(LivecapError) as told:
            listener.until(lambda: listener.stream.is_done)
    return str(told.value)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (HTTPStatus.NOT_FOUND, "nothing at that address (404)"),
        (HTTPStatus.FORBIDDEN, "lets nobody in there (403)"),
        (HTTPStatus.UNAUTHORIZED, "refuses the key (401)"),
        (HTTPStatus.OK, "answers with status 200"),
        (HTTPStatus.FOUND, "answers with status 302"),
    ],
)
def test_statuses_instead_of_a_socket(status: HTTPStatus, told: str) -> None:
    async def never(socket: ServerConnection) -> None:
        pytest.fail("it was refused")

    def refuse(socket: ServerConnection, request: Request) -> Response:
        assert request.path.startswith("/v1/realtime?intent=transcription")
        return socket.respond(status, "no\n")

    with sockets(never, refuse) as port:
        assert told in failure(port)


def test_a_server_that_sends_clients_elsewhere() -> None:
    """Over TLS, for which this client has no certificates: that is not what was asked for."""

    async def never(socket: ServerConnection) -> None:
        pytest.fail("it was refused")

    def refuse(socket: ServerConnection, request: Request) -> Response:
        response = socket.respond(HTTPStatus.FOUND, "there\n")
        response.headers["Location"] = "wss://127.0.0.1:9/v1/realtime"
        return response

    with sockets(never, refuse) as port:
        assert "does not answer as livecap's server does" in failure(port)


def test_a_server_that_is_not_ready_is_asked_again() -> None:
    asked: list[str] = []

    def refuse(socket: ServerConnection, request: Request) -> Response | None:
        asked.append(request.path)
        if len(asked) > 3:
            return None
        response = socket.respond(HTTPStatus.SERVICE_UNAVAILABLE, "loading\n")
        response.headers["Retry-After"] = "0"
        return response

    with sockets(Plain(commits=False), refuse) as port, listening(port) as listener:
        listener.say(silence(3000))
        listener.finish()
        assert listener.words == ["hello", "there"]
        assert len(asked) == 4
        assert listener.told("is not ready (503)")
        assert listener.told("connected")


@pytest.mark.parametrize(
    ("first", "told"),
    [
        ('{"type":"hello"}', "does not speak OpenAI's Realtime API"),
        ("welcome", "no JSON"),
        ("", "says nothing"),
    ],
)
def test_sockets_of_something_else(first: str, told: str) -> None:
    async def other(socket: ServerConnection) -> None:
        if first:
            await socket.send(first)
        await socket.wait_closed()

    with sockets(other) as port:
        assert told in failure(port, greeting=0.2)


def test_something_that_is_no_web_server() -> None:
    loop = asyncio.new_event_loop()

    async def mail(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()
        await reader.read()
        writer.close()

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    begin = asyncio.start_server(mail, "127.0.0.1", 0)
    server = asyncio.run_coroutine_threadsafe(begin, loop).result(30)
    try:
        told = failure(server.sockets[0].getsockname()[1])
        assert "does not answer as livecap's server does" in told
        assert "wss://" in told
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
