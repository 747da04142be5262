"""A request's head -> who may come in: keys, client secrets, and the pages of browsers.

Sources: OpenAI's API (bearer keys, and for browsers the subprotocol `openai-insecure-api-key.`);
`x-api-key` as in other servers; the Fetch standard for `Origin`.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from livecap.frontends.server.options import SECRET, is_loopback
from livecap.frontends.server.problems import ApiError, response
from livecap.frontends.server.secrets import Secrets
from livecap.metrics import Metrics

PROTOCOL = "realtime"  # the subprotocol that is answered, where it was offered
CARRIER = "openai-insecure-api-key."  # what stands before a key among the subprotocols

# What is answered without a key: it tells nobody anything, and monitoring has none.
OPEN = frozenset({"/", "/health", "/health/ready", "/metrics"})
# Pages, which tell nothing that is not public; and what readers with a link get. Who has none needs
# a key for that all the same.
READ = ("/v1/captions/", "/web/", "/view/", "/overlay/")
# What a client secret opens: live sessions alone, and not the making of further secrets. Whoever
# knows a call's id may end it.
LIVE = frozenset({"/v1/realtime", "/v1/realtime/calls", "/v1/realtime/ice", "/v1/whip"})
LIVE_ONE = ("/v1/realtime/calls/", "/v1/whip/")

REFUSED, REFUSED_REASON = 3000, "invalid_request_error.invalid_api_key"  # as OpenAI closes sockets
BEARER = {"WWW-Authenticate": "Bearer"}


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether somebody may come in, and what a WebSocket is answered.

    If `refusal` has status 401, the WebSocket is opened all the same, told the error and closed
    (browsers can't read anything else); with 403 it is not even opened.
    """

    who: Literal["anyone", "key", "secret", "nobody"]
    refusal: ApiError | None = None
    session: Mapping[str, object] | None = None  # the configuration that a client secret carries
    subprotocol: str | None = None  # to accept a WebSocket with

    @property
    def close_code(self) -> int:
        """Of a WebSocket that was opened to be told of its refusal."""
        return REFUSED

    @property
    def close_reason(self) -> str:
        """Of the same."""
        return REFUSED_REASON


class Door:
    """The one check for HTTP and WebSocket."""

    def __init__(
        self,
        keys: Sequence[str],
        secrets: Secrets,
        *,
        origins: Sequence[str] = (),
        hosts: Sequence[str] = (),
        query_key: bool = False,
    ) -> None:
        """`origins`: those of pages that may come in without a key. `hosts`: names of this machine.
        `query_key`: whether keys are taken from the URL, too.
        """
        self._keys = [_digest(key) for key in keys]
        self._secrets = secrets
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self._hosts = frozenset(host.lower() for host in hosts)
        self._query_key = query_key

    def check(self, scope: Scope) -> Decision:
        """An ASGI scope, HTTP or WebSocket -> the decision."""
        headers = Headers(scope=scope)
        offered: list[str] = scope.get("subprotocols", [])
        subprotocol = PROTOCOL if PROTOCOL in offered else None
        key = _key_in(headers, offered)
        if key is None and self._query_key:
            key = _key_in_query(scope["query_string"])
        if key is not None and key.startswith(SECRET):
            return self._secret(key, scope["path"], subprotocol)
        if self._keys:
            is_known = key is not None and self._is_known(key)
            refusal = None if is_known else _bad_key(key)
            return Decision("key" if is_known else "nobody", refusal, None, subprotocol)
        if self._may_ask(headers):
            return Decision("anyone", None, None, subprotocol)
        return Decision("nobody", _bad_origin(), None, None)

    def _is_known(self, key: str) -> bool:
        """Takes as long whichever key it is, or none."""
        digest = _digest(key)
        return any([hmac.compare_digest(digest, known) for known in self._keys])

    def _secret(self, value: str, path: str, subprotocol: str | None) -> Decision:
        found = self._secrets.read(value)
        if found is None:
            return Decision("nobody", _bad_secret(), None, subprotocol)
        if path not in LIVE and not path.startswith(LIVE_ONE):
            return Decision("nobody", _narrow_secret(), None, subprotocol)
        return Decision("secret", None, found.session, subprotocol)

    def _may_ask(self, headers: Headers) -> bool:
        """Where no key is asked for: whether the page that asks, if it is one, may.

        Otherwise any page that is open in a browser here could use this server. A page of this
        server itself may, unless it was reached by a name that a stranger could have pointed here.
        """
        origin = headers.get("origin")
        if "*" in self._origins or (origin is not None and origin.lower() in self._origins):
            return True
        if origin is None:  # no page, or one that asks what it takes for its own server
            return self._is_ours(headers.get("host", ""))
        try:
            named = urlsplit(origin.lower())
            host = named.hostname
        except ValueError:
            return False
        if named.scheme not in ("http", "https") or host is None:
            return False
        if is_loopback(host):
            return True
        return named.netloc == headers.get("host", "").lower() and self._is_ours(named.netloc)

    def _is_ours(self, netloc: str) -> bool:
        """Whether a `Host` is a name that no stranger can have pointed at this machine."""
        try:
            host = urlsplit(f"//{netloc.lower()}").hostname
        except ValueError:
            return False
        if host is None:  # browsers always send one
            return not netloc
        known = self._hosts | {urlsplit(origin).hostname for origin in self._origins}
        return is_loopback(host) or _is_address(host) or host in known


def is_open(scope: Scope) -> bool:
    """Whether a request needs no key: it tells nothing, or its link says that it may be read."""
    path: str = scope["path"]
    is_asked = scope["method"] in ("GET", "HEAD")
    return path in OPEN or (is_asked and path.startswith(READ))


class Guard:
    """ASGI: lets HTTP requests through, or answers them with the refusal.

    WebSockets ask the door themselves: their refusal is said on the open socket.
    """

    def __init__(self, app: ASGIApp, door: Door, metrics: Metrics) -> None:
        self._app = app
        self._door = door
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_open(scope):
            refusal = self._door.check(scope).refusal
            if refusal:
                self._metrics.errors.labels(refusal.code).inc()
                await response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _key_in(headers: Headers, offered: Sequence[str]) -> str | None:
    """The key that a request's head carries; what is said in `Authorization` counts first."""
    scheme, _, key = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return key.strip()
    if "x-api-key" in headers:
        return headers["x-api-key"].strip()
    carried = (name.removeprefix(CARRIER) for name in offered if name.startswith(CARRIER))
    return next(carried, None)


def _key_in_query(query: bytes) -> str | None:
    asked = parse_qs(query.decode("latin-1"), max_num_fields=100)
    return next((asked[name][0] for name in ("api_key", "token") if name in asked), None)


def _is_address(host: str) -> bool:
    return ":" in host or re.fullmatch(r"\d+(\.\d+){3}", host) is not None


def _unauthorised(message: str) -> ApiError:
    return ApiError(401, message, code="invalid_api_key", headers=BEARER)


def _bad_key(key: str | None) -> ApiError:
    if key is None:
        return _unauthorised(
            "You didn't provide an API key. Send it as 'Authorization: Bearer <key>'."
        )
    return _unauthorised("Incorrect API key provided.")


def _bad_secret() -> ApiError:
    return _unauthorised("This client secret is not valid here, or has expired. Ask for a new one.")


def _narrow_secret() -> ApiError:
    return _unauthorised("A client secret opens live sessions alone; this needs an API key.")


def _bad_origin() -> ApiError:
    return ApiError(
        403,
        "Pages of that origin may not use this server. Start it with --cors-origin, or with a key.",
        code="origin_not_allowed",
    )
