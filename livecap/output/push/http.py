"""POST a line somewhere, and understand the answer. Blocks.

Sources: RFC 9110 for statuses and `Retry-After`, RFC 6585 for 429.
"""

import http.client
import socket
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import Timer
from types import TracebackType
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from livecap.output.push.addresses import is_local
from livecap.output.push.caption_line import UNREADABLE, Undelivered

TIMEOUT = 10.0  # seconds that an exchange takes at most, however slowly an answer trickles in
LARGEST = 1 << 16  # bytes of an answer that are read
LATER = frozenset({408, 425, 429})  # and all from 500


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a receiver said."""

    status: int
    after: float = 0.0  # seconds for which it asks before the next try
    body: bytes = b""

    @property
    def is_good(self) -> bool:
        """It took the line."""
        return 200 <= self.status < 300

    @property
    def is_passing(self) -> bool:
        """Another try may help."""
        return self.status in LATER or self.status >= 500

    @property
    def is_redirect(self) -> bool:
        """It says to go elsewhere, where nobody has agreed to send anything."""
        return 300 <= self.status < 400


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows nothing: an answer that redirects is an answer, wherever it points."""

    def http_error_302(self, *answered: Any, **more: Any) -> None:
        """Nothing else to ask."""

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _Deadline:
    """Cuts a connection off when an exchange has taken too long. A timeout of sockets does not: it
    begins anew with each byte."""

    def __init__(self) -> None:
        self._latest = time.monotonic() + TIMEOUT
        self._handles: list[socket.socket] = []
        self._timer = Timer(TIMEOUT, self._cut)
        self._timer.daemon = True
        self.is_over = False

    def __enter__(self) -> "_Deadline":
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        self._timer.join()
        for handle in self._handles:
            handle.close()

    def handlers(self) -> list[urllib.request.BaseHandler]:
        """What opens connections under it."""
        return [_Plain(self), _Secure(self)]

    def connect(self, address: tuple[str, int], *_: object) -> socket.socket:
        """A connection, before anything is said on it."""
        left = max(self._latest - time.monotonic(), 0.001)
        opened = socket.create_connection(address, left)
        self._handles.append(opened.dup())  # TLS takes the connection itself over
        if self.is_over:
            self._cut()
        return opened

    def _cut(self) -> None:
        self.is_over = True
        for handle in self._handles:
            with suppress(OSError):  # it is over already
                handle.shutdown(socket.SHUT_RDWR)


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def do_open(self, http_class: Any, req: Any, **more: Any) -> http.client.HTTPResponse:
        return super().do_open(_under(self._deadline, http_class), req, **more)


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def do_open(self, http_class: Any, req: Any, **more: Any) -> http.client.HTTPResponse:
        return super().do_open(_under(self._deadline, http_class), req, **more)


def _under(deadline: _Deadline, kind: Any) -> Any:
    """A kind of connection, opened under a deadline."""

    def made(*options: Any, **more: Any) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection = kind(*options, **more)
        connection._create_connection = deadline.connect  # type: ignore[attr-defined] # the only way
        return connection

    return made


def exchange(url: str, body: bytes | None, headers: Mapping[str, str]) -> HttpAnswer:
    """Send it; without a body, ask. Raises Undelivered if there is no answer."""
    with _Deadline() as deadline:
        try:
            answer = _exchange(url, body, headers, [_Stay(), *deadline.handlers()])
        except Undelivered:
            if not deadline.is_over:
                raise
        if deadline.is_over:  # what there is of the answer may be half of it
            raise Undelivered("it does not answer")
    return answer


def _exchange(
    url: str,
    body: bytes | None,
    headers: Mapping[str, str],
    handlers: list[urllib.request.BaseHandler],
) -> HttpAnswer:
    if is_local(urlsplit(url)):  # a proxy for the world has nothing to do with it
        handlers.append(urllib.request.ProxyHandler({}))
    opener = urllib.request.build_opener(*handlers)
    request = urllib.request.Request(
        url, body, {"User-Agent": "livecap", "Accept": "*/*", **headers}
    )
    try:
        with opener.open(request, timeout=TIMEOUT) as answer:
            return HttpAnswer(answer.status, body=answer.read(LARGEST))
    except HTTPError as error:
        with error:
            return HttpAnswer(error.code, _asked(error.headers.get("Retry-After", "")))
    except (OSError, http.client.HTTPException) as error:  # URLError among them
        raise Undelivered(_reason(error)) from None  # the error may name the whole URL
    except UnicodeError:
        raise Undelivered("its name can't be looked up") from None
    except (ValueError, ArithmeticError):
        raise Undelivered(UNREADABLE) from None


def _asked(value: str) -> float:
    """`Retry-After` -> seconds: a number of them, or a date."""
    value = value.strip()
    if value.isascii() and value.isdecimal():
        return float(value[:6])
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _reason(error: OSError | http.client.HTTPException) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return "it does not answer"
    text = cause.strerror if isinstance(cause, OSError) else None
    return f"it can't be reached ({text or type(cause).__name__})"
