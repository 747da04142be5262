"""One round for all streams of a service: judge, hand out, compute a step, pass on what came of it.

Nothing waits here, and nothing is known of threads but the lock around what others may touch.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from livecap.budget import Budget
from livecap.config import DecodeConfig
from livecap.events import RATE, Event
from livecap.file_stream import FileStream, in_turn
from livecap.handle import Handle
from livecap.live_stream import LiveStream
from livecap.models.load import Loaded
from livecap.recognizer import HURRY, Recognizer
from livecap.stream import feed_together
from livecap.work import Hypothesis, Work

UNDER_WAY = 3  # pieces of live work at once; more wait where they still grow
UPDATES = 1  # under way in all when another one begins that nothing hangs on
HASTE = 1.0  # seconds by which the end of a segment goes before other streams' updates
PATIENCE = 0.5  # seconds of encoding at once where nobody speaks: somebody may begin, or leave
BESIDE = 2  # pieces of recordings under way while there are live streams: they share each step


@dataclass(slots=True)
class Open:
    """The streams of a service, and what they cost. Guarded by the lock of both conditions."""

    wake: threading.Condition  # there is something to do
    news: threading.Condition  # something has been done
    budget: Budget
    streams: list[LiveStream] = field(default_factory=list)
    files: list[FileStream] = field(default_factory=list)


class Rounds:
    """What the service's thread does."""

    def __init__(
        self, loaded: Loaded, decode: DecodeConfig, clock: Callable[[], float], streams: Open
    ) -> None:
        self._open = streams
        self._clock = clock
        self._recognizer: Recognizer[Handle] = Recognizer(
            loaded.model, decode, most=loaded.batch, clock=clock
        )
        self._given: dict[LiveStream, tuple[Work, float]] = {}

    @property
    def is_due(self) -> bool:
        """Whether there is something to do."""
        is_told = any(stream.inbox.is_due for stream in self._open.streams)
        return is_told or not self._recognizer.is_idle or any(f.is_due for f in self._open.files)

    def abandon(self) -> None:
        """Drop all work, after a fault."""
        self._recognizer.abandon()

    def step(self) -> None:
        """Take what came, hand out what is due, compute a step, pass on what came of it."""
        begun = self._clock()
        with self._open.wake:
            streams, files = list(self._open.streams), list(self._open.files)
        audio = self._take_in(streams)
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
        with self._open.wake:
            now = self._clock()
            self._open.budget.pass_time(now, busy=now - begun, audio=audio / RATE)

    def _take_in(self, streams: Sequence[LiveStream]) -> int:
        """Judge what came for all of them at once, if it is enough for one -> samples of it."""
        for stream in streams:
            if stream.inbox.is_dropped:
                self.leave(stream)
        if not any(stream.inbox.is_due for stream in streams):
            return 0
        closed = [stream for stream in streams if stream.inbox.is_closed]  # nothing comes any more
        came = {stream: stream.take_out() for stream in streams if not stream.done}
        audio = 0
        while any(came.values()):
            batch = [(one.source, *blocks.pop(0)) for one, blocks in came.items() if blocks]
            audio += sum(rows.shape[1] for _, _, rows, _ in batch)
            feed_together(batch)
        for stream in closed:
            stream.source.close()
        return audio

    def _accept(self, handle: Handle, hypothesis: Hypothesis) -> None:
        if isinstance(handle, LiveStream):
            work, since = self._given.pop(handle)
            handle.busy += self._clock() - since
            hypothesis = replace(hypothesis, work=work)
        elif isinstance(handle, FileStream):
            handle.given -= 1
        self._pass_on(handle, handle.source.accept(0, hypothesis))

    def _hand_out_files(self, files: Sequence[FileStream]) -> None:
        """Recordings get what room live streams leave."""
        for file in files:
            if file.inbox.is_dropped:
                self.leave(file)
        most = BESIDE if self._open.streams else max(self._recognizer.most - UNDER_WAY, 1)
        room = sum(file.given for file in files) + self._recognizer.room
        for file, work in in_turn([one for one in files if not one.done], min(most, room)):
            self._open.budget.begin(is_urgent=False)
            self._recognizer.submit(file, work, file.decode)
        for file in files:
            self._pass_on(file, file.source.events())

    def _end(self, handle: Handle) -> None:
        self._pass_on(handle, handle.source.finish())
        self.leave(handle)

    def _hand_out(self, streams: Sequence[LiveStream]) -> None:
        """Give out work, what speech that has paused waits for first, then what is most overdue.

        Only a little at once: an update that has to wait is better made later, of more audio.
        """
        ready: list[LiveStream] = []
        for stream in streams:
            if stream not in self._given and stream in self._open.streams:
                if stream.live.has_work:
                    ready.append(stream)
                self._pass_on(stream, stream.source.events())
                for kept in stream.live.released():
                    self._recognizer.forget(kept)
        ready.sort(key=_rank)
        for stream in ready:
            is_urgent = stream.live.is_urgent
            most = UNDER_WAY if is_urgent else UPDATES
            if len(self._given) >= most or self._recognizer.room == 0:
                return
            overdue = stream.live.overdue / RATE if is_urgent else 0.0
            found = stream.source.work()
            if found:
                self._submit(stream, found[1], is_urgent=is_urgent, overdue=overdue)

    def _submit(self, stream: LiveStream, work: Work, *, is_urgent: bool, overdue: float) -> None:
        """`overdue`: seconds since the speech ended that waits for it."""
        now = self._clock()
        deadline = now - overdue - HASTE if is_urgent else now
        self._open.budget.begin(is_urgent=is_urgent)
        self._given[stream] = work, now
        self._recognizer.submit(stream, replace(work, deadline=deadline), stream.decode)

    def _pass_on(self, handle: Handle, events: list[Event]) -> None:
        if isinstance(handle, LiveStream):
            events = [*events, *handle.pace()]
        with self._open.wake:
            if isinstance(handle, LiveStream):
                handle.unheard = handle.live.unheard
            handle.events += events
            self._open.news.notify_all()
        if events:
            handle.notify()

    def leave(self, handle: Handle) -> None:
        """Done or dropped: nothing of the stream is left behind."""
        self._recognizer.drop(handle)
        if isinstance(handle, LiveStream):
            self._given.pop(handle, None)
            for kept in handle.live.abandon():
                self._recognizer.forget(kept)
        with self._open.wake:
            handle.end()
            if handle in self._open.streams:
                self._open.streams.remove(handle)
            if handle in self._open.files:
                self._open.files.remove(handle)
            self._open.news.notify_all()
        handle.notify()


def _rank(stream: LiveStream) -> tuple[bool, int]:
    """Least goes first: what waits since its speech ended, longest first; then the least heard."""
    live = stream.live
    return not live.is_urgent, -live.overdue if live.is_urgent else -live.unheard
