"""One stream, heard window by window, each going on from the text of the one before.

The loop of openai-whisper's `transcribe`, as a session: the next window starts where the model's
timestamps say that the last one's text ended. Stretches without speech are stepped over.
"""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from livecap.events import RATE, Event
from livecap.segments import Buffer, Piece, Segment, is_audible
from livecap.session import SessionConfig
from livecap.transcript import Transcript
from livecap.vad import Edge, Gate
from livecap.work import Hypothesis, Work

Pcm = NDArray[np.float32]

WINDOW = 30 * RATE  # samples in a window
LEAST = RATE // 10  # samples: less than that at the end is no window


class Conditioned:
    """A session whose work depends on the result before it: one piece at a time."""

    def __init__(self, config: SessionConfig) -> None:
        self._vad = config.vad
        self._pad = config.vad.vad_pad * RATE // 1000 if config.vad else 0
        self._tail = config.vad.vad_tail * RATE // 1000 if config.vad else 0
        self._gate = Gate(config.vad) if config.vad else None
        self._transcript = Transcript(language=config.language, speaker=config.speaker)
        self._buffer = Buffer()
        self._anchors = [(0, 0)]  # from this sample on, media time goes on from there
        self._speech: list[tuple[int, int | None]] = []  # [start, stop) padded; None: goes on
        self._seek = 0  # samples up to here are done with
        self._context: tuple[int, ...] = ()
        self._closed = False
        self._given: Segment | None = None  # what is being recognised
        self._number = 0
        self.heard = 0  # samples given to the model, each counted once
        self.total = 0  # samples fed

    def feed(self, pcm: Pcm, probabilities: Iterable[float]) -> None:
        """The next samples [n], and the speech probabilities of the frames they made whole."""
        self._buffer.append(pcm)
        self.total += len(pcm)
        if self._gate:
            self._mark(self._gate.feed(probabilities))
        elif not self._speech and len(pcm):
            self._speech.append((0, None))

    def close(self) -> None:
        """No more audio comes."""
        if self._gate and not self._closed:
            self._mark(self._gate.close())
        self._closed = True

    def skip(self, to: int) -> None:
        """The source goes on at media time `to`; between, it has nothing."""
        if self._gate and self._vad:
            self._mark(self._gate.close())
            self._gate = Gate(self._vad, at=self._buffer.stop)
        self._transcript.gap(self._media(self._buffer.stop), to)
        self._anchors.append((self._buffer.stop, to))

    @property
    def has_work(self) -> bool:
        """Whether a whole window of audio is there, or the rest of the stream."""
        if self._given:
            return False
        start = self._start()
        left = self._buffer.stop - start
        return left >= WINDOW or (self._closed and left >= LEAST)

    @property
    def next_start(self) -> int:
        """Where the next piece of work begins, on the media timeline."""
        return self._media(self._start())

    @property
    def settled(self) -> int:
        """Media time before which no caption comes any more."""
        return self._given.start if self._given else self.next_start

    def work(self) -> Work | None:
        """The next window, or None for now."""
        if not self.has_work:
            return None
        start = self._start()
        stop = min(start + WINDOW, self._buffer.stop)
        self._seek = start
        self._buffer.drop(start)
        self._given = Segment(self._buffer.take(start, stop), self._pieces(start, stop))
        work = Work(self._number, self._given, self._transcript.language, self._context)
        self._number += 1
        return work

    def accept(self, hypothesis: Hypothesis) -> None:
        """Take a result: the stream goes on where it says that it ended."""
        assert self._given is hypothesis.work.segment
        length = len(self._given.pcm)
        consumed = min(hypothesis.consumed or length, length)
        done = Segment(self._given.pcm[:consumed], self._pieces(self._seek, self._seek + consumed))
        self._seek += consumed
        self.heard += consumed
        self._context = hypothesis.context
        self._transcript.add(hypothesis, done)
        self._given = None

    @property
    def is_done(self) -> bool:
        """Whether everything so far has been recognised."""
        return not self._given and not self.has_work

    def events(self) -> list[Event]:
        """What has happened since the last call, in order."""
        return self._transcript.take()

    def finish(self) -> list[Event]:
        """After the last hypothesis: the events left, the silence at the end among them."""
        assert self.is_done
        self._transcript.silence(self._media(self._buffer.stop))
        return self.events()

    def _mark(self, edges: Iterable[Edge]) -> None:
        for edge in edges:
            if edge.kind == "start":
                self._speech.append((max(edge.at - self._pad, 0), None))
            else:
                self._speech[-1] = (self._speech[-1][0], edge.at + self._tail)

    def _start(self) -> int:
        """Where the next window begins: at what is left of the speech, if there is any."""
        self._speech = [
            (start, stop) for start, stop in self._speech if stop is None or stop > self._seek
        ]
        if self._speech:
            self._seek = self._audible(max(self._speech[0][0], self._seek))
            return self._seek
        # Nothing is known to be speech from here on; but the last moments are not judged yet.
        if self._closed or not self._gate:
            return self._buffer.stop
        return max(self._gate.at - self._pad - self._gate.lag, self._seek)

    def _audible(self, start: int) -> int:
        """The first window from `start` on that has anything in it, or that is not whole yet."""
        while (left := self._buffer.stop - start) > 0 and (left >= WINDOW or self._closed):
            stop = min(start + WINDOW, self._buffer.stop)
            if is_audible(self._buffer.take(start, stop)):
                break
            start = stop
        return start

    def _media(self, sample: int) -> int:
        """A sample's number -> its media time."""
        at, media = max(anchor for anchor in self._anchors if anchor[0] <= sample)
        return media + sample - at

    def _pieces(self, start: int, stop: int) -> tuple[Piece, ...]:
        """Samples [start, stop) -> where they were, cut where the source had a gap."""
        cuts = [start, *(at for at, _ in self._anchors if start < at < stop), stop]
        return tuple(
            Piece(low - start, self._media(low), high - low) for low, high in pairwise(cuts)
        )
