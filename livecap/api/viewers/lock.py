"""One server a file: a lock that ends with the process."""

import os
from contextlib import suppress
from pathlib import Path

from livecap.errors import ConfigError

BESIDE = "-lock"  # SQLite's own files beside a database are called likewise


class Lock:
    """Held from when it is made."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError if another process holds it, OSError where none can be made."""
        self._path = path.with_name(path.name + BESIDE)
        while True:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            if not _lock(self._file):
                os.close(self._file)
                raise ConfigError(
                    f"--history {path} is used by another livecap serve",
                    remedy="Stop that one, or name another file.",
                )
            if self._is_there():
                return
            os.close(self._file)  # the one who held it has taken it away

    def release(self) -> None:
        """Others may have the file."""
        with suppress(FileNotFoundError):
            self._path.unlink()
        os.close(self._file)

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._file))
        except FileNotFoundError:
            return False


def _lock(file: int) -> bool:
    """Whether it is ours now; always, where the system knows no such locks."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
