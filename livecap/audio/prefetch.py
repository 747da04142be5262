"""Reads a source in a thread of its own: neither decoding nor a slow pipe holds up the model."""

import queue
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import BinaryIO

from livecap.audio import AudioBlock, AudioReader, RawFormat
from livecap.errors import AudioError, LivecapError

LEFT = 0.2  # seconds that a pipe which may never say more is waited for in the end
AHEAD = 60  # blocks read before anyone takes them: about a minute of a file


@dataclass(frozen=True, slots=True)
class ReadConfig:
    """How a source is read."""

    track: str | None = None  # number or language code; None: the container's choice
    split: bool = False  # caption each channel apart
    raw: RawFormat | None = None


class Pump:
    """A reader and its thread. `labels`, `duration` and so on are those of the reader."""

    def __init__(self, path: str, config: ReadConfig) -> None:
        self.path = path
        source = standard_input() if path == "-" else Path(path)
        name = "standard input" if path == "-" else path
        self.reader = AudioReader(
            source, track=config.track, split=config.split, raw=config.raw, name=name
        )
        self.is_live = path == "-" or not Path(path).is_file()  # it may never say more
        self.failure: LivecapError | None = None  # why it ended before its end
        self._blocks: queue.Queue[AudioBlock | None] = queue.Queue(AHEAD)
        self._stopped = threading.Event()
        # A thread that waits for standard input can't be woken; it must not keep the process up.
        self._thread = threading.Thread(target=self._read, name="livecap-read", daemon=True)
        self._thread.start()

    def take(self, limit: int, *, wait: bool, timeout: float = 0.5) -> list[AudioBlock] | None:
        """Up to `most` blocks that are there; None at the end. With `wait`, the first is waited
        for, so many seconds at most.
        """
        blocks: list[AudioBlock] = []
        try:
            while len(blocks) < limit:
                block = self._blocks.get(block=wait and not blocks, timeout=timeout)
                if block is None:
                    self._blocks.put(None)  # for the next call
                    return blocks or None
                blocks.append(block)
        except queue.Empty:
            pass
        return blocks

    def close(self) -> None:
        """Stop reading and release the source."""
        self._stopped.set()
        self._thread.join(LEFT if self.is_live else None)
        if not self._thread.is_alive():
            self.reader.close()

    def _read(self) -> None:
        failure: LivecapError | None = AudioError(
            "reading broke off", remedy="This is a fault in livecap; please report what is above"
        )
        try:
            for block in self.reader:
                if not self._put(block):
                    break
            failure = None
        except LivecapError as error:
            failure = error
        finally:
            self.failure = failure  # what nobody expected must not look like the end
            self._put(None)

    def _put(self, block: AudioBlock | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._blocks.put(block, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False


def standard_input() -> BinaryIO | RawIOBase:
    """Standard input without its buffer: a thread that waits in that one holds its lock, and Python
    aborts if it can't have the lock at the end of the process.
    """
    buffer = sys.stdin.buffer
    return buffer.raw if isinstance(buffer, BufferedReader) else buffer


Opener = Callable[[str], Pump]
