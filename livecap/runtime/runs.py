"""A run over files, as `livecap file` knows it: on a model here, or on a server."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from livecap.errors import LivecapError
from livecap.events import Event


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a file stands."""

    path: str
    done: int  # samples of the media whose events have left
    duration: int | None  # samples, as far as the header can be trusted
    discarded: float | None = None  # share of the audio without speech; once it is finished
    damaged: int = 0  # packets that could not be decoded
    failure: LivecapError | None = None  # why it could not be read (to its end)
    state: str = "running"  # running, finished, stopped or failed
    doubt: str = ""  # why its text may be wrong as a whole


Report = tuple[str, Event] | Progress


class CaptionRun(Protocol):
    """Captions files, once."""

    @property
    def is_opening(self) -> bool:
        """Whether a source is being opened; a pipe may take its time."""

    def run(self, paths: Sequence[str]) -> Iterator[Report]:
        """Caption the files. One that can't be is reported, and the others go on. Raises
        LivecapError for what none of them can be captioned without.
        """

    def stop(self) -> None:
        """Begin no more; what has been read is still captioned. From a signal's handler."""
