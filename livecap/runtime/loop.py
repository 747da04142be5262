"""One round for all streams of a service: take audio in, begin jobs, compute a step, publish.

Nothing waits here, and nothing is known of threads but the lock around what others may touch.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from livecap.config import DecodeConfig
from livecap.events import RATE
from livecap.models.load import Loaded
from livecap.online.job import DecodeJob, Hypothesis
from livecap.runtime.batcher import Batcher
from livecap.runtime.capacity import Capacity
from livecap.runtime.handle import Signals, StreamHandle
from livecap.runtime.source import push_all

MAX_LIVE_JOBS = 3  # under way at once; more wait where their segments still grow
MAX_UPDATES = 1  # live jobs under way in all when another one begins that nobody waits for
UPDATE_SLACK_S = 1.0  # by which the end of a segment goes before other streams' updates
MAX_FILE_JOBS_BESIDE_LIVE = 2  # they share each decoder step with live jobs


@dataclass(slots=True)
class OpenStreams:
    """The streams of a service, and what they cost. Guarded by the lock of its signals."""

    signals: Signals
    capacity: Capacity
    live: list[StreamHandle] = field(default_factory=list)
    files: list[StreamHandle] = field(default_factory=list)

    @property
    def all(self) -> list[StreamHandle]:
        """Live streams and files."""
        return [*self.live, *self.files]


class EngineLoop:
    """What the service's thread does."""

    def __init__(
        self, loaded: Loaded, decode: DecodeConfig, clock: Callable[[], float], streams: OpenStreams
    ) -> None:
        self._streams = streams
        self._clock = clock
        self._batcher: Batcher[tuple[StreamHandle, int]] = Batcher(
            loaded.model, decode, max_jobs=loaded.batch, clock=clock
        )
        self._started: dict[StreamHandle, float] = {}  # live jobs under way, since when

    @property
    def is_due(self) -> bool:
        """Whether there is something to do."""
        return not self._batcher.is_idle or any(handle.is_due for handle in self._streams.all)

    def cancel(self) -> None:
        """Drop all work, after a fault."""
        self._batcher.cancel(lambda key: True)
        self._batcher.engine.clear()

    def step(self) -> None:
        """One round."""
        started = self._clock()
        with self._streams.signals.work_ready:
            live, files = list(self._streams.live), list(self._streams.files)
        for handle in [*live, *files]:
            if handle.inbox.is_cancelled:
                self.leave(handle)
        samples = self._take_in(live)
        self._submit_live(live)
        self._submit_files(files)
        for (handle, channel), hypothesis in self._batcher.step():
            self._accept(handle, channel, hypothesis)
        self._submit_live(live)
        for handle in [*live, *files]:
            if handle.is_taken_in and handle.source.is_done and not handle.is_over:
                handle.publish(handle.source.close())
                self.leave(handle)
        with self._streams.signals.work_ready:
            now = self._clock()
            self._streams.capacity.pass_time(now, busy=now - started, audio=samples / RATE)

    def leave(self, handle: StreamHandle) -> None:
        """Done or cancelled: nothing of the stream is left behind."""
        self._batcher.cancel(lambda key: key[0] is handle)
        self._started.pop(handle, None)
        for stream in handle.streams:
            for state in stream.cancel():
                self._batcher.free(state)
        with self._streams.signals.work_ready:
            for handles in (self._streams.live, self._streams.files):
                if handle in handles:
                    handles.remove(handle)
        handle.end()

    def _take_in(self, handles: Sequence[StreamHandle]) -> int:
        """Judge what came for live streams, all at once, if it is enough for one -> samples."""
        if not any(handle.inbox.is_due for handle in handles):
            return 0
        came = {handle: handle.take_in() for handle in handles if not handle.is_over}
        samples = 0
        while any(came.values()):
            batch = [(handle.source, blocks.pop(0)) for handle, blocks in came.items() if blocks]
            samples += sum(rows.shape[1] for _, (_, rows, _) in batch)
            push_all(batch)
        for handle in came:
            if handle.is_taken_in:
                handle.source.finish()
        return samples

    def _submit_live(self, handles: Sequence[StreamHandle]) -> None:
        """Begin jobs by deadline: what speech that has ended waits for, then updates.

        Only a few at once: an update that has to wait is better made later, of more audio.
        """
        now = self._clock()
        ready: list[tuple[float, int, int, StreamHandle]] = []
        for number, handle in enumerate(handles):
            if handle in self._started or handle.is_over:
                continue
            stream = handle.streams[0]
            handle.publish(handle.source.events())
            for state in stream.freed():
                self._batcher.free(state)
            if stream.has_job:
                wait = -stream.overdue / RATE if stream.is_urgent else UPDATE_SLACK_S
                ready.append((now + wait, -stream.backlog, number, handle))
        for deadline, _, _, handle in sorted(ready):
            is_urgent = handle.streams[0].is_urgent
            limit = MAX_LIVE_JOBS if is_urgent else MAX_UPDATES
            if len(self._started) >= limit or self._batcher.capacity == 0:
                return
            if found := handle.poll_job():
                self._streams.capacity.count_job(is_urgent=is_urgent)
                self._started[handle] = now
                self._submit(handle, found, deadline)

    def _submit_files(self, files: Sequence[StreamHandle]) -> None:
        """Files get what capacity live streams leave."""
        reserved = MAX_LIVE_JOBS if self._streams.live else 0
        limit = MAX_FILE_JOBS_BESIDE_LIVE if reserved else self._batcher.max_jobs
        capacity = sum(file.in_flight for file in files if not file.is_over)
        capacity += self._batcher.capacity
        for file, found in _in_turn(files, min(limit, capacity)):
            self._streams.capacity.count_job(is_urgent=False)
            self._submit(file, found, None)
        for file in files:
            if not file.is_over:
                file.publish(file.source.events())

    def _submit(
        self, handle: StreamHandle, found: tuple[int, DecodeJob], deadline: float | None
    ) -> None:
        channel, job = found
        if deadline is not None:
            job = replace(job, deadline=deadline)
        self._batcher.submit((handle, channel), job, handle.decode)

    def _accept(self, handle: StreamHandle, channel: int, hypothesis: Hypothesis) -> None:
        handle.in_flight -= 1
        if handle.is_live:
            handle.busy += self._clock() - self._started.pop(handle)
        handle.publish(handle.source.accept(channel, hypothesis))


def _in_turn(
    files: Sequence[StreamHandle], limit: int
) -> Iterator[tuple[StreamHandle, tuple[int, DecodeJob]]]:
    """Jobs of files, one of each in turn, so that at most so many are under way.

    Audio is taken in as far as that needs.
    """
    waiting = deque(file for file in files if not file.is_over)
    room = limit - sum(file.in_flight for file in waiting)
    while waiting and room > 0:
        file = waiting.popleft()
        found = file.poll_job()
        if found or _take_in(file):
            waiting.append(file)
        if found:
            room -= 1
            yield file, found


def _take_in(file: StreamHandle) -> bool:
    """Judge the next piece of a file; whether there was one, the end included."""
    if file.is_taken_in:
        return False
    blocks = file.take_in()
    for block in blocks:
        file.source.push(*block)
    if file.is_taken_in:
        file.source.finish()
    return bool(blocks) or file.is_taken_in
