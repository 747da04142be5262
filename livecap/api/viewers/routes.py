"""The routes for readers: links, server-sent events, and documents.

Source: the HTML standard, section "Server-sent events"; and WebVTT, SubRip and OpenAI's verbose
JSON as livecap's files have them.
"""

import asyncio
import hmac
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from livecap.api.access.auth import Door
from livecap.api.access.connection_limits import party
from livecap.api.errors import ApiError, invalid
from livecap.api.viewers.channel import END, Broadcast
from livecap.api.viewers.documents import FORMATS, Documents
from livecap.api.viewers.links import links
from livecap.api.viewers.registry import HistoryError, Hub, Summary, may_read, summary

TALK_KEY = "livecap-captions-key"  # the header with what a talk's speaker was told
PAGE, LARGEST = 50, 500  # sessions in a list, if it isn't said how many; and at most
LATER = 30  # seconds after which one may ask again for whom there was no place
AT_ONCE = 32 << 10  # bytes that are sent together
BEAT = 15.0  # seconds after which a comment tells proxies that the connection is alive
STREAM = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


@dataclass(frozen=True, slots=True)
class _ViewerRoutes:
    hub: Hub
    door: Door
    left: str  # what a deletion does not reach; "": nothing that we know of
    limit: int  # readers of one talk, and from one address; 0: any number
    addresses: Sequence[str]  # of this machine, by which others reach the server
    reading: Counter[str] = field(default_factory=Counter)  # readers, by talk and by address
    documents: Documents = field(default_factory=Documents)

    async def _broadcast(self, request: Request) -> Broadcast:
        """The one that is asked for, if this reader may have it. Raises ApiError."""
        id = request.path_params["id"]
        with told_of_trouble():
            found = await self.hub.recall(id)
        # A link is for reading, whatever the server asks of others.
        is_asked = request.method in ("GET", "HEAD")
        token = request.query_params.get("token") if is_asked else None
        if found is not None and may_read(found, token):
            return found
        if token is None:
            refusal = self.door.check(request.scope).refusal or self._stranger(request, id)
            if refusal:
                raise refusal
            if found is not None:
                return found
        # Who has no right to know is not told whether there is one.
        raise ApiError(404, "There are no captions here (any more).", code="captions_not_found")

    def _stranger(self, request: Request, id: str = "") -> ApiError | None:
        """Where no key is asked for: a refusal for those on other machines who don't speak there.

        Whoever has a reader's link knows the id, and may read; that is all.
        """
        if not self.door.is_keyless or self.door.is_local(request.scope):
            return None
        proof, known = request.headers.get(TALK_KEY, ""), self.hub.proof_of(id)
        if id and known and hmac.compare_digest(proof.encode(), known.encode()):
            return None
        message = (
            "That is for its speaker, whose session names the captions_key, and for this machine."
        )
        return ApiError(403, message, code="captions_key_required")

    async def share(self, request: Request) -> Response:
        """POST: a link; DELETE: no more. Only for those who have a key."""
        found = await self._broadcast(request)
        if request.method == "DELETE":
            self.hub.unshare(found)
            await self._settled()
            return Response(status_code=204)
        token = self.hub.share(found)
        await self._settled()
        made = links(request, found.id, token, self.addresses)
        return JSONResponse(made.payload(), status_code=201)

    async def events(self, request: Request) -> Response:
        """Server-sent events: the history, then what is said."""
        found = await self._broadcast(request)
        last = request.headers.get("last-event-id", request.query_params.get("after", "0"))
        after = int(last) if last.isascii() and last.isdigit() and len(last) < 10 else 0
        if request.method == "HEAD":
            return Response(media_type="text/event-stream", headers=STREAM)
        who = party(request.client.host) if request.client else ""
        keys = (f"talk {found.id}", f"address {who}")
        if self.limit and max(self.reading[key] for key in keys) >= self.limit:
            raise _crowded()
        return _Following(found, after, self.reading, keys)

    async def document(self, request: Request) -> Response:
        """What has been said so far, as a file."""
        found, form = await self._broadcast(request), request.path_params["form"]
        if form not in FORMATS:
            raise ApiError(404, f"Formats are: {', '.join(FORMATS)}.", code="unknown_format")
        body = await self.documents.get(found, form)
        name = f"captions-{found.id[-6:]}.{form}"
        return Response(
            body,
            media_type=FORMATS[form],
            headers={"Content-Disposition": f'inline; filename="{name}"', **STREAM},
        )

    async def one(self, request: Request) -> Response:
        """GET: what there is; DELETE: forget it. Only for those who have a key."""
        found = await self._broadcast(request)
        if request.method == "DELETE":
            self.hub.forget(found.id)
            self.documents.forget(found.id)
            await self._settled()
            if not self.left:
                return Response(status_code=204)
            return JSONResponse({"id": found.id, "deleted": True, "left": self.left})
        return JSONResponse(_told(summary(found, [])))

    async def all(self, request: Request) -> Response:
        """What there is, or those in which words are said (`q`). Only for those who have a key."""
        refusal = self._stranger(request)
        if refusal:
            raise refusal
        asked = request.query_params
        query, limit = asked.get("q", ""), asked.get("limit", str(PAGE))
        if not (limit.isascii() and limit.isdigit() and 0 < int(limit[:6]) <= LARGEST):
            raise invalid("limit", f"Use 1 to {LARGEST}.")
        with told_of_trouble():
            found = await self.hub.sessions(query, asked.get("after", ""), int(limit) + 1)
        data = [_told(one) for one in found[: int(limit)]]
        return JSONResponse(
            {
                "object": "list",
                "data": data,
                "first_id": data[0]["id"] if data else None,
                "last_id": data[-1]["id"] if data else None,
                "has_more": len(found) > int(limit),
                "kept": self.hub.keeper is not None,
                "stays": self.hub.stays,
            }
        )

    async def _settled(self) -> None:
        """It is so after a restart, too."""
        with told_of_trouble():
            await self.hub.settled()


class _Following(StreamingResponse):
    """Events for one reader, who is counted while they are sent."""

    def __init__(
        self, broadcast: Broadcast, after: int, counts: Counter[str], keys: Sequence[str]
    ) -> None:
        events = _followed(broadcast, after)
        super().__init__(events, media_type="text/event-stream", headers=STREAM)
        self._events = events
        self._counts = counts
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._counts.update(self._keys)
        try:
            async with aclosing(self._events):
                await super().__call__(scope, receive, send)
        finally:
            self._counts.subtract(self._keys)
            for key in self._keys:
                if not self._counts[key]:
                    del self._counts[key]


def routes(
    hub: Hub, door: Door, *, readers: int, left: str = "", addresses: Sequence[str] = ()
) -> list[BaseRoute]:
    """The routes, for the application. `readers`: so many of one talk, and from one address.
    `left`: what a deletion does not reach, for those who delete. `addresses`: of this machine, if
    others may reach it.
    """
    made, at = _ViewerRoutes(hub, door, left, readers, addresses), "/v1/captions/{id}"
    return [
        Route("/v1/captions", made.all),
        Route(f"{at}/share", made.share, methods=["POST", "DELETE"]),
        Route(f"{at}/events", made.events),
        Route(f"{at}.{{form}}", made.document),
        Route(at, made.one, methods=["GET", "DELETE"]),
    ]


async def _followed(broadcast: Broadcast, after: int) -> AsyncGenerator[bytes]:
    """What a reader is sent, in pieces: one who takes nothing holds no more than one of them."""
    reader = broadcast.follow(after)
    try:
        yield b": captions\n\n"
        while True:
            try:
                async with asyncio.timeout(BEAT):
                    await reader.news.wait()
            except TimeoutError:
                yield b": still here\n\n"
                continue
            for piece in _pieces(reader.take()):
                yield piece
            if reader.is_over:
                yield END
                return
    finally:
        broadcast.leave(reader)


@contextmanager
def told_of_trouble() -> Iterator[None]:
    """The history's trouble, as clients are told of it. Why is in the log."""
    try:
        yield
    except HistoryError as error:
        raise ApiError(
            503,
            "The history can't be read or written now. It is tried again; so may you.",
            type="server_error",
            code="history_unavailable",
        ) from error


def _pieces(messages: Sequence[bytes]) -> Iterator[bytes]:
    """Messages joined, as far as that is good for anything."""
    held = bytearray()
    for message in messages:
        held += message
        if len(held) >= AT_ONCE:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


def _crowded() -> ApiError:
    return ApiError(
        429,
        "As many read along already as may. Please try again later.",
        type="rate_limit_error",
        code="too_many_readers",
        headers={"Retry-After": str(LATER)},
    )


def _told(one: Summary) -> dict[str, object]:
    found = {"matches": list(one.matches)} if one.matches else {}
    return {
        "id": one.id,
        "object": "livecap.captions",
        "model": one.model,
        "created": int(one.begun),
        "ended": None if one.ended is None else int(one.ended),
        "lines": one.lines,
        "readers": one.readers,
        "shared": one.shared,
        "preview": one.preview,
        **found,
    }
