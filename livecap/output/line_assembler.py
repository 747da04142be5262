"""Captions of a live stream -> whole lines: what is said until a caption is final. No I/O."""

from dataclasses import dataclass, field

from livecap.events import RATE, Caption, Gap, Word
from livecap.output.lines import word_record


@dataclass(slots=True)
class Spoken:
    """The line that one stream is saying."""

    committed: list[Word] = field(default_factory=list)  # for good
    tail: str = ""  # may still change
    _start: int | None = None  # samples: where it begins
    _language: str | None = None
    _heard: int = 0  # samples

    def take(self, caption: Caption) -> None:
        """Words, and the newest tail."""
        if caption.words and self._start is None:
            self._start = caption.start
        self.committed += caption.words
        self.tail, self._heard = caption.tail, caption.processed_until
        self._language = caption.language or self._language

    def line(self, number: int) -> Caption | None:
        """All of it as one final caption; None if nothing was said."""
        if self._start is None:
            return None
        processed_until = max(self._heard, self._start + 1)
        return Caption(
            number, self._start, processed_until, tuple(self.committed), language=self._language
        )


def described(event: Caption | Gap) -> dict[str, object]:
    """A line as JSON data."""
    if isinstance(event, Gap):
        return {
            "type": "gap",
            "start_ms": event.start * 1000 // RATE,
            "end_ms": event.end * 1000 // RATE,
            "reason": event.reason,
        }
    first, last = event.words[0].start, event.words[-1].end
    return {
        "type": "final",
        "start_ms": (event.start if first is None else first) * 1000 // RATE,
        "end_ms": (event.processed_until if last is None else last) * 1000 // RATE,
        "text": event.text.strip(),
        "language": event.language,
        "words": [{**word_record(word), "text": word.text} for word in event.words],
    }
