"""Thread-safe handle to a stream: push audio, poll events."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import Condition, RLock

import numpy as np

from livecap.config import DecodeConfig
from livecap.errors import LivecapError
from livecap.events import RATE, Event, PaceChange
from livecap.online.config import StreamConfig
from livecap.online.job import DecodeJob
from livecap.online.stream import OnlineStream
from livecap.runtime.source import Block, MultichannelSource, Rows
from livecap.vad.silero import Silero

NO_AUDIO = "the source has no audio here"
MIN_JUDGED = RATE // 5  # samples that are judged together: smaller pieces cost more than they tell
FILE_PIECE = 10 * RATE  # samples of a file that are judged together
FILE_AHEAD = 60 * RATE  # samples of it that are taken in while its jobs wait for each other
BEHIND_UPDATES = 3  # updates that are overdue when a stream counts as being behind


class Signals:
    """The lock of a service, and what is waited for under it."""

    def __init__(self) -> None:
        lock = RLock()
        self.work_ready = Condition(lock)  # there is something to do
        self.events_ready = Condition(lock)  # something has been done


@dataclass(slots=True)
class Inbox:
    """What was pushed and has not been taken in yet. Guarded by the service's lock."""

    blocks: deque[Block] = field(default_factory=deque)
    samples: int = 0
    since: float | None = None  # seconds: when the service first saw what waits here
    is_urgent: bool = False
    is_finished: bool = False
    is_cancelled: bool = False

    @property
    def is_due(self) -> bool:
        """Whether there is enough to look at."""
        return self.samples >= MIN_JUDGED or self.is_urgent or self.is_finished


class StreamHandle:
    """A live stream or a file of a service. From any thread, but for what is marked below."""

    def __init__(
        self,
        config: StreamConfig,
        decode: DecodeConfig,
        silero: Silero | None,
        notify: Callable[[], None],
        signals: Signals,
        *,
        speakers: Sequence[str | None] = (None,),
    ) -> None:
        """`speakers`: labels of the channels that are captioned apart."""
        self.config = config
        self.decode = decode
        self.notify = notify
        self.is_live = config.updates is not None
        self.streams = [OnlineStream(replace(config, speaker=speaker)) for speaker in speakers]
        self.source = MultichannelSource(
            self.streams, silero if config.vad else None, resets=self.is_live
        )
        self.inbox = Inbox()
        self.in_flight = 0  # jobs under way
        self.busy = 0.0  # seconds of waiting for hypotheses
        self.is_behind = False  # too much has not been decoded: updates get rarer
        self.is_taken_in = False  # all that was pushed, up to the end
        self._signals = signals
        self._events: list[Event] = []
        self._is_over = False
        self._error: LivecapError | None = None
        self._backlog = 0  # samples that had come and not been decoded, when last looked at
        self._ahead = 0  # samples taken in since the last job began

    def push(self, start: int, pcm: Rows, reason: str = NO_AUDIO) -> None:
        """Audio [channel, sample] at 16 kHz from that media time (samples) on; what lies between it
        and the end of the audio before is a gap, for that reason. No samples at all state a gap
        that goes on: what was said before it is finished.
        """
        with self._signals.work_ready:
            if self._is_over or self.inbox.is_cancelled:
                return  # nobody would take it
            assert not self.inbox.is_finished, "audio after the end"
            is_first = not self.inbox.samples  # nobody waits for the rest of it yet
            self.inbox.blocks.append((start, pcm, reason))
            self.inbox.samples += pcm.shape[1]
            self.inbox.is_urgent |= not pcm.shape[1]
            if is_first or self.inbox.is_due:
                self._signals.work_ready.notify()

    def finish(self) -> None:
        """No more audio comes. Everything pushed is still captioned."""
        with self._signals.work_ready:
            self.inbox.is_finished = True
            self._signals.work_ready.notify()

    def cancel(self) -> None:
        """Nobody wants this stream any more: its work stops and its memory is freed."""
        with self._signals.work_ready:
            self.inbox.is_finished = self.inbox.is_cancelled = True
            self._signals.work_ready.notify()

    def poll(self) -> list[Event]:
        """What has happened since the last call. Raises what ended the stream, if that was a fault.

        Events that came before the fault are returned first.
        """
        with self._signals.events_ready:
            events, self._events = self._events, []
            if self._error and not events:
                raise self._error
        if self._error:
            self.notify()  # there is more to be polled
        return events

    def wait(self, timeout: float) -> None:
        """Until something has happened in some stream, or so many seconds have passed."""
        with self._signals.events_ready:
            if not self._events and not self._is_over:
                self._signals.events_ready.wait(timeout)

    def wait_for_room(self, max_samples: int, timeout: float) -> bool:
        """Wait, so many seconds, until fewer samples wait to be taken in; whether that is so.

        A stream that has ended, or broken, waits for nothing.
        """
        with self._signals.events_ready:
            return self._signals.events_ready.wait_for(
                lambda: (
                    self._is_over or self.inbox.is_cancelled or self.inbox.samples < max_samples
                ),
                timeout,
            )

    @property
    def is_done(self) -> bool:
        """Whether all audio has been captioned and all events have been polled."""
        with self._signals.events_ready:
            return self._is_over and not self._events and self._error is None

    @property
    def lag(self) -> float:
        """Seconds of audio that have come and are not decoded yet."""
        with self._signals.events_ready:
            return (self._backlog + self.inbox.samples) / RATE

    @property
    def waiting(self) -> int:
        """Samples that were pushed and have not been taken in."""
        with self._signals.events_ready:
            return self.inbox.samples

    @property
    def language(self) -> str | None:
        """The one that is spoken, once that is sure."""
        return self.streams[0].language

    @property
    def decoded(self) -> int:
        """Samples that went to the model, all channels together."""
        return self.source.decoded

    # For the service's thread

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens."""
        return self._is_over

    @property
    def is_due(self) -> bool:
        """Whether there is something to do for it, apart from the jobs under way."""
        if self.is_live or self.inbox.is_cancelled:
            return self.inbox.is_due
        return self.source.has_job or (not self.is_taken_in and self.inbox.is_due)

    def take_in(self) -> list[Block]:
        """What came, if it is worth looking at: blocks to be pushed to the source, in order.

        After the last of it `is_taken_in` is set.
        """
        if self.is_taken_in or (not self.is_live and self.in_flight and self._ahead > FILE_AHEAD):
            return []
        with self._signals.events_ready:
            inbox, blocks = self.inbox, list[Block]()
            # What is judged beside others costs little: half of what is worth it alone will do.
            if self.is_live and not inbox.is_due and inbox.samples < MIN_JUDGED // 2:
                return []
            count = 0
            while inbox.blocks and (self.is_live or count < FILE_PIECE):
                blocks.append(inbox.blocks.popleft())
                count += blocks[-1][1].shape[1]
            inbox.samples -= count
            inbox.since, inbox.is_urgent = None, False
            self.is_taken_in = inbox.is_finished and not inbox.blocks
            self._backlog += count
            self._ahead += count
            self._signals.events_ready.notify_all()  # there is room
        return _joined(blocks)

    def poll_job(self) -> tuple[int, DecodeJob] | None:
        """The next job, with its channel, or None for now."""
        found = self.source.poll()
        if found:
            self.in_flight += 1
            self._ahead = 0
        return found

    def publish(self, events: Sequence[Event]) -> None:
        """Events for those who poll."""
        found = [*events, *self._pace()]
        with self._signals.events_ready:
            self._backlog = sum(stream.backlog for stream in self.streams)
            self._events += found
            if found:
                self._signals.events_ready.notify_all()
        if found:
            self.notify()

    def end(self, error: LivecapError | None = None) -> None:
        """It is done, cancelled or broken: nothing more happens."""
        with self._signals.events_ready:
            self._is_over, self._error = True, error
            self._backlog = self.inbox.samples = 0
            self.inbox.blocks.clear()
            self._signals.events_ready.notify_all()
        self.notify()

    def _pace(self) -> list[Event]:
        """Whether a live stream has fallen behind or caught up since the last call."""
        updates = self.config.updates
        if updates is None:
            return []
        lag, before = self.streams[0].backlog, self.is_behind
        self.is_behind = lag > (updates.interval if before else BEHIND_UPDATES * updates.interval)
        pace = PaceChange(self.streams[0].reached, lag, self.is_behind)
        return [pace] if self.is_behind != before else []


def _joined(blocks: Sequence[Block]) -> list[Block]:
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
