"""A server without models: fakes for what it serves, and its application around them."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

from livecap.api.errors import busy
from livecap.api.options import ServeConfig
from livecap.api.server.app import build
from livecap.api.sessions.model_pool import ModelPool, PooledModel
from livecap.api.sessions.state import AppState, assemble
from livecap.errors import ConfigError, CorruptModel, LivecapError

PATIENCE = 30.0  # seconds after which a test has failed


@dataclass
class FakeService:
    """What the server asks of a service, apart from its streams."""

    max_streams: int = 8
    closed: int = 0
    failure: LivecapError | None = None

    def close(self) -> None:
        self.closed += 1


def served(name: str, service: FakeService | None = None) -> PooledModel:
    fake = cast(Any, service or FakeService())
    loaded = SimpleNamespace(model=SimpleNamespace(languages=()))
    return PooledModel(name, cast(Any, loaded), cast(Any, None), fake)


@dataclass
class Loader:
    """Loads fakes, as often as it is let."""

    failing: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)  # names that wait until they are let go
    calls: list[str] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    max_streams: int = 8
    go: threading.Event = field(default_factory=threading.Event)

    def __call__(self, name: str) -> PooledModel:
        self.calls.append(name)
        self.threads.add(threading.get_ident())
        if name in self.held:
            assert self.go.wait(PATIENCE)
        if name in self.failing:
            raise CorruptModel(f"{name} is broken", remedy="Mend it.")
        return served(name, FakeService(self.max_streams))


def models_of(
    *names: str, load: Loader | None = None, aliases: dict[str, str] | None = None
) -> ModelPool:
    return ModelPool(names or ("tiny.en",), load or Loader(), aliases or {})


async def greet(websocket: WebSocket) -> None:
    """Stands for a live session: says one thing, and closes or lets itself be closed."""
    await websocket.accept()
    await websocket.send_json({"type": "hello"})
    if "wait" in websocket.query_params:
        await websocket.receive()
    else:
        await websocket.close(1000)


async def echo(request: Request) -> Response:
    """Stands for the routes for files."""
    return Response(await request.body())


async def refuse(request: Request) -> Response:
    raise busy(7)


async def break_off(request: Request) -> Response:
    raise RuntimeError("a fault of ours")


async def misread(request: Request) -> Response:
    raise ConfigError("--temperature can't be 3", remedy="Use 0 to 2.")


async def corrupt(request: Request) -> Response:
    raise CorruptModel("/home/somebody/model is damaged", remedy="Fetch it again.")


ROUTES: list[BaseRoute] = [
    Route("/v1/audio/transcriptions", echo, methods=["POST"]),
    Route("/v1/busy", refuse),
    Route("/v1/fault", break_off),
    Route("/v1/misread", misread),
    Route("/v1/corrupt", corrupt),
]


def application(
    config: ServeConfig = ServeConfig(),  # noqa: B008 - frozen
    *,
    load: Loader | None = None,
    keys: Sequence[str] = (),
    hosts: Sequence[str] = (),
    names: Sequence[str] = ("tiny.en", "small"),
    started: Callable[[asyncio.Task[PooledModel]], None] = lambda task: None,
) -> tuple[AppState, Starlette]:
    parts = assemble(config, models_of(*names, load=load), keys=keys, hosts=hosts)
    return parts, build(parts, greet, ROUTES, started)


BASE = "http://127.0.0.1:8000"
HERE = ("127.0.0.1", 50_000)  # where clients are
INVALID = "invalid_request_error"


@contextmanager
def client(
    config: ServeConfig = ServeConfig(),  # noqa: B008 - frozen
    *,
    load: Loader | None = None,
    keys: tuple[str, ...] = (),
    ready: bool = True,
    raises: bool = True,
) -> Iterator[TestClient]:
    """A client of the application, from when its first model is warm."""
    warm = threading.Event()
    _, app = application(config, load=load, keys=keys, started=lambda task: warm.set())
    with TestClient(app, client=HERE, base_url=BASE, raise_server_exceptions=raises) as found:
        assert not ready or warm.wait(PATIENCE)
        yield found


def envelope(body: dict[str, Any]) -> tuple[str, str | None, str | None]:
    """What an error says, if it is one envelope and nothing else."""
    assert body.keys() == {"error"}
    error = body["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    return error["type"], error["code"], error["param"]
