"""Paths as clients write them: slashes too many are no others, and wrong ones are told the right.

A redirect would cost a POST its body, or its client the patience.
"""

import re
from collections.abc import Sequence

from starlette.routing import BaseRoute, Match, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from livecap.api.errors import ApiError, response

SLASHES = re.compile(r"/{2,}")
ANY = "/{path:path}"  # of WebSockets to nowhere
SHOWN = 200  # characters of a path, in a message


class Slashes:
    """ASGI: twice or at the end they mean nothing. It is around the door, which looks at paths."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            path = SLASHES.sub("/", scope["path"]).rstrip("/") or "/"
            scope = {**scope, "path": path}
        await self._app(scope, receive, send)


def unknown(routes: Sequence[BaseRoute], scope: Scope) -> ApiError:
    """404, and the path that may have been meant."""
    path: str = scope["path"]
    method = scope.get("method", "GET")
    message = f"Invalid URL ({method} {path[:SHOWN]})"
    meant = next((one for one in _meant(path) if _is_known(routes, scope, one)), None)
    if meant:
        message += f". Did you mean {meant[:SHOWN]}? A base URL ends in /v1, once."
    return ApiError(404, message, code="unknown_url")


def _meant(path: str) -> Sequence[str]:
    """Where a base URL lacks its /v1, has it twice, or something before it."""
    tail = path.rpartition("/v1/")[2].lstrip("/")
    return (f"/v1/{tail}", f"/{path.rpartition('/')[2]}")


def _is_known(routes: Sequence[BaseRoute], scope: Scope, path: str) -> bool:
    asked = {**scope, "path": path}
    real = (one for one in routes if not (isinstance(one, WebSocketRoute) and one.path == ANY))
    return path != scope["path"] and any(one.matches(asked)[0] is not Match.NONE for one in real)


async def nowhere(websocket: WebSocket) -> None:
    """A WebSocket to a path that there is not: HTTP 404."""
    await websocket.send_denial_response(response(unknown(websocket.app.routes, websocket.scope)))
