"""uvicorn's HTTP, but that the head of a request has to come in time, and an answer to be taken.

uvicorn waits for both without end, so that a client could hold connections for nothing but opening
them, and answers by not reading them. (The body's time is limited by who reads it.)
"""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from livecap.api.server.uvicorn_websocket import UvicornConfig


class PromptHead(H11Protocol):
    """One connection."""

    patience: ClassVar[float] = (
        30.0  # seconds from a connection, or a head's first byte, to its end
    )
    taking: ClassVar[float] = 60.0  # seconds until some of what is sent has to be taken
    late: asyncio.TimerHandle | None = None  # while a head is waited for
    stuck: asyncio.TimerHandle | None = None  # while more waits to be sent than should

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As uvicorn narrows it."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Bytes of heads and bodies."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        super().connection_lost(exc)
        self._watch()
        self._unstick()

    def pause_writing(self) -> None:
        """The client takes less than it is sent."""
        super().pause_writing()
        # A close would wait until it takes the rest.
        self.stuck = self.stuck or self.loop.call_later(self.taking, self.transport.abort)

    def resume_writing(self) -> None:
        """It has taken what waited."""
        super().resume_writing()
        self._unstick()

    def _unstick(self) -> None:
        if self.stuck:
            self.stuck.cancel()
            self.stuck = None

    def _watch(self) -> None:
        # One that has become a WebSocket, or was lost, is none of uvicorn's HTTP connections.
        is_ours = self in self.connections
        is_waiting = is_ours and (self.cycle is None or self.cycle.response_complete)
        if is_ours and not is_waiting:
            assert isinstance(self.config, UvicornConfig)
            self.config.crowd.settle(self.client)
        if is_waiting and self.late is None:
            self.late = self.loop.call_later(self.patience, self.transport.close)
        elif self.late and not is_waiting:
            self.late.cancel()
            self.late = None
