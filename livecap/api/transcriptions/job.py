"""An upload's file -> events: a thread decodes it and feeds a stream, whose events are awaited.

The thread stays with the stream until the end, so that all that is done to it is done in order;
and it is the thread that closes the file.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import chain
from types import TracebackType
from typing import Protocol

from livecap.api.errors import NO_RETRY, ApiError, fault
from livecap.api.transcriptions.limits import UploadLimits
from livecap.api.transcriptions.plan import TranscriptionPlan
from livecap.api.transcriptions.source import SourceDecoder, UploadedFile, head, problem_of
from livecap.config import DecodeConfig
from livecap.errors import AudioError, LivecapError
from livecap.events import Event
from livecap.online.config import StreamConfig
from livecap.runtime.source import Rows

TICK = 0.2  # seconds in which a thread that waits for room notices that it is to stop


class FileStream(Protocol):
    """A file under way in a service; see `runtime.handle`."""

    def push(self, start: int, pcm: Rows, reason: str = ...) -> None: ...
    def wait_for_room(self, max_samples: int, timeout: float) -> bool: ...
    def finish(self) -> None: ...
    def cancel(self) -> None: ...
    def poll(self) -> list[Event]: ...
    @property
    def is_done(self) -> bool: ...
    @property
    def in_flight(self) -> int: ...


class JobService(Protocol):
    """What computes; see `runtime.service`."""

    def open(
        self, config: StreamConfig, decode: DecodeConfig, *, notify: Callable[[], None]
    ) -> FileStream: ...


class Job:
    """One upload's captions, as an async context: leaving it gives up what is not done yet."""

    def __init__(
        self,
        source: UploadedFile,
        service: JobService,
        plan: TranscriptionPlan,
        limits: UploadLimits,
        *,
        is_streamed: bool = False,
    ) -> None:
        """With `is_streamed`, the first window is captioned alone: in a batch it would be ready
        when all of them are.
        """
        self._is_streamed = is_streamed
        self._source = source
        self._service = service
        self._plan = plan
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self._news = asyncio.Event()
        self._stopped = threading.Event()
        self._told = threading.Event()  # the stream has news, for the thread
        self._stream: FileStream | None = None  # once there is audio to be captioned
        self._decoder: SourceDecoder | None = None  # once there is audio to be decoded
        self._failure: ApiError | None = None
        self._fed = False  # all audio has been sent
        self.broken: str | None = None  # why not all of the file could be decoded
        self._thread = threading.Thread(target=self._run, name="livecap-upload", daemon=True)

    async def __aenter__(self) -> "Job":
        self._thread.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()

    async def opened(self) -> None:
        """Until there is audio. Raises ApiError where the file has none, too little, or too much
        by its header.
        """
        while self._stream is None:
            self._news.clear()
            if self._failure:
                raise self._failure
            if self._stream is None:
                await self._wait(self._left())

    async def take(self, patience: float) -> list[Event]:
        """What has happened since the last call; nothing if that is so for `patience` seconds.

        Raises ApiError for what keeps the rest from being captioned.
        """
        until = self._loop.time() + patience
        while True:
            self._news.clear()
            events = self._events()
            left = until - self._loop.time()
            if events or self.is_done or left <= 0:
                return events
            await self._wait(min(left, self._left()))

    @property
    def is_done(self) -> bool:
        """Whether all events have been taken, and no more will come."""
        if self._stream is None or self._failure:
            return False
        return self._fed and self._stream.is_done

    @property
    def duration(self) -> int:
        """Samples decoded so far, gaps included."""
        return self._decoder.duration if self._decoder else 0

    def _events(self) -> list[Event]:
        if self._failure:
            raise self._failure
        assert self._stream is not None, "it was not opened"
        try:
            return self._stream.poll()
        except LivecapError as error:
            raise problem_of(error) from error

    def _left(self) -> float:
        """Seconds of the request's budget. Raises ApiError (408) if there are none."""
        promised = self._decoder.promised if self._decoder else 0
        budget = self._limits.budget(max(self.duration, promised))
        left = self._begun + budget - self._loop.time()
        if left <= 0:
            message = f"The audio was not captioned within {budget:.0f} s. Send a shorter part."
            raise ApiError(408, message, code="timeout", headers=NO_RETRY)
        return left

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    # The thread

    def _tell(self) -> None:
        """There is news. Called from threads, which must not mind that the server has ended."""
        self._told.set()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._news.set)

    def _run(self) -> None:
        failure: ApiError | None = fault()  # what nobody expected must not look like the end
        try:
            with closing(self._source.file):
                self._read()
            failure = None
        except ApiError as error:
            failure = error
        except LivecapError as error:
            failure = problem_of(error)
        finally:
            self._failure = failure
            self._fed = True
            self._tell()
            if failure is None:
                self._stopped.wait()
            if self._stream is not None:
                self._stream.cancel()

    def _read(self) -> None:
        with SourceDecoder(self._source, self._limits, self._stopped) as decoder:
            self._decoder = decoder
            blocks = decoder.blocks()
            first = head(blocks)
            config, decode = self._plan.session, self._plan.decode
            stream = self._service.open(config, decode, notify=self._tell)
            self._stream = stream
            self._tell()
            try:
                for block, reason in chain(first, blocks):
                    if not self._has_room(stream):
                        return
                    stream.push(block.start, block.pcm, reason)
                self.broken = decoder.damage
            except AudioError as error:  # what came before it is captioned
                self.broken = error.args[0]
        stream.finish()

    def _has_room(self, stream: FileStream) -> bool:
        """Waits until the stream needs more audio; False if nobody wants it any more."""
        while not self._stopped.is_set():
            ahead = 1 if self._is_streamed else self._limits.ahead
            if not stream.wait_for_room(ahead, TICK):
                continue
            if not self._is_streamed or not stream.in_flight:
                return not self._stopped.is_set()
            self._await_first(stream)
        return False

    def _await_first(self, stream: FileStream) -> None:
        """Until the first window is captioned; then the others may come, in batches."""
        while stream.in_flight and not self._stopped.is_set():
            self._told.wait(TICK)
            self._told.clear()
        self._is_streamed = False
