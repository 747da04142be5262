"""Audio that is not captioned for good: it is kept in case that it has to be sent again."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from livecap.events import RATE

Pcm16 = NDArray[np.int16]  # [sample], 16 kHz

BLOCK = RATE  # samples of a block, unless more came at once


@dataclass(frozen=True, slots=True, eq=False)
class SentBlock:
    """Audio without a gap."""

    start: int  # samples, media time
    pcm: Pcm16

    @property
    def end(self) -> int:
        """Where the next one begins if nothing is missing."""
        return self.start + len(self.pcm)


def pcm16(pcm: NDArray[np.float32]) -> Pcm16:
    """Full scale 1 -> 16 bits. What was 16 bits before is the same again."""
    scaled: Pcm16 = np.clip(np.rint(pcm * np.float32(32_768)), -32_768, 32_767).astype(np.int16)
    return scaled


class ReplayBuffer:
    """Blocks in the order of time. Between the end of one and the next, audio is missing."""

    def __init__(self) -> None:
        self._blocks: deque[SentBlock] = deque()
        self.end = 0  # media time up to which something is known: audio, or that there is none

    @property
    def start(self) -> int:
        """Media time of the first sample."""
        return self._blocks[0].start if self._blocks else self.end

    def add(self, start: int, pcm: Pcm16) -> None:
        """The next audio; no samples state that there is none up to `start`."""
        assert start >= self.end, "time went back"
        self.end = start + len(pcm)
        last = self._blocks[-1] if self._blocks else None
        if last and last.end == start and len(last.pcm) + len(pcm) <= BLOCK:
            self._blocks[-1] = SentBlock(last.start, np.concatenate([last.pcm, pcm]))
        elif len(pcm):
            self._blocks.append(SentBlock(start, pcm))

    def after(self, at: int, max_samples: int) -> SentBlock | None:
        """The first audio that is not before media time `at`: at most so many samples."""
        block = next(self._parts(at), None)
        return SentBlock(block.start, block.pcm[:max_samples]) if block else None

    def count(self, at: int) -> int:
        """Samples from media time `at` on."""
        return sum(len(block.pcm) for block in self._parts(at))

    def drop(self, at: int, count: int) -> list[tuple[int, int]]:
        """Forget the first samples from media time `at` on -> the stretches where they were."""
        dropped = []
        for block in list(self._parts(at)):
            if count <= 0:
                break
            end = min(block.end, block.start + count)
            dropped.append((block.start, end))
            count -= end - block.start
        for start, end in dropped:
            self._cut(start, end)
        return dropped

    def forget(self, until: int) -> None:
        """What was before media time `until` is not wanted any more."""
        while self._blocks and self._blocks[0].end <= until:
            self._blocks.popleft()
        if self._blocks and self._blocks[0].start < until:
            first = self._blocks[0]
            self._blocks[0] = SentBlock(until, first.pcm[until - first.start :])

    def _parts(self, at: int) -> Iterator[SentBlock]:
        for block in self._blocks:
            if block.start >= at:
                yield block
            elif block.end > at:
                yield SentBlock(at, block.pcm[at - block.start :])

    def _cut(self, start: int, end: int) -> None:
        blocks = deque[SentBlock]()
        for block in self._blocks:
            if block.end <= start or block.start >= end:
                blocks.append(block)
                continue
            if block.start < start:
                blocks.append(SentBlock(block.start, block.pcm[: start - block.start]))
            if block.end > end:
                blocks.append(SentBlock(end, block.pcm[end - block.start :]))
        self._blocks = blocks
