"""Live streams and the one thread that computes for all of them.

    service = Service(loaded, silero, DecodeConfig())
    stream = service.open(LiveConfig(...))
    stream.send(start, pcm)           # from any thread; never blocks
    for event in stream.take(): ...   # what has happened since
    stream.finish(); ... stream.is_done
    service.close()

Whoever would rather be told than ask gives `open` a `notify`, which is called from that thread.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from livecap.commit import LocalAgreement
from livecap.config import DecodeConfig
from livecap.errors import EngineFault, LivecapError
from livecap.events import RATE, Event, Pace
from livecap.live import Live, LiveConfig
from livecap.models.load import Loaded
from livecap.recognizer import Recognizer
from livecap.stream import SourceStream
from livecap.vad import Silero
from livecap.work import Work

Rows = NDArray[np.float32]  # [channel, sample]

AT_ONCE = RATE // 5  # samples that are judged together: smaller pieces cost more than they tell
BEHIND = 3  # updates that are overdue when a stream counts as being behind
HASTE = 1.0  # seconds by which the end of a segment goes before other streams' updates


@dataclass(slots=True)
class _Inbox:
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

    def __init__(self, service: "Service", config: LiveConfig, notify: Callable[[], None]) -> None:
        self._service = service
        self._notify = notify
        self._inbox = _Inbox()
        self._events: list[Event] = []
        self._done = False
        self._error: LivecapError | None = None
        self.live = Live(config)
        silero = service.silero if config.vad else None
        self.source = SourceStream([self.live], silero, renews=True)
        self.unheard = 0  # samples that had come and not been heard, when that was last looked at
        self.is_behind = False  # too many of them: updates get rarer
        self.busy = 0.0  # seconds of waiting for hypotheses

    def send(self, start: int, pcm: Rows, reason: str = "the source has no audio here") -> None:
        """Audio [1, sample] at 16 kHz from that media time (samples) on; what lies between it and
        the end of the audio before is a gap, for that reason. No samples at all state a gap that
        goes on: what was said before it is finished.
        """
        with self._service.wake:
            if self._done:
                return  # it was dropped, or its service has ended: nobody would take it
            assert not self._inbox.is_closed, "audio after the end"
            self._inbox.blocks.append((start, pcm, reason))
            self._inbox.samples += pcm.shape[1]
            self._inbox.is_urgent |= not pcm.shape[1]
            if self._inbox.is_due:
                self._service.wake.notify()

    def finish(self) -> None:
        """No more audio comes. Everything sent is still captioned."""
        with self._service.wake:
            self._inbox.is_closed = True
            self._service.wake.notify()

    def drop(self) -> None:
        """Nobody wants this stream any more: its work stops and its memory is freed."""
        with self._service.wake:
            self._inbox.is_closed = self._inbox.is_dropped = True
            self._service.wake.notify()

    def take(self) -> list[Event]:
        """What has happened since the last call. Raises what ended the stream, if that was a fault.

        Events that came before the fault are returned first.
        """
        with self._service.wake:
            events, self._events = self._events, []
            if self._error and not events:
                raise self._error
        if self._error:
            self._notify()  # there is more to be told
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
        with self._service.wake:
            if not self._events and not self._done:
                self._service.news.wait(timeout)

    @property
    def is_done(self) -> bool:
        """Whether all audio has been captioned and all events have been taken."""
        with self._service.wake:
            return self._done and not self._events and self._error is None

    @property
    def lag(self) -> float:
        """Seconds of audio that have come and are not heard yet."""
        with self._service.wake:
            return (self.unheard + self._inbox.samples) / RATE


class Service:
    """Computes for all streams: voice activity, encoder, decoder, in batches."""

    def __init__(
        self,
        loaded: Loaded,
        silero: Silero | None,
        decode: DecodeConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.loaded = loaded
        self.silero = silero
        lock = threading.RLock()
        self.wake = threading.Condition(lock)  # there is something to do
        self.news = threading.Condition(lock)  # something has been done
        self._clock = clock
        self._recognizer: Recognizer[LiveStream] = Recognizer(
            loaded.model, decode, most=loaded.batch, clock=clock
        )
        self._streams: list[LiveStream] = []
        self._given: dict[LiveStream, tuple[Work, float]] = {}
        self._stopping = False
        self._failure: LivecapError | None = None
        self._thread = threading.Thread(target=self._run, name="livecap-engine", daemon=True)
        self._thread.start()

    def open(self, config: LiveConfig, *, notify: Callable[[], None] = lambda: None) -> LiveStream:
        """A new stream. `notify` is called from the service's thread when there are events."""
        stream = LiveStream(self, config, notify)
        with self.wake:
            if self._failure:
                raise self._failure
            if self._stopping:
                raise EngineFault("The service has been closed", remedy="Open a new one")
            self._streams.append(stream)
        return stream

    @property
    def streams(self) -> int:
        """How many are open."""
        with self.wake:
            return len(self._streams)

    def warm_up(self) -> None:
        """Hear a second of next to nothing: what is prepared on first use is ready then."""
        noise = np.random.default_rng(0).normal(0, 1e-3, (1, RATE)).astype(np.float32)
        config = LiveConfig(policy=LocalAgreement(), vad=None, language="en")
        stream = self.open(config)
        stream.send(0, noise)
        stream.finish()
        while not stream.is_done:
            stream.take()
            stream.wait(1.0)

    def close(self) -> None:
        """Drop what is still open, and end the thread."""
        with self.wake:
            self._stopping = True
            self.wake.notify()
        self._thread.join()

    # The thread

    def _run(self) -> None:
        failure: LivecapError | None = EngineFault(
            "the engine broke off", remedy="This is a fault in livecap; please report what is above"
        )
        try:
            while self._wait():
                self._round()
            for stream in list(self._streams):
                self._leave(stream)
            failure = None
        except LivecapError as error:
            failure = error
        finally:
            if failure:  # what nobody expected must not look like silence
                self._fail(failure)

    def _wait(self) -> bool:
        """Until there is something to do; False when there never will be."""
        with self.wake:
            while not self._stopping and not self._is_due():
                self.wake.wait()
            return not self._stopping

    def _is_due(self) -> bool:
        return not self._recognizer.is_idle or any(one._inbox.is_due for one in self._streams)

    def _round(self) -> None:
        """Take what came, hand out what is due, compute a step, pass on what came of it."""
        with self.wake:
            streams = list(self._streams)
        for stream in streams:
            self._take_in(stream)
        self._hand_out(streams)
        for stream, hypothesis in self._recognizer.step():
            work, begun = self._given.pop(stream)
            stream.busy += self._clock() - begun
            self._pass_on(stream, stream.source.accept(0, replace(hypothesis, work=work)))
        self._hand_out(streams)
        for stream in streams:
            if stream.source.is_done and stream not in self._given:
                self._pass_on(stream, stream.source.finish())
                self._leave(stream)

    def _take_in(self, stream: LiveStream) -> None:
        with self.wake:
            inbox = stream._inbox
            blocks = [*inbox.blocks]
            is_closed, is_dropped = inbox.is_closed, inbox.is_dropped
            if not inbox.is_due:
                return
            stream.unheard += inbox.samples
            inbox.blocks.clear()
            inbox.samples, inbox.is_urgent = 0, False
        if is_dropped:
            self._leave(stream)
            return
        for start, rows, reason in _joined(blocks):
            stream.source.feed(start, rows, reason)
        if is_closed:
            stream.source.close()

    def _hand_out(self, streams: Sequence[LiveStream]) -> None:
        for stream in streams:
            if self._recognizer.room and stream not in self._given and stream in self._streams:
                found = stream.source.work()
                self._pass_on(stream, stream.source.events())
                for kept in stream.live.released():
                    self._recognizer.forget(kept)
                if found:
                    self._submit(stream, found[1])

    def _submit(self, stream: LiveStream, work: Work) -> None:
        now = self._clock()
        assert work.update is not None
        deadline = now - HASTE if work.update.last else now
        self._given[stream] = work, now
        self._recognizer.submit(stream, replace(work, deadline=deadline))

    def _pass_on(self, stream: LiveStream, events: list[Event]) -> None:
        events = [*events, *stream.pace()]
        with self.wake:
            stream.unheard = stream.live.unheard
            stream._events += events
            self.news.notify_all()
        if events:
            stream._notify()

    def _leave(self, stream: LiveStream) -> None:
        """Done or dropped: nothing of the stream is left behind."""
        self._recognizer.drop(stream)
        self._given.pop(stream, None)
        for kept in stream.live.abandon():
            self._recognizer.forget(kept)
        with self.wake:
            stream._done = True
            stream.unheard = stream._inbox.samples = 0
            stream._inbox.blocks.clear()
            if stream in self._streams:
                self._streams.remove(stream)
            self.news.notify_all()
        stream._notify()

    def _fail(self, error: LivecapError) -> None:
        """The model can't go on: all streams are told."""
        self._recognizer.abandon()
        with self.wake:
            self._failure = error
            streams, self._streams = self._streams, []
            for stream in streams:
                stream._error, stream._done = error, True
            self.news.notify_all()
        for stream in streams:
            stream._notify()


def _joined(blocks: Sequence[tuple[int, Rows, str]]) -> list[tuple[int, Rows, str]]:
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
