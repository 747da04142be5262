"""The real application on a real port: with models that need no weights, or the embedded one."""

import asyncio
import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

from starlette.routing import BaseRoute
from test_service import Readers
from tones import Ears, Listener

from livecap.api.options import ServeConfig
from livecap.api.server.app import build
from livecap.api.server.listen import bind, counted
from livecap.api.server.realtime_socket import endpoint
from livecap.api.server.serve import transcription_routes
from livecap.api.server.uvicorn_server import CaptionServer, settings
from livecap.api.sessions.model_pool import ModelPool, PooledModel
from livecap.api.sessions.state import AppState, assemble
from livecap.api.transcriptions import Outcome, UploadLimits, routes
from livecap.checkpoints import resolve
from livecap.config import DecodeConfig, LiveOptions, ModelConfig
from livecap.events import RATE
from livecap.models.load import Loaded, load_model
from livecap.models.protocol import StreamingDefaults
from livecap.runtime.service import Service
from livecap.vad.silero import load

PATIENCE = 60.0  # seconds after which a test has failed
MANY = ServeConfig(max_sessions=500)  # whatever has been measured
OPEN = Path("/proc/self/fd")  # of Linux

# As Whisper's, shorter: seconds of speech until a pause ends a segment, and until it is cut.
TRAITS = StreamingDefaults(
    ("local-agreement",),
    interval=RATE,
    first_update=0,
    pause_update=0,
    endpoint_silence=RATE * 6 // 10,
    min_sentence=4 * RATE,
    max_silence=3 * RATE,
    max_segment=8 * RATE,
)

Load = Callable[[str], PooledModel]


def toned(model: Readers | None = None) -> Load:
    """What loads a model that understands tones."""

    def made(name: str) -> PooledModel:
        found = model or Readers(Listener(), streaming=TRAITS)
        loaded = Loaded(found, 4)
        return PooledModel(name, loaded, Ears(), Service(loaded, Ears(), DecodeConfig()))

    return made


@cache
def _embedded() -> tuple[Loaded, Any]:
    return load_model(resolve("tiny.en"), ModelConfig()), load()


def embedded(name: str) -> PooledModel:
    """The embedded model, which is loaded once."""
    loaded, silero = _embedded()
    service = Service(loaded, silero, DecodeConfig())
    service.warm_up()
    return PooledModel(name, loaded, silero, service)


@dataclass
class Running:
    """A server that runs in a thread of this process. Nothing that it does is a fault."""

    parts: AppState
    server: CaptionServer
    port: int
    outcomes: list[Outcome]  # of uploads, if limits were given
    loaded: list[PooledModel]  # models, the first one first
    loop: asyncio.AbstractEventLoop | None = None
    ready: threading.Event = field(default_factory=threading.Event)
    before: dict[str, int] = field(default_factory=dict)  # what it held when it was idle
    others: frozenset[tuple[str, str]] = frozenset()  # descriptors that were open then

    @property
    def host(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    @property
    def http(self) -> str:
        """The base URL that OpenAI's clients are given."""
        return f"http://{self.host}/v1"

    @property
    def service(self) -> Service:
        """That of the first model."""
        return self.loaded[0].service

    def held(self) -> dict[str, int]:
        """What is open: all of it is given back in the end."""
        assert self.loop
        names = [thread.name for thread in threading.enumerate()]
        return {
            "streams": self.service.streams,
            "files": self.service.files,
            "sessions": self.parts.admission.sessions,
            "uploads": self.parts.admission.uploads,
            "connections": len(self.server.server_state.connections),
            "tasks": len(self.tasks()),
            "decoders": names.count("livecap-upload"),
            "descriptors": len(descriptors() - self.others),
        }

    def tasks(self) -> Sequence["asyncio.Task[Any]"]:
        """Those of the server's loop."""
        assert self.loop
        told: list[asyncio.Task[Any]] = []
        done = threading.Event()

        def look() -> None:
            told.extend(asyncio.all_tasks(self.loop))
            done.set()

        self.loop.call_soon_threadsafe(look)
        assert done.wait(PATIENCE), "the loop is blocked"
        return told

    def settle(self) -> None:
        """Wait until nothing is held that was not held before."""
        until(
            lambda: all(count <= self.before[name] for name, count in self.held().items()),
            lambda: (self.held(), self.before),
        )


def descriptors() -> frozenset[tuple[str, str]]:
    """Those of this process: number, and what it stands for.

    Not how many there are: what earlier tests left to the garbage collector goes at any time, and
    would hide one that stays.
    """
    found = set[tuple[str, str]]()
    for name in os.listdir(OPEN) if OPEN.exists() else ():
        with suppress(FileNotFoundError):  # the one that lists them, or closed meanwhile
            found.add((name, os.readlink(OPEN / name)))
    return frozenset(found)


class _Faults(logging.Handler):
    """What is logged as such, by the server or by uvicorn."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[tuple[int | None, str]] = []  # by which thread

    def emit(self, record: logging.LogRecord) -> None:
        if "Invalid UTF-8" not in record.msg:  # uvicorn's, of a client's fault
            self.told.append((record.thread, logging.Formatter().format(record)))


def until(
    is_so: Callable[[], bool],
    told: Callable[[], object] = lambda: "",
    *,
    patience: float = PATIENCE,
) -> None:
    """Wait for something that nobody tells of."""
    end = time.monotonic() + patience
    while not is_so():
        assert time.monotonic() < end, told()
        time.sleep(0.002)


@contextmanager
def serving(
    load: Load | None = None,
    config: ServeConfig = MANY,
    *,
    names: Sequence[str] = ("tones",),
    keys: Sequence[str] = (),
    limits: UploadLimits | None = None,
    ping: float | None = None,
    faults: int = 0,
) -> Iterator[Running]:
    """A server, from when its first model is warm. `ping`: seconds between pings, and for each.
    `faults`: how many it is to log.
    """
    loaded: list[PooledModel] = []
    make = load or toned()

    def kept(name: str) -> PooledModel:
        loaded.append(make(name))
        return loaded[-1]

    models = ModelPool(tuple(names), kept, config.aliases)
    parts = assemble(config, models, live=LiveOptions(), keys=keys)
    outcomes: list[Outcome] = []
    files: Sequence[BaseRoute] = transcription_routes(parts)
    if limits:
        files = routes(models, parts.admission, limits, told=outcomes.append)
    bound = counted(bind("127.0.0.1", 0), parts.crowd, secure=False)

    def started(task: "asyncio.Task[PooledModel]") -> None:
        running.loop = task.get_loop()
        if not task.cancelled() and task.exception() is None:
            running.ready.set()

    app = build(parts, endpoint(parts), files, started)
    how = settings(app, None, parts.crowd, trusted=config.trust_proxy)
    if ping:
        how.ws_ping_interval = how.ws_ping_timeout = ping
    server = CaptionServer(how, parts.drain, grace=5)
    running = Running(parts, server, bound[0].getsockname()[1], outcomes, loaded)
    log = _Faults()
    logging.getLogger().addHandler(log)
    thread = threading.Thread(target=server.run, kwargs={"sockets": bound}, name="server")
    thread.start()
    try:
        assert running.ready.wait(PATIENCE)
        until(lambda: server.started)
        running.others = descriptors()
        running.before = {**running.held(), "descriptors": 0}
        yield running
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        for one in bound:
            one.close()
        logging.getLogger().removeHandler(log)
        gc.collect()  # what was not closed warns now
    assert not thread.is_alive()
    found = [text for by, text in log.told if by == thread.ident]
    assert len(found) == faults, found
    for served in loaded:
        model = cast(Any, served.loaded.model)
        assert not isinstance(model, Readers) or model.reader.kept == []
