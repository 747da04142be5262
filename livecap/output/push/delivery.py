"""Lines -> one receiver: in order, each until it is taken or not worth it any more.

A thread of its own waits for the receiver; who has something to say never does.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from typing import Literal

from livecap.output.push.caption_line import (
    LineRefused,
    ReceiverGone,
    Said,
    Sink,
    Undelivered,
    Unshown,
)

Result = Literal["delivered", "refused", "late", "dropped"]
LOG = logging.getLogger("livecap.push")
Delay = Callable[[int, float], float]  # tries that failed in a row, seconds asked for -> seconds

MOST = 1_000  # lines that wait; the oldest are dropped for more
LONGEST_ASKED = 600.0  # seconds for which a receiver may ask
LAST = 5.0  # seconds that a stop waits for what has not been sent
PATIENCE = 1.0  # seconds for a last goodbye


class Delivery:
    """One receiver's queue."""

    def __init__(
        self,
        sink: Sink,
        *,
        delay: Delay,
        say: Callable[[str], None],
        count: Callable[[str, Result], None] = lambda kind, result: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`say`: a sentence for people. `count`: the sink's kind, and what became of a line.

        Both are called in the thread, or in that of who calls `put`.
        """
        self._sink = sink
        self._delay = delay
        self._say = say
        self._count = count
        self._clock = clock
        self._news = Condition()  # guards the following
        self._lines: deque[tuple[float, Said]] = deque()  # with when they were given; seconds
        self._latest: float | None = None  # when to leave although there are lines; seconds
        self._is_busy = False  # a line is with the receiver
        # The thread's own
        self._trouble = ""  # what was said of it last
        self._unsent = 0  # lines since then
        self._is_gone = False
        self._is_unshown = False  # it has been said that some can't be shown there
        self._begin()

    def put(self, line: Said) -> None:
        """A line to send. Returns at once."""
        with self._news:
            self._lines.append((self._clock(), line))
            is_full = len(self._lines) > MOST
            if is_full:
                self._lines.popleft()
            self._news.notify_all()
        if is_full:
            self._count(self._sink.kind, "dropped")

    def finish(self, timeout: float = LAST) -> None:
        """Nothing more comes: what is left is sent within so many seconds. Returns at once."""
        with self._news:
            self._latest = self._clock() + timeout
            self._news.notify_all()

    def close(self) -> None:
        """Wait for that, and say what was not sent."""
        joined = None
        while joined is not self._thread:  # a fault has it followed by another
            joined = self._thread
            joined.join(self._left() + PATIENCE)
        with self._news:
            unsent = len(self._lines) + self._is_busy
        for _ in range(unsent):
            self._count(self._sink.kind, "dropped")
        if unsent:
            self._say(f"{self._sink.name}: {unsent} lines were not sent before the end")

    # The thread

    def _begin(self) -> None:
        self._thread = Thread(target=self._work, name=f"livecap-{self._sink.kind}", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        is_whole = False
        try:
            self._send_all()
            is_whole = True
        finally:  # an error that nobody expects goes on to where those of threads are seen
            if not is_whole:
                self._begin_anew()
        self._sink.close()

    def _send_all(self) -> None:
        while (found := self._next()) is not None:
            result = self._deliver(*found)
            if result is None:
                break
            self._result(result)
            with self._news:
                self._is_busy = False

    def _begin_anew(self) -> None:
        """After a fault of ours: the line is lost, the next may fare better."""
        LOG.error("%s: a fault of livecap; a line may be lost", self._sink.name)
        self._trouble = "a fault"
        with self._news:
            was_busy, self._is_busy = self._is_busy, False
        if was_busy:
            self._unsent += 1
            self._count(self._sink.kind, "dropped")
        self._begin()

    def _next(self) -> tuple[float, Said] | None:
        """The next line, once there is one; None at the end."""
        while True:
            with self._news:
                is_there = self._news.wait_for(self._is_due, self._sink.quiet)
                if self._lines and not self._is_over():
                    self._is_busy = True
                    return self._lines.popleft()
                if is_there:
                    return None
            self._rest()

    def _is_due(self) -> bool:
        return bool(self._lines) or self._latest is not None

    def _rest(self) -> None:
        """Once; then wait for the next line however long that takes."""
        try:
            self._sink.rest()
        except (Undelivered, LineRefused) as error:
            self._tell(str(error))
        with self._news:
            self._news.wait_for(self._is_due)

    def _deliver(self, given: float, line: Said) -> Result | None:
        """What becomes of a line; None if there is no time left for it."""
        tries = 0
        while not self._is_gone:
            if self._clock() - given > self._sink.worth:
                return "late"
            try:
                self._sink.send(line, self._pause)
            except Undelivered as error:
                tries += 1
                self._tell(f"{error}; trying again")
                self._wait(self._delay(tries, min(error.after, LONGEST_ASKED)))
                if self._is_over():
                    return None
            except Unshown as error:
                if not self._is_unshown:
                    self._say(f"{self._sink.name}: {error}")
                self._is_unshown = True
                return "refused"
            except LineRefused as error:
                self._tell(str(error))
                return "refused"
            except ReceiverGone as error:
                self._is_gone = True
                self._tell(f"{error}; nothing is sent there any more")
                return "refused"
            else:
                return "delivered"
        return "refused"

    def _result(self, result: Result) -> None:
        self._count(self._sink.kind, result)
        if result != "delivered":
            self._unsent += 1
        elif self._trouble:
            lost = f"; {self._unsent} lines were not sent" if self._unsent else ""
            self._trouble, self._unsent = "", 0
            self._say(f"{self._sink.name}: it takes captions again{lost}")

    def _tell(self, trouble: str) -> None:
        """Once, until something else is wrong."""
        if trouble != self._trouble:
            self._trouble = trouble
            self._say(f"{self._sink.name}: {trouble}")

    def _pause(self, seconds: float) -> None:
        """Between two parts of a line; shorter if the end comes."""
        with self._news:
            self._news.wait_for(self._is_over, seconds)

    def _wait(self, seconds: float) -> None:
        """Until the next try; the end is a reason to try once more at once."""
        with self._news:
            if self._latest is None:
                self._news.wait_for(lambda: self._latest is not None, seconds)
            else:
                self._news.wait_for(self._is_over, min(seconds, self._left()))

    def _left(self) -> float:
        assert self._latest is not None
        return max(self._latest - self._clock(), 0.0)

    def _is_over(self) -> bool:
        """Whether there is no time left."""
        return self._latest is not None and self._left() <= 0.0
