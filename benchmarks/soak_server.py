"""`livecap serve` that also tells, at /held, what it holds: `python soak_server.py serve ...`."""

import asyncio
import os
import sys
import threading
from collections.abc import Sequence

from livecap.cli import ENVIRONMENT, main

HELD = "/held"


def tell() -> None:
    """Add the route to those that the server has."""
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import BaseRoute, Route

    from livecap.api.server import serve
    from livecap.api.sessions.state import AppState

    routes = serve.transcription_routes

    def with_held(parts: AppState) -> Sequence[BaseRoute]:
        async def held(request: Request) -> JSONResponse:
            served = parts.models.loaded(parts.models.default)
            assert served, "not ready yet"
            decoder = served.loaded.model.decoder
            names = [thread.name for thread in threading.enumerate()]
            told = {
                "streams": served.service.streams,
                "files": served.service.files,
                "sessions": parts.admission.sessions,
                "uploads": parts.admission.uploads,
                "tasks": len(asyncio.all_tasks()),
                "pages": decoder.pages.count - decoder.pages.available,
                "memory pages": (
                    decoder.memory.count - decoder.memory.available if decoder.memory else 0
                ),
                # asyncio's own, for blocking calls: it makes a few, and keeps them
                "pooled": sum(name.startswith("asyncio_") for name in names),
                "threads": sum(not name.startswith("asyncio_") for name in names),
            }
            return JSONResponse(told)

        return [*routes(parts), Route(HELD, held)]

    serve.transcription_routes = with_held


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT | os.environ)
    tell()
    main(sys.argv[1:])
