"""One speaker's captions: events in, lines out, to any number of readers.

A line is what is said until a caption is final. Lines never change; what is said of the next one,
and the tail, replace each other. Every message is encoded once for all readers.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from livecap.events import RATE, Caption, Event, Gap, Word
from livecap.output.line_assembler import Spoken, described
from livecap.output.lines import strict_json

MOST_KEPT = 20_000  # lines that readers who come late are told; more than a day's
MOST_WAITING = 2_000  # lines that a reader may be behind before it is let go
END = b'data: {"type":"end"}\n\n'


@dataclass(eq=False)
class Viewer:
    """Somebody who reads along. For the event loop alone."""

    lines: deque[bytes] = field(default_factory=deque)  # messages that have not been sent
    tail: bytes | None = None  # the newest, if it has not been sent
    news: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False  # nothing comes any more

    def take(self) -> list[bytes]:
        """What has come since the last call, in order."""
        found = list(self.lines)
        self.lines.clear()
        if self.tail is not None:
            found.append(self.tail)
            self.tail = None
        self.news.clear()
        return found


@dataclass(frozen=True, slots=True)
class ChannelLine:
    """What was said, or that something is missing: for good."""

    number: int  # from 1
    event: Caption | Gap
    message: bytes  # as readers are sent it


Keep = Callable[[ChannelLine, Callable[[], None]], None]  # a line, and what to call once it is kept


class Broadcast:
    """The captions of one session. For the event loop alone."""

    def __init__(self, id: str, *, model: str, begun: float, keep: Keep) -> None:
        """`begun`: Unix seconds. `keep` is given each line, and calls what it is given with it
        when readers may be told, in order.
        """
        self.id = id
        self.model = model
        self.begun = begun
        self.ended: float | None = None  # Unix seconds
        self.token: str | None = None  # who knows it may read
        # Only what readers are sent is kept of a line: a day of them takes a few megabytes.
        self.lines: deque[bytes] = deque(maxlen=MOST_KEPT)
        self._keep = keep
        self._count = 0  # lines so far
        self._unkept: deque[ChannelLine] = deque()  # those that nobody has been told yet
        self._open: dict[int, Spoken] = {}  # by hearing; one may still end while another begins
        self.first = ""  # what was said first
        self._told = 0  # samples up to which lines tell what was said
        self._readers: set[Viewer] = set()

    @property
    def readers(self) -> int:
        """How many read along."""
        return len(self._readers)

    @property
    def count(self) -> int:
        """The last line's number."""
        return self._count

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read, and nothing on its way."""
        return not self.lines and not self._unkept

    @property
    def events(self) -> list[Caption | Gap]:
        """All lines, as events, for documents."""
        return [read(message) for message in tuple(self.lines)]  # a thread may be here

    def matching(self, wanted: Callable[[str], bool], limit: int) -> list[dict[str, Any]]:
        """The first lines whose text is wanted, as readers see them, without their words."""
        events = (json.loads(data_of(message)) for message in tuple(self.lines))
        found = (one for one in events if wanted(one.get("text", "")))
        return [brief(one) for one in islice(found, limit)]

    def restore(self, messages: Iterable[bytes], count: int) -> None:
        """Lines of a session that is over, from where they were kept; the last one's number."""
        self.lines.extend(messages)
        self._count = count
        if self.lines:
            self._told = _end_of(read(self.lines[-1]))
        texts = (json.loads(data_of(message)).get("text", "") for message in self.lines)
        self.first = next(filter(None, texts), "")

    def go_on(self) -> None:
        """Another connection speaks on. What the one before was about to say is heard again, and so
        not told.
        """
        self.ended = None
        self._open.clear()
        self._tell_tail()

    @property
    def line_count(self) -> int:
        """Samples up to which lines tell what was said."""
        return self._told

    def clear(self) -> None:
        """Forget what was said so far; readers are let go."""
        self.token = None
        self.first = ""
        self.lines.clear()
        self._unkept.clear()
        self.dismiss()

    def take(self, hearing: int, events: Sequence[Event]) -> None:
        """What one of the session's streams has told, in order."""
        for event in events:
            if isinstance(event, Caption):
                self._caption(hearing, event)
            elif isinstance(event, Gap):
                self._add(event)

    def finish(self, hearing: int) -> None:
        """That stream is over: what it said stays said, and its tail does not come."""
        spoken = self._open.pop(hearing, None)
        if spoken is None:
            return
        line = spoken.line(self._count)
        if line is None:
            self._tell_tail()  # one that came to nothing
        else:
            self._add(line)

    def end(self, now: float) -> None:
        """The session is over: what was said is told, and readers are let go."""
        if self.ended is None:
            for hearing in list(self._open):
                self.finish(hearing)
            self.ended = now
            if not self._unkept:
                self.dismiss()

    def dismiss(self) -> None:
        """Tell all readers that nothing comes any more."""
        for reader in self._readers:
            reader.is_over = True
            reader.news.set()
        self._readers.clear()

    def follow(self, after: int = 0) -> Viewer:
        """A new reader, who is told all lines after that number, and then what comes."""
        first = self._count - len(self._unkept) - len(self.lines)  # not kept any more
        reader = Viewer(deque(islice(self.lines, max(after - first, 0), None)))
        if self.ended is None or self._unkept:
            reader.tail = self._told_tail()
            self._readers.add(reader)
        else:
            reader.is_over = True
        reader.news.set()
        return reader

    def leave(self, reader: Viewer) -> None:
        """It reads no more."""
        self._readers.discard(reader)

    def _caption(self, hearing: int, caption: Caption) -> None:
        self._open.setdefault(hearing, Spoken()).take(caption)
        if caption.final:
            self.finish(hearing)
        else:
            self._tell_tail()

    def _tell_tail(self) -> None:
        if self._unkept:
            return  # told after the line that it follows
        message = self._told_tail()
        for reader in self._readers:
            reader.tail = message
            reader.news.set()

    def _add(self, event: Caption | Gap) -> None:
        self._count += 1
        self._told = max(self._told, _end_of(event))
        if isinstance(event, Caption):
            self.first = self.first or event.text.strip()
        payload = {"id": self._count, **described(event)}
        message = encoded(self._count, strict_json(payload))
        line = ChannelLine(self._count, event, message)
        self._unkept.append(line)
        self._keep(line, lambda: self._release(line.number))

    def _release(self, number: int) -> None:
        """All lines up to that number are kept: readers are told."""
        while self._unkept and self._unkept[0].number <= number:
            self._tell(self._unkept.popleft())
        if not self._unkept and self.ended is not None:
            self.dismiss()

    def _tell(self, line: ChannelLine) -> None:
        self.lines.append(line.message)
        tail = self._told_tail() if self._open and not self._unkept else None
        for reader in list(self._readers):
            reader.lines.append(line.message)
            reader.tail = tail
            if len(reader.lines) > MOST_WAITING:
                reader.is_over = True
                reader.lines.clear()
                self._readers.discard(reader)
            reader.news.set()

    def _told_tail(self) -> bytes:
        """What has been said of the line under way, and what may follow."""
        lines = list(self._open.values())
        committed = "".join(word.text for line in lines for word in line.committed).lstrip()
        payload = {"type": "tail", "text": committed, "tail": "".join(line.tail for line in lines)}
        return f"data: {strict_json(payload)}\n\n".encode()


def _end_of(event: Caption | Gap) -> int:
    """The sample up to which a line tells what was said."""
    if isinstance(event, Gap):
        return event.end
    return event.words[-1].end or event.processed_until if event.words else event.processed_until


def brief(payload: dict[str, Any]) -> dict[str, Any]:
    """A line as it is shown in a list."""
    return {name: payload[name] for name in ("id", "start_ms", "end_ms", "text")}


def encoded(number: int, data: str) -> bytes:
    """A line's JSON data -> the message that readers are sent."""
    return f"id: {number}\ndata: {data}\n\n".encode()


def data_of(message: bytes) -> str:
    """The other way round."""
    return message.partition(b"\ndata: ")[2].decode().rstrip("\n")


def read(message: bytes) -> Caption | Gap:
    """A message of a line -> the event it was made of."""
    payload: dict[str, Any] = json.loads(data_of(message))
    start, end = payload["start_ms"] * RATE // 1000, payload["end_ms"] * RATE // 1000
    if payload["type"] == "gap":
        return Gap(start, end, payload["reason"])
    words = tuple(_word(one) for one in payload["words"])
    return Caption(payload["id"], start, end, words, language=payload["language"])


def _word(payload: dict[str, Any]) -> Word:
    start, end = (
        None if payload[side] is None else round(payload[side] * RATE) for side in ("start", "end")
    )
    return Word(payload["text"], start, end, payload["probability"])
