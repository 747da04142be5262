"""uvicorn's WebSocket, but that a client which reads nothing is let go for good.

uvicorn waits until such a client takes what was sent before: the close would never be sent, and the
connection would stay for as long as the client likes. Nor does it hear a client's answers to pings
while that is held up for what it sends.
"""

import asyncio
from typing import ClassVar

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class FirmSocket(WebSocketsSansIOProtocol):
    """One connection."""

    linger: ClassVar[float] = 15.0  # seconds from a session's end until its connection is cut off
    cut: asyncio.TimerHandle | None = None  # when that is due

    async def send(self, message: ASGISendEvent) -> None:
        """A close isn't held back: it is small, and the last that is sent."""
        if message["type"] == "websocket.close":
            self.writable.set()
        await super().send(message)

    async def run_asgi(self) -> None:
        """The session, to its end."""
        await super().run_asgi()
        if not self.disconnected:
            self.cut = self.loop.call_later(self.linger, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        super().connection_lost(exc)
        if self.cut:
            self.cut.cancel()

    def keepalive_timeout(self) -> None:
        """No answer to a ping; but who is held up may have sent it."""
        if self.read_paused and self.ping_timeout is not None:
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)
        else:
            super().keepalive_timeout()
