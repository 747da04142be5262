"""Parts and routes -> the ASGI application.

Around the routes lie, from the outside: the watch (ids, times, log), the rules of browsers (CORS),
the door (keys). What goes wrong anywhere is told in one envelope.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from livecap.api.access.auth import Guard
from livecap.api.errors import ApiError, fault, response
from livecap.api.memory import give_back
from livecap.api.server import client_secrets, status_routes, web
from livecap.api.server.middleware import GONE, ID, Watch, request_id
from livecap.api.server.paths import ANY, Slashes, nowhere, unknown
from livecap.api.sessions.model_pool import PooledModel
from livecap.api.sessions.state import AppState
from livecap.api.viewers import routes as captions
from livecap.api.webrtc import routes
from livecap.api.webrtc.signalling import prepare
from livecap.errors import ConfigError, LivecapError
from livecap.metrics import Metrics

Realtime = Callable[[WebSocket], Awaitable[None]]  # one live session, on its socket
Started = Callable[
    [asyncio.Task[PooledModel]], None
]  # the first model is warm, or could not be loaded

# Pages of this machine, whatever port they come from.
OWN_PAGES = r"https?://(localhost|[a-z0-9-]+\.localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?"
ALLOWED = ("GET", "POST", "PATCH", "DELETE", "OPTIONS")
EXPOSED = (
    *("Location", "ETag", "Link", "Retry-After", "x-request-id", "x-should-retry"),
    "X-Livecap-Unrecognised",
)

LOG = logging.getLogger("livecap.server")

# What is told to those who delete captions.
PASSED_ON = (
    "What receivers (webhook, OBS, YouTube, Zoom) were sent, or wait for; and the copy that the "
    "page has in the browser it was spoken in, until that is cleared there."
)


def build(
    parts: AppState, realtime: Realtime, transcriptions: Sequence[BaseRoute], started: Started
) -> Starlette:
    """The application. Its first model is loaded from when it starts; `started` is told how."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        models = parts.models
        starting = asyncio.create_task(_get(parts))
        starting.add_done_callback(started)
        giving = asyncio.create_task(give_back())
        try:
            yield
        finally:
            starting.cancel()
            giving.cancel()
            if parts.receivers:
                await asyncio.to_thread(parts.receivers.close)
            if parts.history:
                await asyncio.to_thread(parts.history.close)
            await asyncio.to_thread(models.close)

    return Starlette(
        routes=[
            *status_routes.routes(parts),
            *client_secrets.routes(parts),
            WebSocketRoute("/v1/realtime", realtime),
            *routes.routes(parts),
            *transcriptions,
            *captions.routes(
                parts.hub,
                parts.door,
                readers=parts.config.max_readers,
                left=PASSED_ON if parts.receivers else "",
                addresses=parts.addresses,
            ),
            *web.routes(),
            WebSocketRoute(ANY, nowhere),
        ],
        middleware=[
            Middleware(Slashes),
            Middleware(Watch, parts.metrics),
            Middleware(
                CORSMiddleware,
                allow_origins=parts.config.cors_origin,
                allow_origin_regex=OWN_PAGES,
                allow_methods=ALLOWED,
                allow_headers=("*",),  # a page has no cookies here that others could misuse
                allow_private_network=True,
                expose_headers=EXPOSED,
            ),
            Middleware(Guard, parts.door, parts.metrics),
        ],
        exception_handlers=_Errors(parts.metrics).handlers,
        lifespan=lifespan,
    )


async def _get(parts: AppState) -> PooledModel:
    """The first model; what else is slow on first use is loaded beside it."""
    served, _ = await asyncio.gather(parts.models.get(parts.models.default), prepare())
    return served


class _Errors:
    """Whatever is raised -> the envelope."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    @property
    def handlers(self) -> dict[Any, Callable[[Request, Exception], Awaitable[Response]]]:
        """For Starlette, by what is raised."""
        expected = (ApiError, HTTPException, LivecapError, ClientDisconnect)
        return {**dict.fromkeys(expected, self.expected), Exception: self.unexpected}

    async def expected(self, request: Request, error: Exception) -> Response:
        """What can happen. A WebSocket that lets it through has no answer, so it is a fault."""
        if request.scope["type"] != "http":
            raise error
        match error:
            case ApiError():
                return self._told(error)
            case HTTPException():
                return self._told(_starlette(request, error))
            case ConfigError():
                return self._told(ApiError(400, str(error), code="invalid_value"))
            case LivecapError():  # its message may name folders here, and is for the log
                fields = {"code": error.code, "id": request_id(request.scope)}
                LOG.error("a request failed", exc_info=error, extra={"fields": fields})
                return self._told(fault())
            case _:  # the client has left: nobody reads this
                return Response(status_code=GONE)

    async def unexpected(self, request: Request, error: Exception) -> Response:
        """Ours. Starlette answers this outside of the watch, and raises it again for the log."""
        answer = self._told(fault())
        answer.headers[ID] = request_id(request.scope)
        return answer

    def _told(self, error: ApiError) -> Response:
        self._metrics.errors.labels(error.code or str(error.status)).inc()
        return response(error)


def _starlette(request: Request, error: HTTPException) -> ApiError:
    """No such route, no such method, and what else Starlette finds."""
    where = f"{request.method} {request.url.path}"
    headers = dict(error.headers or {})
    if error.status_code == 404:
        return unknown(request.app.routes, request.scope)
    if error.status_code == 405:
        message = f"Not allowed: {where}. Allowed are: {headers.get('Allow', 'other methods')}."
        return ApiError(405, message, code="method_not_supported", headers=headers)
    return ApiError(error.status_code, str(error.detail), headers=headers)
