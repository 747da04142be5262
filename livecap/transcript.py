"""Hypotheses, in the order of their work -> events on the media timeline."""

from dataclasses import dataclass

from livecap.events import Caption, Event, Language, Scores, Silence, Unrecognised, Word
from livecap.segments import Segment
from livecap.work import Hypothesis, Passage, Work

SURE = 0.5  # probability from which a detected language is kept for the rest of the stream
TRIES = 4  # segments after which the likeliest language so far is kept anyway


@dataclass(frozen=True, slots=True)
class Part:
    """What one update adds to a segment. Times are samples of the segment's audio."""

    words: tuple[Word, ...]
    tail: str
    start: int  # where the audio of these words begins, if they have no times
    heard: int
    final: bool
    language: str | None


class Transcript:
    """What has been said in one stream so far."""

    def __init__(self, *, language: str | None, speaker: str | None) -> None:
        self.language = language  # the one to decode with; None until it is sure
        self.speaker = speaker  # label of all events
        self.until = 0  # media time up to which events have been made
        self.events: list[Event] = []  # that have not been taken
        self._gaps: list[tuple[int, int]] = []  # media times without audio, not yet passed
        self._guesses: list[tuple[str, float]] = []

    def take(self) -> list[Event]:
        """What has happened since the last call, in order."""
        events, self.events = self.events, []
        return events

    def gap(self, start: int, stop: int) -> None:
        """The source has nothing from `start` to `stop`: that is no silence."""
        self._gaps.append((start, stop))

    def silence(self, until: int) -> None:
        """Events have left up to `until`; what no model heard was silence, unless it is a gap."""
        while self._gaps and self._gaps[0][1] <= until:
            start, stop = self._gaps.pop(0)
            self.silence(start)
            self.until = max(self.until, stop)
        if until > self.until:
            self.events.append(Silence(self.until, until, self.speaker))
        self.until = max(self.until, until)

    def add(self, hypothesis: Hypothesis, done: Segment | None = None) -> None:
        """Captions in the order in which they were spoken, with the silences between.

        `done` is the part of the work's segment that will not be heard again, if not all of it.
        """
        self.pin(hypothesis)
        captions = [self._caption(passage, hypothesis) for passage in hypothesis.passages]
        segment = done or hypothesis.work.segment
        at = hypothesis.passages[-1].stop if hypothesis.passages else 0
        at = at if hypothesis.unsure is None else hypothesis.unsure
        lost = min(at, len(segment.pcm) - 1)  # without text from here on, if there is a reason
        for piece in segment.pieces:
            self.silence(piece.start)
            self.until = max(self.until, piece.start + piece.length)
            while captions and captions[0].start < self.until:
                self.events.append(captions.pop(0))
            start = piece.start + max(lost - piece.offset, 0)
            if hypothesis.reason and start < self.until:
                why = Unrecognised(start, self.until, hypothesis.reason, self.speaker)
                self.events.append(why)
        self.events += captions

    def publish(self, work: Work, part: Part, *, scores: Scores | None = None) -> None:
        """Words of a segment that goes on, or its end."""
        segment = work.segment
        first = part.words[0].start if part.words else None
        at = min(part.start if first is None else first, len(segment.pcm) - 1)
        start, _ = segment.span(at, at + 1)
        self._reach(segment, start)
        self.events.append(
            Caption(
                segment=work.number,
                start=start,
                heard=max(segment.end(part.heard), start + 1),
                words=tuple(_placed(word, segment) for word in part.words),
                tail=part.tail,
                final=part.final,
                language=part.language,
                speaker=self.speaker,
                scores=scores,
            )
        )

    def end(self, segment: Segment, lost: int | None, reason: str | None) -> None:
        """A published segment is over; from sample `lost` on it has no text, for that reason."""
        self._reach(segment, segment.stop)
        if reason and lost is not None and lost < len(segment.pcm):
            start, _ = segment.span(lost, lost + 1)
            self.events.append(Unrecognised(start, segment.stop, reason, self.speaker))

    def _reach(self, segment: Segment, until: int) -> None:
        """All of the segment's pieces that begin by then have been heard."""
        for piece in segment.pieces:
            if piece.start <= until:
                self.silence(piece.start)
                self.until = max(self.until, piece.start + piece.length)

    def pin(self, hypothesis: Hypothesis) -> None:
        """Keep the language once it is sure."""
        code, probability = hypothesis.language, hypothesis.language_probability
        if self.language or code is None or probability is None:
            return
        self._guesses.append((code, probability))
        if probability < SURE and len(self._guesses) < TRIES:
            return
        sums: dict[str, float] = {}
        for guess, weight in self._guesses:
            sums[guess] = sums.get(guess, 0.0) + weight
        best = max(sums, key=lambda guess: sums[guess])
        self.language = best
        self.events.append(Language(best, sums[best] / len(self._guesses)))

    def _caption(self, passage: Passage, hypothesis: Hypothesis) -> Caption:
        segment = hypothesis.work.segment
        start, _ = segment.span(passage.start, passage.start + 1)
        return Caption(
            segment=hypothesis.work.number,
            start=start,
            heard=max(segment.end(passage.stop), start + 1),
            words=tuple(_placed(word, segment) for word in passage.words),
            language=hypothesis.language,
            speaker=self.speaker,
            scores=passage.scores,
        )


def _placed(word: Word, segment: Segment) -> Word:
    """A word timed in its segment's audio -> the same on the media timeline."""
    if word.start is None or word.end is None:
        return word
    start, end = segment.span(word.start, word.end)
    return Word(word.text, start, end, word.probability)
