"""The routes that tell of the server: models, health, metrics.

Sources: OpenAI's API for `/v1/models`; Prometheus' text format 0.0.4 for `/metrics`.
"""

import time
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from livecap.api.errors import ApiError, loading, unknown_model
from livecap.api.sessions.admission import stopping
from livecap.api.sessions.state import AppState

OWNER = "livecap"
SOON = 2  # seconds after which to ask again whether the model is ready


def routes(parts: AppState) -> list[BaseRoute]:
    """The routes, for the application."""
    pages = _Pages(parts, int(time.time()))
    return [
        Route("/v1/models", pages.models),
        Route("/v1/models/{id:path}", pages.model),
        Route("/health", pages.health),
        Route("/health/ready", pages.ready),
        Route("/metrics", pages.metrics),
    ]


@dataclass(frozen=True, slots=True)
class _Pages:
    parts: AppState
    created: int  # Unix seconds: since when the models are served

    async def models(self, request: Request) -> Response:
        """GET /v1/models."""
        models = self.parts.models
        names = list(models.names)
        if self.parts.config.list_aliases:
            names += [alias for alias in models.aliases if alias not in names]
        data = [self._told(name) for name in names]
        return JSONResponse({"object": "list", "data": data})

    async def model(self, request: Request) -> Response:
        """GET /v1/models/{id}; a further name of a model is answered as it was asked for."""
        name: str = request.path_params["id"]
        if self.parts.models.canonical(name) is None:
            raise unknown_model(name)
        return JSONResponse(self._told(name))

    def _told(self, name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": self.created, "owned_by": OWNER}

    async def health(self, request: Request) -> Response:
        """GET /health: the process answers, whatever the model does."""
        models = self.parts.models
        payload = {"status": "ok", "ready": self._hindrance() is None, "model": models.default}
        if self.parts.history:  # why is in the log
            payload["history"] = "failing" if self.parts.history.trouble else "ok"
        return JSONResponse(payload)

    async def ready(self, request: Request) -> Response:
        """GET /health/ready: 503 until the model is warm, and again once the server stops."""
        hindrance = self._hindrance()
        if hindrance:
            raise hindrance
        return JSONResponse({"status": "ready", "ready": True, "model": self.parts.models.default})

    def _hindrance(self) -> ApiError | None:
        if self.parts.drain.is_stopping:
            return stopping()
        models = self.parts.models
        if models.is_ready:
            return None
        models.begin(models.default)  # should it have broken off
        return loading(SOON)

    async def metrics(self, request: Request) -> Response:
        """GET /metrics."""
        body = generate_latest(self.parts.metrics.registry)
        return Response(body, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})
