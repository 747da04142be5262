"""A path, an open file, a pipe -> bytes as libav reads them. Bytes decide, never names."""

import select
import tempfile
from collections.abc import Callable
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO

from livecap.errors import AudioError

_SCAN = 1 << 20  # bytes in which an MP4 index that can be streamed must begin
_BOXES = {b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot", b"styp", b"sidx"}

Stream = BinaryIO | RawIOBase


def open_path(path: Path) -> Stream:
    """A file, pipe or device by its path. Raises AudioError, with what to do, if it can't be."""
    name = shown(str(path))
    try:
        if path.is_dir():
            raise AudioError(f"{name} is a folder", remedy="Name the files in it, as in folder/*")
        return path.open("rb", buffering=0)
    except FileNotFoundError:
        raise AudioError(
            f"there is no file {name}", remedy="Check the spelling and the folder"
        ) from None
    except PermissionError:
        raise AudioError(
            f"{name} may not be read", remedy="Change its permissions, or copy it to your folder"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise AudioError(
            f"{name} can't be opened: {error}", remedy="Check the path and the device"
        ) from None


def shown(name: str) -> str:
    """A file's name as a message may hold it: no control characters, not too long."""
    name = name if name.isprintable() else ascii(name)
    return name if len(name) <= 200 else name[:120] + "..." + name[-60:]


class Pipe:
    """A byte stream that only moves on. The head can be looked at before it is read."""

    def __init__(self, stream: Stream, *, owned: bool = False) -> None:
        self._stream = stream
        self._owned = owned  # whether to close it as well
        self._head = b""  # looked at, not read yet
        self.count = 0  # bytes that came out of the stream
        self.failure: OSError | ValueError | None = None  # why the stream ended before its end

    def read(self, size: int) -> bytes:
        """1 to `size` bytes, as soon as there are any; none at the end."""
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
            return data
        return self._fetch(size)

    def peek(self, size: int) -> bytes:
        """The next `size` bytes, or fewer at the end; they stay to be read."""
        while len(self._head) < size:
            data = self._fetch(size - len(self._head))
            if not data:
                break
            self._head += data
        return self._head[:size]

    def _fetch(self, size: int) -> bytes:
        # read1 and unbuffered files give what has arrived; a buffered read waits for all of it
        fetch: Callable[[int], bytes | None] = getattr(self._stream, "read1", self._stream.read)
        try:
            while (data := fetch(size)) is None:  # a non-blocking descriptor with nothing yet
                select.select([self._stream], [], [])
        except (OSError, ValueError) as error:  # ValueError: somebody closed it
            self.failure = error
            return b""
        self.count += len(data)
        return data

    def close(self) -> None:
        """Removes a temporary copy; a stream of somebody else's stays open."""
        if self._owned:
            self._stream.close()


class File(Pipe):
    """A stream that can be read anywhere; it begins where it stands."""

    def __init__(self, stream: Stream, *, owned: bool = False) -> None:
        super().__init__(stream, owned=owned)
        self._base = stream.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        """As for any file, but -1 for a place that can't be. A head that was looked at is dropped.

        libav seeks where damaged indexes point to, and wants a number for an answer.
        """
        if whence == 1:
            offset -= len(self._head)
        self._head = b""
        start = self._base if whence == 0 else 0
        try:
            return self._stream.seek(offset + start, whence) - self._base
        except (OSError, ValueError, OverflowError):
            return -1

    def tell(self) -> int:
        """Bytes from the beginning to the next one to be read."""
        return self._stream.tell() - len(self._head) - self._base

    def size(self) -> int:
        """Bytes from the next one to the end."""
        here = self.tell()
        end = self.seek(0, 2)
        self.seek(here)
        return end - here


class ChainedOggPart:
    """One recording of a chained Ogg stream: what comes before the next first pages.

    libav takes the links as one stream and stops where the format changes. `read` ends with the
    link; `more` then says whether another one follows in the same pipe.
    """

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._left = 0  # bytes of the current page
        self._body = False  # whether a page was seen that is no first page
        self.more = False

    def read(self, size: int) -> bytes:
        """Up to `size` bytes of this link."""
        if not self._left and not self._next():
            return b""
        data = self._pipe.read(min(size, self._left))
        self._left -= len(data)
        return data

    def _next(self) -> bool:
        """Finds the length of the next page; false at the end of the link."""
        head = self._pipe.peek(27)
        if len(head) < 27 or not head.startswith(b"OggS"):
            again = head.find(b"OggS", 1)  # damage: pass it on up to the next page
            self._left = again if again > 0 else max(len(head) - 3, min(len(head), 3))
            return self._left > 0
        first = bool(head[5] & 2)
        if first and self._body:
            self.more = True
            return False
        self._body = self._body or not first
        table = self._pipe.peek(27 + head[26])[27:]
        self._left = 27 + head[26] + sum(table)
        return True


def prepare(stream: Stream, *, copy: bool) -> Pipe:
    """An open stream -> `File` if it can be sought, else `Pipe`.

    With `copy`, formats whose index stands behind the audio go to a temporary file on disk first.
    """
    if _seekable(stream):
        return File(stream)
    pipe = Pipe(stream)
    if not copy or not _needs_seeking(pipe):
        return pipe
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the object that reads it
    try:
        while data := pipe.read(1 << 20):
            spool.write(data)
        spool.seek(0)
    except OSError as error:
        spool.close()
        raise AudioError(
            f"the stream needs a temporary copy, and that failed: {error}",
            remedy="Free some space in the temporary folder, or save the audio to a file first",
        ) from None
    file = File(spool, owned=True)
    file.failure = pipe.failure
    return file


def _seekable(stream: Stream) -> bool:
    try:
        return stream.seekable() and stream.tell() >= 0
    except (AttributeError, OSError):
        return False


def _needs_seeking(pipe: Pipe) -> bool:
    if pipe.peek(4) == b"caff":  # its packet table may follow the audio
        return True
    index = 0
    while index < _SCAN:
        head = pipe.peek(index + 16)[index:]
        kind, size = head[4:8], int.from_bytes(head[:4], "big")
        if len(head) < 8 or kind == b"moov" or (not index and kind not in _BOXES):
            return False
        if size == 1:
            size = int.from_bytes(head[8:16], "big")
        if kind == b"mdat" or size < 8:
            return True
        index += size
    return True
