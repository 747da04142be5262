"""`livecap serve`: options -> a server that runs until it is told to stop -> exit status."""

import asyncio
import gc
import logging
import os
import socket
import ssl
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from starlette.routing import BaseRoute

from livecap.api import logs
from livecap.api.access.client_secrets import kept_key
from livecap.api.options import ServeConfig, is_loopback, keys_of, refuse_exposed
from livecap.api.server import listen, tls
from livecap.api.server.app import build
from livecap.api.server.realtime_socket import endpoint
from livecap.api.server.uvicorn_server import SIGNALLED, CaptionServer, settings
from livecap.api.sessions.model_pool import ModelPool, PooledModel, load_served, served_name
from livecap.api.sessions.state import AppState, assemble
from livecap.api.transcriptions import Outcome, UploadLimits, routes
from livecap.checkpoints import Checkpoint, resolve
from livecap.config import LiveOptions, ModelConfig, Task
from livecap.errors import LivecapError
from livecap.events import RATE
from livecap.log import report

LOG = logging.getLogger("livecap.server")

SWITCH = 0.0005  # seconds
STOPPED = 0  # exit status of a server that no signal ended
ENDPOINTS: dict[Task, str] = {"transcribe": "transcriptions", "translate": "translations"}


def run_serve(config: ServeConfig, live: LiveOptions, run: ModelConfig) -> int:
    """Serve until a signal comes. Raises LivecapError for what can't begin at all."""
    keys = keys_of(config, os.environ)
    refuse_exposed(config, keys)
    names = tls.own_names()
    secure = _tls(config, names)
    models = models_of(config, run)
    bound = listen.bind(config.host, config.port)
    try:
        logs.configure(config.log_level, config.log_format)
        where = listen.urls(bound, names, secure=secure is not None)
        signing = _signing_key()
        parts = assemble(
            config,
            models,
            live=live,
            keys=keys,
            hosts=names.hosts,
            addresses=_reached_at(config, names),
            signing=signing,
        )
        bound = listen.counted(bound, parts.crowd, secure=secure is not None)
        return ServerRun(parts, where, secure, _hint(config)).until_stopped(bound)
    finally:
        for one in bound:
            one.close()


def _signing_key() -> bytes | None:
    """The one that was made at the first start; None where none can be kept."""
    file = tls.folder().parent / "signing.key"
    try:
        return kept_key(file)
    except OSError as error:
        message = "the key of client secrets can't be kept, so they end with this process"
        LOG.warning(message, extra={"fields": {"file": str(file), "why": error.strerror}})
        return None


def _tls(config: ServeConfig, names: tls.Names) -> ssl.SSLContext | None:
    if not config.tls:
        return None
    return tls.context(config.tls, tls.folder(), names, datetime.now(UTC))


def _reached_at(config: ServeConfig, names: tls.Names) -> list[str]:
    """The addresses by which other machines reach this server; none if it listens to its own."""
    if is_loopback(config.host):
        return []
    return [one for one in names.addresses if not is_loopback(one)]


def _hint(config: ServeConfig) -> str:
    """How those get through who are told the URL."""
    if not config.tls:
        return "phones, and clients that always use TLS (npm's openai), need --tls auto"
    if config.tls == "auto":
        public = tls.folder() / tls.PUBLIC
        return f"its certificate is {public}, for --server-ca, NODE_EXTRA_CA_CERTS and phones"
    return ""


def models_of(config: ServeConfig, run: ModelConfig) -> ModelPool:
    """The models that are named. Raises LivecapError for one that isn't on this machine."""
    found: dict[str, Checkpoint] = {}
    for name in config.model:
        checkpoint = resolve(name, pull=config.pull)
        found.setdefault(served_name(checkpoint), checkpoint)

    def load(name: str) -> PooledModel:
        return load_served(name, found[name], run)

    return ModelPool(tuple(found), load, config.aliases)


def transcription_routes(parts: AppState) -> Sequence[BaseRoute]:
    """The routes for files, counted."""
    config, metrics = parts.config, parts.metrics
    limits = UploadLimits(upload=config.upload_limit, duration=config.max_duration * RATE)

    def count(outcome: Outcome) -> None:
        problem, seconds = outcome.problem, outcome.audio / RATE
        if problem:
            metrics.errors.labels(problem.code or str(problem.status)).inc()
        if seconds and outcome.model:
            metrics.items.labels("failed" if problem else "completed").inc()
            metrics.audio.labels(ENDPOINTS[outcome.task], outcome.model).inc(seconds)
        if seconds and not problem:
            metrics.rtf.observe(outcome.took / seconds)

    return routes(parts.models, parts.admission, limits, told=count)


class ServerRun:
    """One run of the server, reached at the URL `where`."""

    def __init__(
        self, parts: AppState, where: str, secure: ssl.SSLContext | None, hint: str
    ) -> None:
        self._parts = parts
        self._where = where
        self._hint = hint  # what else users need to know of it
        self._failure: LivecapError | None = None  # why it can't go on
        app = build(parts, endpoint(parts), transcription_routes(parts), self._started)
        self.server = CaptionServer(
            settings(app, secure, parts.crowd, trusted=parts.config.trust_proxy),
            parts.drain,
            parts.config.grace,
        )

    def until_stopped(self, bound: list[socket.socket]) -> int:
        """Serve at the sockets -> exit status. Raises what keeps the first model from loading."""
        report(f"livecap serve: {self._where}, loading {self._parts.models.default}")
        if self._hint:
            report(f"livecap serve: {self._hint}")
        # The thread that computes asks for the interpreter after each operation: at the usual 5 ms
        # a busy event loop would hold it up by that much each time.
        sys.setswitchinterval(SWITCH)
        self.server.run(sockets=bound)
        if self._failure:
            raise self._failure
        signalled = self.server.signalled
        status = STOPPED if signalled is None else SIGNALLED + signalled
        if self._parts.models.is_loading:
            # Its thread can't be stopped, and Python would end it in the middle of C++: abort.
            sys.stderr.flush()
            os._exit(status)
        return status

    def _started(self, task: asyncio.Task[PooledModel]) -> None:
        """The first model is warm; without it there is nothing to serve."""
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            # What is there now stays: else each collection looks at all of it, and all wait.
            gc.collect()
            gc.freeze()
            report(f"livecap serve: {self._where} ready, model {task.result().name}")
            return
        self.server.should_exit = True
        if not isinstance(error, LivecapError):
            raise error
        self._failure = error
