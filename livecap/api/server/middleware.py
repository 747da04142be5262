"""ASGI around everything: an id for each request, its time, and a line in the log."""

import logging
import re
import secrets
import time
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from livecap.api.logs import ACCESS, note
from livecap.metrics import Metrics

ID = "x-request-id"
GIVEN = re.compile(r"[A-Za-z0-9._-]{1,64}")  # an id that a proxy may have given already

# Of answers that are no pages: no browser takes them for one, or gives them to another site's.
PROTECTION = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNKNOWN_ROUTE = "unmatched"
GONE = 499  # nginx' status for a client that did not wait for its answer
FAULT = {"http": 500, "websocket": 1006}  # what a client then sees; it is answered outside of this


def request_id(scope: Scope) -> str:
    """The id of the request that is being answered, as `Watch` gave it."""
    known: str = scope["state"][ID]
    return known


class Watch:
    """Gives every answer its `x-request-id`, counts it by route, and logs it."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock
        self._log = logging.getLogger(ACCESS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(ID, "")
        name = given if GIVEN.fullmatch(given) else f"req_{secrets.token_hex(12)}"
        scope.setdefault("state", {})[ID] = name
        answer = _Answer(name, receive, send, is_api=scope["path"].startswith("/v1"))
        begun, failed = self._clock(), True
        try:
            await self._app(scope, answer.receive, answer.send)
            failed = False
        finally:
            if failed and not answer.status:
                answer.status = FAULT[scope["type"]]
            self._tell(scope, answer, self._clock() - begun)

    def _tell(self, scope: Scope, answer: "_Answer", took: float) -> None:
        route = scope["route"].path if "route" in scope else UNKNOWN_ROUTE
        fields: dict[str, object] = {"route": route, "id": answer.name, "seconds": round(took, 4)}
        if client := scope.get("client"):
            fields["client"] = client[0]
        if scope["type"] == "websocket":
            note(self._log, "socket", fields | {"code": answer.status or GONE})
            return
        method = scope["method"] if scope["method"] in METHODS else "other"
        status = answer.status or GONE
        self._metrics.requests.labels(method, route, str(status)).inc()
        self._metrics.request_duration.labels(method, route).observe(took)
        note(
            self._log, "request", {"method": method, "status": status, "sent": answer.sent} | fields
        )


class _Answer:
    """Passes a conversation on, and knows how its answer began or it was closed."""

    def __init__(self, name: str, receive: Receive, send: Send, *, is_api: bool) -> None:
        self.name = name
        self._is_api = is_api
        self.status = 0  # of HTTP; of a WebSocket the code it was closed with, by either side
        self.sent = 0  # bytes of the body
        self._receive = receive
        self._send = send

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "websocket.disconnect" and not self.status:
            self.status = message.get("code", 1005)
        return message

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            self.status = message["status"]
        elif kind == "http.response.body":
            self.sent += len(message.get("body", b""))
        elif kind == "websocket.close":
            self.status = message.get("code", 1000)
        elif kind == "websocket.http.response.start":
            self.status = message["status"]
        if kind in ("http.response.start", "websocket.accept", "websocket.http.response.start"):
            message.setdefault("headers", [])
            headers = MutableHeaders(scope=message)
            headers[ID] = self.name
            if self._is_api:
                headers.update(PROTECTION)
        await self._send(message)
