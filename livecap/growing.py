"""PCM and the edges of speech -> the segment that is open now, as far as it goes.

The live counterpart of `segments.py`: what is heard of a segment at one moment is always the
beginning of what is heard of it later, so a model can go on from what it made of it before.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from livecap.segments import Buffer, Pcm, Piece, Segment
from livecap.vad import Edge


@dataclass(slots=True)
class _Span:
    """Speech with its padding."""

    start: int
    stop: int | None  # None while it goes on; may lie ahead of what has been judged


class Growing:
    """Speech since the last segment was closed, without the silences in it.

    Samples are numbered from the stream's start; lengths are samples of speech.
    """

    def __init__(self, *, pad: int, tail: int, lag: int) -> None:
        self.pad = pad  # samples kept before speech
        self.tail = tail  # samples kept after it
        self.lag = lag  # samples after an edge by which it is known
        self.buffer = Buffer()
        self.now = 0  # samples up to here have been judged
        self._quiet: int | None = None  # since when the speech that goes on has been quiet
        self._done = 0  # samples up to here are in closed segments
        self._spans: list[_Span] = []

    def feed(self, pcm: Pcm) -> None:
        """The next samples [n]; they are heard when they have been judged."""
        self.buffer.append(pcm)

    def advance(self, now: int, edges: Iterable[Edge], quiet: int | None) -> None:
        """Samples up to `now` have been judged, with these edges in them.

        `quiet` is since when it has been quiet, if speech goes on: the pause may end it.
        """
        for edge in edges:
            if edge.kind == "stop":
                self._spans[-1].stop = edge.at + self.tail
                continue
            start = max(edge.at - self.pad, self._done, self.buffer.start)
            last = self._spans[-1] if self._spans else None
            if last and last.stop is not None and start <= last.stop:
                last.stop = None
            else:
                self._spans.append(_Span(start, None))
        self.now, self._quiet = now, quiet
        self.buffer.drop(self.start if self._spans else now - self.pad - self.lag)

    @property
    def is_open(self) -> bool:
        """Whether there is speech that no closed segment holds."""
        return bool(self._spans)

    @property
    def has_paused(self) -> bool:
        """Whether its last speech has ended, as far as is known."""
        return bool(self._spans) and self._spans[-1].stop is not None

    @property
    def start(self) -> int:
        """Where what is not closed begins, at the earliest."""
        earliest = max(self._done, self.now - self.pad - self.lag)
        return self._spans[0].start if self._spans else earliest

    @property
    def length(self) -> int:
        """Samples of it so far."""
        return sum(stop - start for start, stop in self._ranges())

    @property
    def silence(self) -> int:
        """Samples since the last speech in it; 0 while someone speaks."""
        last = self._spans[-1].stop
        if last is not None:
            return self.now - (last - self.tail)
        return 0 if self._quiet is None else self.now - self._quiet

    def view(self, length: int) -> Segment:
        """Its first `length` samples."""
        blocks, pieces, offset = [np.zeros(0, np.float32)], [], 0
        for start, stop in self._ranges():
            count = min(stop - start, length - offset)
            if count > 0:
                pieces.append(Piece(offset, start, count))
                blocks.append(self.buffer.take(start, start + count))
                offset += count
        return Segment(np.concatenate(blocks), tuple(pieces))

    def close(self, length: int) -> Segment:
        """Its first `length` samples, at least one, as a closed segment; the rest stays open."""
        segment = self.view(length)
        self._done = segment.stop
        self._spans = [
            _Span(max(span.start, self._done), span.stop)
            for span in self._spans
            if span.stop is None or span.stop > self._done
        ]
        self.buffer.drop(self._done)
        return segment

    def discard(self) -> None:
        """Forget what is open: it is no speech after all."""
        self._spans = []

    def _ranges(self) -> list[tuple[int, int]]:
        """Start and stop of each stretch, as far as it has been judged."""
        ranges = []
        for span in self._spans:
            stop = self.now
            if span.stop is not None:
                stop = min(stop, span.stop)
            elif self._quiet is not None:
                stop = min(stop, self._quiet + self.tail)
            ranges.append((span.start, max(stop, span.start)))
        return ranges
