"""ASGI: a request that is answered before all of its body has come is not read to its end.

The answer says so, and what still comes is thrown away for a moment: a connection that is closed at
once on somebody who is sending may lose them the answer. Source: nginx's lingering close. From an
address that is refused again and again nothing more is read meanwhile: that would cost the others.
"""

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from livecap.api.access.connection_limits import Crowd, party

SMALL = 64 << 10  # bytes of a body that is read on, so that the connection can be kept
SECONDS = 2.0  # in which one who still sends may find out
LEFT = 8 << 20  # bytes that may come meanwhile
PAUSE = 0.02  # seconds between two pieces, of 64 KiB mostly


class Lingering:
    """Around all the rest."""

    def __init__(self, app: ASGIApp, crowd: Crowd) -> None:
        self._app = app
        self._crowd = crowd

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._crowd)
        await self._app(scope, exchange.receive, exchange.send)


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, crowd: Crowd) -> None:
        self._client = scope.get("client")
        self._refusals = crowd.refusals
        self._receive = receive
        self._send = send
        self._is_read = not _is_large(Headers(scope=scope))  # nothing more need be read
        self._closes = False  # the answer was begun before that
        self._is_pest = False  # its address was refused too often lately

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._is_read = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            who = party(self._client[0]) if self._client else ""
            wait = self._refusals.refuse(who)
            self._is_pest = wait > 0
            await asyncio.sleep(wait)
        if message["type"] == "http.response.start" and not self._is_read:
            self._closes = True
            message.setdefault("headers", [])
            MutableHeaders(scope=message)["Connection"] = "close"
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if not (self._closes and is_last) or self._is_read:
            await self._send(message)
            return
        await self._send({**message, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                await (asyncio.sleep(SECONDS) if self._is_pest else self._pour_away())
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pour_away(self) -> None:
        left = LEFT
        while not self._is_read and left > 0:
            message = await self.receive()
            left -= len(message.get("body", b""))
            await asyncio.sleep(PAUSE)  # what is thrown away has to be read first


def _is_large(headers: Headers) -> bool:
    if "transfer-encoding" in headers:
        return True
    length = headers.get("content-length", "0")
    return not (length.isascii() and length.isdigit() and int(length[:20]) <= SMALL)
