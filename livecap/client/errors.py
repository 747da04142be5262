"""What goes wrong between a client and a server -> what it means, and what to do about it."""

import http.client
import math
import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from errno import ECONNREFUSED
from typing import ClassVar

from livecap.errors import LivecapError

LONGEST = 120.0  # seconds that a server may ask to be left alone; more is not waited for
BUSY = frozenset({429, 502, 503, 504})  # statuses that another try may mend
CLOSES = {
    1000: "has closed the connection",
    1001: "has closed the connection",
    1011: "has met a fault",
    1012: "restarts",
    1013: "is busy",
}
NO_KEY = "Give the right one in LIVECAP_SERVER_KEY or with --server-key"
PORT = "Check the port and the network; a server with TLS is at wss:// or https://"
LOG = "See what the server's log says"
NO_PATH = "Check the address; livecap's server needs no path, as in ws://host:8000"


class ServerError(LivecapError):
    """The server that was to caption can't be used."""

    code: ClassVar[str] = "server_failed"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why there is no connection, or none any more."""

    error_text: str  # a part of a sentence
    remedy: str
    lasting: bool = False  # to ask again would change nothing
    wait: float = 0.0  # seconds that the server wants to be left alone
    is_busy: bool = False  # it is there, and will be of use later
    is_usual: bool = False  # sessions end like this

    @property
    def error(self) -> ServerError:
        """The same for those who can't go on."""
        return ServerError(self.error_text, remedy=self.remedy)


def of_status(name: str, status: int, message: str = "", after: str | None = None) -> Trouble:
    """An HTTP status, what the server says of it, and its Retry-After."""
    detail = f": {message.rstrip('.')}" if message else ""
    if status == 401:
        return Trouble(f"{name} refuses the key (401){detail}", NO_KEY, lasting=True)
    if status == 403:  # also what Starlette says of a WebSocket at an address that it doesn't know
        return Trouble(
            f"{name} lets nobody in there (403){detail}", f"{NO_PATH}; and the key", lasting=True
        )
    if status == 404:
        return Trouble(f"{name} has nothing at that address (404){detail}", NO_PATH, lasting=True)
    if status in BUSY:
        what = "is busy" if status == 429 else "is not ready"
        error_text = f"{name} {what} ({status}){detail}"
        return Trouble(error_text, "Try again later", wait=_seconds(after), is_busy=True)
    return Trouble(
        f"{name} answers with status {status}{detail}",
        "Check the address, and what the server's log says",
        lasting=status < 500,
    )


def of_refusal(name: str, code: str, message: str) -> Trouble:
    """An error that a live session begins with (its codes: OpenAI Realtime API)."""
    message = message.rstrip(".")
    if code == "invalid_api_key":
        return Trouble(f"{name} refuses the key: {message}", NO_KEY, lasting=True)
    if code in ("rate_limit_exceeded", "server_stopping"):
        return Trouble(f"{name} is busy: {message}", "Try again later", is_busy=True)
    if code in ("invalid_model", "model_not_found"):
        remedy = "Check --model; /v1/models lists what the server has"
        return Trouble(f"{name} refuses the model: {message}", remedy, lasting=True)
    return Trouble(f"{name} refuses the session: {message}", NO_PATH, lasting=True)


def of_close(name: str, code: int | None) -> Trouble:
    """How a WebSocket was closed (RFC 6455; 3000 and 4000 as OpenAI's service uses them)."""
    if code in (3000, 4000):
        what = "key" if code == 3000 else "session"
        return Trouble(f"{name} refuses the {what} ({code})", NO_KEY, lasting=True)
    return Trouble(
        f"{name} {CLOSES.get(code or 0, 'is gone')}",
        LOG,
        is_busy=code in (1012, 1013),
        is_usual=code in (1000, 1001),
    )


def broken(name: str, reason: str) -> Trouble:
    """It can't caption what it hears."""
    return Trouble(f"{name} could not caption something: {reason.rstrip('.')}", LOG)


def silent(name: str) -> Trouble:
    """A connection on which nothing comes."""
    return Trouble(f"{name} says nothing", NO_PATH)


def no_websocket(name: str) -> Trouble:
    """It answers, but not as WebSockets begin."""
    return Trouble(f"{name} does not answer as livecap's server does", PORT)


def of_error(name: str, error: Exception) -> Trouble:
    """What the network raised. Certificates and addresses don't mend themselves."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Trouble(
            f"the certificate of {name} is not trusted ({error.verify_message})",
            "Name it, or its authority's, with --server-ca: that of `livecap serve --tls auto` is "
            "the file livecap.crt in its folder tls",
            lasting=True,
        )
    if isinstance(error, ssl.SSLError):
        return Trouble(
            f"{name} does not speak TLS as it should ({error.strerror or error})",
            "Use ws:// or http:// for a server without TLS",
            lasting=not isinstance(error, ssl.SSLEOFError),
        )
    if isinstance(error, socket.gaierror):
        return Trouble(f"the host of {name} is not known", "Check the address and the network")
    # asyncio puts what several addresses of a host say into one message
    if isinstance(error, ConnectionRefusedError) or f"[Errno {ECONNREFUSED}]" in str(error):
        return Trouble(
            f"nothing listens at {name}",
            "Start it there with `livecap serve`; for other machines than its own it needs --host",
        )
    if isinstance(error, TimeoutError):
        return Trouble(f"{name} does not answer", "Check the address and the network")
    if isinstance(error, http.client.HTTPException) and not isinstance(error, OSError):
        return Trouble(
            f"{name} does not answer as a web server does ({type(error).__name__})",
            PORT,
        )
    reason = error.strerror if isinstance(error, OSError) else None
    message = f"the connection to {name} failed ({reason or error or type(error).__name__})"
    return Trouble(message, PORT)


def _seconds(after: str | None) -> float:
    """Retry-After, which is seconds or a date (RFC 9110)."""
    if not after:
        return 0.0
    try:
        wanted = float(after)
    except ValueError:
        try:
            until = parsedate_to_datetime(after)
        except ValueError:
            return 0.0
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        wanted = (until - datetime.now(UTC)).total_seconds()
    return 0.0 if math.isnan(wanted) else min(max(wanted, 0.0), LONGEST)
