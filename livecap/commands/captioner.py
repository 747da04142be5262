"""What captions live audio, as `livecap mic` knows it: a model here, or a server elsewhere."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from livecap.audio.live_source import Notice
from livecap.events import Event


class Captioner(Protocol):
    """Takes audio as it comes, and tells what has been said."""

    def send(self, start: int, pcm: NDArray[np.float32], reason: str = ...) -> None:
        """Audio [1, sample] at 16 kHz from that media time (samples) on; what lies between it and
        the end of the audio before is a gap, for that reason. No samples at all state a gap that
        goes on: what was said before it is finished.
        """

    def finish(self) -> None:
        """No more audio comes. Everything sent is still captioned."""

    def take(self) -> Sequence[Event | Notice]:
        """What has happened since the last call. Raises LivecapError, after all that came before
        it, for what ended the stream before its end.
        """

    def wait(self, timeout: float) -> None:
        """Until something has happened, or so many seconds have passed."""

    def close(self) -> None:
        """Release what it holds. Safe to call twice."""

    @property
    def is_done(self) -> bool:
        """Whether all audio has been captioned and all events have been taken."""

    @property
    def lag(self) -> float:
        """Seconds of audio that have come and are not heard yet."""

    @property
    def is_behind(self) -> bool:
        """Whether updates are made rarer."""

    @property
    def speed(self) -> float:
        """Times real time at which it hears; 0 if that isn't known."""

    @property
    def language(self) -> str | None:
        """The language that is spoken, ISO 639-1, once that is sure."""
