"""One recording that a service captions beside its live streams."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import Condition

from livecap.config import DecodeConfig
from livecap.events import RATE
from livecap.handle import Handle, Rows, joined
from livecap.longform import Conditioned
from livecap.session import Session, SessionConfig
from livecap.stream import SourceStream
from livecap.vad import Silero
from livecap.work import Work

PIECE = 10 * RATE  # samples that are judged together
AHEAD = 60 * RATE  # samples that are taken in while nothing of them can be recognised


def in_turn(files: Iterable["FileStream"], most: int) -> Iterator[tuple["FileStream", Work]]:
    """Work of recordings, a piece of each in turn, so that at most so many are under way.

    They are taken in as far as that needs.
    """
    waiting = deque(files)
    room = most - sum(file.given for file in waiting)
    while waiting and room > 0:
        file = waiting.popleft()
        work = file.work()
        if work or file.take_in():
            waiting.append(file)
        if work:
            room -= 1
            yield file, work


class FileStream(Handle):
    """Audio that comes as fast as it is taken. Its segments are heard many at once."""

    def __init__(
        self,
        config: SessionConfig,
        decode: DecodeConfig,
        silero: Silero | None,
        notify: Callable[[], None],
        *,
        wake: Condition,
        news: Condition,
    ) -> None:
        """`wake` and `news` are the service's, with one lock: to do, and done."""
        kind = Conditioned if decode.long_form == "sequential" else Session
        source = SourceStream([kind(config)], silero if config.vad else None)
        super().__init__(source, decode, notify, wake=wake, news=news)
        self.is_fed = False  # all of it has been taken in
        self.given = 0  # pieces of work under way
        self._ahead = 0  # samples taken in since the last piece of work began

    @property
    def is_due(self) -> bool:
        """Whether there is something to do, as long as none of its work is under way."""
        has_more = any(session.has_work for session in self.source.sessions)
        return has_more or self.inbox.is_dropped or (not self.is_fed and self.inbox.is_due)

    def work(self) -> Work | None:
        """The next segment to recognise, or None for now."""
        found = self.source.work()
        if found is None:
            return None
        self.given += 1
        self._ahead = 0
        return found[1]

    def take_in(self) -> bool:
        """Judge the next piece; whether there was one, the end included.

        Where work depends on the result of that before it, what comes after it is left waiting.
        """
        if self.is_fed or (self.given and self._ahead > AHEAD):
            return False
        with self._wake:
            inbox, blocks = self.inbox, list[tuple[int, Rows, str]]()
            while inbox.blocks and sum(rows.shape[1] for _, rows, _ in blocks) < PIECE:
                blocks.append(inbox.blocks.popleft())
                inbox.samples -= blocks[-1][1].shape[1]
            self.is_fed = inbox.is_closed and not inbox.blocks
            self._news.notify_all()  # there is room
        for start, rows, reason in joined(blocks):
            self.source.feed(start, rows, reason)
            self._ahead += rows.shape[1]
        if self.is_fed:
            self.source.close()
        return bool(blocks) or self.is_fed

    @property
    def waiting(self) -> int:
        """Samples that were sent and have not been taken in."""
        with self._wake:
            return self.inbox.samples

    def wait_for_room(self, most: int, timeout: float) -> bool:
        """Wait, so many seconds, until fewer than `most` samples wait; whether that is so.

        A stream that has ended, or broken, waits for nothing.
        """
        with self._wake:
            return self._news.wait_for(
                lambda: self.done or self.inbox.is_dropped or self.inbox.samples < most, timeout
            )
