"""The routes that hand out client secrets, for browsers that open live sessions.

Source: OpenAI's Realtime API, `POST /v1/realtime/client_secrets`, and for the shape of the beta
`POST /v1/realtime/transcription_sessions`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from livecap.api.access.client_secrets import LONGEST, SHORTEST, USUAL, Secret
from livecap.api.errors import ApiError, invalid
from livecap.api.realtime import MOST_JSON, is_deep
from livecap.api.realtime.connection import SessionLimits
from livecap.api.realtime.errors import Refusal
from livecap.api.realtime.views import Views, check_session
from livecap.api.sessions.state import AppState

Kind = TypeVar("Kind")

ANCHOR = "created_at"


class _Expiry(msgspec.Struct):
    """`expires_after`."""

    anchor: str = ANCHOR
    seconds: int = USUAL


Session = dict[str, object]


class _Wanted(msgspec.Struct):
    """The body of `client_secrets`."""

    expires_after: _Expiry | None = None
    session: Session | None = None


class _Holder(msgspec.Struct):
    """`client_secret` of the beta's body."""

    expires_after: _Expiry | None = None


class _Beta(msgspec.Struct):
    """What is read here of the body of `transcription_sessions`; all of it is the session."""

    client_secret: _Holder | None = None


def routes(parts: AppState) -> list[BaseRoute]:
    """The routes, for the application."""
    made = _ClientSecretRoutes(parts)
    return [
        Route("/v1/realtime/client_secrets", made.current, methods=["POST"]),
        Route("/v1/realtime/transcription_sessions", made.beta, methods=["POST"]),
    ]


@dataclass(frozen=True, slots=True)
class _ClientSecretRoutes:
    parts: AppState

    async def current(self, request: Request) -> Response:
        """POST /v1/realtime/client_secrets."""
        wanted = _read(await _body(request), _Wanted)
        seconds = _seconds(wanted.expires_after, "expires_after")
        session = wanted.session or {"type": "transcription"}
        payload = self._checked(session, beta=False).ga
        secret = self._make(session, seconds)
        return JSONResponse(
            {"value": secret.value, "expires_at": secret.expires, "session": payload}
        )

    async def beta(self, request: Request) -> Response:
        """POST /v1/realtime/transcription_sessions."""
        body = await _body(request)
        holder = _read(body, _Beta).client_secret or _Holder()
        seconds = _seconds(holder.expires_after, "client_secret.expires_after")
        session = {key: value for key, value in body.items() if key != "client_secret"}
        payload = self._checked(session, beta=True).beta
        secret = self._make(session, seconds)
        payload["client_secret"] = {"value": secret.value, "expires_at": secret.expires}
        return JSONResponse(payload)

    def _checked(self, session: Mapping[str, object], *, beta: bool) -> Views:
        """How a configuration takes effect. Checked now: a browser could do nothing about it."""
        limits = SessionLimits(strict=self.parts.config.strict)
        try:
            return check_session(session, self.parts.models, limits, beta=beta)
        except Refusal as error:
            raise ApiError(400, error.message, code=error.code, param=error.param) from error

    def _make(self, session: Mapping[str, object], seconds: int) -> Secret:
        secret = self.parts.secrets.make(session, seconds)
        if secret is None:
            raise invalid("session", "The session is too large to be kept in a client secret.")
        return secret


async def _body(request: Request) -> dict[str, object]:
    """The JSON object in a request; nothing at all is an empty one."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_JSON:
            raise ApiError(
                413, f"The body is larger than {MOST_JSON} bytes.", code="body_too_large"
            )
    if not data.strip():
        return {}
    if is_deep(data.decode("utf-8", "replace")):
        raise ApiError(400, "The body's objects are too deep.", code="invalid_json")
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ApiError(400, f"The body is no JSON: {error}.", code="invalid_json") from error
    if not isinstance(found, dict):
        raise ApiError(400, "The body has to be a JSON object.", code="invalid_json")
    return found


def _read(body: Mapping[str, object], kind: type[Kind]) -> Kind:
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        message = str(error)
        param = message.rpartition("`$.")[2].removesuffix("`") if "`$." in message else "body"
        raise invalid(param, f"{message}.") from error


def _seconds(wanted: _Expiry | None, param: str) -> int:
    """How long a secret shall last. Raises ApiError."""
    if wanted is None:
        return USUAL
    if wanted.anchor != ANCHOR:
        raise invalid(f"{param}.anchor", f"The anchor can only be '{ANCHOR}'.")
    if not SHORTEST <= wanted.seconds <= LONGEST:
        message = f"A client secret lasts {SHORTEST} to {LONGEST} seconds, not {wanted.seconds}."
        raise invalid(f"{param}.seconds", message)
    return wanted.seconds
