"""`/v1/realtime`: one WebSocket -> one realtime session. Everything but the wire is elsewhere.

Source: OpenAI Realtime API; RFC 6455 for the codes that sockets are closed with.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from livecap.api.access.auth import Decision, party_of
from livecap.api.errors import ApiError
from livecap.api.realtime import (
    Connection,
    Refusal,
    asks_for_beta,
    error_event,
    new_id,
)
from livecap.api.server.uvicorn_websocket import let_in
from livecap.api.sessions.admission import Ticket
from livecap.api.sessions.calls import NO_CALL, no_call
from livecap.api.sessions.outbox import FrameQueue
from livecap.api.sessions.session import Carried
from livecap.api.sessions.state import AppState
from livecap.api.viewers import Part
from livecap.api.webrtc.sideband import attend

LATER = 1013  # try again later
UNKNOWN = 4000  # as sockets are closed that ask for a model which there isn't
GOODBYE = 5.0  # seconds for what still has to be sent to a client that is let go


def endpoint(parts: AppState) -> Callable[[WebSocket], Awaitable[None]]:
    """The route's handler."""

    async def realtime(websocket: WebSocket) -> None:
        decision = parts.door.check(websocket.scope)
        if decision.refusal and decision.refusal.status == 403:
            await websocket.close()  # before it is open: HTTP 403
            return
        if decision.refusal:  # before it is open: nothing can come meanwhile
            tries = parts.door.delay(websocket.scope)
            await asyncio.sleep(max(tries, parts.crowd.refusals.refuse(party_of(websocket.scope))))
        await websocket.accept(subprotocol=decision.subprotocol)
        if decision.refusal:
            parts.metrics.errors.labels(str(decision.refusal.code)).inc()
            await _refuse(websocket, decision.refusal, decision.close_code, decision.close_reason)
            return
        if "call_id" in websocket.query_params:
            await _attend(parts, websocket, websocket.query_params["call_id"])
            return
        named = parts.models.canonical(websocket.query_params.get("model"))
        ticket = parts.admission.session(named or parts.models.default)
        if isinstance(ticket, ApiError):
            parts.metrics.errors.labels(str(ticket.code)).inc()
            await _refuse(websocket, ticket, LATER, str(ticket.code))
            return
        let_in(websocket)
        with ticket, parts.metrics.session("websocket", time.monotonic) as counted:
            await parts.hub.revive(Part.of_query(websocket.query_params))
            socket = _Socket(parts, websocket, decision, ticket)
            try:
                with parts.drain.hook(socket.finish):
                    await socket.run()
            finally:
                counted.dialect = socket.dialect

    return realtime


async def _attend(parts: AppState, websocket: WebSocket, call_id: str) -> None:
    """Listen to and speak in a call that somebody has opened over WebRTC."""
    call = parts.calls.find(call_id)
    if call is None:
        await _refuse(websocket, no_call(), UNKNOWN, f"invalid_request_error.{NO_CALL}")
    else:
        let_in(websocket)
        await attend(websocket, call)


async def _refuse(websocket: WebSocket, refusal: ApiError, code: int, reason: str) -> None:
    """Said on the open socket: browsers can't read an HTTP answer here."""
    error = Refusal(str(refusal.code), refusal.message, kind=refusal.type)
    with suppress(WebSocketDisconnect, RuntimeError):  # it has left, or sent what is no message
        await websocket.send_json({**error_event(error), "event_id": new_id("event")})
        await websocket.close(code, reason)


class _Socket:
    """One connection that was let in."""

    def __init__(
        self, parts: AppState, websocket: WebSocket, decision: Decision, ticket: Ticket
    ) -> None:
        query = dict(websocket.query_params)
        self._websocket = websocket
        self._outbox = FrameQueue()
        self._idle = parts.config.idle_timeout or None
        connection = Connection(
            query=query,
            beta=asks_for_beta(
                websocket.headers.get("openai-beta"), websocket.scope.get("subprotocols", [])
            ),
            binary=query.get("audio") == "binary",
            session=decision.session,
        )
        self._carried = Carried(parts, connection, ticket, self._outbox)
        self._carrier, self._inbox = self._carried.carrier, self._carried.inbox
        self._closed = asyncio.Event()

    @property
    def dialect(self) -> str:
        """The one that was spoken."""
        return self._carried.dialect

    async def run(self) -> None:
        """Until the client or the session ends it."""
        writer = asyncio.create_task(self._write())
        try:
            with self._carried.running():
                await self._talk(writer)
        finally:
            writer.cancel()
            with suppress(asyncio.CancelledError):
                await writer
            self._closed.set()

    async def _talk(self, writer: asyncio.Task[None]) -> None:
        reader = asyncio.create_task(self._carried.read())
        tasks = [writer, asyncio.create_task(self._take()), reader]
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others - {writer}:
            task.cancel()
        await asyncio.gather(*others - {writer}, return_exceptions=True)
        for error in filter(None, (task.exception() for task in done)):
            self._carrier.give_up()
            await asyncio.wait({writer}, timeout=GOODBYE)
            raise error

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
                if self._inbox.is_empty:
                    self._carrier.expire("idle")
                    idle = None
                continue
            if message["type"] == "websocket.disconnect":
                return
            text, data = message.get("text"), message.get("bytes")
            self._inbox.put(text if text is not None else data or b"")
            await self._inbox.room()

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
