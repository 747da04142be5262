"""Live streams and files, and the one thread that computes for all of them.

    service = Service(loaded, silero, DecodeConfig())
    stream = service.open(StreamConfig(...))
    stream.push(start, pcm)           # from any thread; never blocks
    for event in stream.poll(): ...   # what has happened since
    stream.finish(); ... stream.is_done
    service.close()

Whoever would rather be told than ask gives `open` a `notify`, which is called from that thread.
"""

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from livecap.config import DecodeConfig
from livecap.errors import EngineFault, LivecapError
from livecap.events import RATE
from livecap.models.load import Loaded
from livecap.online.config import StreamConfig, UpdateConfig
from livecap.online.policy import LocalAgreement
from livecap.runtime.capacity import Capacity, Load
from livecap.runtime.handle import Signals, StreamHandle
from livecap.runtime.loop import EngineLoop, OpenStreams
from livecap.vad.silero import Silero

MAX_WAIT_S = 0.25  # after which audio is judged that is too little to be worth it
WARM_UP_S = 5.0  # of noise


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
        self.signals = Signals()
        self._clock = clock
        self._decode = decode
        self._streams = OpenStreams(self.signals, Capacity(clock()))
        self._loop = EngineLoop(loaded, decode, clock, self._streams)
        self._stopping = False
        self.failure: LivecapError | None = None  # why it can't go on
        self._thread = threading.Thread(target=self._run, name="livecap-engine", daemon=True)
        self._thread.start()

    def open(
        self,
        config: StreamConfig,
        decode: DecodeConfig | None = None,
        *,
        notify: Callable[[], None] = lambda: None,
        speakers: Sequence[str | None] = (None,),
    ) -> StreamHandle:
        """A new stream; live ones go before files. `notify` is called from the service's thread
        when there are events. `speakers`: labels of a file's channels.

        Raises ConfigError for what the model can't follow.
        """
        if decode is None:
            decode = self._decode
        else:
            self.loaded.model.check(decode)
        stream = StreamHandle(config, decode, self.silero, notify, self.signals, speakers=speakers)
        with self.signals.work_ready:
            if self.failure:
                raise self.failure
            if self._stopping:
                raise EngineFault("The service has been closed", remedy="Open a new one")
            (self._streams.live if stream.is_live else self._streams.files).append(stream)
        return stream

    @property
    def streams(self) -> int:
        """How many live streams are open."""
        with self.signals.work_ready:
            return len(self._streams.live)

    @property
    def files(self) -> int:
        """How many files are open."""
        with self.signals.work_ready:
            return len(self._streams.files)

    @property
    def load(self) -> Load:
        """How busy it is."""
        with self.signals.work_ready:
            lag = max((stream.lag for stream in self._streams.live), default=0.0)
            return Load(self._streams.capacity.busy, lag)

    @property
    def max_streams(self) -> int:
        """How many live streams it can keep up with, by what they have cost so far."""
        with self.signals.work_ready:
            return self._streams.capacity.max_streams

    def warm_up(self) -> None:
        """Decode next to nothing, twice: what is prepared on first use is ready then, and the
        second time tells what a job costs.
        """
        samples = round(WARM_UP_S * RATE)
        noise = np.random.default_rng(0).normal(0, 1e-3, (1, samples)).astype(np.float32)
        config = StreamConfig(vad=None, language="en", updates=UpdateConfig(LocalAgreement()))
        for _ in range(2):
            with self.signals.work_ready:
                self._streams.capacity = Capacity(self._clock())
            stream = self.open(config)
            stream.push(0, noise)
            stream.finish()
            while not stream.is_done:
                stream.poll()
                stream.wait(1.0)
        with self.signals.work_ready:
            self._streams.capacity.set_baseline()

    def close(self) -> None:
        """Drop what is still open, and end the thread."""
        with self.signals.work_ready:
            self._stopping = True
            self.signals.work_ready.notify()
        self._thread.join()

    # The thread

    def _run(self) -> None:
        failure: LivecapError | None = EngineFault(
            "the engine broke off", remedy="This is a fault in livecap; please report what is above"
        )
        try:
            while self._wait():
                self._loop.step()
            for stream in self._streams.all:
                self._loop.leave(stream)
            failure = None
        except LivecapError as error:
            failure = error
        finally:
            if failure:  # what nobody expected must not look like silence
                self._fail(failure)

    def _wait(self) -> bool:
        """Until there is something to do; False when there never will be."""
        with self.signals.work_ready:
            while not self._stopping:
                timeout = self._next_inbox()
                if self._loop.is_due:
                    break
                self.signals.work_ready.wait(timeout)
            return not self._stopping

    def _next_inbox(self) -> float | None:
        """Seconds until audio is judged that is too little to be worth it; None if none waits."""
        now, timeout = self._clock(), None
        for inbox in (stream.inbox for stream in self._streams.live):
            if inbox.samples:
                inbox.since = now if inbox.since is None else inbox.since
                left = inbox.since + MAX_WAIT_S - now
                inbox.is_urgent |= left <= 0  # no more has come: it may be all that was waited for
                timeout = left if timeout is None else min(timeout, left)
        return timeout

    def _fail(self, error: LivecapError) -> None:
        """The model can't go on: all streams are told."""
        self._loop.cancel()
        with self.signals.work_ready:
            self.failure = error
            handles = self._streams.all
            self._streams.live.clear()
            self._streams.files.clear()
        for handle in handles:
            handle.end(error)
