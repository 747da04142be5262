"""A pipe -> a file that can be sent, and sent again."""

import tempfile
import threading
from collections.abc import Callable
from typing import BinaryIO

from livecap.audio.io import Pipe, Stream
from livecap.errors import AudioError

AT_ONCE = 1 << 16  # bytes
TICK = 0.2  # seconds between two looks at whether to stop


def spooled(stream: Stream, is_stopped: Callable[[], bool]) -> BinaryIO:
    """All that comes, or what has come when it is to stop -> a file without a name, which is gone
    when it is closed. Raises AudioError where the pipe can't be read, or nothing can be kept.
    """
    spool = _Spool(Pipe(stream))
    spool.thread.start()
    while spool.thread.is_alive() and not is_stopped():
        spool.thread.join(TICK)
    with spool.lock:
        spool.is_over = True
        failure = spool.failure or spool.pipe.failure
        if failure:
            spool.file.close()
            raise AudioError(f"the pipe broke off ({failure})", remedy="Check it, and the disk.")
        spool.file.seek(0)
        return spool.file


class _Spool:
    """A thread that waits for a pipe can't be woken: what it reads too late is left."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.file: BinaryIO = tempfile.TemporaryFile(prefix="livecap-")  # noqa: SIM115 - handed out
        self.failure: OSError | None = None
        self.is_over = False  # the file is somebody else's now
        self.lock = threading.Lock()  # guards the file
        self.thread = threading.Thread(target=self._read, name="livecap-spool", daemon=True)

    def _read(self) -> None:
        while data := self.pipe.read(AT_ONCE):
            with self.lock:
                if self.is_over:
                    return
                try:
                    self.file.write(data)
                except OSError as error:
                    self.failure = error
                    return
