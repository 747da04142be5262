"""What the routes of the server share. Made once, at the start."""

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from livecap.api.access.auth import Door
from livecap.api.access.client_secrets import Secrets
from livecap.api.access.connection_limits import Crowd
from livecap.api.options import ServeConfig
from livecap.api.sessions.admission import Admission, ServiceCapacity
from livecap.api.sessions.calls import Calls
from livecap.api.sessions.drain import Drain
from livecap.api.sessions.model_pool import ModelPool
from livecap.api.viewers import Hub
from livecap.api.viewers.active import Stage
from livecap.api.viewers.history import History
from livecap.api.viewers.store import Archive
from livecap.config import LiveOptions
from livecap.metrics import Metrics
from livecap.output.push.receivers import Receivers, receivers

LOG = logging.getLogger("livecap.push")
METRICS_KEY = "LIVECAP_METRICS_KEY"  # of the environment


@dataclass(frozen=True, slots=True, eq=False)
class AppState:
    """The server's parts. None of them knows of HTTP but the door."""

    config: ServeConfig
    live: LiveOptions  # how live sessions are captioned
    models: ModelPool
    drain: Drain
    admission: Admission
    secrets: Secrets
    door: Door
    crowd: Crowd  # of connections
    metrics: Metrics
    history: History | None  # closed by whoever runs the application, as is the next
    receivers: Receivers | None  # of final captions
    hub: Hub
    calls: Calls
    addresses: Sequence[str]  # of this machine, by which others reach the server


def assemble(
    config: ServeConfig,
    models: ModelPool,
    *,
    live: LiveOptions = LiveOptions(),  # noqa: B008 - frozen
    keys: Sequence[str] = (),
    hosts: Sequence[str] = (),
    addresses: Sequence[str] = (),
    signing: bytes | None = None,
) -> AppState:
    """Options and models -> the parts. `keys` open the server; `hosts` are this machine's names,
    `addresses` those by which others reach it, if it listens to them;
    `signing`: the key that client secrets are signed with, if it outlives the process.

    Raises ConfigError if the history can't be used.
    """
    drain = Drain()

    def room(name: str) -> ServiceCapacity | None:
        served = models.loaded(name)
        return served.service if served else None

    admission = Admission(
        drain, sessions=config.max_sessions, uploads=config.max_uploads, room=room
    )
    secrets = Secrets(signing or os.urandom(32), time.time)
    door = Door(
        keys,
        secrets,
        origins=config.cors_origin,
        hosts=(*hosts, *config.allow_host),
        query_key=config.query_key,
        trusts_proxy=bool(config.trust_proxy),
        metrics_key=config.metrics_key or os.environ.get(METRICS_KEY, ""),
    )
    metrics = Metrics(CollectorRegistry())
    metrics.queue_depth.set_function(lambda: admission.uploads)
    history = _history(config, metrics)
    to = receivers(config, os.environ, say=LOG.warning, count=metrics.pushed)
    hub = Hub(
        time.time,
        history,
        Stage(to, time.time) if to else None,
        proof=secrets.proof,
    )
    drain.then = hub.stop
    return AppState(
        config,
        live,
        models,
        drain,
        admission,
        secrets,
        door,
        Crowd(config.max_connections, config.max_per_address, trusted=config.trust_proxy),
        metrics,
        history,
        to,
        hub,
        Calls(),
        addresses,
    )


def _history(config: ServeConfig, metrics: Metrics) -> History | None:
    if not config.history:
        return None
    archive = Archive(Path(config.history).expanduser())
    return History(archive, metrics, days=config.history_days)
