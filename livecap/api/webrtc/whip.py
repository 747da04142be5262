"""`/v1/whip`: audio from encoders such as OBS, as a call without a data channel.

What is heard is read at `/v1/captions/{id}`, to which a `Link` of the answer points. Source:
RFC 9725 (WHIP); RFC 8840 for fragments of SDP.
"""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from livecap.api.errors import ApiError
from livecap.api.sessions.calls import OpenCall, no_call
from livecap.api.sessions.state import AppState
from livecap.api.webrtc.candidates import TooMany
from livecap.api.webrtc.signalling import SDP, body_of, kind_of, opened, text_of

AT = "/v1/whip"
FRAGMENT = "application/trickle-ice-sdpfrag"
CAPTIONS = "tag:livecap,2026:captions"  # RFC 4151: the relation of a call to its captions


def routes(parts: AppState) -> list[BaseRoute]:
    """The routes, for the application."""
    made = _WhipRoutes(parts)
    return [
        Route(AT, made.root, methods=["OPTIONS", "POST"]),
        Route(f"{AT}/{{id}}", made.one, methods=["OPTIONS", "PATCH", "DELETE"]),
    ]


@dataclass(frozen=True, slots=True)
class _WhipRoutes:
    parts: AppState

    async def root(self, request: Request) -> Response:
        """OPTIONS: what can be posted. POST: an offer -> 201 and the answer."""
        if request.method == "OPTIONS":
            return Response(headers={"Accept-Post": SDP})
        if kind_of(request) != SDP:
            message = f"The Content-Type has to be {SDP}."
            raise ApiError(
                415, message, code="unsupported_content_type", headers={"Accept-Post": SDP}
            )
        offer = text_of(await body_of(request))
        began = await opened(self.parts, request, offer, None, is_ingest=True)
        answer = Response(began.answer, 201, media_type=SDP)
        answer.headers["Location"] = f"{AT}/{began.id}"
        answer.headers["ETag"] = f'"{began.call.tag}"'
        for server in self.parts.config.ice_servers:
            answer.headers.append("Link", server.link())
        events = f"/v1/captions/{began.call.captions_id}/events"
        answer.headers.append("Link", f'<{events}>; rel="{CAPTIONS}"')
        return answer

    async def one(self, request: Request) -> Response:
        """PATCH: further addresses. DELETE: the end."""
        if request.method == "OPTIONS":
            return Response(headers={"Accept-Patch": FRAGMENT})
        call = self.parts.calls.find(request.path_params["id"])
        if call is None or not call.is_ingest:
            raise no_call()
        if request.method == "DELETE":
            call.hang_up()
            return Response(status_code=200)
        return await self._patch(request, call)

    async def _patch(self, request: Request, call: OpenCall) -> Response:
        if kind_of(request) != FRAGMENT:
            headers = {"Accept-Patch": FRAGMENT}
            message = f"The Content-Type has to be {FRAGMENT}."
            raise ApiError(415, message, code="unsupported_content_type", headers=headers)
        fragment = Fragment.read(text_of(await body_of(request)))
        wanted = request.headers.get("if-match")
        tags = [tag.strip() for tag in (wanted or "*").split(",")]
        if "*" not in tags and f'"{call.tag}"' not in tags:
            raise ApiError(412, "If-Match names another ICE session.", code="precondition_failed")
        if fragment.user is not None and fragment.user != call.user:
            if wanted is None:
                message = "A restart of ICE needs If-Match."
                raise ApiError(428, message, code="precondition_required")
            raise ApiError(422, "ICE can't be restarted here.", code="restart_not_supported")
        try:
            await call.trickle(fragment.candidates)
        except TooMany as error:
            raise ApiError(400, str(error), code="too_many_candidates") from error
        except ValueError as error:
            raise ApiError(400, "A candidate can't be read.", code="invalid_sdp") from error
        return Response(status_code=204)


@dataclass(frozen=True, slots=True)
class Fragment:
    """What is read of a body of PATCH."""

    user: str | None  # a=ice-ufrag
    candidates: list[str]

    @classmethod
    def read(cls, text: str) -> "Fragment":
        """Lines that mean nothing here are left alone. Raises ApiError for what is none."""
        user, candidates = None, []
        for line in filter(None, (line.strip() for line in text.splitlines())):
            if line[1:2] != "=":
                raise ApiError(400, "This is no fragment of SDP.", code="invalid_sdp")
            name, _, value = line.removeprefix("a=").partition(":")
            if name == "ice-ufrag":
                user = value
            elif name == "candidate":
                candidates.append(value)
        return cls(user, candidates)
