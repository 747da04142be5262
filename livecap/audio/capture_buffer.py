"""What PortAudio's callback is given -> chunks at 16 kHz mono, on one timeline.

`Inbox` is all that PortAudio's thread does: it copies and counts, and never waits, since a callback
that is late costs audio. `Track` mixes and resamples, `Ear` notices that there is no sound.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livecap.audio import Converter
from livecap.audio.live_source import Chunk
from livecap.events import RATE

QUIET = 10  # seconds without sound before that is said
FAINT = 10 ** (-70 / 20)  # peak, full scale 1: a microphone in a room gives more

Clock = Callable[[], float]  # seconds
Samples = NDArray[np.float32]  # [sample, channel], -1 to 1


@dataclass(frozen=True, slots=True)
class CapturedBlock:
    """What the callback was given at one time."""

    pcm: Samples
    first: int  # samples that the stream delivered before it, dropped ones included
    recorded: float  # seconds on the stream's clock, of its first sample
    arrived: float  # seconds on ours
    overflow: bool  # the device lost audio before it

    @property
    def end(self) -> int:
        """`first` of the next block if none is dropped."""
        return self.first + len(self.pcm)


class CaptureQueue:
    """Called by PortAudio's thread, emptied by another."""

    def __init__(self, clock: Clock, limit: int) -> None:
        self.until = math.inf  # audio that arrives later is not kept
        self.arrived: float | None = None  # when audio came last
        self.overflows = 0  # losses, by the device or for lack of room here
        self.is_finished = False  # the stream has ended by itself
        self._clock = clock
        self._blocks: SimpleQueue[CapturedBlock] = SimpleQueue()
        self._limit = limit  # samples: `_kept` - `_taken` is never more
        self._kept = 0  # samples; only the callback writes it
        self._taken = 0  # samples; only the taker writes it
        self._delivered = 0  # samples, dropped ones included
        self._dropping = False  # there was no room for the last block
        self._lost = False  # the device lost audio before a block that was dropped

    def __call__(self, data: Samples, frames: int, times: Any, status: Any) -> None:
        """The callback: `data` is valid only meanwhile."""
        now = self._clock()
        if now > self.until:
            return
        self.arrived = now
        first, self._delivered = self._delivered, self._delivered + frames
        overflow = bool(status.input_overflow)
        full = self._kept + frames - self._taken > self._limit
        self.overflows += overflow or (full and not self._dropping)
        self._dropping = full
        if full:
            self._lost |= overflow
            return
        recorded = times.inputBufferAdcTime or now  # some systems have no such clock: 0
        self._blocks.put(CapturedBlock(data.copy(), first, recorded, now, overflow or self._lost))
        self._kept += frames
        self._lost = False

    def finish(self) -> None:
        """PortAudio calls it when the stream has ended, be it by itself."""
        self.is_finished = True

    def take(self, timeout: float) -> list[CapturedBlock]:
        """All blocks that are there, waiting up to `timeout` seconds for the first."""
        blocks: list[CapturedBlock] = []
        try:
            if timeout > 0:
                blocks.append(self._blocks.get(timeout=timeout))
            for _ in range(self._blocks.qsize()):
                blocks.append(self._blocks.get_nowait())
        except Empty:
            pass
        self._taken += sum(len(block.pcm) for block in blocks)
        return blocks


class CaptureTrack:
    """Blocks of one stream after the other -> chunks. `end` is where the timeline is."""

    def __init__(self) -> None:
        self.end = 0  # samples at 16 kHz that were given out or are missing
        self._origin = 0  # `end` when the converter was made
        self._fed = 0  # samples of the device that went into the converter
        self._rate = RATE  # Hz, of the device
        self._channels = 1
        self._converter: Converter | None = None  # while audio goes on without a gap
        self._reason = ""  # why the next chunk doesn't follow the last one

    def open(self, rate: int, channels: int) -> None:
        """Another stream follows; `flush` comes before it."""
        self._rate, self._channels = rate, channels

    def feed(self, blocks: list[Samples]) -> list[Chunk]:
        """Audio that follows the last -> at most one chunk, as far as it is ready."""
        if not blocks:
            return []
        if self._converter is None:
            self._converter = Converter(self._rate, self._channels)
            self._origin, self._fed = self.end, 0
        pcm = np.concatenate(blocks)
        self._fed += len(pcm)
        return self._give(self._converter.feed(pcm.T)[0])

    def flush(self) -> list[Chunk]:
        """What was held back. Only a gap, or another stream, can follow."""
        if self._converter is None:
            return []
        chunks = self._give(self._converter.flush()[0])
        self._converter = None
        return chunks

    def skip(self, seconds: float, reason: str) -> list[Chunk]:
        """Audio of this length is missing here -> what came before it."""
        wanted = self._origin + self._fed * RATE / self._rate if self._converter else self.end
        chunks = self.flush()
        self.end = max(self.end, round(wanted + seconds * RATE))
        self._reason = reason
        return chunks

    def mark(self) -> Chunk:
        """No audio, but how far a gap goes that is still open."""
        reason, self._reason = self._reason, ""
        return Chunk(self.end, np.zeros(0, np.float32), reason)

    def _give(self, pcm: NDArray[np.float32]) -> list[Chunk]:
        if not pcm.size:
            return []
        chunk = Chunk(self.end, pcm, self._reason)
        self.end += len(pcm)
        self._reason = ""
        return [chunk]


class SilenceAlarm:
    """Tells that a device has given no sound for ten seconds, once each time.

    Until there was a sound, that is a level below that of any room; afterwards it is nothing but
    zeros, and not even that of a `loopback`, where nothing may be played.
    """

    def __init__(self, *, loopback: bool) -> None:
        self._quiet = 0.0  # seconds
        self._threshold = FAINT
        self._later = -1.0 if loopback else 0.0  # the threshold once there was a sound

    def listen(self, pcm: Samples, rate: int) -> bool:
        """Whether the ten seconds end within this block."""
        if float(np.abs(pcm).max(initial=0.0)) > self._threshold:
            self._threshold = self._later
            self._quiet = 0.0
            return False
        before, self._quiet = self._quiet, self._quiet + len(pcm) / rate
        return before < QUIET <= self._quiet
