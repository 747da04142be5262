"""What the routes of the server share. Made once, at the start."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from livecap.config import LiveOptions
from livecap.frontends.captions import Hub
from livecap.frontends.server.admission import Admission, Room
from livecap.frontends.server.auth import Door
from livecap.frontends.server.drain import Drain
from livecap.frontends.server.options import ServeConfig
from livecap.frontends.server.pool import Models
from livecap.frontends.server.secrets import Secrets, signing_key
from livecap.frontends.webrtc.registry import Calls
from livecap.metrics import Metrics


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The server's parts. None of them knows of HTTP but the door."""

    config: ServeConfig
    live: LiveOptions  # how live sessions are captioned
    models: Models
    drain: Drain
    admission: Admission
    secrets: Secrets
    door: Door
    metrics: Metrics
    hub: Hub
    calls: Calls


def assemble(
    config: ServeConfig,
    models: Models,
    *,
    live: LiveOptions = LiveOptions(),  # noqa: B008 - frozen
    keys: Sequence[str] = (),
    hosts: Sequence[str] = (),
) -> Parts:
    """Options and models -> the parts. `keys` open the server; `hosts` are this machine's names."""
    drain = Drain()

    def room(name: str) -> Room | None:
        served = models.loaded(name)
        return served.service if served else None

    admission = Admission(
        drain, sessions=config.max_sessions, uploads=config.max_uploads, room=room
    )
    secrets = Secrets(signing_key(keys), time.time)
    door = Door(keys, secrets, origins=config.cors_origin, hosts=hosts, query_key=config.query_key)
    metrics = Metrics(CollectorRegistry())
    metrics.queue_depth.set_function(lambda: admission.uploads)
    return Parts(
        config, live, models, drain, admission, secrets, door, metrics, Hub(time.time), Calls()
    )
