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

    def __init__(self, file: OutputFile, fields: Sequence[DocumentField], end: bytes) -> None:
        self._file = file
        self._places = tuple(fields)
        self._end = end
        self._start = dict.fromkeys((p.name for p in fields), 0)  # byte of the content
        self._used = {p.name: len(p.content) for p in fields}  # bytes of content
        self._room = {p.name: ROOM if p.grows else 16 for p in fields}  # bytes with what closes
        parts = [p.before + p.content + p.after + self._spaces(p) for p in self._places]
        self._settle(self._places)
        self._file.write(0, b"".join(parts) + end)

    def append(self, name: str, data: bytes) -> None:
        """More content at the end of a place."""
        field = self._place(name)
        at = self._start[name] + self._used[name]
        if self._used[name] + len(data) + len(field.after) > self._room[name]:
            self._grow(field, data)
        else:
            self._file.write(at, data + field.after)
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
        fields = [field for field in self._places if field.name not in omit]
        tight = {field.name: self._used[field.name] + len(field.after) for field in fields}
        self._file.rewrite(lambda: self._parts(fields, tight))
        self._file.close(complete=complete)

    def _grow(self, field: DocumentField, data: bytes) -> None:
        size = self._used[field.name] + len(data) + len(field.after)
        room = {**self._room, field.name: max(ROOM, 2 * size)}
        self._file.rewrite(lambda: self._parts(self._places, room, field.name, data))
        self._room = room
        self._settle(self._places)

    def _parts(
        self,
        fields: Sequence[DocumentField],
        room: dict[str, int],
        grown: str = "",
        more: bytes = b"",
    ) -> Iterator[bytes]:
        """The whole document, with `more` at the end of the place called `grown`."""
        for field in fields:
            yield field.before
            at, left = self._start[field.name], self._used[field.name]
            while left:
                size = min(left, CHUNK)
                yield self._file.read(at, size)
                at, left = at + size, left - size
            extra = more if field.name == grown else b""
            spare = room[field.name] - self._used[field.name] - len(extra) - len(field.after)
            yield extra + field.after + b" " * spare
        yield self._end

    def _settle(self, fields: Sequence[DocumentField]) -> None:
        at = 0
        for field in fields:
            self._start[field.name] = at + len(field.before)
            at += len(field.before) + self._room[field.name]

    def _spaces(self, field: DocumentField) -> bytes:
        return b" " * (self._room[field.name] - len(field.content) - len(field.after))

    def _place(self, name: str) -> DocumentField:
        return next(field for field in self._places if field.name == name)
