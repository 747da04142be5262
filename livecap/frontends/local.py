"""Live audio that a model on this machine captions."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from livecap.events import RATE, Event
from livecap.frontends.begin import Setup
from livecap.frontends.prompting import fitted
from livecap.live_stream import LiveStream
from livecap.policies import live_config
from livecap.service import Service


def load_local(model: str, setup: Setup, say: Callable[[str], None]) -> "Local":
    """A captioner whose model is warm. Raises LivecapError for what can't be had or followed."""
    from livecap.checkpoints import resolve
    from livecap.models.load import load_model
    from livecap.vad import load

    checkpoint = resolve(model, pull=setup.pull)
    say(f"model: {checkpoint.name}; loading")
    loaded = load_model(checkpoint, setup.run)
    live = live_config(loaded.model, setup.live, vad=setup.vad, language=setup.decode.language)
    decode = fitted(loaded.model, setup.decode, say, live=True)
    service = Service(loaded, load() if setup.vad else None, decode)
    service.warm_up()
    return Local(service, service.open(replace(live, catch_up=setup.hurries)))


class Local:
    """A `captioner.Captioner`: one stream, and the service that is there for it alone."""

    def __init__(self, service: Service, stream: LiveStream) -> None:
        self._service = service
        self._stream = stream

    def send(
        self,
        start: int,
        pcm: NDArray[np.float32],
        reason: str = "the source has no audio here",
    ) -> None:
        """See `handle.Handle.send`."""
        self._stream.send(start, pcm, reason)

    def finish(self) -> None:
        """No more audio comes."""
        self._stream.finish()

    def take(self) -> Sequence[Event]:
        """See `handle.Handle.take`."""
        return self._stream.take()

    def wait(self, timeout: float) -> None:
        """Until something has happened, or so many seconds have passed."""
        self._stream.wait(timeout)

    def close(self) -> None:
        """End the service."""
        self._service.close()

    @property
    def is_done(self) -> bool:
        """Whether all audio has been captioned and all events have been taken."""
        return self._stream.is_done

    @property
    def lag(self) -> float:
        """Seconds of audio that have come and are not heard yet."""
        return self._stream.lag

    @property
    def is_behind(self) -> bool:
        """Whether updates are made rarer."""
        return self._stream.is_behind

    @property
    def speed(self) -> float:
        """Times real time."""
        return self._stream.live.heard / RATE / self._stream.busy if self._stream.busy else 0.0

    @property
    def language(self) -> str | None:
        """The one that is spoken, once that is sure."""
        return self._stream.live.language
