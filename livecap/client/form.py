"""Options and a file -> a multipart body that is read from disk while it is sent (RFC 7578)."""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from livecap.audio.io import Stream
from livecap.errors import AudioError

Fields = Sequence[tuple[str, str]]

AT_ONCE = 1 << 16  # bytes


@dataclass(frozen=True, slots=True)
class Form:
    """A body for one request. `size`: bytes of the file."""

    fields: Fields
    file: Stream
    size: int
    name: str  # of the file; only for those servers that look at what it ends in
    boundary: str = ""

    @classmethod
    def of(cls, fields: Fields, file: Stream, size: int, name: str) -> "Form":
        """With a boundary that no file has."""
        return cls(fields, file, size, _quoted(name), f"livecap-{secrets.token_hex(16)}")

    @property
    def kind(self) -> str:
        """The content type."""
        return f"multipart/form-data; boundary={self.boundary}"

    @property
    def length(self) -> int:
        """Bytes of the whole body."""
        return len(self._head) + self.size + len(self._end)

    def blocks(self) -> Iterator[bytes]:
        """The body, from its beginning. Raises AudioError where the file can't be read whole."""
        self.file.seek(0)
        yield self._head
        left = self.size
        while left:
            block = self._read(min(left, AT_ONCE))
            left -= len(block)
            yield block
        yield self._end

    def _read(self, size: int) -> bytes:
        try:
            block = self.file.read(size)
        except OSError as error:
            raise AudioError(
                f"{self.name} can't be read any more: {error}", remedy="Check the disk."
            ) from error
        if not block:
            raise AudioError(
                f"{self.name} has become shorter while it was sent",
                remedy="Wait until it is whole.",
            )
        return block

    @property
    def _head(self) -> bytes:
        parts = [
            f'--{self.boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in self.fields
        ]
        parts.append(
            f'--{self.boundary}\r\nContent-Disposition: form-data; name="file"; '
            f'filename="{self.name}"\r\nContent-Type: application/octet-stream\r\n\r\n'
        )
        return "".join(parts).encode("utf-8", "replace")

    @property
    def _end(self) -> bytes:
        return f"\r\n--{self.boundary}--\r\n".encode()


def _quoted(name: str) -> str:
    """As browsers write names in a form (HTML's multipart/form-data encoding)."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
