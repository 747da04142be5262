"""`/v1/realtime`: one WebSocket -> one realtime session. Everything but the wire is elsewhere.

Source: OpenAI Realtime API; RFC 6455 for the codes that sockets are closed with.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from livecap.frontends.realtime import (
    Connection,
    Limits,
    RealtimeSession,
    Refusal,
    asks_for_beta,
    error_event,
    new_id,
)
from livecap.frontends.server.admission import Ticket
from livecap.frontends.server.auth import Decision
from livecap.frontends.server.carrier import Carrier
from livecap.frontends.server.observe import Observer
from livecap.frontends.server.outbox import Outbox
from livecap.frontends.server.parts import Parts
from livecap.frontends.server.problems import ApiError

LATER = 1013  # try again later
AHEAD = 30.0  # seconds of audio that may wait before further messages do
COMMITS = 16  # streams that may be under way for one client before the same happens
BACKLOG = 16 << 20  # bytes of messages that may wait before the client is held up
EACH = 100  # bytes that a message takes, whatever is in it
HELD = 0.1  # seconds after which that is looked at again, should nothing have been heard
GOODBYE = 5.0  # seconds for what still has to be sent to a client that is let go


def endpoint(parts: Parts) -> Callable[[WebSocket], Awaitable[None]]:
    """The route's handler."""

    async def realtime(websocket: WebSocket) -> None:
        decision = parts.door.check(websocket.scope)
        if decision.refusal and decision.refusal.status == 403:
            await websocket.close()  # before it is open: HTTP 403
            return
        await websocket.accept(subprotocol=decision.subprotocol)
        if decision.refusal:
            parts.metrics.errors.labels(str(decision.refusal.code)).inc()
            await _refuse(websocket, decision.refusal, decision.close_code, decision.close_reason)
            return
        named = parts.models.canonical(websocket.query_params.get("model"))
        ticket = parts.admission.session(named or parts.models.default)
        if isinstance(ticket, ApiError):
            parts.metrics.errors.labels(str(ticket.code)).inc()
            await _refuse(websocket, ticket, LATER, str(ticket.code))
            return
        with ticket, parts.metrics.session("websocket", time.monotonic) as counted:
            socket = _Socket(parts, websocket, decision, ticket)
            try:
                with parts.drain.hook(socket.finish):
                    await socket.run()
            finally:
                counted.dialect = socket.dialect

    return realtime


async def _refuse(websocket: WebSocket, refusal: ApiError, code: int, reason: str) -> None:
    """Said on the open socket: browsers can't read an HTTP answer here."""
    told = Refusal(str(refusal.code), refusal.message, kind=refusal.type)
    with suppress(WebSocketDisconnect):
        await websocket.send_json({**error_event(told), "event_id": new_id("event")})
        await websocket.close(code, reason)


class _Socket:
    """One connection that was let in."""

    def __init__(
        self, parts: Parts, websocket: WebSocket, decision: Decision, ticket: Ticket
    ) -> None:
        config, query = parts.config, dict(websocket.query_params)
        self._websocket = websocket
        self._ticket = ticket
        self._outbox = Outbox()
        self._idle = config.idle_timeout or None
        self._length = config.session_length or None
        self._session = RealtimeSession(
            Connection(
                query=query,
                beta=asks_for_beta(
                    websocket.headers.get("openai-beta"), websocket.scope.get("subprotocols", [])
                ),
                binary=query.get("audio") == "binary",
                session=decision.session,
            ),
            parts.models,
            Limits(
                min_commit_ms=config.min_commit_ms,
                max_session_s=config.session_length,
                idle_s=config.idle_timeout,
                strict=config.strict,
            ),
            now=time.time,
        )
        model = self._session.settings.transcription.model
        self._broadcast = parts.hub.open(self._session.id, model=model or parts.models.default)
        self._hub = parts.hub
        self._carrier = Carrier(
            self._session,
            parts.models,
            parts.live,
            self._outbox,
            Observer(parts.metrics, time.monotonic),
            self._broadcast,
        )
        self._messages: deque[str | bytes] = deque()  # that came and have not been read
        self._waiting = 0  # bytes of them
        self._news = asyncio.Event()  # there are some
        self._room = asyncio.Event()  # there are fewer than before
        self._closed = asyncio.Event()

    @property
    def dialect(self) -> str:
        """The one that was spoken."""
        return self._session.settings.dialect

    async def run(self) -> None:
        """Until the client or the session ends it."""
        loop = asyncio.get_running_loop()
        writer = asyncio.create_task(self._write())
        cap = (
            loop.call_later(self._length, self._carrier.expire, "duration")
            if self._length
            else None
        )
        try:
            self._carrier.start()
            tasks = [writer, asyncio.create_task(self._take()), asyncio.create_task(self._read())]
            done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in others - {writer}:
                task.cancel()
            await asyncio.gather(*others - {writer}, return_exceptions=True)
            for error in filter(None, (task.exception() for task in done)):
                self._carrier.give_up()
                await asyncio.wait({writer}, timeout=GOODBYE)
                raise error
        finally:
            if cap:
                cap.cancel()
            self._carrier.drop()
            self._hub.close(self._broadcast)
            writer.cancel()
            with suppress(asyncio.CancelledError):
                await writer
            self._closed.set()

    async def finish(self) -> None:
        """The server stops: what was said is still told, then the socket is closed."""
        self._carrier.expire("shutdown")
        await self._closed.wait()

    async def _take(self) -> None:
        """Messages, as they come; until the client leaves, which ends the session.

        They are read ahead of their turn: who leaves, pings or answers pings meanwhile is noticed.
        """
        idle = self._idle
        while True:
            try:
                async with asyncio.timeout(idle):
                    message = await self._websocket.receive()
            except TimeoutError:
                if not self._messages:
                    self._carrier.expire("idle")
                    idle = None
                continue
            if message["type"] == "websocket.disconnect":
                return
            text, data = message.get("text"), message.get("bytes")
            self._put(text if text is not None else data or b"")
            while self._waiting > BACKLOG:
                self._room.clear()
                await self._room.wait()

    def _put(self, message: str | bytes) -> None:
        self._messages.append(message)
        self._waiting += len(message) + EACH
        self._news.set()

    async def _next(self) -> str | bytes:
        while not self._messages:
            self._news.clear()
            await self._news.wait()
        message = self._messages.popleft()
        self._waiting -= len(message) + EACH
        self._room.set()
        return message

    async def _read(self) -> None:
        """Messages, as fast as their audio is heard."""
        while True:
            await self._carrier.receive(await self._next())
            self._ticket.model = self._session.settings.transcription.model
            while self._carrier.lag > AHEAD or self._session.pending > COMMITS:
                self._carrier.caught_up.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(HELD):
                        await self._carrier.caught_up.wait()
            await asyncio.sleep(0)  # one who sends without end is not alone here

    async def _write(self) -> None:
        """Frames, as they come; then the close. Only here anything is sent."""
        try:
            last = await self._outbox.deliver(self._websocket.send_text)
        except (WebSocketDisconnect, RuntimeError):
            return  # it has left
        if self._websocket.application_state is WebSocketState.CONNECTED:
            with suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
                async with asyncio.timeout(GOODBYE):
                    await self._websocket.close(last.code, last.reason)
