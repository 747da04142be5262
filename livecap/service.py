"""Live streams and recordings, and the one thread that computes for all of them.

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

from livecap.budget import Budget, Load
from livecap.commit import LocalAgreement
from livecap.config import DecodeConfig
from livecap.errors import EngineFault, LivecapError
from livecap.events import RATE, Event
from livecap.file_stream import FileStream
from livecap.handle import Handle
from livecap.live import LiveConfig
from livecap.live_stream import LiveStream
from livecap.models.load import Loaded
from livecap.recognizer import HURRY, Recognizer
from livecap.session import SessionConfig
from livecap.stream import feed_together
from livecap.vad import Silero
from livecap.work import Hypothesis, Work

UNDER_WAY = 3  # pieces of live work at once; more wait where they still grow
UPDATES = 1  # under way in all when another one begins that nothing hangs on
HASTE = 1.0  # seconds by which the end of a segment goes before other streams' updates
PATIENCE = 0.5  # seconds of encoding at once where nobody speaks: somebody may begin, or leave
BESIDE = 2  # pieces of recordings under way while there are live streams: they share each step


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
        """`decode` is for those streams that are opened without their own."""
        self.loaded = loaded
        self.silero = silero
        lock = threading.RLock()
        self.wake = threading.Condition(lock)  # there is something to do
        self.news = threading.Condition(lock)  # something has been done
        self._clock = clock
        self._decode = decode
        self._recognizer: Recognizer[Handle] = Recognizer(
            loaded.model, decode, most=loaded.batch, clock=clock
        )
        self._streams: list[LiveStream] = []
        self._files: list[FileStream] = []
        self._given: dict[LiveStream, tuple[Work, float]] = {}
        self._stopping = False
        self._failure: LivecapError | None = None
        self._budget = Budget(clock())
        self._begun = self._urgent = 0  # pieces of live work since the budget was last told
        self._thread = threading.Thread(target=self._run, name="livecap-engine", daemon=True)
        self._thread.start()

    def open(
        self,
        config: LiveConfig,
        decode: DecodeConfig | None = None,
        *,
        notify: Callable[[], None] = lambda: None,
    ) -> LiveStream:
        """A new live stream. `notify` is called from the service's thread when there are events.

        Raises ConfigError for what the model can't follow.
        """
        decode = self._checked(decode)
        stream = LiveStream(config, decode, self.silero, notify, wake=self.wake, news=self.news)
        with self.wake:
            self._refuse()
            self._streams.append(stream)
        return stream

    def open_file(
        self,
        config: SessionConfig,
        decode: DecodeConfig | None = None,
        *,
        notify: Callable[[], None] = lambda: None,
    ) -> FileStream:
        """A new recording. Live streams go before it. Raises ConfigError as `open` does."""
        decode = self._checked(decode)
        stream = FileStream(config, decode, self.silero, notify, wake=self.wake, news=self.news)
        with self.wake:
            self._refuse()
            self._files.append(stream)
        return stream

    def _checked(self, decode: DecodeConfig | None) -> DecodeConfig:
        if decode is None:
            return self._decode
        self.loaded.model.check(decode)
        return decode

    def _refuse(self) -> None:
        if self._failure:
            raise self._failure
        if self._stopping:
            raise EngineFault("The service has been closed", remedy="Open a new one")

    @property
    def streams(self) -> int:
        """How many live streams are open."""
        with self.wake:
            return len(self._streams)

    @property
    def files(self) -> int:
        """How many recordings are open."""
        with self.wake:
            return len(self._files)

    @property
    def load(self) -> Load:
        """How busy it is."""
        with self.wake:
            return Load(self._budget.busy, max((one.lag for one in self._streams), default=0.0))

    @property
    def bears(self) -> int:
        """How many live streams it can keep up with, by what they have cost so far."""
        with self.wake:
            return self._budget.bears

    @property
    def has_room(self) -> bool:
        """Whether it can take another live stream."""
        with self.wake:
            return not self._streams or len(self._streams) < self._budget.bears

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
            for stream in [*self._streams, *self._files]:
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
        streams = [*self._streams, *(one for one in self._files if not one.is_fed)]
        return not self._recognizer.is_idle or any(one.inbox.is_due for one in streams)

    def _round(self) -> None:
        """Take what came, hand out what is due, compute a step, pass on what came of it."""
        begun = self._clock()
        with self.wake:
            streams, files = list(self._streams), list(self._files)
        self._take_in(streams)
        self._hand_out(streams)
        self._hand_out_files(files)
        for handle, hypothesis in self._recognizer.step(patience=HURRY if streams else PATIENCE):
            self._accept(handle, hypothesis)
        self._hand_out(streams)
        for stream in streams:
            if stream.source.is_done and stream not in self._given:
                self._end(stream)
        for file in files:
            if file.is_fed and file.source.is_done:
                self._end(file)
        self._account(begun, len(streams))

    def _take_in(self, streams: Sequence[LiveStream]) -> None:
        """Judge what came for all of them at once, if it is enough for one."""
        for stream in streams:
            if stream.inbox.is_dropped:
                self._leave(stream)
        if not any(stream.inbox.is_due for stream in streams):
            return
        closed = [stream for stream in streams if stream.inbox.is_closed]  # nothing comes any more
        came = {stream: stream.take_out() for stream in streams if not stream.done}
        while any(came.values()):
            feed_together([(one.source, *blocks.pop(0)) for one, blocks in came.items() if blocks])
        for stream in closed:
            stream.source.close()

    def _accept(self, handle: Handle, hypothesis: Hypothesis) -> None:
        if isinstance(handle, LiveStream):
            work, since = self._given.pop(handle)
            handle.busy += self._clock() - since
            hypothesis = replace(hypothesis, work=work)
        elif isinstance(handle, FileStream):
            handle.given -= 1
        self._pass_on(handle, handle.source.accept(0, hypothesis))

    def _account(self, begun: float, streams: int) -> None:
        now = self._clock()
        with self.wake:
            self._budget.pass_time(
                now, busy=now - begun, works=self._begun, urgent=self._urgent, streams=streams
            )
        self._begun = self._urgent = 0

    def _hand_out_files(self, files: Sequence[FileStream]) -> None:
        """Recordings get what room live streams leave, in turn, and are read as it is needed."""
        for file in files:
            if file.inbox.is_dropped:
                self._leave(file)
        under_way = sum(file.given for file in files)
        most = BESIDE if self._streams else self._recognizer.most
        waiting = [file for file in files if file in self._files]
        while waiting and under_way < most and self._recognizer.room > 0:
            file = waiting.pop(0)
            work = file.work()
            if work:
                under_way += 1
                self._recognizer.submit(file, work, file.decode)
            if work or file.take_in():
                waiting.append(file)
            self._pass_on(file, file.source.events())

    def _end(self, handle: Handle) -> None:
        self._pass_on(handle, handle.source.finish())
        self._leave(handle)

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
            is_urgent = stream.live.is_urgent
            if len(self._given) >= min(UNDER_WAY if is_urgent else UPDATES, self._recognizer.most):
                return
            found = stream.source.work()
            if found:
                self._submit(stream, found[1], is_urgent=is_urgent)

    def _submit(self, stream: LiveStream, work: Work, *, is_urgent: bool) -> None:
        now = self._clock()
        deadline = now - HASTE if is_urgent else now
        self._begun += 1
        self._urgent += is_urgent
        self._given[stream] = work, now
        self._recognizer.submit(stream, replace(work, deadline=deadline), stream.decode)

    def _pass_on(self, handle: Handle, events: list[Event]) -> None:
        if isinstance(handle, LiveStream):
            events = [*events, *handle.pace()]
        with self.wake:
            if isinstance(handle, LiveStream):
                handle.unheard = handle.live.unheard
            handle.events += events
            self.news.notify_all()
        if events:
            handle.notify()

    def _leave(self, handle: Handle) -> None:
        """Done or dropped: nothing of the stream is left behind."""
        self._recognizer.drop(handle)
        if isinstance(handle, LiveStream):
            self._given.pop(handle, None)
            for kept in handle.live.abandon():
                self._recognizer.forget(kept)
        with self.wake:
            handle.end()
            if handle in self._streams:
                self._streams.remove(handle)
            if handle in self._files:
                self._files.remove(handle)
            self.news.notify_all()
        handle.notify()

    def _fail(self, error: LivecapError) -> None:
        """The model can't go on: all streams are told."""
        self._recognizer.abandon()
        with self.wake:
            self._failure = error
            handles: list[Handle] = [*self._streams, *self._files]
            self._streams, self._files = [], []
            for handle in handles:
                handle.error, handle.done = error, True
            self.news.notify_all()
        for handle in handles:
            handle.notify()
