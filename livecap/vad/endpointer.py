"""Speech probabilities -> where speech starts and stops, and where turns begin and end.

The one place that decides about endpoints. Rules and defaults are those of Silero's own offline
segmentation (hysteresis of two thresholds), one frame at a time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from livecap.config import VadConfig
from livecap.events import RATE

FRAME = 512  # samples: 32 ms, the only size that Silero was trained on at 16 kHz
HYSTERESIS = 0.15  # probability by which the lower threshold lies below the upper one (Silero's)
MIN_THRESHOLD = 0.01  # the lower threshold is never less


@dataclass(frozen=True, slots=True)
class Edge:
    """Speech starts or stops; it pauses, and what follows tells whether it stops or resumes."""

    kind: Literal["start", "pause", "resume", "stop"]
    at: int  # sample, a frame's border
    known: int  # samples that had to be judged to be sure of it


@dataclass(frozen=True, slots=True)
class TurnEdge:
    """Someone begins to speak, or has been quiet for as long as ends a turn."""

    at: int  # sample: where speech begins, or up to where it has been quiet
    begins: bool


class Endpointer:
    """Judges a stream's frames, each of them once.

    Speech starts with a frame above the threshold. It stops with a frame below the lower threshold,
    unless one above the upper threshold comes within `vad_min_silence`. A stretch shorter than
    `vad_min_speech` is no speech.
    """

    def __init__(self, config: VadConfig | None, *, endpoint_silence: int = 0) -> None:
        """`config` None: everything is speech. `endpoint_silence`: samples that end a turn."""
        self._is_on = config is not None
        vad = config or VadConfig()
        self._threshold = vad.vad_threshold
        self._lower = max(vad.vad_threshold - HYSTERESIS, MIN_THRESHOLD)
        self._min_speech = vad.vad_min_speech * RATE // 1000 if config else 0
        self._min_silence = vad.vad_min_silence * RATE // 1000 if config else 0
        self._endpoint_silence = endpoint_silence
        self.pad = vad.vad_pad * RATE // 1000 if config else 0  # samples kept before speech
        self.tail = vad.vad_tail * RATE // 1000 if config else 0  # samples kept after it
        # Samples after an edge by which it is known: speech too short to count may go on after a
        # pause too short to end it.
        self.lag = self._min_speech + self._min_silence + 2 * FRAME if config else 0
        self.at = 0  # samples that have been judged
        self._start: int | None = None  # where the speech began that is going on
        self._is_reported = False  # it has been long enough to be speech
        self._quiet: int | None = None  # since when it has been below the lower threshold
        self._turn_begun = False
        self._turn_quiet: int | None = None  # since when nobody speaks, inside a turn
        self._turn_end = 0  # sample at which the last turn ended

    def push(self, probs: Iterable[float], samples: int) -> tuple[list[Edge], list[TurnEdge]]:
        """The next frames' probabilities; so many samples have come in all -> what is sure now."""
        edges: list[Edge] = []
        turns: list[TurnEdge] = []
        if not self._is_on:
            start = self.at
            self.at += (samples - self.at) // FRAME * FRAME
            if self.at > start and self._start is None:
                self._start = start
                edges.append(Edge("start", start, start + FRAME))
        for prob in probs:
            count = len(edges)
            self._frame(prob, edges)
            self._turn(edges[count:], turns)
        return edges, turns

    def finish(self, samples: int) -> tuple[list[Edge], list[TurnEdge]]:
        """No more audio comes, or there is a gap: after so many samples all is judged anew."""
        edges = self._end(samples)
        turns = [TurnEdge(self.at, begins=False)] if self._turn_begun else []
        self._turn_end = self.at = samples
        self._start, self._is_reported, self._quiet = None, False, None
        self._turn_begun, self._turn_quiet = False, None
        return edges, turns

    def _end(self, samples: int) -> list[Edge]:
        """The speech that is going on stops here, if it was long enough."""
        if not self._is_on:
            if samples == self.at and self._start is None:
                return []
            begun = [] if self._start is not None else [Edge("start", self.at, samples)]
            return [*begun, Edge("stop", samples, samples)]
        stop = self.at if self._quiet is None else self._quiet
        if self._start is None:
            return []
        if self._is_reported:
            return [Edge("stop", stop, self.at)]
        if stop - self._start >= self._min_speech:
            return [Edge("start", self._start, self.at), Edge("stop", stop, self.at)]
        return []

    def _frame(self, prob: float, edges: list[Edge]) -> None:
        begin, self.at = self.at, self.at + FRAME
        if prob >= self._threshold:
            if self._is_reported and self._quiet is not None:
                edges.append(Edge("resume", begin, self.at))
            self._quiet = None
            self._start = begin if self._start is None else self._start
        elif prob < self._lower and self._start is not None and self._quiet is None:
            self._quiet = begin
            if self._is_reported:
                edges.append(Edge("pause", begin, self.at))
        if self._start is not None:
            self._judge(self._start, edges)

    def _judge(self, start: int, edges: list[Edge]) -> None:
        """Whether what may be speech, from sample `start` on, is by now, or has stopped."""
        quiet = self._quiet
        stop = self.at if quiet is None else quiet
        if not self._is_reported and stop - start >= self._min_speech:
            self._is_reported = True
            edges.append(Edge("start", start, self.at))
            if quiet is not None:
                edges.append(Edge("pause", quiet, self.at))
        if quiet is not None and self.at - quiet >= self._min_silence:
            if self._is_reported:
                edges.append(Edge("stop", quiet, self.at))
            self._start, self._is_reported, self._quiet = None, False, None

    def _turn(self, edges: Iterable[Edge], turns: list[TurnEdge]) -> None:
        """After a frame, with its edges."""
        for edge in edges:
            if edge.kind == "stop":
                self._turn_quiet = edge.at
            elif edge.kind == "start" and self._turn_begun:
                self._turn_quiet = None
            elif edge.kind == "start":
                self._turn_begun = True
                turns.append(TurnEdge(max(edge.at - self.pad, self._turn_end), begins=True))
        if self._turn_quiet is not None and self.at - self._turn_quiet >= self._endpoint_silence:
            self._turn_begun, self._turn_quiet = False, None
            self._turn_end = self.at
            turns.append(TurnEdge(self.at, begins=False))
