"""Hypotheses and commits, in the order of their segments -> events on the media timeline."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from livecap.events import Caption, Event, Language, Scores, Silence, Unrecognised, Word
from livecap.online.job import Hypothesis, TextSpan
from livecap.online.speech_buffer import Segment

SURE_LANGUAGE = 0.5  # probability from which a detected language is kept (faster-whisper's)
CLAUSE_MARKS = ",;:，、；：،؛"  # that belong to what was said before, and begin no line
LANGUAGE_SEGMENTS = 4  # segments after which the likeliest language so far is kept anyway


@dataclass(frozen=True, slots=True)
class Commit:
    """What one update adds to a segment. Times are samples of the segment's audio."""

    words: tuple[Word, ...]
    tail: str  # what may still change
    start: int  # where the audio of these words begins, if they have no times
    processed: int  # up to where the audio has been decoded
    final: bool  # nothing is left open
    language: str | None
    scores: Scores | None = None


class Transcript:
    """What has been published of one stream."""

    def __init__(self, *, language: str | None, speaker: str | None) -> None:
        self.language = language  # the one to decode with; None until it is sure
        self.speaker = speaker  # label of all events
        self.until = 0  # media time up to which events have been made
        self._events: list[Event] = []  # that have not been taken
        self._gaps: list[tuple[int, int]] = []  # media times without audio, not yet passed
        self._detected: list[tuple[str, float]] = []
        self._spoken = 0  # media time at which the last word ends
        self._line: int | None = None  # number of the segment whose line goes on

    def take(self) -> list[Event]:
        """What has happened since the last call, in order."""
        events, self._events = self._events, []
        return events

    def append(self, event: Event) -> None:
        """An event that is made elsewhere."""
        self._events.append(event)

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
            self._events.append(Silence(self.until, until, self.speaker))
        self.until = max(self.until, until)

    def add(self, hypothesis: Hypothesis, done: Segment) -> None:
        """Captions of a segment that was decoded once, with the silences between.

        `done` is the part of it that will not be decoded again.
        """
        self.detect(hypothesis)
        captions = [self._caption(span, hypothesis) for span in hypothesis.spans]
        at = hypothesis.spans[-1].stop if hypothesis.spans else 0
        at = at if hypothesis.untranscribed_from is None else hypothesis.untranscribed_from
        lost = min(at, len(hypothesis.job.segment.pcm) - 1)
        for piece in done.pieces:
            self.silence(piece.start)
            self.until = max(self.until, piece.start + piece.length)
            while captions and captions[0].start < self.until:
                self._events.append(captions.pop(0))
            start = piece.start + max(lost - piece.offset, 0)
            if hypothesis.reason and start < self.until:
                why = Unrecognised(start, self.until, hypothesis.reason, self.speaker)
                self._events.append(why)
        self._events += captions

    def commit(self, number: int, segment: Segment, commit: Commit) -> None:
        """Words of a segment that goes on, or its end."""
        commit = commit if self._line == number else _opened(commit)
        committed = bool(commit.words) or self._line == number
        self._line = number if committed and not commit.final else None
        first = commit.words[0].start if commit.words else None
        at = min(commit.start if first is None else first, len(segment.pcm) - 1)
        start, _ = segment.span(at, at + 1)
        self._reach(segment, start)
        self._events.append(
            Caption(
                segment=number,
                start=start,
                processed_until=max(segment.end(commit.processed), start + 1),
                words=self._placed(commit.words, segment),
                tail=commit.tail,
                final=commit.final,
                language=commit.language,
                speaker=self.speaker,
                scores=commit.scores,
            )
        )

    def end(self, segment: Segment, lost: int | None, reason: str | None) -> None:
        """A segment with commits is over; from sample `lost` on it has no text, for that reason."""
        self._reach(segment, segment.stop)
        if reason and lost is not None and lost < len(segment.pcm):
            start, _ = segment.span(lost, lost + 1)
            self._events.append(Unrecognised(start, segment.stop, reason, self.speaker))

    def detect(self, hypothesis: Hypothesis) -> None:
        """Keep the language once it is sure."""
        code, probability = hypothesis.language, hypothesis.language_probability
        if self.language or code is None or probability is None:
            return
        self._detected.append((code, probability))
        if probability < SURE_LANGUAGE and len(self._detected) < LANGUAGE_SEGMENTS:
            return
        sums: dict[str, float] = {}
        for guess, weight in self._detected:
            sums[guess] = sums.get(guess, 0.0) + weight
        best = max(sums, key=lambda guess: sums[guess])
        self.language = best
        self._events.append(Language(best, sums[best] / len(self._detected)))

    def _reach(self, segment: Segment, until: int) -> None:
        """All of the segment's pieces that begin by then have been decoded."""
        for piece in segment.pieces:
            if piece.start <= until:
                self.silence(piece.start)
                self.until = max(self.until, piece.start + piece.length)

    def _caption(self, span: TextSpan, hypothesis: Hypothesis) -> Caption:
        segment = hypothesis.job.segment
        start, _ = segment.span(span.start, span.start + 1)
        return Caption(
            segment=hypothesis.job.number,
            start=start,
            processed_until=max(segment.end(span.stop), start + 1),
            words=self._placed(span.words, segment),
            language=hypothesis.language,
            speaker=self.speaker,
            scores=span.scores,
        )

    def _placed(self, words: Iterable[Word], segment: Segment) -> tuple[Word, ...]:
        """Words timed in their segment's audio -> the same on the media timeline, none beginning
        before the one ahead of it has ended: hypotheses and neighbours may claim the same audio.
        """
        placed: list[Word] = []
        for word in words:
            if word.start is None or word.end is None:
                placed.append(word)
                continue
            start, end = segment.span(word.start, word.end)
            start = max(start, self._spoken)
            self._spoken = end = max(end, start)
            placed.append(Word(word.text, start, end, word.probability))
        return tuple(placed)


def _opened(commit: Commit) -> Commit:
    """What begins a line, without the mark that a decoder puts before words that go on from the
    line before: that one is said, and final.
    """
    words = list(commit.words)
    while words and words[0].text.lstrip()[:1] in (*CLAUSE_MARKS, ""):
        word = words.pop(0)
        text = word.text.lstrip()
        space = word.text[: len(word.text) - len(text)]
        text = text.lstrip(CLAUSE_MARKS)
        if text.strip():
            words.insert(0, replace(word, text=text if text[0].isspace() else space + text))
    tail = commit.tail
    if not words and tail.lstrip()[:1] in tuple(CLAUSE_MARKS):
        tail = tail.lstrip().lstrip(CLAUSE_MARKS)
    return replace(commit, words=tuple(words), tail=tail)
