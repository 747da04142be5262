"""A stream of a service, as those hold it who send audio and take events. From any thread."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition

import numpy as np
from numpy.typing import NDArray

from livecap.config import DecodeConfig
from livecap.errors import LivecapError
from livecap.events import RATE, Event
from livecap.stream import SourceStream

Rows = NDArray[np.float32]  # [channel, sample]

AT_ONCE = RATE // 5  # samples that are judged together: smaller pieces cost more than they tell


@dataclass(slots=True)
class Inbox:
    """What came for a stream and has not been taken yet. Guarded by the service's lock."""

    blocks: deque[tuple[int, Rows, str]] = field(default_factory=deque)
    samples: int = 0
    since: float | None = None  # when the service first saw what waits here
    is_urgent: bool = False
    is_closed: bool = False
    is_dropped: bool = False

    @property
    def is_due(self) -> bool:
        """Whether there is enough to look at."""
        return self.samples >= AT_ONCE or self.is_urgent or self.is_closed


class Handle:
    """What live streams and files have in common."""

    def __init__(
        self,
        source: SourceStream,
        decode: DecodeConfig,
        notify: Callable[[], None],
        *,
        wake: Condition,
        news: Condition,
    ) -> None:
        """`wake` and `news` are the service's, with one lock: to do, and done."""
        self._wake, self._news = wake, news
        self.source = source
        self.decode = decode
        self.notify = notify
        self.inbox = Inbox()
        self.events: list[Event] = []
        self.done = False
        self.error: LivecapError | None = None

    def send(self, start: int, pcm: Rows, reason: str = "the source has no audio here") -> None:
        """Audio [1, sample] at 16 kHz from that media time (samples) on; what lies between it and
        the end of the audio before is a gap, for that reason. No samples at all state a gap that
        goes on: what was said before it is finished.
        """
        with self._wake:
            if self.done:
                return  # it was dropped, or its service has ended: nobody would take it
            assert not self.inbox.is_closed, "audio after the end"
            is_first = not self.inbox.samples  # nobody waits for the rest of it yet
            self.inbox.blocks.append((start, pcm, reason))
            self.inbox.samples += pcm.shape[1]
            self.inbox.is_urgent |= not pcm.shape[1]
            if is_first or self.inbox.is_due:
                self._wake.notify()

    def finish(self) -> None:
        """No more audio comes. Everything sent is still captioned."""
        with self._wake:
            self.inbox.is_closed = True
            self._wake.notify()

    def drop(self) -> None:
        """Nobody wants this stream any more: its work stops and its memory is freed."""
        with self._wake:
            self.inbox.is_closed = self.inbox.is_dropped = True
            self._wake.notify()

    def take(self) -> list[Event]:
        """What has happened since the last call. Raises what ended the stream, if that was a fault.

        Events that came before the fault are returned first.
        """
        with self._wake:
            events, self.events = self.events, []
            if self.error and not events:
                raise self.error
        if self.error:
            self.notify()  # there is more to be told
        return events

    def end(self) -> None:
        """It is done, or dropped: nothing more happens. The service calls it with its lock held."""
        self.done = True
        self.inbox.samples = 0
        self.inbox.blocks.clear()

    def wait(self, timeout: float) -> None:
        """Until something has happened in some stream, or so many seconds have passed."""
        with self._wake:
            if not self.events and not self.done:
                self._news.wait(timeout)

    @property
    def is_done(self) -> bool:
        """Whether all audio has been captioned and all events have been taken."""
        with self._wake:
            return self.done and not self.events and self.error is None


def joined(blocks: Sequence[tuple[int, Rows, str]]) -> list[tuple[int, Rows, str]]:
    """Blocks that follow each other -> one."""
    found: list[tuple[int, list[Rows], str]] = []
    end = -1
    for start, rows, reason in blocks:
        if found and start == end:
            found[-1][1].append(rows)
        else:
            found.append((start, [rows], reason))
        end = start + rows.shape[1]
    return [(start, np.concatenate(rows, axis=1), reason) for start, rows, reason in found]
