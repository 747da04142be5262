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
from collections.abc import Callable

import numpy as np

from livecap.budget import Budget, Load
from livecap.commit import LocalAgreement
from livecap.config import DecodeConfig
from livecap.errors import EngineFault, LivecapError
from livecap.events import RATE
from livecap.file_stream import FileStream
from livecap.handle import Handle
from livecap.live_config import LiveConfig
from livecap.live_stream import LiveStream
from livecap.models.load import Loaded
from livecap.rounds import Open, Rounds
from livecap.session import SessionConfig
from livecap.vad import Silero

LITTLE = 0.25  # seconds after which audio is judged that is too little to be worth it


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
        self._open = Open(self.wake, self.news, Budget(clock()))
        self._rounds = Rounds(loaded, decode, clock, self._open)
        self._stopping = False
        self.failure: LivecapError | None = None  # why it can't go on
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
            self._open.streams.append(stream)
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
            self._open.files.append(stream)
        return stream

    def _checked(self, decode: DecodeConfig | None) -> DecodeConfig:
        if decode is None:
            return self._decode
        self.loaded.model.check(decode)
        return decode

    def _refuse(self) -> None:
        if self.failure:
            raise self.failure
        if self._stopping:
            raise EngineFault("The service has been closed", remedy="Open a new one")

    @property
    def streams(self) -> int:
        """How many live streams are open."""
        with self.wake:
            return len(self._open.streams)

    @property
    def files(self) -> int:
        """How many recordings are open."""
        with self.wake:
            return len(self._open.files)

    @property
    def load(self) -> Load:
        """How busy it is."""
        with self.wake:
            return Load(
                self._open.budget.busy, max((one.lag for one in self._open.streams), default=0.0)
            )

    @property
    def bears(self) -> int:
        """How many live streams it can keep up with, by what they have cost so far."""
        with self.wake:
            return self._open.budget.bears

    def warm_up(self) -> None:
        """Hear next to nothing, twice: what is prepared on first use is ready then, and the second
        time tells what a piece of work costs.
        """
        noise = np.random.default_rng(0).normal(0, 1e-3, (1, 5 * RATE)).astype(np.float32)
        config = LiveConfig(policy=LocalAgreement(), vad=None, language="en")
        for _ in range(2):
            with self.wake:
                self._open.budget = Budget(self._clock())
            stream = self.open(config)
            stream.send(0, noise)
            stream.finish()
            while not stream.is_done:
                stream.take()
                stream.wait(1.0)
        with self.wake:
            self._open.budget.remember()

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
                self._rounds.step()
            for stream in [*self._open.streams, *self._open.files]:
                self._rounds.leave(stream)
            failure = None
        except LivecapError as error:
            failure = error
        finally:
            if failure:  # what nobody expected must not look like silence
                self._fail(failure)

    def _wait(self) -> bool:
        """Until there is something to do; False when there never will be."""
        with self.wake:
            while not self._stopping:
                soon = self._little()
                if self._rounds.is_due:
                    break
                self.wake.wait(soon)
            return not self._stopping

    def _little(self) -> float | None:
        """Seconds until audio is judged that is too little to be worth it; None if none waits."""
        now, soon = self._clock(), None
        for inbox in (stream.inbox for stream in self._open.streams):
            if inbox.samples:
                inbox.since = now if inbox.since is None else inbox.since
                left = inbox.since + LITTLE - now
                inbox.is_urgent |= left <= 0  # no more has come: it may be all that was waited for
                soon = left if soon is None else min(soon, left)
        return soon

    def _fail(self, error: LivecapError) -> None:
        """The model can't go on: all streams are told."""
        self._rounds.abandon()
        with self.wake:
            self.failure = error
            handles: list[Handle] = [*self._open.streams, *self._open.files]
            self._open.streams.clear()
            self._open.files.clear()
            for handle in handles:
                handle.error, handle.done = error, True
            self.news.notify_all()
        for handle in handles:
            handle.notify()
