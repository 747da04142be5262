"""POST a line somewhere, and understand the answer. Blocks.

Sources: RFC 9110 for statuses and `Retry-After`, RFC 6585 for 429.
"""

import http.client
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from livecap.sinks.push.addresses import is_local
from livecap.sinks.push.said import Undelivered

TIMEOUT = 10.0  # seconds that a receiver may be silent
LARGEST = 1 << 16  # bytes of an answer that are read
LATER = frozenset({408, 425, 429})  # and all from 500


@dataclass(frozen=True, slots=True)
class Answer:
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
    """Follows nothing: an answer that redirects is an answer."""

    def redirect_request(self, *asked: object, **more: object) -> None:
        """Nothing else to ask."""


def exchange(url: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
    """Send it; without a body, ask. Raises Undelivered if there is no answer."""
    handlers: list[urllib.request.BaseHandler] = [_Stay()]
    if is_local(urlsplit(url)):  # a proxy for the world has nothing to do with it
        handlers.append(urllib.request.ProxyHandler({}))
    opener = urllib.request.build_opener(*handlers)
    request = urllib.request.Request(
        url, body, {"User-Agent": "livecap", "Accept": "*/*", **headers}
    )
    try:
        with opener.open(request, timeout=TIMEOUT) as answer:
            return Answer(answer.status, body=answer.read(LARGEST))
    except HTTPError as error:
        with error:
            return Answer(error.code, _asked(error.headers.get("Retry-After", "")))
    except (OSError, http.client.HTTPException) as error:  # URLError among them
        raise Undelivered(_reason(error)) from None  # the error may name the whole URL


def _asked(value: str) -> float:
    """`Retry-After` -> seconds: a number of them, or a date."""
    if value.strip().isdigit():
        return float(value.strip()[:6])
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        return 0.0


def _reason(error: OSError | http.client.HTTPException) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return "it does not answer"
    told = cause.strerror if isinstance(cause, OSError) else None
    return f"it can't be reached ({told or type(cause).__name__})"
