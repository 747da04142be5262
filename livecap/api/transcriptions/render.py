"""Events of a whole upload -> the body of the answer, in each of OpenAI's formats."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from livecap.api.transcriptions.form import Format, TranscriptionRequest
from livecap.captions import PRESETS
from livecap.events import RATE, Caption, Event, Gap, Language, Unrecognised
from livecap.languages import NAMES
from livecap.output.lines import seam, strict_json
from livecap.output.subtitles import Srt, Vtt
from livecap.output.times import seconds
from livecap.output.verbose_json import segment, timed

UNDETERMINED = "und"  # ISO 639-2, where nothing was said and no language named
JSON = "application/json"
PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class UploadResult:
    """All that came of an upload."""

    events: Sequence[Event]
    duration: int  # samples
    language: str | None = None  # code, if it was known beforehand
    broken: str | None = None  # why not all of it could be decoded

    @property
    def languages(self) -> list[str]:
        """Codes of what was spoken, in order; none where nothing was."""
        if self.language:
            return [self.language]
        captions = (event for event in self.events if isinstance(event, Caption))
        spoken = [one.language for one in captions if one.language and one.text.strip()]
        return list(dict.fromkeys(spoken))


@dataclass(frozen=True, slots=True)
class ResponseBody:
    """What is sent, and what it is."""

    content: bytes
    kind: str  # media type


@dataclass(slots=True)
class Prose:
    """Captions -> their text, with what stands between two stretches of speech.

    What `add` returned so far, joined, is the text, which neither begins nor ends with a space.
    """

    parts: list[str] = field(default_factory=list)
    _last: str = ""  # last character, that of the space held back included
    _space: str = ""  # held back until more text comes
    _segment: int = -1

    def add(self, event: Event) -> str:
        """What an event adds; nothing for most."""
        if not isinstance(event, Caption) or not event.text.strip():
            return ""
        text = event.text if self._last else event.text.lstrip()
        between = seam(self._last, text) if event.segment != self._segment else ""
        added = self._space + between + text
        self._last, self._segment = text[-1], event.segment
        trimmed = added.rstrip()
        self._space = added[len(trimmed) :]
        self.parts.append(trimmed)
        return trimmed

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(self.parts)


class Written:
    """Text or subtitles, as their events come. What `feed` returned so far is final."""

    def __init__(self, asked: TranscriptionRequest) -> None:
        self._prose = Prose()
        self._cues: Srt | Vtt | None = None
        if asked.response_format in ("srt", "vtt"):
            form = Srt if asked.response_format == "srt" else Vtt
            self._cues = form(PRESETS["netflix"])
        self._head = self._cues.head() if self._cues else ""  # not told yet

    def feed(self, events: Iterable[Event]) -> bytes:
        """What they add."""
        add = self._cues.feed if self._cues else self._prose.add
        head, self._head = self._head, ""
        return _encode(head + "".join(map(add, events)))

    def end(self) -> bytes:
        """What is left, once all events have come."""
        if self._cues:
            return _encode(self._head + self._cues.draft())
        return b"\n" if self._prose.text else b""


def kind_of(form: Format) -> str:
    """The media type of a format."""
    if form == "vtt":
        return "text/vtt; charset=utf-8"
    return PLAIN if form in ("srt", "text") else JSON


def render(asked: TranscriptionRequest, result: UploadResult) -> ResponseBody:
    """The answer in the format that was asked for."""
    kind = kind_of(asked.response_format)
    if kind != JSON:
        written = Written(asked)
        return ResponseBody(written.feed(result.events) + written.end(), kind)
    verbose = asked.response_format == "verbose_json"
    payload = _verbose(asked, result) if verbose else _json(asked, result)
    return ResponseBody(_encode(strict_json(payload)), kind)


def prose(events: Iterable[Event]) -> str:
    """The text of all captions."""
    joined = Prose()
    for event in events:
        joined.add(event)
    return joined.text


def missing(result: UploadResult) -> dict[str, object]:
    """What there is no text for, and why, as livecap's own field; nothing where all is well."""
    payload: dict[str, object] = {} if result.broken is None else {"damaged": result.broken}
    for name, kind in (("gaps", Gap), ("unrecognised", Unrecognised)):
        found = [
            {"start": seconds(one.start), "end": seconds(one.end), "reason": one.reason}
            for one in result.events
            if isinstance(one, kind)
        ]
        if found:
            payload[name] = found
    return {"livecap": payload} if payload else {}


def unrecognised(events: Iterable[Event]) -> float:
    """Seconds of speech that there is no text for."""
    return seconds(sum(one.end - one.start for one in events if isinstance(one, Unrecognised)))


def usage(duration: int) -> dict[str, object]:
    """What is counted: seconds of audio, rounded up as OpenAI's API does."""
    return {"type": "duration", "seconds": -(-duration // RATE)}


def language_list(result: UploadResult) -> list[dict[str, str]]:
    """The languages as OpenAI's API tells them."""
    return [{"code": code} for code in result.languages]


def _json(asked: TranscriptionRequest, result: UploadResult) -> dict[str, object]:
    text = prose(result.events)
    if asked.task == "translate":
        return {"text": text, **missing(result)}
    payload = {"text": text, "usage": usage(result.duration), "languages": language_list(result)}
    return {**payload, **missing(result)}


def _verbose(asked: TranscriptionRequest, result: UploadResult) -> dict[str, object]:
    is_translation = asked.task == "translate"
    captions = [one for one in result.events if isinstance(one, Caption) and one.text.strip()]
    payload: dict[str, object] = {
        "task": asked.task,
        "language": "english" if is_translation else _name(_main_language(result)),
        **({} if is_translation else {"languages": language_list(result)}),
        "duration": seconds(result.duration),
        "text": prose(result.events),
    }
    if asked.segments:
        payload["segments"] = [segment(one, number) for number, one in enumerate(captions)]
    if asked.words:
        payload["words"] = [
            {"word": word.text.strip(), "start": seconds(word.start), "end": seconds(word.end)}
            for one in captions
            for word in one.words
            if timed(word) and word.start is not None and word.end is not None
        ]
    payload["usage"] = usage(result.duration)
    return {**payload, **missing(result)}


def _main_language(result: UploadResult) -> str:
    """One code: the language that was kept, else the first one that was spoken."""
    codes = [event.code for event in result.events if isinstance(event, Language)]
    return next(iter(result.languages or codes), UNDETERMINED)


def _name(code: str) -> str:
    """As OpenAI's API has it here: a language's English name. The code stands beside it."""
    return NAMES.get(code, code).lower()


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")
