"""uvicorn, set up for this server, and stopped in its way."""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from livecap.api.access.connection_limits import Crowd
from livecap.api.server.linger import Lingering
from livecap.api.server.uvicorn_http import PromptHead
from livecap.api.server.uvicorn_websocket import FirmSocket, UvicornConfig
from livecap.api.sessions.drain import Drain
from livecap.log import report

MESSAGE = 24 << 20  # bytes of a WebSocket message: 15 MiB of audio in base64, and what is around it
PING = 20.0  # seconds between pings, and until one has to be answered
KEPT = 65  # seconds that an HTTP connection is kept without a request: longer than proxies keep one
LEAST = 1  # seconds that answers under way have in any case
SIGNALLED = 128  # exit status of a process that a signal ended; its number is added


def settings(
    app: Starlette,
    secure: ssl.SSLContext | None,
    crowd: Crowd,
    *,
    trusted: Sequence[str] = (),
) -> UvicornConfig:
    """How uvicorn runs the application; with `secure`, over TLS. `crowd` is told of requests.

    `trusted`: addresses and networks of proxies that say whom they speak for.
    """
    made = UvicornConfig(
        Lingering(app, crowd),
        loop="asyncio",
        http=PromptHead,
        ws=FirmSocket,
        ws_max_size=MESSAGE,
        ws_ping_interval=PING,
        ws_ping_timeout=PING,
        ws_per_message_deflate=False,  # audio hardly shrinks, and it costs time on the loop
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(trusted),  # by default it believes every program on this machine
        forwarded_allow_ips=list(trusted),
        timeout_keep_alive=KEPT,
        ssl_context_factory=None if secure is None else lambda config, usual: secure,
    )
    made.crowd = crowd
    return made


class CaptionServer(uvicorn.Server):
    """uvicorn's, but that it stops as livecap's commands do: what was heard is finished first."""

    def __init__(
        self,
        config: uvicorn.Config,
        drain: Drain,
        grace: float,
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        super().__init__(config)
        self._drain = drain
        self._grace = grace
        self._leave = leave
        self.signalled: int | None = None  # the number of the signal that stopped it

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal: stop; at a second one leave at once."""
        if self.should_exit:
            self._leave(SIGNALLED + sig)
        self.should_exit = True
        self.signalled = sig
        report("livecap serve: finishing what was heard; once more to leave at once")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """No new connections; live sessions finish and close; then uvicorn ends the rest."""
        for server in self.servers:
            server.close()
        clock = asyncio.get_running_loop().time
        latest = clock() + self._grace
        late = await self._drain.run(self._grace)
        if late:
            report(f"livecap serve: {late} sessions did not finish within {self._grace} s")
        left = max(int(latest - clock()), LEAST)
        self.config.timeout_graceful_shutdown = left
        await super().shutdown(sockets)
