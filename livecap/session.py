"""One stream: PCM and speech probabilities -> work for a model; its hypotheses -> events.

No I/O, no threads, no torch: a file is a stream without pacing, and both run through here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from livecap.config import VadConfig
from livecap.events import RATE, Caption, Event, Language, Scores, Silence, Unrecognised, Word
from livecap.segments import Segment, Segmenter
from livecap.vad import Edge, Gate

Pcm = NDArray[np.float32]

SURE = 0.5  # probability from which a detected language is kept for the rest of the stream
TRIES = 4  # segments after which the likeliest language so far is kept anyway


@dataclass(frozen=True, slots=True)
class Work:
    """What a session wants done next. Pure data."""

    number: int  # of the segment in its stream, from 0
    segment: Segment  # 16 kHz audio, and where it was on the media timeline
    language: str | None  # ISO 639-1 code; None: to be detected
    context: tuple[int, ...] = ()  # tokens before it, where one segment goes on from another


@dataclass(frozen=True, slots=True)
class Passage:
    """A run of words that the model set apart, with its times."""

    start: int  # samples of the segment's audio
    stop: int
    words: tuple[Word, ...]  # times in samples of the segment's audio, or None
    scores: Scores


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What a model made of a piece of work."""

    work: Work
    passages: tuple[Passage, ...]
    language: str | None = None
    language_probability: float | None = None  # only where it was detected
    reason: str | None = None  # why (part of) the audio has no text
    consumed: int | None = None  # samples that are done with, where work overlaps (long form)
    context: tuple[int, ...] = ()  # tokens for the work after it


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """How a stream is cut up."""

    vad: VadConfig | None = VadConfig()  # None: everything counts as speech
    most: int = 28 * RATE  # samples in a segment
    bridge: int = 30 * RATE  # samples: a longer silence ends a segment
    language: str | None = None
    speaker: str | None = None  # label for all events of this stream


class Session:
    """A stream that is cut into segments, which may be recognised in any order."""

    def __init__(self, config: SessionConfig) -> None:
        self.config = config
        vad = config.vad
        self._gate = Gate(vad) if vad else None
        self._segmenter = self._cutter()
        self._origin = 0  # media time of the segmenter's sample 0
        self._fed = 0  # samples fed since the origin
        self._segments: list[Segment] = []  # cut, not yet handed out
        self._handed = 0  # works given out
        self._given: dict[int, int] = {}  # works whose events have not left -> where they begin
        self._hypotheses: dict[int, Hypothesis] = {}  # that wait for an earlier one
        self._emitted = 0  # works whose events have left
        self._until = 0  # media time up to which events have left
        self._gaps: list[tuple[int, int]] = []  # media times without audio, not yet passed
        self._events: list[Event] = []  # that no hypothesis has to be waited for
        self._language = config.language
        self._guesses: list[tuple[str, float]] = []
        self.heard = 0  # samples given to the model
        self.total = 0  # samples fed

    def _cutter(self) -> Segmenter:
        pad = self.config.vad.vad_pad * RATE // 1000 if self.config.vad else 0
        return Segmenter(
            most=self.config.most,
            pad=pad,
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
        """No more audio comes (or none before a gap). What was heard becomes work."""
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
        self.close()
        start = self._origin + self._fed
        assert to >= start, "time went back"
        if self._gate and self.config.vad:
            self._gate = Gate(self.config.vad)
        self._segmenter = self._cutter()
        self._gaps.append((start, to))
        self._origin, self._fed = to, 0

    @property
    def has_work(self) -> bool:
        """Whether `work` has something now.

        While the language is unknown there is one piece at a time, so that the result does not
        depend on how many run at once.
        """
        undecided = self._language is None and self._handed > self._emitted
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
        return self._origin + self._segmenter.needed

    def work(self) -> Work | None:
        """The next piece to recognise, or None for now."""
        if not self.has_work:
            return None
        segment = self._segments.pop(0)
        work = Work(self._handed, segment, self._language)
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
            self._emit(self._hypotheses.pop(self._emitted))
            del self._given[self._emitted]
            self._emitted += 1

    def events(self) -> list[Event]:
        """What has happened since the last call, in order."""
        events, self._events = self._events, []
        return events

    def finish(self) -> list[Event]:
        """After the last hypothesis: the events left, the silence at the end among them."""
        assert self.is_done
        self._silence(self._origin + self._fed)
        return self.events()

    def _queue(self, segments: Iterable[Segment]) -> None:
        self._segments += [segment.moved(self._origin) for segment in segments]

    def _silence(self, until: int) -> None:
        """Events have left up to `until`; what no model heard was silence, unless it is a gap."""
        while self._gaps and self._gaps[0][1] <= until:
            start, stop = self._gaps.pop(0)
            self._silence(start)
            self._until = max(self._until, stop)
        if until > self._until:
            self._events.append(Silence(self._until, until, self.config.speaker))
        self._until = max(self._until, until)

    def _emit(self, hypothesis: Hypothesis) -> None:
        """Captions in the order in which they were spoken, with the silences between."""
        segment = hypothesis.work.segment
        self._pin(hypothesis)
        captions = [self._caption(passage, hypothesis) for passage in hypothesis.passages]
        at = hypothesis.passages[-1].stop if hypothesis.passages else 0
        lost = min(at, len(segment.pcm) - 1)  # without text from here on, if there is a reason
        for piece in segment.pieces:
            self._silence(piece.start)
            self._until = max(self._until, piece.start + piece.length)
            while captions and captions[0].start < self._until:
                self._events.append(captions.pop(0))
            start = piece.start + max(lost - piece.offset, 0)
            if hypothesis.reason and start < self._until:
                why = Unrecognised(start, self._until, hypothesis.reason, self.config.speaker)
                self._events.append(why)
        self._events += captions

    def _pin(self, hypothesis: Hypothesis) -> None:
        """Keep the language once it is sure."""
        code, probability = hypothesis.language, hypothesis.language_probability
        if self._language or code is None or probability is None:
            return
        self._guesses.append((code, probability))
        if probability < SURE and len(self._guesses) < TRIES:
            return
        sums: dict[str, float] = {}
        for guess, weight in self._guesses:
            sums[guess] = sums.get(guess, 0.0) + weight
        best = max(sums, key=lambda guess: sums[guess])
        self._language = best
        self._events.append(Language(best, sums[best] / len(self._guesses)))

    def _caption(self, passage: Passage, hypothesis: Hypothesis) -> Caption:
        segment = hypothesis.work.segment
        start, _ = segment.span(passage.start, passage.stop)
        return Caption(
            segment=hypothesis.work.number,
            start=start,
            heard=max(segment.end(passage.stop), start + 1),
            words=tuple(_placed(word, segment) for word in passage.words),
            language=hypothesis.language,
            speaker=self.config.speaker,
            scores=passage.scores,
        )


def _placed(word: Word, segment: Segment) -> Word:
    """A word timed in its segment's audio -> the same on the media timeline."""
    if word.start is None or word.end is None:
        return word
    start, end = segment.span(word.start, word.end)
    return Word(word.text, start, end, word.probability)
