"""The audio that may still be decoded, and where each sample was in the source."""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from livecap.events import RATE

Pcm = NDArray[np.float32]  # [sample], 16 kHz, -1 to 1

QUIET_WINDOW = RATE // 10  # samples: a forced cut falls into the quietest 100 ms
MIN_PEAK = 3e-4  # below it nothing was recorded: -70 dBFS, ten steps of 16-bit audio


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a segment's audio that was one stretch of the source."""

    offset: int  # samples: where it begins in the segment's audio
    start: int  # samples of media time: where it was
    length: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Audio that is decoded together, with the long silences left out."""

    pcm: Pcm
    pieces: tuple[Piece, ...]  # in order; they make up the whole of `pcm`

    @property
    def start(self) -> int:
        """Media time of its first sample."""
        return self.pieces[0].start

    @property
    def stop(self) -> int:
        """Media time behind its last sample."""
        return self.pieces[-1].start + self.pieces[-1].length

    def first(self, length: int) -> "Segment":
        """Its first `length` samples."""
        pieces = (
            Piece(piece.offset, piece.start, min(piece.length, length - piece.offset))
            for piece in self.pieces
            if piece.offset < length
        )
        return Segment(self.pcm[:length], tuple(pieces))

    def silences(self, min_silence: int) -> tuple[int, ...]:
        """The samples of `pcm` at which a silence of that length or more was left out."""
        pairs = pairwise(self.pieces)
        return tuple(
            after.offset
            for before, after in pairs
            if after.start - before.start - before.length >= min_silence
        )

    def after(self, length: int) -> "Segment":
        """What follows its first `length` samples."""
        pieces = (
            Piece(
                max(piece.offset - length, 0),
                piece.start + max(length - piece.offset, 0),
                piece.length - max(length - piece.offset, 0),
            )
            for piece in self.pieces
            if piece.offset + piece.length > length
        )
        return Segment(self.pcm[length:], tuple(pieces))

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Samples [start, stop) of `pcm` -> media time.

        What reaches over a silence that was left out lies on the side where more of it is: nobody
        speaks in there.
        """
        offsets = [piece.offset for piece in self.pieces]
        first = max(bisect_right(offsets, start) - 1, 0)
        last = max(bisect_right(offsets, stop - 1) - 1, first)
        piece = max(
            self.pieces[first : last + 1],
            key=lambda one: min(stop, one.offset + one.length) - max(start, one.offset),
        )
        inside = (min(max(at - piece.offset, 0), piece.length) for at in (start, max(stop, start)))
        begin, end = inside
        return piece.start + begin, piece.start + end

    def end(self, stop: int) -> int:
        """Media time at which the last of the first `stop` samples of `pcm` ends."""
        begin, _ = self.span(max(stop - 1, 0), stop)
        return begin + 1


class SpeechBuffer:
    """Samples of a stream, numbered without its gaps, and their media times."""

    def __init__(self) -> None:
        self.start = 0  # the first sample that is still there
        self.stop = 0
        self._blocks: deque[Pcm] = deque()
        self._anchors = [(0, 0)]  # from this sample on, media time goes on from there

    def append(self, pcm: Pcm) -> None:
        """Add samples at the end."""
        if len(pcm):
            self._blocks.append(pcm)
            self.stop += len(pcm)

    def skip(self, media: int) -> None:
        """The next sample is at that media time."""
        self._anchors.append((self.stop, media))

    def media(self, sample: int) -> int:
        """A sample's number -> its media time; a gap before it belongs to what was before."""
        at, media = next(one for one in reversed(self._anchors) if one[0] <= sample)
        return media + sample - at

    def media_end(self, sample: int) -> int:
        """The media time at which the audio before a sample ends."""
        return self.media(sample - 1) + 1 if sample else 0

    def take(self, start: int, stop: int) -> Pcm:
        """A copy of samples [start, stop)."""
        assert self.start <= start <= stop <= self.stop, "these samples are gone, or to come"
        found, at = [np.zeros(0, np.float32)], self.start
        for block in self._blocks:
            low, high = max(start - at, 0), min(stop - at, len(block))
            if low < high:
                found.append(block[low:high])
            at += len(block)
            if at >= stop:
                break
        return np.concatenate(found)

    def pieces(self, start: int, stop: int, offset: int = 0) -> tuple[Piece, ...]:
        """Where samples [start, stop) were; the first is sample `offset` of a segment."""
        cuts = [start, *(at for at, _ in self._anchors if start < at < stop), stop]
        return tuple(
            Piece(low - start + offset, self.media(low), high - low) for low, high in pairwise(cuts)
        )

    def drop(self, until: int) -> None:
        """Free whole blocks before sample `until`."""
        while self._blocks and self.start + len(self._blocks[0]) <= until:
            self.start += len(self._blocks.popleft())
        while len(self._anchors) > 1 and self._anchors[1][0] <= self.start - 1:
            del self._anchors[0]


def is_audible(pcm: Pcm) -> bool:
    """Whether anything was recorded; digital silence never reaches a model."""
    return bool(len(pcm)) and float(np.abs(pcm).max()) >= MIN_PEAK


def quietest(pcm: Pcm) -> int:
    """Samples -> the middle of the QUIET_WINDOW with the least energy."""
    if len(pcm) <= QUIET_WINDOW:
        return len(pcm) // 2
    power = np.cumsum(np.concatenate([[0.0], pcm.astype(np.float64) ** 2]))
    return int(np.argmin(power[QUIET_WINDOW:] - power[:-QUIET_WINDOW])) + QUIET_WINDOW // 2
