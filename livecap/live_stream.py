"""One live stream of a service, as those hold it who send audio and take events."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition

import numpy as np
from numpy.typing import NDArray

from livecap.errors import LivecapError
from livecap.events import RATE, Event, Pace
from livecap.live import Live, LiveConfig
from livecap.stream import SourceStream
from livecap.vad import Silero

Rows = NDArray[np.float32]  # [channel, sample]

AT_ONCE = RATE // 5  # samples that are judged together: smaller pieces cost more than they tell
BEHIND = 3  # updates that are overdue when a stream counts as being behind


@dataclass(slots=True)
class Inbox:
    """What came for a stream and has not been taken yet. Guarded by the service's lock."""

    blocks: deque[tuple[int, Rows, str]] = field(default_factory=deque)
    samples: int = 0
    is_urgent: bool = False
    is_closed: bool = False
    is_dropped: bool = False

    @property
    def is_due(self) -> bool:
        """Whether there is enough to look at."""
        return self.samples >= AT_ONCE or self.is_urgent or self.is_closed


class LiveStream:
    """One stream, as others hold it. All methods may be called from any thread."""

    def __init__(
        self,
        config: LiveConfig,
        silero: Silero | None,
        notify: Callable[[], None],
        *,
        wake: Condition,
        news: Condition,
    ) -> None:
        """`wake` and `news` are the service's, with one lock: to do, and done."""
        self._wake, self._news = wake, news
        self.notify = notify
        self.inbox = Inbox()
        self.events: list[Event] = []
        self.done = False
        self.error: LivecapError | None = None
        self.live = Live(config)
        self.source = SourceStream([self.live], silero if config.vad else None, renews=True)
        self.unheard = 0  # samples that had come and not been heard, when that was last looked at
        self.is_behind = False  # too many of them: updates get rarer
        self.busy = 0.0  # seconds of waiting for hypotheses

    def send(self, start: int, pcm: Rows, reason: str = "the source has no audio here") -> None:
        """Audio [1, sample] at 16 kHz from that media time (samples) on; what lies between it and
        the end of the audio before is a gap, for that reason. No samples at all state a gap that
        goes on: what was said before it is finished.
        """
        with self._wake:
            if self.done:
                return  # it was dropped, or its service has ended: nobody would take it
            assert not self.inbox.is_closed, "audio after the end"
            self.inbox.blocks.append((start, pcm, reason))
            self.inbox.samples += pcm.shape[1]
            self.inbox.is_urgent |= not pcm.shape[1]
            if self.inbox.is_due:
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

    def pace(self) -> list[Event]:
        """Whether the stream has fallen behind or caught up since the last call."""
        lag, interval = self.live.unheard, self.live.config.interval
        before = self.is_behind
        self.is_behind = lag > (interval if before else BEHIND * interval)
        told = Pace(self.live.reached, lag, self.is_behind)
        return [told] if self.is_behind != before else []

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

    @property
    def lag(self) -> float:
        """Seconds of audio that have come and are not heard yet."""
        with self._wake:
            return (self.unheard + self.inbox.samples) / RATE


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
