"""Live audio that a model on this machine captions."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from livecap.audio.live_source import Notice
from livecap.commands.backend import Setup
from livecap.commands.doubt import MIN_WORDS_LIVE, Doubt
from livecap.events import RATE, Caption, Event
from livecap.models.prompting import fitted
from livecap.models.streams import live_config
from livecap.runtime.handle import StreamHandle
from livecap.runtime.service import Service


def load_local(model: str, setup: Setup, say: Callable[[str], None]) -> "Local":
    """A captioner whose model is warm. Raises LivecapError for what can't be had or followed."""
    from livecap.checkpoints import resolve
    from livecap.models.load import load_model
    from livecap.vad.silero import load

    checkpoint = resolve(model, pull=setup.pull)
    say(f"model: {checkpoint.name}; loading")
    loaded = load_model(checkpoint, setup.run)
    live = live_config(loaded.model, setup.live, vad=setup.vad, language=setup.decode.language)
    decode = fitted(loaded.model, setup.decode, say, live=True)
    service = Service(loaded, load() if setup.vad else None, decode)
    service.warm_up()
    assert live.updates is not None
    updates = replace(live.updates, catch_up=setup.hurries)
    doubt = Doubt(loaded.model.name, loaded.model.languages)
    return Local(service, service.open(replace(live, updates=updates)), doubt)


class Local:
    """A `captioner.Captioner`: one stream, and the service that is there for it alone."""

    def __init__(self, service: Service, stream: StreamHandle, doubt: Doubt) -> None:
        self._service = service
        self._stream = stream
        self._doubt: Doubt | None = doubt  # until it was told

    def send(
        self,
        start: int,
        pcm: NDArray[np.float32],
        reason: str = "the source has no audio here",
    ) -> None:
        """See `runtime.handle.StreamHandle.push`."""
        self._stream.push(start, pcm, reason)

    def finish(self) -> None:
        """No more audio comes."""
        self._stream.finish()

    def take(self) -> Sequence[Event | Notice]:
        """See `runtime.handle.StreamHandle.poll`; with them a notice if the text is doubtful."""
        taken: list[Event | Notice] = []
        for event in self._stream.poll():
            taken.append(event)
            if self._doubt is not None and isinstance(event, Caption):
                self._doubt.add(event)
                if message := self._doubt.message(MIN_WORDS_LIVE):
                    taken.append(Notice(message))
                    self._doubt = None
        return taken

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
        return self._stream.decoded / RATE / self._stream.busy if self._stream.busy else 0.0

    @property
    def language(self) -> str | None:
        """The one that is spoken, once that is sure."""
        return self._stream.language
