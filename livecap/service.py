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
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from livecap.commit import LocalAgreement
from livecap.config import DecodeConfig
from livecap.errors import EngineFault, LivecapError
from livecap.events import RATE, Event
from livecap.live import LiveConfig
from livecap.live_stream import LiveStream, joined
from livecap.models.load import Loaded
from livecap.recognizer import Recognizer
from livecap.vad import Silero
from livecap.work import Work

UNDER_WAY = 3  # pieces of work at once; more wait where they still grow
UPDATES = 1  # under way in all when another one begins that nothing hangs on
HASTE = 1.0  # seconds by which the end of a segment goes before other streams' updates


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
        stream = LiveStream(config, self.silero, notify, wake=self.wake, news=self.news)
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
        return not self._recognizer.is_idle or any(one.inbox.is_due for one in self._streams)

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
            inbox = stream.inbox
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
        for start, rows, reason in joined(blocks):
            stream.source.feed(start, rows, reason)
        if is_closed:
            stream.source.close()

    def _hand_out(self, streams: Sequence[LiveStream]) -> None:
        """Give out work, what speech that has paused waits for first, then what is most overdue.

        Only a little at once: an update that has to wait is better made later, of more audio.
        """
        ready: list[LiveStream] = []
        for stream in streams:
            if stream not in self._given and stream in self._streams:
                if stream.live.has_work:
                    ready.append(stream)
                self._pass_on(stream, stream.source.events())
                for kept in stream.live.released():
                    self._recognizer.forget(kept)
        ready.sort(key=lambda stream: (not stream.live.is_urgent, -stream.live.unheard))
        for stream in ready:
            most = UNDER_WAY if stream.live.is_urgent else UPDATES
            if len(self._given) >= min(most, self._recognizer.most):
                return
            found = stream.source.work()
            if found:
                self._submit(stream, found[1])

    def _submit(self, stream: LiveStream, work: Work) -> None:
        now = self._clock()
        assert work.update is not None
        deadline = now - HASTE if work.update.whole else now
        self._given[stream] = work, now
        self._recognizer.submit(stream, replace(work, deadline=deadline))

    def _pass_on(self, stream: LiveStream, events: list[Event]) -> None:
        events = [*events, *stream.pace()]
        with self.wake:
            stream.unheard = stream.live.unheard
            stream.events += events
            self.news.notify_all()
        if events:
            stream.notify()

    def _leave(self, stream: LiveStream) -> None:
        """Done or dropped: nothing of the stream is left behind."""
        self._recognizer.drop(stream)
        self._given.pop(stream, None)
        for kept in stream.live.abandon():
            self._recognizer.forget(kept)
        with self.wake:
            stream.done = True
            stream.unheard = stream.inbox.samples = 0
            stream.inbox.blocks.clear()
            if stream in self._streams:
                self._streams.remove(stream)
            self.news.notify_all()
        stream.notify()

    def _fail(self, error: LivecapError) -> None:
        """The model can't go on: all streams are told."""
        self._recognizer.abandon()
        with self.wake:
            self._failure = error
            streams, self._streams = self._streams, []
            for stream in streams:
                stream.error, stream.done = error, True
            self.news.notify_all()
        for stream in streams:
            stream.notify()
