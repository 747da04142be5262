"""Events -> plain text, tab-separated values, or JSON lines. No I/O."""

import json
import math
from types import MappingProxyType
from unicodedata import category

from livecap.captions.width import unspaced
from livecap.events import (
    Caption,
    Event,
    Gap,
    Language,
    PaceChange,
    Scores,
    Settled,
    Silence,
    Stalled,
    Unrecognised,
    VoiceActivity,
    Word,
)
from livecap.output.times import milliseconds, seconds, span

# White space in JSON, but the end of a line to some readers of JSON lines.
LINE_BREAKS = MappingProxyType({0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"})


class Text:
    """One line a stretch of speech: captions that continue one another share a line."""

    def __init__(self) -> None:
        self._open: tuple[int, str | None] | None = None  # segment and speaker of an open line

    def head(self) -> str:
        return ""

    def feed(self, event: Event) -> str:
        """The text to append for good. The tail, and events without words, give none."""
        if not isinstance(event, Caption):
            return ""
        key = (event.segment, event.speaker)
        text, written = one_line(event.text), ""
        if text.strip():
            if key == self._open:
                written = text.rstrip()
            else:
                label = one_line(event.speaker or "").strip()
                written = self.draft() + (f"{label}: " if label else "") + text.strip()
                self._open = key
        if event.final and key == self._open:
            written += "\n"
            self._open = None
        return written

    def draft(self) -> str:
        """What completes the text if nothing more comes."""
        return "\n" if self._open else ""


class Tsv:
    """openai-whisper's columns: start and end in whole milliseconds, text."""

    def head(self) -> str:
        return "start\tend\ttext\n"

    def feed(self, event: Event) -> str:
        """One row for a caption with words."""
        if not isinstance(event, Caption) or not event.text.strip():
            return ""
        start, end = span(event)
        text = one_line(event.text).strip()
        return f"{milliseconds(start)}\t{milliseconds(end)}\t{text}\n"

    def draft(self) -> str:
        return ""


class JsonLinesFormat:
    """Every event, one JSON object a line; times in seconds."""

    def head(self) -> str:
        return ""

    def feed(self, event: Event) -> str:
        return strict_json(record(event)).translate(LINE_BREAKS) + "\n"

    def draft(self) -> str:
        return ""


def record(event: Event) -> dict[str, object]:
    """An event as JSON data. `type` is the event's name."""
    if isinstance(event, Caption):
        return _caption(event)
    if isinstance(event, Language):
        return {"type": "language", "code": event.code, "probability": number(event.probability)}
    if isinstance(event, PaceChange):
        payload = {"at": seconds(event.start), "lag": seconds(event.lag), "behind": event.behind}
        return {"type": "pace", **payload}
    if isinstance(event, VoiceActivity):
        return {"type": "voice", "at": seconds(event.start), "begins": event.begins}
    if isinstance(event, Settled):
        return {"type": "settled", "at": seconds(event.start), "paused": event.paused}
    return _stretch(event)


def word_record(word: Word) -> dict[str, object]:
    """A word as JSON data, the white space around it taken off; null for what is unknown."""
    return {
        "word": word.text.strip(),
        "start": None if word.start is None else seconds(word.start),
        "end": None if word.end is None else seconds(word.end),
        "probability": None if word.probability is None else number(word.probability),
    }


def strict_json(data: object) -> str:
    """Compact JSON. Raises ValueError for NaN and infinity: use `number` on measured values."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def number(value: float) -> float | None:
    """The value rounded to what it can mean, or None where JSON has no form for it."""
    return round(float(value), 6) if math.isfinite(value) else None


def one_line(text: str) -> str:
    """The text with tabs and all that ends a line as spaces, and without control characters."""
    return "".join(" " if c.isspace() else c for c in text if c.isspace() or category(c) != "Cc")


def seam(before: str, after: str) -> str:
    """What stands between the texts of two stretches: a space, unless one has it or needs none."""
    if not before or not after or before[-1].isspace() or after[0].isspace():
        return ""
    return "" if unspaced(before[-1]) or unspaced(after[0]) else " "


def _caption(event: Caption) -> dict[str, object]:
    start, end = span(event)
    return {
        "type": "caption",
        "segment": event.segment,
        "start": seconds(start),
        "end": seconds(end),
        "heard": seconds(event.processed_until),
        "text": event.text,
        "tail": event.tail,
        "final": event.final,
        "language": event.language,
        "speaker": event.speaker,
        "words": [word_record(word) for word in event.words],
        **({} if event.scores is None else {"scores": scores_record(event.scores)}),
    }


def _stretch(event: Silence | Gap | Stalled | Unrecognised) -> dict[str, object]:
    found: dict[str, object] = {"start": seconds(event.start), "end": seconds(event.end)}
    match event:
        case Silence():
            return {"type": "silence", **found, "speaker": event.speaker}
        case Gap():
            return {"type": "gap", **found, "reason": event.reason}
        case Stalled():
            found["voiced"] = seconds(event.voiced)
            return {"type": "stalled", **found, "speaker": event.speaker}
        case Unrecognised():
            reason, speaker = event.reason, event.speaker
            return {"type": "unrecognised", **found, "reason": reason, "speaker": speaker}


def scores_record(scores: Scores) -> dict[str, object]:
    """The decoder's judgement under the names of OpenAI's verbose_json."""
    return {
        "temperature": number(scores.temperature),
        "avg_logprob": number(scores.average_logprob),
        "compression_ratio": number(scores.compression_ratio),
        "no_speech_prob": number(scores.no_speech_probability),
    }
