"""A JSON object that grows in several places, valid on disk after every write.

Each growing place is followed by room: spaces, which JSON ignores. New content is written over
them, with the bracket or quote that closes the place, in a single write. Where the room is used
up, the file is written anew with twice as much, so that all writing together stays in
proportion to the text.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from livecap.output.files import CHUNK, OutputFile

ROOM = 1 << 12  # bytes of spaces after a growing place, at least


@dataclass(frozen=True, slots=True)
class DocumentField:
    """One value of the object, and what stands before and after it."""

    name: str
    before: bytes  # the JSON between the last place and this one's content
    content: bytes  # to begin with
    after: bytes = b""  # closes the content
    grows: bool = True


class Document(Protocol):
    """What grows by name and is finished once."""

    def append(self, name: str, data: bytes) -> None: ...
    def replace(self, name: str, data: bytes) -> None: ...
    def finish(self, *, omit: Collection[str], complete: bool) -> None: ...


class DiskDocument:
    """A document in an output file. Holds no content in memory."""

    def __init__(self, file: OutputFile, places: Sequence[DocumentField], end: bytes) -> None:
        self._file = file
        self._places = tuple(places)
        self._end = end
        self._start = dict.fromkeys((p.name for p in places), 0)  # byte of the content
        self._used = {p.name: len(p.content) for p in places}  # bytes of content
        self._room = {p.name: ROOM if p.grows else 16 for p in places}  # bytes with what closes
        parts = [p.before + p.content + p.after + self._spaces(p) for p in self._places]
        self._settle(self._places)
        self._file.write(0, b"".join(parts) + end)

    def append(self, name: str, data: bytes) -> None:
        """More content at the end of a place."""
        place = self._place(name)
        at = self._start[name] + self._used[name]
        if self._used[name] + len(data) + len(place.after) > self._room[name]:
            self._grow(place, data)
        else:
            self._file.write(at, data + place.after)
        self._used[name] += len(data)

    def replace(self, name: str, data: bytes) -> None:
        """Other content for a place that doesn't grow; at most 16 bytes."""
        assert len(data) <= self._room[name], f"{name} has no room for {data!r}"
        self._file.write(self._start[name], data.ljust(self._room[name]))
        self._used[name] = len(data)

    def finish(self, *, omit: Collection[str], complete: bool) -> None:
        """Takes all room away, and the places to `omit`; closes the file.

        Raises OutputError if the text could not be kept where it was wanted.
        """
        kept = [place for place in self._places if place.name not in omit]
        tight = {place.name: self._used[place.name] + len(place.after) for place in kept}
        self._file.rewrite(lambda: self._parts(kept, tight))
        self._file.close(complete=complete)

    def _grow(self, place: DocumentField, data: bytes) -> None:
        size = self._used[place.name] + len(data) + len(place.after)
        room = {**self._room, place.name: max(ROOM, 2 * size)}
        self._file.rewrite(lambda: self._parts(self._places, room, place.name, data))
        self._room = room
        self._settle(self._places)

    def _parts(
        self,
        places: Sequence[DocumentField],
        room: dict[str, int],
        grown: str = "",
        more: bytes = b"",
    ) -> Iterator[bytes]:
        """The whole document, with `more` at the end of the place called `grown`."""
        for place in places:
            yield place.before
            at, left = self._start[place.name], self._used[place.name]
            while left:
                size = min(left, CHUNK)
                yield self._file.read(at, size)
                at, left = at + size, left - size
            extra = more if place.name == grown else b""
            spare = room[place.name] - self._used[place.name] - len(extra) - len(place.after)
            yield extra + place.after + b" " * spare
        yield self._end

    def _settle(self, places: Sequence[DocumentField]) -> None:
        at = 0
        for place in places:
            self._start[place.name] = at + len(place.before)
            at += len(place.before) + self._room[place.name]

    def _spaces(self, place: DocumentField) -> bytes:
        return b" " * (self._room[place.name] - len(place.content) - len(place.after))

    def _place(self, name: str) -> DocumentField:
        return next(place for place in self._places if place.name == name)
