"""An answer that takes long: its head and some of its body come before it is complete.

Proxies cut a request from which nothing comes for a minute. So when the captions of an upload take
longer than `Limits.ping`, the answer begins: white space before JSON, which means nothing there;
and of the other formats what is final. What goes wrong after that has no status any more: the
answer breaks off without its end, which clients take for an error, and not for all of the text.

Speech that there is no text for is told in seconds by the header `X-Livecap-Unrecognised`; in an
answer that has begun, by what had been heard by then, and by JSON's own field in any case.
"""

import asyncio
from collections.abc import Sequence

from starlette.types import Send

from livecap.api.errors import ApiError
from livecap.api.transcriptions.form import TranscriptionRequest
from livecap.api.transcriptions.limits import UploadLimits
from livecap.api.transcriptions.render import (
    JSON,
    UploadResult,
    Written,
    kind_of,
    render,
    unrecognised,
)
from livecap.api.transcriptions.sse import put
from livecap.events import Event
from livecap.output.lines import strict_json

UNRECOGNISED = b"x-livecap-unrecognised"  # header: seconds of speech without text
BLANK = b"\n"  # before JSON, and between blocks of WebVTT


class Patient:
    """One answer. Raises `Gone` where the client takes nothing for too long."""

    def __init__(self, asked: TranscriptionRequest, send: Send, limits: UploadLimits) -> None:
        self._asked = asked
        self._send = send
        self._limits = limits
        self._clock = asyncio.get_running_loop().time
        self._last = self._clock()  # when something was sent, or this began
        self._written = Written(asked)
        self._ready = b""  # that has not been sent
        self._events: list[Event] = []
        self.has_begun = False

    async def hear(self, events: Sequence[Event]) -> None:
        """What has happened; nothing, too."""
        self._events += events
        if not self._is_json:
            self._ready += self._written.feed(events)
        late = self._clock() - self._last >= self._limits.ping
        if not self.has_begun:
            if late:
                await self._begin()
                await self._tell(self._ready or self._sign)
        elif self._ready or (late and self._sign):
            await self._tell(self._ready or self._sign)

    async def finish(self, duration: int, language: str | None, broken: str | None) -> None:
        """All has happened."""
        result = UploadResult(self._events, duration, language, broken)
        if self._is_json:
            body = (await asyncio.to_thread(render, self._asked, result)).content
        else:
            body = self._ready + self._written.end()
        if not self.has_begun:
            headers = [*self._headers, (b"content-length", b"%d" % len(body))]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def break_off(self, error: ApiError) -> None:
        """It went wrong after the answer had begun. Nothing more is sent, not even an end."""
        if self._is_json:
            await self._tell(strict_json(error.envelope()).encode())

    @property
    def _is_json(self) -> bool:
        return self._kind[1] == JSON.encode()

    @property
    def _kind(self) -> tuple[bytes, bytes]:
        return b"content-type", kind_of(self._asked.response_format).encode()

    @property
    def _headers(self) -> list[tuple[bytes, bytes]]:
        lost = unrecognised(self._events)
        return [self._kind, *([(UNRECOGNISED, f"{lost:.3f}".encode())] if lost else [])]

    @property
    def _sign(self) -> bytes:
        """That it goes on, where that changes nothing."""
        return b"" if self._asked.response_format in ("text", "srt") else BLANK

    async def _begin(self) -> None:
        self.has_begun = True
        headers = [*self._headers, (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _tell(self, data: bytes) -> None:
        self._ready, self._last = b"", self._clock()
        await put(self._send, data, self._limits.stalled)
