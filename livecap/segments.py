"""PCM and the edges of speech -> segments that a decoder hears at one go.

Pure bookkeeping on sample counts. No sample of a segment is in another one, and all samples in
which speech was found, with padding, are in one.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from livecap.events import RATE
from livecap.vad import Edge

Pcm = NDArray[np.float32]

QUIET_WINDOW = RATE // 10  # samples: a forced cut falls into the quietest 100 ms
SEARCH = 6 * RATE  # samples before the limit in which the cut is looked for
MOST_GAP = 2 * RATE  # samples of silence that a segment may hold; a longer one ends it


@dataclass(frozen=True, slots=True)
class Segment:
    """Contiguous audio with speech in it."""

    start: int  # samples since the stream began
    pcm: Pcm  # [sample]
    speech: tuple[tuple[int, int], ...]  # [start, stop) of it where speech was found, with padding

    @property
    def stop(self) -> int:
        """Samples since the stream began."""
        return self.start + len(self.pcm)


@dataclass(slots=True)
class _Piece:
    start: int
    stop: int | None  # None while the speech goes on


class Buffer:
    """The samples that may still be needed."""

    def __init__(self, start: int = 0) -> None:
        self.start = start  # sample number of the first one kept
        self._blocks: list[Pcm] = []
        self.stop = start

    def append(self, pcm: Pcm) -> None:
        """Add samples at the end."""
        if len(pcm):
            self._blocks.append(pcm)
            self.stop += len(pcm)

    def take(self, start: int, stop: int) -> Pcm:
        """A copy of samples [start, stop)."""
        assert self.start <= start <= stop <= self.stop
        found, at = [], self.start
        for block in self._blocks:
            low, high = max(start - at, 0), min(stop - at, len(block))
            if low < high:
                found.append(block[low:high])
            at += len(block)
        return np.concatenate(found) if found else np.zeros(0, np.float32)

    def drop(self, until: int) -> None:
        """Forget what lies before sample `until`."""
        while self._blocks and self.start + len(self._blocks[0]) <= until:
            self.start += len(self._blocks.pop(0))


class Segmenter:
    """Joins speech to segments of at most `most` samples.

    A segment ends at a silence of MOST_GAP, or, when it would get longer than `most`, at the last
    pause in it, or, where there is none, at its quietest moment.
    """

    def __init__(self, *, most: int, pad: int) -> None:
        self.most = most
        self.pad = pad
        self.buffer = Buffer()
        self._pieces: list[_Piece] = []
        self._done = 0  # samples up to here are in segments or were left out

    def feed(self, pcm: Pcm, edges: Iterable[Edge]) -> list[Segment]:
        """The next samples, and the edges found in all samples so far -> segments that are whole."""
        self.buffer.append(pcm)
        segments: list[Segment] = []
        for edge in edges:
            if edge.kind == "start":
                self._begin(edge.at, segments)
            else:
                self._end(edge.at)
            self._split(segments)
        self._split(segments)
        last = self._pieces[-1] if self._pieces else None
        if last and last.stop is not None and self.buffer.stop - last.stop > MOST_GAP:
            self._emit(len(self._pieces), segments)
        self.buffer.drop(self._needed())
        return segments

    def close(self) -> list[Segment]:
        """The stream is over -> what is left. All edges must have been fed."""
        segments: list[Segment] = []
        self._split(segments)
        if self._pieces:
            self._emit(len(self._pieces), segments)
        self.buffer.drop(self.buffer.stop)
        return segments

    def _needed(self) -> int:
        """From here on samples may still be asked for."""
        if self._pieces:
            return self._pieces[0].start
        # An edge is certain only some frames after it, and padding reaches back from there.
        return max(self._done, self.buffer.stop - self.pad - MOST_GAP)

    def _begin(self, at: int, segments: list[Segment]) -> None:
        start = max(at - self.pad, self._done, self.buffer.start)
        if self._pieces:
            last = self._pieces[-1]
            assert last.stop is not None, "speech started twice"
            if start - last.stop > MOST_GAP:
                self._emit(len(self._pieces), segments)
            elif start <= last.stop:
                last.stop = None  # the paddings touch: one piece
                return
        self._pieces.append(_Piece(start, None))

    def _end(self, at: int) -> None:
        self._pieces[-1].stop = at + self.pad

    def _split(self, segments: list[Segment]) -> None:
        """Cut while the open segment is longer than it may be."""
        while self._pieces and self._stop(self._pieces[-1]) - self._pieces[0].start > self.most:
            limit = self._pieces[0].start + self.most
            fits = sum(
                piece.stop is not None and piece.stop <= limit for piece in self._pieces
            )
            if fits == len(self._pieces):
                return
            if fits:
                self._emit(fits, segments)
            else:
                self._force(limit, segments)

    def _stop(self, piece: _Piece) -> int:
        return self.buffer.stop if piece.stop is None else min(piece.stop, self.buffer.stop)

    def _force(self, limit: int, segments: list[Segment]) -> None:
        """Cut the first piece at the quietest moment before the limit."""
        first = self._pieces[0]
        low = max(limit - SEARCH, first.start + self.most // 2)
        cut = low + quietest(self.buffer.take(low, limit))
        rest = _Piece(cut, first.stop)
        first.stop = cut
        self._pieces.insert(1, rest)
        self._emit(1, segments)

    def _emit(self, count: int, segments: list[Segment]) -> None:
        """Make the first `count` pieces a segment."""
        pieces, self._pieces = self._pieces[:count], self._pieces[count:]
        start, stop = pieces[0].start, self._stop(pieces[-1])
        speech = tuple((piece.start - start, self._stop(piece) - start) for piece in pieces)
        if stop > start:
            segments.append(Segment(start, self.buffer.take(start, stop), speech))
        self._done = stop


def quietest(pcm: Pcm) -> int:
    """Samples -> the middle of the window of QUIET_WINDOW with the least energy."""
    if len(pcm) <= QUIET_WINDOW:
        return len(pcm) // 2
    power = np.cumsum(np.concatenate([[0.0], pcm.astype(np.float64) ** 2]))
    return int(np.argmin(power[QUIET_WINDOW:] - power[:-QUIET_WINDOW])) + QUIET_WINDOW // 2
