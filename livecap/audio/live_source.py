"""Live audio as the front ends take it: a microphone, a paced file or a pipe, all alike."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Contiguous audio. Where it begins behind the end of the one before, audio is missing."""

    start: int  # samples at 16 kHz since capture began
    pcm: Pcm  # [sample], 16 kHz mono
    reason: str = ""  # why audio is missing before it, if it is


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to tell the user: a device is gone or back, a microphone hears nothing."""

    text: str


Heard = Chunk | Notice


class AudioIn(Protocol):
    """A source that runs on its own and is asked what has come."""

    @property
    def name(self) -> str:
        """For messages."""

    def take(self, timeout: float) -> list[Heard] | None:
        """What has come since the last call, waiting up to `timeout` seconds for the first; None
        once all is taken and no more will come. Raises AudioError where it can't go on.
        """

    def stop(self) -> None:
        """Capture no more. What was captured can still be taken."""

    def close(self) -> None:
        """Release the device or file. Safe to call twice."""
