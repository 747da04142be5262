"""Endpoints -> segments, over one buffer: the one that is open, and those that have ended.

Long silences are left out of a segment, so that many short remarks fill one window of a model. No
sample is in two segments, and all in which speech was found, with padding, are in one. Where
segments end depends on the audio alone, and not on the sizes of the pieces in which it came.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from livecap.events import RATE
from livecap.online.speech_buffer import Pcm, Piece, Segment, SpeechBuffer, quietest
from livecap.vad.endpointer import Edge

CUT_SEARCH = 6 * RATE  # samples before the limit in which the quietest moment is looked for


@dataclass(slots=True)
class _Span:
    """Speech with its padding."""

    start: int  # samples
    stop: int | None  # None while it goes on; may lie ahead of what has been judged
    quiet: int | None = None  # since when it has paused; what follows may end it
    pcm: Pcm | None = None  # taken from the buffer once nothing can be added

    def length(self, now: int) -> int:
        """Samples of it, of what has been judged."""
        return (now if self.stop is None else min(now, self.stop)) - self.start


class Segmenter:
    """Joins speech to segments of at most `max_segment` samples.

    A segment ends at a silence longer than `max_silence`, or, when it would get longer than
    `max_segment`, at the last pause in it, or, where there is none, at its quietest moment.
    """

    def __init__(
        self,
        buffer: SpeechBuffer,
        *,
        max_segment: int,
        max_silence: int,
        pad: int,
        tail: int,
        lag: int,
    ) -> None:
        """`pad` and `tail`: samples kept before and after speech; `lag`: an `Endpointer`'s."""
        self._buffer = buffer
        self._max_segment, self._max_silence = max_segment, max_silence
        self._pad, self._tail, self._lag = pad, tail, lag
        self._spans: list[_Span] = []
        self._done = 0  # samples up to here are in segments or were left out
        self._now = 0  # samples up to here have been judged

    def advance(self, now: int, edges: Iterable[Edge], *, min_length: int = 0) -> list[Segment]:
        """Samples up to `now` have been judged -> the segments that have ended.

        `edges` are those that became known since the last call. A segment that gets too long keeps
        at least its first `min_length` samples.
        """
        ended: list[Segment] = []
        for edge in edges:
            self._end_due(edge.known, min_length, ended)
            self._apply(edge)
        self._end_due(now, min_length, ended)
        self._buffer.drop(self._needed)
        return ended

    def finish(self, stop: int, *, is_last: bool, min_length: int = 0) -> list[Segment]:
        """The audio ends at sample `stop`, or (if not `is_last`) has a gap there -> what is left.

        All edges must have been passed to `advance`.
        """
        if self._spans and self._spans[-1].stop is not None:
            self._spans[-1].stop = min(self._spans[-1].stop, stop)  # no padding is left
        ended: list[Segment] = []
        self._end_due(stop, min_length, ended)
        if self._spans:
            self._emit(self._length(stop), ended)
        self._done = stop
        self._buffer.drop(stop)
        return ended

    def consume(self, samples: int) -> list[Segment]:
        """So much of a segment has been decoded for good: all of it, always."""
        return []

    # The open segment

    @property
    def is_open(self) -> bool:
        """Whether there is speech that no ended segment holds."""
        return bool(self._spans)

    @property
    def has_paused(self) -> bool:
        """Whether its last speech has ended, as far as is known."""
        return bool(self._spans) and self._spans[-1].stop is not None

    @property
    def silence(self) -> int:
        """Samples since the last speech in it; 0 while someone speaks."""
        last = self._spans[-1]
        if last.stop is not None:
            return self._now - (last.stop - self._tail)
        return 0 if last.quiet is None else self._now - last.quiet

    @property
    def length(self) -> int:
        """Samples of it so far."""
        return sum(stop - start for start, stop in self._ranges())

    @property
    def first_needed(self) -> int:
        """No segment to come begins before this sample."""
        return self._spans[0].start if self._spans else self._needed

    def view(self, length: int) -> Segment:
        """Its first `length` samples."""
        blocks, pieces, offset = [np.zeros(0, np.float32)], list[Piece](), 0
        for span, (start, stop) in zip(self._spans, self._ranges(), strict=True):
            count = min(stop - start, length - offset)
            if count > 0:
                blocks.append(self._pcm(span, start, start + count))
                pieces += self._buffer.pieces(start, start + count, offset)
                offset += count
        return Segment(np.concatenate(blocks), tuple(pieces))

    def end(self, length: int) -> Segment | None:
        """End it after `length` samples; what follows them is the next one."""
        ended: list[Segment] = []
        self._emit(length, ended)
        self._buffer.drop(self._needed)
        return ended[0] if ended else None

    def clear(self) -> None:
        """Nobody wants what is open."""
        self._spans = []

    # How it grows, and where it ends

    @property
    def _needed(self) -> int:
        """From here on samples may still be asked of the buffer."""
        unsettled = next((span.start for span in self._spans if span.pcm is None), None)
        if unsettled is not None:
            return unsettled
        # Padding reaches back from an edge, and an edge becomes known only some frames later.
        return max(self._done, self._now - self._pad - self._lag)

    def _apply(self, edge: Edge) -> None:
        if edge.kind == "start":
            self._begin(edge.at)
            return
        last = self._spans[-1]
        if edge.kind == "stop":
            last.stop, last.quiet = edge.at + self._tail, None
        else:
            last.quiet = edge.at if edge.kind == "pause" else None

    def _begin(self, at: int) -> None:
        start = max(at - self._pad, self._done, self._buffer.start)
        if self._spans:
            last = self._spans[-1]
            assert last.stop is not None, "speech started twice"
            if start <= last.stop:  # the paddings touch
                last.stop = None
                return
            last.pcm = self._buffer.take(last.start, last.stop)
        self._spans.append(_Span(start, None))

    def _end_due(self, now: int, min_length: int, ended: list[Segment]) -> None:
        """Time goes on, and nothing happens: end what gets too long, or too long ago."""
        self._now = now
        while self._spans and (length := self._length(now)) > self._max_segment:
            # A pause before the limit may become known only some time after it.
            lag = self._lag if self._crossing(now).stop is None else 0
            fitting = self._fitting()
            low = 0 if ended else min_length
            if fitting >= max(low, 1):
                self._emit(fitting, ended)
            elif length >= self._max_segment + lag:
                self._emit(self._quietest(low), ended)
            else:
                return
        last = self._spans[-1] if self._spans else None
        if last and last.stop is not None and now - last.stop > self._max_silence:
            self._emit(self._length(now), ended)

    def _length(self, now: int) -> int:
        return sum(span.length(now) for span in self._spans)

    def _crossing(self, now: int) -> _Span:
        """The span in which the limit lies."""
        lengths = accumulate(span.length(now) for span in self._spans)
        pairs = zip(self._spans, lengths, strict=True)
        return next(span for span, length in pairs if length > self._max_segment)

    def _fitting(self) -> int:
        """Samples of the spans, from the first on, that have ended and fit into one segment."""
        lengths = [span.length(span.stop) for span in self._spans if span.stop is not None]
        return max((sum_ for sum_ in accumulate(lengths) if sum_ <= self._max_segment), default=0)

    def _quietest(self, min_length: int) -> int:
        """Where a segment ends that has no pause: at the quietest moment before the limit."""
        limit = self._max_segment
        low = max(limit - CUT_SEARCH, limit // 2, min(min_length, limit - 1))
        return max(low + quietest(self.view(limit).pcm[low:]), 1)

    def _emit(self, length: int, ended: list[Segment]) -> None:
        """End a segment with the first `length` samples."""
        blocks, pieces, offset = list[Pcm](), list[Piece](), 0
        rest: list[_Span] = []
        for span in self._spans:
            stop = min(self._buffer.stop if span.stop is None else span.stop, self._buffer.stop)
            count = min(stop - span.start, length - offset)
            if count > 0:
                blocks.append(self._pcm(span, span.start, span.start + count))
                pieces += self._buffer.pieces(span.start, span.start + count, offset)
                offset += count
                self._done = span.start + count
            if count < stop - span.start or (span.stop is None):
                rest_value = span.pcm[max(count, 0) :] if span.pcm is not None else None
                rest.append(_Span(span.start + max(count, 0), span.stop, span.quiet, rest_value))
        self._spans = rest
        if blocks:
            ended.append(Segment(np.concatenate(blocks), tuple(pieces)))

    def _pcm(self, span: _Span, start: int, stop: int) -> Pcm:
        if span.pcm is None:
            return self._buffer.take(start, stop)
        return span.pcm[start - span.start : stop - span.start]

    def _ranges(self) -> list[tuple[int, int]]:
        """Start and stop of each span, as far as it has been judged."""
        ranges = []
        for span in self._spans:
            stop = self._now
            if span.stop is not None:
                stop = min(stop, span.stop)
            elif span.quiet is not None:
                stop = min(stop, span.quiet + self._tail)
            ranges.append((span.start, max(stop, span.start)))
        return ranges
