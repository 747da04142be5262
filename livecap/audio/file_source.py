"""A recording or a pipe -> live audio, as if it were being said now."""

import threading
import time
from collections import deque
from collections.abc import Callable

from livecap.audio import AudioBlock
from livecap.audio.live_source import Chunk, Heard
from livecap.audio.prefetch import Pump
from livecap.events import RATE

PIECE = RATE // 10  # samples handed over together
AT_ONCE = 16  # blocks of a pipe taken together
EVERYTHING = 1 << 30  # blocks


class Recorded:
    """An AudioIn over whatever `livecap file` can read.

    `speed` is times real time; 0 hands over as fast as it is taken, as for a pipe, which has its
    own pace. `now` and `wait` are the clock in seconds and how it is waited for.
    """

    def __init__(
        self,
        pump: Pump,
        *,
        speed: float,
        now: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] | None = None,
    ) -> None:
        self.name = "standard input" if pump.path == "-" else pump.path
        self._pump = pump
        self._speed = speed
        self._now = now
        self._wait = wait or _pause
        self._begun: float | None = None
        self._pieces: deque[Chunk] = deque()
        self._ended = False
        self._is_stopped = False

    def take(self, timeout: float) -> list[Heard] | None:
        """See `AudioIn`."""
        if self._begun is None:
            self._begun = self._now()
        if not self._pieces and not self._ended:
            self._read(wait=not self._pump.is_live or not self._speed, timeout=timeout)
        found = self._due()
        if not found and self._pieces:
            self._wait(min(timeout, self._time_of(self._pieces[0]) - self._now()))
            found = self._due()
        if found or self._pieces or not self._ended:
            return found
        if self._pump.failure:
            failure, self._pump.failure = self._pump.failure, None
            raise failure
        return None

    def stop(self) -> None:
        """Of a recording, what would be said later is left out; a pipe's is kept."""
        if self._is_stopped:
            return
        self._is_stopped = True
        if self._speed:
            processed = self._due()
            while not self._pieces and not self._ended and self._begun is not None:
                self._read(wait=True)  # nobody took it in time, but it has been said
                processed += self._due()
            self._pieces = deque(one for one in processed if isinstance(one, Chunk))
            self._speed = 0.0
        else:
            for block in self._pump.take(EVERYTHING, wait=False) or []:
                self._cut(block)
        self._ended = True

    def close(self) -> None:
        """Release the file."""
        self._pump.close()

    def _read(self, *, wait: bool, timeout: float = 0.5) -> None:
        limit = 1 if self._speed else AT_ONCE
        blocks = self._pump.take(limit, wait=wait, timeout=timeout)
        self._ended = blocks is None
        for block in blocks or []:
            self._cut(block)

    def _cut(self, block: AudioBlock) -> None:
        reasons = {gap.end: gap.reason for gap in list(self._pump.reader.gaps)}
        pcm, reason = block.pcm[0], reasons.get(block.start, "")
        for at in range(0, len(pcm), PIECE):
            self._pieces.append(Chunk(block.start + at, pcm[at : at + PIECE], reason))
            reason = ""

    def _time_of(self, piece: Chunk) -> float:
        """When the last of its samples has been said."""
        assert self._begun is not None
        return self._begun + (piece.start + len(piece.pcm)) / RATE / self._speed

    def _due(self) -> list[Heard]:
        found: list[Heard] = []
        now = self._now()
        while self._pieces and (not self._speed or self._time_of(self._pieces[0]) <= now):
            found.append(self._pieces.popleft())
        return found


def _pause(seconds: float) -> None:
    threading.Event().wait(max(seconds, 0.0))
