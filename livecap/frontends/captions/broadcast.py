"""One speaker's captions: events in, lines out, to any number of readers.

A line is what is said until a caption is final. Lines never change; what is said of the next one,
and the tail, replace each other. Every message is encoded once for all readers.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from livecap.events import RATE, Caption, Event, Gap, Word
from livecap.sinks.lines import strict_json, word_record

Keep = Callable[[int, Caption | Gap], None]  # a line's number, and the line

MOST_KEPT = 20_000  # lines that readers who come late are told; more than a day's
MOST_WAITING = 2_000  # lines that a reader may be behind before it is let go
END = b'data: {"type":"end"}\n\n'


@dataclass(eq=False)
class Reader:
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


@dataclass(slots=True)
class _Open:
    """The line that one of the session's streams is saying."""

    said: list[Word] = field(default_factory=list)
    start: int | None = None  # samples: where it begins
    tail: str = ""
    language: str | None = None
    heard: int = 0  # samples


class Broadcast:
    """The captions of one session. For the event loop alone."""

    def __init__(self, id: str, *, model: str, begun: float, keep: Keep) -> None:
        """`begun`: Unix seconds. `keep` is called for each line, and may store it."""
        self.id = id
        self.model = model
        self.begun = begun
        self.ended: float | None = None  # Unix seconds
        self.token: str | None = None  # who knows it may read
        # Only what readers are sent is kept of a line: a day of them takes a few megabytes.
        self.lines: deque[bytes] = deque(maxlen=MOST_KEPT)
        self._keep = keep
        self._count = 0  # lines so far
        self._open: dict[int, _Open] = {}  # by hearing; one may still end while another begins
        self._readers: set[Reader] = set()

    @property
    def readers(self) -> int:
        """How many read along."""
        return len(self._readers)

    @property
    def events(self) -> list[Caption | Gap]:
        """All lines, as events, for documents."""
        return [read(message) for message in self.lines]

    def restore(self, events: Sequence[Caption | Gap]) -> None:
        """Lines of a session that is over, from where they were kept."""
        for event in events:
            self.lines.append(self._message(event))

    def take(self, hearing: int, events: Sequence[Event]) -> None:
        """What one of the session's streams has told, in order."""
        for event in events:
            if isinstance(event, Caption):
                self._caption(hearing, event)
            elif isinstance(event, Gap):
                self._add(event)

    def finish(self, hearing: int) -> None:
        """That stream is over: what it said stays said, and its tail does not come."""
        line = self._open.pop(hearing, None)
        if line:
            self._close(line)

    def end(self, now: float) -> None:
        """The session is over: what was said is told, and readers are let go."""
        if self.ended is None:
            self.ended = now
            for hearing in list(self._open):
                self.finish(hearing)
            self.dismiss()

    def dismiss(self) -> None:
        """Tell all readers that nothing comes any more."""
        for reader in self._readers:
            reader.is_over = True
            reader.news.set()
        self._readers.clear()

    def follow(self, after: int = 0) -> Reader:
        """A new reader, who is told all lines after that number, and then what comes."""
        first = self._count - len(self.lines)  # lines that are not kept any more
        reader = Reader(deque(islice(self.lines, max(after - first, 0), None)))
        if self.ended is None:
            reader.tail = self._told_tail()
            self._readers.add(reader)
        else:
            reader.is_over = True
        reader.news.set()
        return reader

    def leave(self, reader: Reader) -> None:
        """It reads no more."""
        self._readers.discard(reader)

    def _caption(self, hearing: int, caption: Caption) -> None:
        line = self._open.setdefault(hearing, _Open())
        if caption.words and line.start is None:
            line.start = caption.start
        line.said += caption.words
        line.tail, line.heard = caption.tail, caption.heard
        line.language = caption.language or line.language
        if caption.final:
            self.finish(hearing)
        else:
            self._tell_tail()

    def _close(self, line: _Open) -> None:
        """The line is final."""
        if line.start is None:
            self._tell_tail()  # one that came to nothing
            return
        heard = max(line.heard, line.start + 1)
        said = tuple(line.said)
        self._add(Caption(self._count, line.start, heard, said, language=line.language))

    def _tell_tail(self) -> None:
        message = self._told_tail()
        for reader in self._readers:
            reader.tail = message
            reader.news.set()

    def _add(self, event: Caption | Gap) -> None:
        message = self._message(event)
        self.lines.append(message)
        self._keep(self._count, event)
        for reader in list(self._readers):
            reader.lines.append(message)
            reader.tail = None
            if len(reader.lines) > MOST_WAITING:
                reader.is_over = True
                reader.lines.clear()
                self._readers.discard(reader)
            reader.news.set()

    def _message(self, event: Caption | Gap) -> bytes:
        self._count += 1
        told = {"id": self._count, **described(event)}
        return f"id: {self._count}\ndata: {strict_json(told)}\n\n".encode()

    def _told_tail(self) -> bytes:
        """What has been said of the line under way, and what may follow."""
        lines = list(self._open.values())
        said = "".join(word.text for line in lines for word in line.said).lstrip()
        told = {"type": "tail", "text": said, "tail": "".join(line.tail for line in lines)}
        return f"data: {strict_json(told)}\n\n".encode()


def described(event: Caption | Gap) -> dict[str, object]:
    """A line as JSON data."""
    if isinstance(event, Gap):
        return {
            "type": "gap",
            "start_ms": event.start * 1000 // RATE,
            "end_ms": event.end * 1000 // RATE,
            "reason": event.reason,
        }
    first, last = event.words[0].start, event.words[-1].end
    return {
        "type": "final",
        "start_ms": (event.start if first is None else first) * 1000 // RATE,
        "end_ms": (event.heard if last is None else last) * 1000 // RATE,
        "text": event.text.strip(),
        "language": event.language,
        "words": [{**word_record(word), "text": word.text} for word in event.words],
    }


def read(message: bytes) -> Caption | Gap:
    """A message of a line -> the event it was made of."""
    _, _, data = message.partition(b"\ndata: ")
    told: dict[str, Any] = json.loads(data)
    start, end = told["start_ms"] * RATE // 1000, told["end_ms"] * RATE // 1000
    if told["type"] == "gap":
        return Gap(start, end, told["reason"])
    words = tuple(_word(one) for one in told["words"])
    return Caption(told["id"], start, end, words, language=told["language"])


def _word(told: dict[str, Any]) -> Word:
    start, end = (
        None if told[side] is None else round(told[side] * RATE) for side in ("start", "end")
    )
    return Word(told["text"], start, end, told["probability"])
