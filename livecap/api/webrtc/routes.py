"""`/v1/realtime/calls`: WebRTC as OpenAI's clients open it. And the servers it may go through.

Source: OpenAI Realtime API, `POST /v1/realtime/calls` and `/v1/realtime/calls/{id}/hangup`.
"""

import importlib.util
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import msgspec
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from livecap.api.errors import ApiError, missing
from livecap.api.realtime import is_deep
from livecap.api.sessions.calls import no_call
from livecap.api.sessions.state import AppState
from livecap.api.webrtc import whip
from livecap.api.webrtc.signalling import SDP, absent, body_of, kind_of, opened, text_of

MULTIPART = "multipart/form-data"
AT = "/v1/realtime/calls"


def routes(parts: AppState) -> list[BaseRoute]:
    """The routes, for the application."""
    made = _CallRoutes(parts)
    return [
        Route(AT, made.open, methods=["POST"]),
        Route("/v1/realtime", made.open, methods=["POST"]),  # of the beta
        Route(f"{AT}/{{id}}/hangup", made.hang_up, methods=["POST"]),
        Route("/v1/realtime/ice", made.ice),
        *whip.routes(parts),
    ]


@dataclass(frozen=True, slots=True)
class _CallRoutes:
    parts: AppState

    async def open(self, request: Request) -> Response:
        """POST: an offer -> 201 and the answer, with all addresses in it."""
        kind = kind_of(request)
        if kind not in (SDP, MULTIPART):
            message = f"The Content-Type has to be {SDP}, or {MULTIPART} with a part 'sdp'."
            raise ApiError(415, message, code="unsupported_content_type")
        raw, session = await body_of(request), None
        if kind == MULTIPART:
            raw, session = await _parts_of(request, raw)
        began = await opened(self.parts, request, text_of(raw), session, is_ingest=False)
        headers = {"Location": f"{AT}/{began.id}"}
        return Response(began.answer, 201, headers, media_type=SDP)

    async def hang_up(self, request: Request) -> Response:
        """POST: what was said is still told, then the call is over."""
        call = self.parts.calls.find(request.path_params["id"])
        if call is None:
            raise no_call()
        call.hang_up()
        return Response(status_code=200)

    async def ice(self, request: Request) -> Response:
        """GET: what a page gives to its `RTCPeerConnection`."""
        if importlib.util.find_spec("aiortc") is None:
            raise absent()
        shapes = [one.shape() for one in self.parts.config.ice_servers]
        return JSONResponse({"iceServers": shapes})


async def _parts_of(request: Request, raw: bytes) -> tuple[bytes, dict[str, object] | None]:
    """The two parts of a form: the offer, and the session if there is one. Raises ApiError."""

    async def body() -> AsyncGenerator[bytes, None]:
        yield raw

    try:
        form = await MultiPartParser(request.headers, body(), max_files=2, max_fields=8).parse()
    except (MultiPartException, KeyError) as error:
        raise ApiError(400, "The form can't be read.", code="invalid_form") from error
    try:
        found: dict[str, bytes] = {}
        for name, part in form.multi_items():
            found[name] = await part.read() if isinstance(part, UploadFile) else part.encode()
    finally:
        await form.close()
    if "sdp" not in found:
        raise missing("sdp")
    if "session" not in found:
        return found["sdp"], None
    if is_deep(found["session"].decode("utf-8", "replace")):
        message = "The objects of the part 'session' are too deep."
        raise ApiError(400, message, code="invalid_json", param="session")
    try:
        return found["sdp"], msgspec.json.decode(found["session"], type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        message = "The part 'session' has to be a JSON object."
        raise ApiError(400, message, code="invalid_json", param="session") from error
