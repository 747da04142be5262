"""Options -> receivers of final captions, each with its queue; and `livecap mic`'s way to them."""

import importlib.util
import os
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from livecap.captions import Unmet
from livecap.errors import ConfigError
from livecap.events import RATE, Caption, Event
from livecap.output.line_assembler import Spoken
from livecap.output.push.addresses import secret_of, shown_address
from livecap.output.push.backoff import Backoff
from livecap.output.push.caption_line import Said, Sink
from livecap.output.push.delivery import Delivery, Result
from livecap.output.push.obs import Obs, Socket
from livecap.output.push.options import SECRET, PushOptions, with_environment
from livecap.output.push.webhook import Webhook
from livecap.output.push.youtube import YouTube
from livecap.output.push.zoom import Zoom

PATIENT, HASTY = Backoff(max_s=60.0), Backoff(first=0.25, max_s=2.0)
Say = Callable[[str], None]
Count = Callable[[str, Result], None]


@dataclass(frozen=True, slots=True)
class Receivers:
    """All of them. None is waited for, but at the end."""

    everyones: tuple[Delivery, ...]  # take what all sessions say
    stage: tuple[Delivery, ...]  # take one session at a time

    def put(self, line: Said, *, on_stage: bool = True) -> None:
        """A line that was said, by whom the stage belongs to or by another."""
        for delivery in (*self.everyones, *(self.stage if on_stage else ())):
            delivery.put(line)

    def close(self) -> None:
        """Send what is left, for some seconds at most."""
        every = (*self.everyones, *self.stage)
        for delivery in every:
            delivery.finish()
        for delivery in every:
            delivery.close()


def receivers(
    options: PushOptions,
    environment: Mapping[str, str],
    *,
    say: Say,
    count: Count = lambda kind, result: None,
    connect: Callable[[str], Socket] | None = None,
) -> Receivers | None:
    """Those that the options name; None if they name none. Raises ConfigError.

    `say` and `count`: see `Delivery`. `connect` opens a WebSocket.
    """
    options = with_environment(options, environment)
    secret = secret_of(options.webhook_secret, SECRET) if options.webhook_secret else None
    stage: list[Sink] = []
    if options.obs:
        if importlib.util.find_spec("websockets") is None:
            raise ConfigError(
                "--obs needs a package that is not installed: websockets",
                remedy="Run: pip install 'livecap[mic]'",
            )
        shown = shown_address(options.obs)
        reach = connect or _connected
        stage.append(Obs(options.obs, shown, options.obs_password, options.obs_source, reach))
    if options.youtube:
        stage.append(YouTube(options.youtube))
    if options.zoom:
        stage.append(Zoom(options.zoom))
    hooks: list[Sink] = [Webhook(url, secret) for url in options.webhook]
    if not hooks and not stage:
        return None
    made = partial(Delivery, say=say, count=count)
    return Receivers(
        tuple(made(sink, delay=_delay(PATIENT)) for sink in hooks),
        tuple(made(sink, delay=_delay(HASTY)) for sink in stage),
    )


class Passing:
    """`livecap mic`'s events -> receivers: a `Writer` like those of files."""

    def __init__(self, to: Receivers, now: Callable[[], float] = time.time) -> None:
        self._to = to
        self._now = now
        self._session = f"mic_{uuid.uuid4().hex}"
        self._count = 0
        self._line = Spoken()

    @property
    def unmet(self) -> Unmet:
        """It has no subtitles of its own."""
        return Unmet()

    def write(self, event: Event) -> None:
        """Takes an event in."""
        if not isinstance(event, Caption):
            return
        self._line.take(event)
        if event.final:
            self._pass_on()

    def close(self, *, complete: bool = True) -> None:
        """What was said so far is sent, for some seconds at most."""
        self._pass_on()
        self._to.close()

    def _pass_on(self) -> None:
        line = self._line.line(self._count + 1)
        self._line = Spoken()
        if line:
            self._count += 1
            self._to.put(Said(self._session, self._count, line, spoken_at(line, self._now())))


def passing(options: PushOptions, say: Say) -> Passing | None:
    """The same from options; None if they name no receiver. Raises ConfigError."""
    found = receivers(options, os.environ, say=say)
    return Passing(found) if found else None


def spoken_at(line: Caption, now: float) -> float:
    """Unix seconds: about when a line that is told now was begun."""
    return now - (line.processed_until - line.start) / RATE


def _delay(delays: Backoff) -> Callable[[int, float], float]:
    return lambda tries, asked: delays.of(tries, asked=asked)


def _connected(url: str) -> Socket:
    from livecap.output.push.obs_socket import connected

    return connected(url)
