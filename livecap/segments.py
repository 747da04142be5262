"""PCM and the edges of speech -> segments that a decoder hears at one go.

Pure bookkeeping on sample counts. Long silences are left out of a segment, so that many short
remarks fill one window of a model; each sample of a segment still knows where it was. No sample is
in two segments, and all in which speech was found, with padding, are in one.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from livecap.events import RATE
from livecap.vad import Edge

Pcm = NDArray[np.float32]

QUIET_WINDOW = RATE // 10  # samples: a forced cut falls into the quietest 100 ms
INAUDIBLE = 3e-4  # peak below which nothing was recorded: -70 dBFS, ten steps of 16-bit audio
SEARCH = 6 * RATE  # samples before the limit in which that is looked for


@dataclass(frozen=True, slots=True)
class Piece:
    """Contiguous audio inside a segment."""

    offset: int  # samples since the segment's start
    start: int  # where it was: samples on the stream's timeline
    length: int


@dataclass(frozen=True, slots=True)
class Segment:
    """Audio with speech in it, from one stretch of the stream or from several."""

    pcm: Pcm  # [sample]
    pieces: tuple[Piece, ...]  # in order; they make up the whole of `pcm`

    @property
    def start(self) -> int:
        """Where it begins on the stream's timeline."""
        return self.pieces[0].start

    @property
    def stop(self) -> int:
        """Where it ends on the stream's timeline."""
        return self.pieces[-1].start + self.pieces[-1].length

    def moved(self, by: int) -> "Segment":
        """The same, on a timeline whose zero is `by` samples earlier."""
        pieces = tuple(Piece(piece.offset, piece.start + by, piece.length) for piece in self.pieces)
        return Segment(self.pcm, pieces)

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Samples [start, stop) of `pcm` -> the same on the timeline.

        What reaches over a silence that was left out lies on the side where more of it is: nothing
        is said in there.
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
        """Where the last of the first `stop` samples of `pcm` ends on the timeline."""
        begin, _ = self.span(max(stop - 1, 0), stop)
        return begin + 1


class Buffer:
    """The samples that may still be needed."""

    def __init__(self) -> None:
        self.start = 0  # number of the first one kept
        self.stop = 0
        self._blocks: list[Pcm] = []

    def append(self, pcm: Pcm) -> None:
        """Add samples at the end."""
        if len(pcm):
            self._blocks.append(pcm)
            self.stop += len(pcm)

    def take(self, start: int, stop: int) -> Pcm:
        """A copy of samples [start, stop)."""
        assert self.start <= start <= stop <= self.stop
        found, at = [np.zeros(0, np.float32)], self.start
        for block in self._blocks:
            low, high = max(start - at, 0), min(stop - at, len(block))
            if low < high:
                found.append(block[low:high])
            at += len(block)
        return np.concatenate(found)

    def drop(self, until: int) -> None:
        """Forget whole blocks before sample `until`."""
        while self._blocks and self.start + len(self._blocks[0]) <= until:
            self.start += len(self._blocks.pop(0))


@dataclass(slots=True)
class _Span:
    """Speech with its padding."""

    start: int
    stop: int | None  # None while it goes on; may lie ahead of what was fed
    pcm: Pcm | None = None  # taken from the buffer once nothing can be added


class Segmenter:
    """Joins speech to segments of at most `most` samples.

    A segment ends at a silence longer than `bridge`, or, when it would get longer than `most`, at
    the last pause in it, or, where there is none, at its quietest moment. The result does not
    depend on how the stream is fed.
    """

    def __init__(self, *, most: int, pad: int, tail: int, bridge: int, lag: int) -> None:
        self.most = most
        self.pad = pad  # samples kept before speech
        self.tail = tail  # samples kept after it
        self.bridge = bridge
        self.lag = lag  # samples after an edge by which it is known
        self.buffer = Buffer()
        self._spans: list[_Span] = []
        self._done = 0  # samples up to here are in segments or were left out
        self._now = 0  # samples up to here have been judged

    def feed(self, pcm: Pcm, edges: Iterable[Edge], judged: int) -> list[Segment]:
        """The next samples; the edges found since the last call, and in how many samples in all.

        Returns the segments that are whole now.
        """
        self.buffer.append(pcm)
        segments: list[Segment] = []
        for edge in edges:
            self._advance(edge.known, segments)
            if edge.kind == "start":
                self._begin(edge.at)
            else:
                self._spans[-1].stop = edge.at + self.tail
        self._advance(judged, segments)
        self.buffer.drop(self.needed)
        return segments

    def close(self) -> list[Segment]:
        """The stream is over -> what is left. All edges must have been fed."""
        segments: list[Segment] = []
        if self._spans and self._spans[-1].stop is not None:
            self._spans[-1].stop = min(self._spans[-1].stop, self.buffer.stop)  # no padding left
        self._advance(self.buffer.stop, segments)
        if self._spans:
            self._emit(len(self._spans), segments)
        self.buffer.drop(self.buffer.stop)
        return segments

    @property
    def needed(self) -> int:
        """From here on samples may still be asked of the buffer."""
        unsettled = [span.start for span in self._spans if span.pcm is None]
        if unsettled:
            return unsettled[0]
        # Padding reaches back from an edge, and an edge becomes known only some frames later.
        return max(self._done, self._now - self.pad - self.lag)

    @property
    def settled(self) -> int:
        """No segment to come begins before this sample."""
        return self._spans[0].start if self._spans else self.needed

    def _advance(self, now: int, segments: list[Segment]) -> None:
        """Time goes on, and nothing happens: end what gets too long, or too long ago."""
        self._now = now
        while self._spans and self._length(now) > self.most:
            ended = self._fitting()
            if ended == len(self._spans):
                break
            first = self._spans[0]
            # A pause before the limit may become known only some time after it.
            lag = self.lag if first.stop is None else 0
            if ended:
                self._emit(ended, segments)
            elif now >= first.start + self.most + lag:
                self._force(segments)
            else:
                break
        last = self._spans[-1] if self._spans else None
        if last and last.stop is not None and now - last.stop > self.bridge:
            self._emit(len(self._spans), segments)

    def _length(self, now: int) -> int:
        """Samples in all spans so far."""
        return sum((now if s.stop is None else s.stop) - s.start for s in self._spans)

    def _fitting(self) -> int:
        """How many of the spans, from the first on, have ended and fit into one segment."""
        length = 0
        for place, span in enumerate(self._spans):
            if span.stop is None or length + span.stop - span.start > self.most:
                return place
            length += span.stop - span.start
        return len(self._spans)

    def _begin(self, at: int) -> None:
        start = max(at - self.pad, self._done, self.buffer.start)
        if self._spans:
            last = self._spans[-1]
            assert last.stop is not None, "speech started twice"
            if start <= last.stop:  # the paddings touch
                last.stop = None
                return
            self._settle(last)
        self._spans.append(_Span(start, None))

    def _settle(self, span: _Span) -> None:
        if span.pcm is None:
            stop = self.buffer.stop if span.stop is None else min(span.stop, self.buffer.stop)
            span.pcm, span.stop = self.buffer.take(span.start, stop), stop

    def _force(self, segments: list[Segment]) -> None:
        """Cut the first span at the quietest moment before the limit."""
        first = self._spans[0]
        limit = first.start + self.most
        low = max(limit - SEARCH, first.start + self.most // 2)
        cut = low + quietest(self.buffer.take(low, limit))
        self._spans.insert(1, _Span(cut, first.stop))
        first.stop = cut
        self._emit(1, segments)

    def _emit(self, count: int, segments: list[Segment]) -> None:
        """Make the first `count` spans a segment."""
        spans, self._spans = self._spans[:count], self._spans[count:]
        blocks, pieces, offset = [], [], 0
        for span in spans:
            self._settle(span)
            assert span.pcm is not None
            if len(span.pcm):
                pieces.append(Piece(offset, span.start, len(span.pcm)))
                blocks.append(span.pcm)
                offset += len(span.pcm)
        if pieces:
            segments.append(Segment(np.concatenate(blocks), tuple(pieces)))
            self._done = segments[-1].stop


def is_audible(pcm: Pcm) -> bool:
    """Whether there is anything to hear at all; digital silence never reaches a model."""
    return bool(len(pcm)) and float(np.abs(pcm).max()) >= INAUDIBLE


def quietest(pcm: Pcm) -> int:
    """Samples -> the middle of the window of QUIET_WINDOW with the least energy."""
    if len(pcm) <= QUIET_WINDOW:
        return len(pcm) // 2
    power = np.cumsum(np.concatenate([[0.0], pcm.astype(np.float64) ** 2]))
    return int(np.argmin(power[QUIET_WINDOW:] - power[:-QUIET_WINDOW])) + QUIET_WINDOW // 2
