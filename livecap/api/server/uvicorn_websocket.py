"""uvicorn's WebSocket, but that nobody holds on to it: neither before they are let in nor after.

Until the application lets a connection in, its messages have to be small, and one that is refused
is cut off soon. uvicorn would take 24 MiB from anybody, and keep it while it waits for a close.

A client which reads nothing is let go for good. uvicorn waits until such a client takes what was
sent before: the close would never be sent, and the connection would stay for as long as the client
likes. Nor does it hear a client's answers to pings while that is held up for what it sends.
"""

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

import uvicorn
from starlette.websockets import WebSocket
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from livecap.api.access.connection_limits import Crowd

DOOR = "livecap.door"  # of the scope's extensions: how the application lets a connection in
BEFORE = 4 << 10  # bytes of a message, until it has
LEFT = 256 << 10  # bytes that are still read of one who is refused


class UvicornConfig(uvicorn.Config):
    """uvicorn's, and who counts the connections."""

    crowd: Crowd


class FirmSocket(WebSocketsSansIOProtocol):
    """One connection."""

    linger: ClassVar[float] = 15.0  # seconds from a session's end until its connection is cut off
    refused_linger: ClassVar[float] = 2.0  # the same, of one that was not let in
    cut: asyncio.TimerHandle | None = None  # when that is due
    is_let_in = False
    is_deaf = False  # what comes is thrown away
    poured = 0  # bytes of that

    def __init__(self, config: uvicorn.Config, *further: Any, **options: Any) -> None:
        """See uvicorn."""
        super().__init__(config, *further, **options)
        assert isinstance(config, UvicornConfig)
        self.crowd = config.crowd
        self.conn.max_message_size = BEFORE

    def let_in(self) -> None:
        """From now on messages may be as large as sessions need them."""
        self.is_let_in = True
        self.conn.max_message_size = self.config.ws_max_size
        self.crowd.settle(self.client)
        self.transport.resume_reading()

    def handle_connect(self, event: Request) -> None:
        """The handshake."""
        super().handle_connect(event)
        if self.response.status_code == 101:
            self.scope["extensions"][DOOR] = {"let_in": self.let_in}
            # uvicorn breaks at frames that come before its answer; and what a client that is
            # refused has sent must not end the connection before it is told why.
            self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        """Bytes of frames."""
        if not self.is_deaf:
            super().data_received(data)
            return
        self.poured += len(data)
        if self.poured > LEFT:  # a reset would take from who still sends what it was told
            self.transport.pause_reading()

    def handle_parser_exception(self) -> None:
        """What came is no frame, or too large. Who is being refused still reads why."""
        if self.close_sent and not self.is_let_in:
            self.is_deaf = True
            self.conn.reader.discard()
        else:
            super().handle_parser_exception()

    async def send(self, message: ASGISendEvent) -> None:
        """A close isn't held back: it is small, and the last that is sent."""
        if message["type"] == "websocket.close":
            self.writable.set()
        await super().send(message)
        if self.close_sent:
            self.handshake_complete = True  # uvicorn forgets that it is, where HTTP says no
        if message["type"] == "websocket.close":
            self.transport.resume_reading()

    async def run_asgi(self) -> None:
        """The session, to its end."""
        await super().run_asgi()
        if not self.disconnected:
            self.transport.resume_reading()
            wait = self.linger if self.is_let_in else self.refused_linger
            self.cut = self.loop.call_later(wait, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed. What had come of a message is freed now, and not with the next cycles."""
        super().connection_lost(exc)
        self.conn.reader.discard()
        self.frames.clear()
        if self.cut:
            self.cut.cancel()

    def keepalive_timeout(self) -> None:
        """No answer to a ping; but who is held up may have sent it."""
        if self.read_paused and self.ping_timeout is not None:
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)
        else:
            super().keepalive_timeout()


def let_in(websocket: WebSocket) -> None:
    """It may stay. Servers other than ours have no such door."""
    door: dict[str, Callable[[], None]] | None = websocket.scope["extensions"].get(DOOR)
    if door:
        door["let_in"]()
