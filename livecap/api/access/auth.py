"""A request's head -> who may come in: keys, client secrets, and the pages of browsers.

Sources: OpenAI's API (bearer keys, and for browsers the subprotocol `openai-insecure-api-key.`);
`x-api-key` as in other servers; the Fetch standard for `Origin`.
"""

import asyncio
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from livecap.api.access.client_secrets import Secrets
from livecap.api.access.connection_limits import party
from livecap.api.access.failed_keys import Guesses
from livecap.api.access.origins import Origins
from livecap.api.errors import ApiError, response
from livecap.api.options import SECRET
from livecap.metrics import Metrics

PROTOCOL = "realtime"  # the subprotocol that is answered, where it was offered
CARRIER = "openai-insecure-api-key."  # what stands before a key among the subprotocols

# What is answered without a key: it tells nobody anything, and monitoring has none.
METRICS = "/metrics"  # unless --metrics-key says otherwise
OPEN = frozenset({"/", "/health", "/health/ready", METRICS})
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
        trusts_proxy: bool = False,
        metrics_key: str = "",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`origins`: those of pages that may come in without a key. `hosts`: names of this machine.
        `query_key`: whether keys are taken from the URL, too. `trusts_proxy`: clients' addresses
        are as a proxy says. `metrics_key`: what opens /metrics alone; "": nothing is asked for.
        `now`: seconds.
        """
        self._keys = [_digest(key) for key in keys]
        self._secrets = secrets
        self._origins = Origins(origins, hosts, trusts_proxy=trusts_proxy)
        self._query_key = query_key
        self._metrics_key = _digest(metrics_key) if metrics_key else None
        self._guesses = Guesses(now)

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
        self._origins.note_proxy(headers)
        if self._keys:
            refusal = self._try(key, scope)
            return Decision("nobody" if refusal else "key", refusal, None, subprotocol)
        refusal = self._origins.refusal(headers)
        if refusal is None:
            return Decision("anyone", None, None, subprotocol)
        return Decision("nobody", refusal, None, None)

    def is_local(self, scope: Scope) -> bool:
        """Whether a request was made on this machine, as far as that can be known."""
        return self._origins.is_local(scope)

    def refuses_metrics(self, scope: Scope) -> ApiError | None:
        """Why a request may not see the metrics; None if it may."""
        if self._metrics_key is None:
            return None
        key = _key_in(Headers(scope=scope), ())
        if locked := self._locked(scope):
            return locked
        digest = _digest(key or "")
        if hmac.compare_digest(digest, self._metrics_key):
            return None
        if key is not None:
            self._guesses.wrong(party_of(scope), digest)
        return _bad_key(key)

    @property
    def is_keyless(self) -> bool:
        """Whether anybody who reaches the server may come in."""
        return not self._keys

    def delay(self, scope: Scope) -> float:
        """Seconds that a refusal may take: more for those who try keys."""
        return self._guesses.delay(party_of(scope))

    def _locked(self, scope: Scope) -> ApiError | None:
        """Nobody on this machine is locked out: any page that is open in a browser here could do
        that to its user.
        """
        seconds = 0 if self.is_local(scope) else self._guesses.locked(party_of(scope))
        return _locked(seconds) if seconds else None

    def _try(self, key: str | None, scope: Scope) -> ApiError | None:
        if key is None:
            return _bad_key(None)
        if locked := self._locked(scope):
            return locked
        if self._is_known(key):
            return None
        self._guesses.wrong(party_of(scope), _digest(key))
        return _bad_key(key)

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


def party_of(scope: Scope) -> str:
    """Who a request is counted with, by the address that it came from."""
    client = scope.get("client")
    return party(client[0]) if client else ""


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
        if scope["type"] == "http" and (scope["path"] == METRICS or not is_open(scope)):
            is_metrics = scope["path"] == METRICS
            look = self._door.refuses_metrics if is_metrics else self._refusal
            refusal = look(scope)
            if refusal:
                self._metrics.errors.labels(refusal.code).inc()
                await asyncio.sleep(self._door.delay(scope))
                await response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> ApiError | None:
        return self._door.check(scope).refusal


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


def _locked(seconds: int) -> ApiError:
    return ApiError(
        429,
        f"Too many wrong keys came from this address. Please try again in {seconds} s.",
        type="rate_limit_error",
        code="too_many_wrong_keys",
        headers={"Retry-After": str(seconds)},
    )
