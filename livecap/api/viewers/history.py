"""Captions that outlive the server: a thread that writes them, and what is asked of it.

Readers are told a line once it is in the file. Where the file can't be written, or takes too long,
they are told all the same, and writing is tried again.
"""

import asyncio
import json
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Condition, Thread
from typing import TypeVar

from livecap.api.viewers.channel import Broadcast, ChannelLine, brief, data_of, encoded
from livecap.api.viewers.registry import MATCHES, PREVIEW, HistoryError, Summary
from livecap.api.viewers.search import phrase, words_of
from livecap.api.viewers.store import Archive, StoredSession
from livecap.metrics import Metrics

PATIENCE = 1.0  # seconds that a line waits to be kept before readers are told all the same
RETRY = 5.0  # seconds until what could not be written is tried again
SWEEP = 3600.0  # seconds between two looks at what is too old
MOST_WAITING = 50_000  # writes that wait while the file can't be written; more lines are lost
CLOSING = 10.0  # seconds that a stop waits, at most, for what is still to be written
DAY = 86_400.0  # seconds

LOG = logging.getLogger("livecap.history")
Result = TypeVar("Result")
Write = Callable[[], None]
Then = Callable[[], None]


class History:
    """A `Keeper` for the hub. Its methods are for the event loop; the file is written elsewhere."""

    def __init__(self, archive: Archive, metrics: Metrics, *, days: int = 0) -> None:
        """`days`: for how long sessions are kept after their end; 0: for ever."""
        self._archive = archive
        self._metrics = metrics
        self._days = days
        self.trouble = ""  # why the file can't be written now
        self._held: deque[tuple[int, float, Then]] = deque()  # lines: write, latest time, readers
        self._settling: list[tuple[int, asyncio.Future[str]]] = []  # by the last write before them
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

        self._news = Condition()  # guards the following
        self._writes: deque[Write] = deque([archive.mend])
        self._done = 0  # writes before those
        self._is_closing = False

        metrics.history_waiting.set_function(lambda: len(self._writes))
        self._thread = Thread(target=self._work, name="livecap-history", daemon=True)
        self._thread.start()

    # What the hub asks for

    @property
    def stays(self) -> float:
        """Seconds for which sessions are kept after their end; 0: for ever."""
        return self._days * DAY

    def begin(self, broadcast: Broadcast) -> None:
        """A session."""
        self._write(partial(self._archive.begin, broadcast.id, broadcast.model, broadcast.begun))

    def keep(self, id: str, line: ChannelLine, then: Then) -> None:
        """A line of it; `then` is called when it is kept, or can't be for now."""
        data = data_of(line.message)
        if len(self._writes) < MOST_WAITING:
            text = json.loads(data).get("text", "")
            number = self._write(partial(self._archive.add, id, line.number, text, data))
        else:
            self._metrics.history_lost.inc()
            number = self._done
        if self.trouble:
            then()
            return
        assert self._loop
        self._held.append((number, self._loop.time() + PATIENCE, then))
        self._wind()

    def end(self, broadcast: Broadcast) -> None:
        """It is over; if nothing was said, nothing is kept."""
        id, ended = broadcast.id, broadcast.ended
        assert ended is not None
        if broadcast.is_empty and broadcast.token is None:
            self._write(partial(self._archive.forget, id))
        else:
            self._write(partial(self._archive.end, id, ended))

    def share(self, id: str, token: str | None) -> None:
        """Who knows the token may read it."""
        self._write(partial(self._archive.share, id, token))

    def forget(self, id: str) -> None:
        """Delete it."""
        self._write(partial(self._archive.forget, id))

    async def settled(self) -> None:
        """All that was asked for so far is in the file. Raises HistoryError if it isn't."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()
        self._settling.append((self._write(_nothing), future))
        try:
            async with asyncio.timeout(2 * RETRY):
                trouble = await future
        except TimeoutError:
            trouble = "the disk takes too long"
        if trouble:
            raise HistoryError(trouble)

    async def find(self, id: str) -> Broadcast | None:
        """A session that is over, as readers have it."""
        found = await self._read(lambda: self._archive.load(id))
        return None if found is None else _restored(*found)

    async def sessions(self, query: str, after: str, limit: int) -> list[Summary]:
        """See `Hub.sessions`."""
        words = words_of(query)
        asked = (words, phrase(words), after, limit, MATCHES)
        found = await self._read(lambda: self._archive.sessions(*asked))
        return [_summary(row, lines) for row, lines in found]

    def close(self) -> None:
        """Write what is left, and close the file. Blocks; nothing may be asked for any more."""
        with self._news:
            self._is_closing = True
            self._news.notify_all()
        self._thread.join(CLOSING)
        if self._writes:
            fields = {"writes": len(self._writes)}
            LOG.error("not all captions are in the history", extra={"fields": fields})

    # The event loop's side

    def _write(self, write: Write) -> int:
        """To be written after all else -> the number of the write."""
        self._loop = asyncio.get_running_loop()
        with self._news:
            self._writes.append(write)
            self._news.notify_all()
            return self._done + len(self._writes)

    def _tell(self, tried: int, trouble: str) -> None:
        """So many writes have been tried."""
        self.trouble = trouble
        # While there is trouble, nobody waits: not those either who came while it was met.
        while self._held and (trouble or self._held[0][0] <= tried):
            self._held.popleft()[2]()
        for number, future in list(self._settling):
            if number <= tried:
                self._settling.remove((number, future))
                if not future.done():
                    future.set_result(trouble)

    def _wind(self) -> None:
        if self._timer is None and self._held and self._loop:
            self._timer = self._loop.call_at(self._held[0][1], self._late)

    def _late(self) -> None:
        """The file takes too long: readers are told what they wait for."""
        assert self._loop
        self._timer = None
        while self._held and self._held[0][1] <= self._loop.time():
            self._held.popleft()[2]()
        self._wind()

    async def _read(self, read: Callable[[], Result]) -> Result:
        try:
            return await asyncio.to_thread(read)
        except sqlite3.Error as error:
            LOG.error("the history can't be read", extra={"fields": {"reason": str(error)}})
            raise HistoryError(str(error)) from error

    # The thread

    def _work(self) -> None:
        is_last, trouble, sweep = False, "", time.monotonic()
        while not is_last:
            with self._news:
                self._news.wait_for(self._is_due, SWEEP if self._days else None)
                if self._days and time.monotonic() >= sweep:
                    sweep = time.monotonic() + SWEEP
                    latest = time.time() - self._days * DAY
                    self._writes.append(partial(self._archive.forget_before, latest))
                batch, is_last = list(self._writes), self._is_closing
            before, trouble = trouble, self._try(batch)
            with self._news:
                tried = self._done + len(batch)
                if not trouble:
                    self._done = tried
                    for _ in batch:
                        self._writes.popleft()
            self._note(before, trouble)
            if self._loop:
                with suppress(RuntimeError):  # it is closed: nobody waits
                    self._loop.call_soon_threadsafe(self._tell, tried, trouble)
            if trouble and not is_last:
                with self._news:
                    self._news.wait_for(lambda: self._is_closing, RETRY)
        self._archive.close()

    def _is_due(self) -> bool:
        return bool(self._writes) or self._is_closing

    def _try(self, batch: list[Write]) -> str:
        """All of it or nothing -> what went wrong, if anything did."""
        try:
            with self._archive.changing():
                for write in batch:
                    write()
            self._archive.clean()
        except sqlite3.Error as error:
            return str(error)
        return ""

    def _note(self, before: str, trouble: str) -> None:
        if trouble:
            self._metrics.history_failures.inc()
        if trouble and trouble != before:
            message = "captions can't be kept in the history; readers get them all the same"
            LOG.error(message, extra={"fields": {"reason": trouble}})
        elif before and not trouble:
            LOG.warning("captions are kept again, those that waited as well")


def _nothing() -> None:
    """What waits for all that was asked for before."""


def _restored(row: StoredSession, lines: list[tuple[int, str]]) -> Broadcast:
    """A session from the file, for readers."""
    found = Broadcast(row.id, model=row.model, begun=row.begun, keep=_over)
    found.restore((encoded(*line) for line in lines), lines[-1][0] if lines else 0)
    found.ended, found.token = row.ended, row.token
    return found


def _over(line: ChannelLine, then: Then) -> None:
    raise AssertionError("a session that is over says nothing")


def _summary(row: StoredSession, lines: list[str]) -> Summary:
    matches = tuple(brief(json.loads(data)) for data in lines)
    return Summary(
        row.id,
        row.model,
        row.begun,
        row.ended,
        row.lines,
        row.token is not None,
        row.preview[:PREVIEW],
        matches=matches,
    )
