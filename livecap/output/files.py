"""Bytes -> an output file that is never lost: marked while incomplete, moved if it can't go on."""

import errno
import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from livecap.errors import OutputError
from livecap.output.copies import drop_same, put_aside, refuse_media

MARKER = ".partial"  # stands beside an output for as long as that is incomplete
REWRITE = ".rewrite"  # a new version on its way; no longer than MARKER, so that names fit
CHUNK = 1 << 20  # bytes copied at a time


def marker(path: Path) -> Path:
    """The file beside an output that says it is incomplete."""
    return path.with_name(path.name + MARKER)


def is_complete(path: Path) -> bool:
    """Whether an earlier run wrote this output to its end; a device or pipe is never done with."""
    return os.path.isfile(path) and not os.path.exists(marker(path))


def open_raw(path: Path, mode: str) -> FileIO:
    """Every file that is written here is opened here, without a buffer."""
    return FileIO(path, mode)


class OutputFile:
    """A file written by position, with a marker beside it until `close`.

    What it replaces stays beside it, see `copies`; a file that is no text is never replaced.

    A write that fails (disk full, device gone) moves all that was written to a new temporary
    folder and goes on there; `close` then raises OutputError, which says where the text is.
    """

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        """Creates missing folders. Raises OutputError where the file can't be written.

        Without `overwrite`, a complete file of that name is refused.
        """
        self._failure: OSError | None = None  # why the file had to be moved
        self._size = 0  # bytes written
        self._sound = 0  # bytes that read well even if the write under way fails
        self._copy: Path | None = None  # of what stood here before
        if not overwrite and is_complete(path):
            raise OutputError(
                f"{path} exists", remedy="Ask for it to be overwritten, or choose another name."
            )
        try:
            self._wanted = Path(os.path.realpath(path))  # a link stays a link when rewritten
            self._path = self._wanted
            self._file = self._open_first()
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise OutputError(
                f"{path} can't be written: {_reason(error)}",
                remedy="Choose another place with -o, or free this one.",
            ) from error

    @property
    def path(self) -> Path:
        """Where the bytes are now."""
        return self._path

    def write(self, at: int, data: bytes) -> None:
        """`data` at byte `at`, over what is there or at the end.

        Raises OutputError where neither the file nor a temporary one can be written.
        """
        self._keep(lambda: self._put(at, data))

    def cut(self, size: int) -> None:
        """Nothing after byte `size`."""
        self._keep(lambda: self._shrink(size))

    def read(self, at: int, size: int) -> bytes:
        """`size` bytes from byte `at`, as written before."""
        self._file.seek(at)
        data = b""
        while len(data) < size:
            more = self._file.read(size - len(data))
            if not more:
                raise OSError(errno.EIO, "the file became shorter")
            data += more
        return data

    def rewrite(self, parts: Callable[[], Iterable[bytes]]) -> None:
        """The whole file anew, at once for whoever reads it. `parts` may read the old file."""
        self._keep(lambda: self._swap(parts))

    def close(self, *, complete: bool) -> None:
        """Takes the marker away if the file is complete.

        Raises OutputError if the text is not, or not all, where it was wanted.
        """
        if self._failure is None and not self._wanted.exists():
            self._keep(self._vanished)
        self._file.close()
        self._sign.close()
        if self._failure is not None:
            raise OutputError(
                f"{self._wanted} could not be written to its end ({_reason(self._failure)}); "
                f"all of the text is in {self._path}",
                remedy="Move it from there once there is room.",
            ) from self._failure
        if complete:
            marker(self._wanted).unlink(missing_ok=True)
            if self._copy is not None:
                drop_same(self._copy, self._wanted)

    def _keep(self, step: Callable[[], None]) -> None:
        """The step, in a temporary folder if it fails where we are."""
        try:
            try:
                step()
            except OSError as error:
                if self._failure is not None:
                    raise
                self._move(error)
                step()
        except OSError as error:
            raise OutputError(
                f"{self._path} can't be written: {_reason(error)}; the text up to there is in it",
                remedy="Make room on the disk of the temporary folder and of the output.",
            ) from error

    def _move(self, failure: OSError) -> None:
        old, size, sound = self._file, self._size, self._sound
        folder = Path(tempfile.mkdtemp(prefix="livecap-"))
        self._path = folder / self._wanted.name
        self._file = open_raw(self._path, "w+")
        self._size = at = 0
        while at < size:
            old.seek(at)
            self._put(at, old.read(min(CHUNK, size - at)) or b"")
            if self._size == at:
                raise OSError(errno.EIO, "what was written can't be read back")
            at = self._size
        self._failure = failure
        with suppress(OSError):  # what stays behind should read well, but it is a copy
            old.truncate(sound)
        old.close()

    def _put(self, at: int, data: bytes) -> None:
        grown = at + len(data) > self._size
        self._sound = at if grown else self._size
        self._file.seek(at)
        _write_all(self._file, data)
        self._size = self._sound = max(self._size, at + len(data))

    def _shrink(self, size: int) -> None:
        self._size = self._sound = min(self._size, size)
        self._file.truncate(size)

    def _swap(self, parts: Callable[[], Iterable[bytes]]) -> None:
        fresh = self._path.with_name(self._path.name + REWRITE)
        size = 0
        try:
            with open_raw(fresh, "w") as file:
                for part in parts():
                    _write_all(file, part)
                    size += len(part)
            self._file.close()  # some systems replace no open file
            try:
                os.replace(fresh, self._path)
            finally:
                self._file = open_raw(self._path, "r+")
        except OSError:
            fresh.unlink(missing_ok=True)
            raise
        self._size = self._sound = size

    def _open_first(self) -> FileIO:
        if self._wanted.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        folder = self._wanted.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, f"{folder} is no folder") from None
        sign = marker(self._wanted)
        marked = sign.exists()
        self._sign = open_raw(sign, "w")
        try:
            _lock(self._sign)
            if not marked and self._wanted.is_file():
                self._put_aside()
            return open_raw(self._wanted, "w+")
        except OSError:
            self._sign.close()
            if not marked:  # whatever stands there is not ours to call incomplete
                sign.unlink(missing_ok=True)
            raise

    def _put_aside(self) -> None:
        """Move a complete file out of the way."""
        refuse_media(self._wanted)
        open_raw(self._wanted, "r+").close()  # raises where it may not be written
        mode = self._wanted.stat().st_mode
        self._copy = put_aside(self._wanted)
        if self._copy is not None:
            open_raw(self._wanted, "w").close()
            with suppress(OSError):  # some file systems have no modes
                self._wanted.chmod(mode)

    def _vanished(self) -> None:
        if self._failure is None:
            raise OSError(errno.ENOENT, "it was taken away")


def _lock(file: FileIO) -> None:
    """Keep other processes off an output, where the system can: this ends with the process."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OSError(errno.EBUSY, "another process is writing it") from error
    except OSError:  # a file system without locks
        return


class OutputStream:
    """A pipe, a device or a buffer: bytes go out once, at once.

    A reader that went away shows as BrokenPipeError. Any other failed write sends this and all
    that follows to a temporary file, which `close` names in an OutputError.
    """

    def __init__(self, stream: BinaryIO, *, owned: bool = False) -> None:
        """With `owned`, `close` closes the stream as well."""
        self._stream = stream
        self._owned = owned
        self._rest: OutputFile | None = None  # what the stream did not take
        self._size = 0  # bytes in the rest
        self._failure: OSError | None = None

    def write(self, data: bytes) -> None:
        """Hands the data over. Raises OutputError if not even a temporary file takes it."""
        if self._rest is None:
            try:
                self._stream.write(data)
                self._stream.flush()
                return
            except BrokenPipeError:
                raise
            except OSError as error:
                self._failure = error
                folder = Path(tempfile.mkdtemp(prefix="livecap-"))
                self._rest = OutputFile(folder / "rest", overwrite=True)
        self._rest.write(self._size, data)
        self._size += len(data)

    def close(self) -> None:
        """Raises OutputError if the stream did not take everything."""
        if self._owned:
            with suppress(OSError):  # met and kept already, in write
                self._stream.close()
        if self._rest is not None and self._failure is not None:
            path = self._rest.path
            self._rest.close(complete=True)
            raise OutputError(
                f"the output stream took no more ({_reason(self._failure)}); "
                f"the rest of the text is in {path}",
                remedy="Move it from there once there is room.",
            ) from self._failure


def _write_all(file: FileIO, data: bytes) -> None:
    done = 0
    while done < len(data):
        done += file.write(data[done:]) or 0


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
