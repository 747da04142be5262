"""One stream: PCM and speech probabilities -> work for a model; its hypotheses -> events.

No I/O, no threads, no torch: a file is a stream without pacing, and both run through here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from livecap.config import VadConfig
from livecap.events import RATE, Event
from livecap.segments import Segment, Segmenter, is_audible
from livecap.transcript import Transcript
from livecap.vad import Edge, Gate
from livecap.work import Hypothesis, Work

Pcm = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """How a stream is cut up."""

    vad: VadConfig | None = field(default_factory=VadConfig)  # None: everything counts as speech
    most: int = 28 * RATE  # samples in a segment
    bridge: int = 30 * RATE  # samples: a longer silence ends a segment
    language: str | None = None
    speaker: str | None = None  # label for all events of this stream


class Stream(Protocol):
    """What a session is to those who feed it. `Session` and `longform.Conditioned` are such."""

    heard: int
    total: int

    def feed(self, pcm: Pcm, probabilities: Iterable[float]) -> None: ...
    def close(self) -> None: ...
    def skip(self, to: int) -> None: ...
    @property
    def has_work(self) -> bool: ...
    @property
    def next_start(self) -> int: ...
    @property
    def settled(self) -> int: ...
    def work(self) -> Work | None: ...
    def accept(self, hypothesis: Hypothesis) -> None: ...
    @property
    def is_done(self) -> bool: ...
    def events(self) -> list[Event]: ...
    def finish(self) -> list[Event]: ...


class Session:
    """A stream that is cut into segments, which may be recognised in any order."""

    def __init__(self, config: SessionConfig) -> None:
        self.config = config
        vad = config.vad
        self._gate = Gate(vad) if vad else None
        self._segmenter = self._cutter()
        self._closed = False
        self._origin = 0  # media time of the segmenter's sample 0
        self._fed = 0  # samples fed since the origin
        self._segments: list[Segment] = []  # cut, not yet handed out
        self._handed = 0  # works given out
        self._given: dict[int, int] = {}  # works whose events have not left -> where they begin
        self._hypotheses: dict[int, Hypothesis] = {}  # that wait for an earlier one
        self._emitted = 0  # works whose events have left
        self._transcript = Transcript(language=config.language, speaker=config.speaker)
        self.heard = 0  # samples given to the model
        self.total = 0  # samples fed

    def _cutter(self) -> Segmenter:
        vad = self.config.vad
        return Segmenter(
            most=self.config.most,
            pad=vad.vad_pad * RATE // 1000 if vad else 0,
            tail=vad.vad_tail * RATE // 1000 if vad else 0,
            bridge=self.config.bridge,
            lag=self._gate.lag if self._gate else 0,
        )

    def feed(self, pcm: Pcm, probabilities: Iterable[float]) -> None:
        """The next samples [n], and the speech probabilities of the frames they made whole."""
        edges: Sequence[Edge]
        if self._gate:
            edges = self._gate.feed(probabilities)
        else:
            edges = [Edge("start", 0, 0)] if not self._fed and len(pcm) else []
        self._fed += len(pcm)
        self.total += len(pcm)
        judged = self._gate.at if self._gate else self._fed
        self._queue(self._segmenter.feed(pcm, edges, judged))

    def close(self) -> None:
        """No more audio comes. What was heard becomes work; closing again does nothing."""
        if not self._closed:
            self._end()
        self._closed = True

    def _end(self) -> None:
        if self._gate:
            edges = self._gate.close()
        else:
            edges = [Edge("stop", self._fed, self._fed)] if self._fed else []
        self._queue(self._segmenter.feed(np.zeros(0, np.float32), edges, self._fed))
        self._queue(self._segmenter.close())

    def skip(self, to: int) -> None:
        """The source goes on at media time `to`; between, it has nothing.

        It is for the source to say why: a gap is no event of the session.
        """
        assert not self._closed, "audio after the end"
        self._end()
        start = self._origin + self._fed
        assert to >= start, "time went back"
        if self._gate and self.config.vad:
            self._gate = Gate(self.config.vad)
        self._segmenter = self._cutter()
        self._transcript.gap(start, to)
        self._origin, self._fed = to, 0

    @property
    def has_work(self) -> bool:
        """Whether `work` has something now.

        While the language is unknown there is one piece at a time, so that the result does not
        depend on how many run at once.
        """
        undecided = self._transcript.language is None and self._handed > self._emitted
        return bool(self._segments) and not undecided

    @property
    def next_start(self) -> int:
        """Where the next piece of work begins, on the media timeline."""
        return self._segments[0].start

    @property
    def settled(self) -> int:
        """Media time before which no caption comes any more."""
        if self._emitted in self._given:
            return self._given[self._emitted]
        if self._segments:
            return self._segments[0].start
        return self._origin + self._segmenter.settled

    def work(self) -> Work | None:
        """The next piece to recognise, or None for now."""
        if not self.has_work:
            return None
        segment = self._segments.pop(0)
        work = Work(self._handed, segment, self._transcript.language)
        self._given[self._handed] = segment.start
        self._handed += 1
        self.heard += len(segment.pcm)
        return work

    @property
    def is_done(self) -> bool:
        """Whether everything cut so far has been recognised."""
        return not self._segments and self._handed == self._emitted

    def accept(self, hypothesis: Hypothesis) -> None:
        """Take a result; its events leave when all earlier ones' have."""
        self._hypotheses[hypothesis.work.number] = hypothesis
        while self._emitted in self._hypotheses:
            self._transcript.add(self._hypotheses.pop(self._emitted))
            del self._given[self._emitted]
            self._emitted += 1

    def events(self) -> list[Event]:
        """What has happened since the last call, in order."""
        return self._transcript.take()

    def finish(self) -> list[Event]:
        """After the last hypothesis: the events left, the silence at the end among them."""
        assert self.is_done
        self._transcript.silence(self._origin + self._fed)
        return self.events()

    def _queue(self, segments: Iterable[Segment]) -> None:
        audible = (segment for segment in segments if is_audible(segment.pcm))
        self._segments += [segment.moved(self._origin) for segment in audible]
