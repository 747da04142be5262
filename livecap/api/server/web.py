"""The pages for browsers: files of `web/`, with a policy that lets them load nothing else."""

from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from livecap.errors import ConfigError

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "worker-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "media-src 'self' blob:",
        "connect-src 'self' ws: wss:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "microphone=(self), display-capture=(self)",
    "Cache-Control": "no-cache",  # asked for again, and not sent again unless it has changed
}


def folder() -> Path:
    """Where the pages are: in the package as installed, beside it in a checkout."""
    package = Path(__file__).parents[2]
    for found in (package / "web", package.parent / "web"):
        if (found / "index.html").is_file():
            return found
    raise ConfigError("The pages for browsers are missing", remedy="Install livecap again.")


class _Files(StaticFiles):
    """With the same headers as the pages."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await super().__call__(scope, receive, with_headers)


def routes() -> list[BaseRoute]:
    """The routes, for the application."""
    at = folder()

    def page(name: str) -> Route:
        async def show(request: Request) -> Response:
            return FileResponse(at / f"{name}.html", headers=HEADERS)

        path = {"index": "/", "view": "/view/{id}", "overlay": "/overlay/{id}"}[name]
        return Route(path, show, name=name)

    return [
        *(page(name) for name in ("index", "view", "overlay")),
        Mount("/web", _Files(directory=at), name="web"),
    ]
