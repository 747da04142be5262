"""A request with an offer -> a call that runs, and the answer to the offer."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request

from livecap.api.errors import ApiError, unknown_model
from livecap.api.realtime import (
    Connection,
    Refusal,
    SessionLimits,
    asks_for_beta,
    check_session,
)
from livecap.api.sessions.state import AppState
from livecap.api.viewers import Part
from livecap.api.webrtc.call import Call

if TYPE_CHECKING:
    from livecap.api.webrtc.peer import RtcPeer

SDP = "application/sdp"
BODY = 256 << 10  # bytes of an offer and all around it
RATE = 48_000  # Hz of the audio that peers give


@dataclass(frozen=True, slots=True)
class Opened:
    """A call that has begun."""

    id: str
    call: Call
    answer: str  # SDP


async def opened(
    parts: AppState,
    request: Request,
    offer: str,
    session: Mapping[str, object] | None,
    *,
    is_ingest: bool,
) -> Opened:
    """Let a call in, answer it and run it. `session`: its configuration, if it came with one.

    Raises ApiError.
    """
    connection, model = _connection(parts, request, session)
    await parts.hub.revive(Part.of_query(connection.query))
    kind = await _peer_kind()
    ticket = parts.admission.session(model)
    if isinstance(ticket, ApiError):
        raise ticket
    is_local = parts.door.is_local(request.scope)
    async with AsyncExitStack() as undone:
        undone.callback(ticket.release)
        peer = kind(parts.config.ice_servers)
        undone.push_async_callback(peer.close)
        try:
            answer = await peer.answer(offer, is_ingest=is_ingest, is_local=is_local)
        except ValueError as error:
            raise ApiError(400, str(error), code="invalid_sdp", param="sdp") from error
        call = Call(parts, connection, ticket, peer, is_ingest=is_ingest)
        undone.pop_all()  # from here on it frees itself
    return Opened(parts.calls.start(call, call.run()), call, answer)


def kind_of(request: Request) -> str:
    """The body's media type, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def body_of(request: Request) -> bytes:
    """The body. Raises ApiError for a large one."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > BODY:
            raise ApiError(413, f"The body is larger than {BODY} bytes.", code="body_too_large")
    return bytes(data)


def text_of(raw: bytes) -> str:
    """Raises ApiError for what is no text."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ApiError(400, "This is no UTF-8.", code="invalid_sdp", param="sdp") from error


def _connection(
    parts: AppState, request: Request, session: Mapping[str, object] | None
) -> tuple[Connection, str]:
    """What the session begins with, and the model it asks for first. Raises ApiError."""
    query = dict(request.query_params)
    named = query.get("model") or None
    model = parts.models.canonical(named)
    if model is None:
        raise unknown_model(str(named))
    if session is None:
        session = parts.door.check(request.scope).session  # of a client secret
    if session is not None:
        model = _check(parts, session) or model
    # A URL without a model is what vLLM's clients are known by, which know no calls.
    connection = Connection(
        {**query, "model": named or model},
        beta=asks_for_beta(request.headers.get("openai-beta"), ()),
        media_rate=RATE,
        session=session,
    )
    return connection, model


def _check(parts: AppState, session: Mapping[str, object]) -> str | None:
    """The served model that a configuration names. Raises ApiError for what can't be followed."""
    try:
        views = check_session(
            session, parts.models, SessionLimits(strict=parts.config.strict), beta=False
        )
    except Refusal as error:
        raise ApiError(400, error.message, code=error.code, param=error.param) from error
    spoken = views.beta["input_audio_transcription"]
    return parts.models.canonical(str(spoken["model"])) if isinstance(spoken, dict) else None


async def prepare() -> None:
    """Load what the first call needs, if it is there, so that nobody waits for it."""
    with suppress(ApiError):
        await _peer_kind()


async def _peer_kind() -> type["RtcPeer"]:
    """aiortc, which takes a while to load. Raises ApiError if it isn't there."""

    def load() -> type["RtcPeer"]:
        from livecap.api.webrtc.peer import RtcPeer

        return RtcPeer

    try:
        return await asyncio.to_thread(load)
    except ImportError as error:
        raise absent() from error


def absent() -> ApiError:
    """501: the packages for WebRTC are not installed."""
    return ApiError(
        501,
        "This server has no WebRTC: install it with pip install 'livecap[webrtc]'. Live audio is "
        "taken over a WebSocket at /v1/realtime, too.",
        type="server_error",
        code="webrtc_not_installed",
        headers={"x-should-retry": "false"},
    )
