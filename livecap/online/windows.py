"""Sequential long form: windows of 30 s, each of which starts where the text of the last one ended.

The loop of openai-whisper's `transcribe`, as a segmenter: the model's timestamps say how much of a
window is done with. Stretches without speech are stepped over.
"""

from collections.abc import Iterable

from livecap.events import RATE
from livecap.online.speech_buffer import Segment, SpeechBuffer, is_audible
from livecap.vad.endpointer import Edge

WINDOW = 30 * RATE  # samples
MIN_WINDOW = RATE // 10  # samples: less than that at the end is no window


class SequentialWindows:
    """One window at a time; the next is there when the last one's end has been told."""

    def __init__(self, buffer: SpeechBuffer, *, pad: int, tail: int, lag: int) -> None:
        """`pad` and `tail`: samples kept before and after speech; `lag`: an `Endpointer`'s."""
        self._buffer = buffer
        self._pad, self._tail, self._lag = pad, tail, lag
        self._speech: list[tuple[int, int | None]] = []  # [start, stop) padded; None: goes on
        self._start = 0  # samples up to here are done with
        self._now = 0  # samples up to here have been judged
        self._is_last = False  # no more audio comes
        self._is_waiting = False  # a window is being decoded

    def advance(self, now: int, edges: Iterable[Edge], *, min_length: int = 0) -> list[Segment]:
        """Samples up to `now` have been judged, with these edges -> the next window, if any."""
        self._now = now
        for edge in edges:
            if edge.kind == "start":
                self._speech.append((max(edge.at - self._pad, 0), None))
            elif edge.kind == "stop":
                self._speech[-1] = (self._speech[-1][0], edge.at + self._tail)
        return self._next()

    def finish(self, stop: int, *, is_last: bool, min_length: int = 0) -> list[Segment]:
        """The audio ends at sample `stop`, or (if not `is_last`) has a gap there."""
        self._is_last = is_last
        return self._next()

    def consume(self, samples: int) -> list[Segment]:
        """The first so many samples of the last window have been decoded -> the next one."""
        self._start += samples
        self._is_waiting = False
        return self._next()

    @property
    def first_needed(self) -> int:
        """No window to come begins before this sample."""
        return min(self._start, self._buffer.stop)

    def _next(self) -> list[Segment]:
        if self._is_waiting:
            return []
        self._start = start = self._step_over()
        self._buffer.drop(start)
        left = self._buffer.stop - start
        if left < (MIN_WINDOW if self._is_last else WINDOW):
            return []
        self._is_waiting = True
        stop = min(start + WINDOW, self._buffer.stop)
        return [Segment(self._buffer.take(start, stop), self._buffer.pieces(start, stop))]

    def _step_over(self) -> int:
        """Where the next window begins: at what is left of the speech, if there is any."""
        self._speech = [
            (start, stop) for start, stop in self._speech if stop is None or stop > self._start
        ]
        if self._speech:
            return self._audible(max(self._speech[0][0], self._start))
        # Nothing is known to be speech from here on; but the last moments are not judged yet.
        if self._is_last:
            return self._buffer.stop
        return max(self._now - self._pad - self._lag, self._start)

    def _audible(self, start: int) -> int:
        """The first window from `start` on that has anything in it, or that is not whole yet."""
        while (left := self._buffer.stop - start) > 0 and (left >= WINDOW or self._is_last):
            stop = min(start + WINDOW, self._buffer.stop)
            if is_audible(self._buffer.take(start, stop)):
                break
            start = stop
        return start
