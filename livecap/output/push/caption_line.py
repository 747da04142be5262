"""What is sent on, what takes it, and how that can fail."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from livecap.captions import Cue, Layout, Shaper
from livecap.events import Caption

UNREADABLE = "it answered something that can't be read"
Pause = Callable[[float], None]  # waits for so many seconds, or less if there is a hurry


@dataclass(frozen=True, slots=True)
class Said:
    """A line, which never changes."""

    session: str  # id of who said it
    number: int  # of the line in that session, from 1
    caption: Caption
    spoken: float  # Unix seconds: about when its first word was said


class Undelivered(Exception):
    """It can't be sent now; why, for people, and without secrets."""

    def __init__(self, why: str, *, after: float = 0.0) -> None:
        """`after`: seconds for which the receiver asks."""
        super().__init__(why)
        self.after = after


class LineRefused(Exception):
    """The receiver does not take this line, and won't; why, for people."""


class Unshown(LineRefused):
    """Some of it can't be shown there, whatever is done about it. Said once."""


class ReceiverGone(Exception):
    """The receiver wants nothing any more; why, for people."""


class Sink(Protocol):
    """A receiver. Its methods block, and are called by one thread."""

    @property
    def kind(self) -> str:
        """For metrics."""

    @property
    def worth(self) -> float:
        """Seconds after which a line is not sent any more."""

    @property
    def quiet(self) -> float | None:
        """Seconds without a line after which `rest` is called, once."""

    @property
    def name(self) -> str:
        """For people: what and where, without secrets."""

    def send(self, line: Said, pause: Pause) -> None:
        """Raises Undelivered, Refused or Gone."""

    def rest(self) -> None:
        """Nothing was said for a while. Raises Undelivered or Refused."""

    def close(self) -> None:
        """Nothing comes any more."""


def cues_of(caption: Caption, layout: Layout) -> list[Cue]:
    """A final caption -> what people can read at a time."""
    shaper = Shaper(layout)
    return [*shaper.feed(caption), *shaper.close()]
