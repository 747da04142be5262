"""The answer to an upload -> events, as a model here would have told them.

Source: OpenAI's API, `verbose_json` and `json` of transcriptions; `livecap` is ours.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from livecap.client.conversation import spoken
from livecap.client.transcript import words_of
from livecap.client.wire import Frame, inner, number, objects, samples, text
from livecap.errors import ConfigError
from livecap.events import RATE, Caption, Event, Gap, Scores, Silence, Unrecognised
from livecap.languages import language_code

APART = RATE * 6 // 10  # samples: shorter silences lie within what is kept around speech
UNKNOWN = "und"  # as livecap's server writes a language where nothing was said


@dataclass(frozen=True, slots=True)
class UploadAnswer:
    """What a server makes of a file."""

    events: Sequence[Event]
    duration: int  # samples
    silence: float  # share of it without text
    damage: str | None  # why not all of it could be decoded


def read(body: Frame, language: str | None) -> UploadAnswer:
    """The JSON of an answer. `language`: the code of the one that was asked for."""
    if language is None and text(body, "task") != "translate":
        language = _code(text(body, "language")) or next(
            (text(one, "code") for one in objects(body, "languages")), None
        )
    captions = list(_captions(body, language))
    duration = samples(number(body, "duration")) or _counted(body)
    duration = duration or max((one.processed_until for one in captions), default=0)
    events = _in_order([*captions, *_missing(body)], duration)
    silent = sum(one.end - one.start for one in events if isinstance(one, Silence))
    damage = text(inner(body, "livecap"), "damaged") or None
    return UploadAnswer(events, duration, silent / duration if duration else 0.0, damage)


def _captions(body: Frame, language: str | None) -> Iterator[Caption]:
    segments = objects(body, "segments")
    committed = text(body, "text")
    if not segments and committed.strip():  # a server that tells no times
        yield Caption(
            0, 0, _counted(body) or 1, tuple(words_of(committed, (), _same)), language=language
        )
    words = deque(spoken(body))
    for index, segment in enumerate(segments):
        start, end = _stretch(segment)
        own = []
        while words and (words[0][1] is None or words[0][1] < end):
            own.append(words.popleft())
        if text(segment, "text").strip():
            yield Caption(
                segment=index,
                start=start,
                processed_until=max(end, start + 1),
                words=tuple(words_of(text(segment, "text"), own, _same)),
                language=language,
                scores=_scores(segment),
            )


def _counted(body: Frame) -> int:
    """Samples, by whole seconds and rounded up; 0 if that is not told."""
    return samples(number(inner(body, "usage"), "seconds")) or 0


@dataclass(slots=True)
class _Row:
    """Events in the order of time, and silence between them."""

    events: list[Event] = field(default_factory=list)
    until: int = 0

    def add(self, event: Caption | Gap | Unrecognised) -> None:
        self.reach(event.start)
        self.events.append(event)
        self.until = max(
            self.until, event.processed_until if isinstance(event, Caption) else event.end
        )

    def reach(self, to: int) -> None:
        if to - self.until >= APART:
            self.events.append(Silence(self.until, to))
        self.until = max(self.until, to)


def _in_order(payload: Sequence[Caption | Gap | Unrecognised], duration: int) -> list[Event]:
    row = _Row()
    for event in sorted(payload, key=lambda one: one.start):
        row.add(event)
    if duration > row.until:
        row.events.append(Silence(row.until, duration))
    return row.events


def _missing(body: Frame) -> Iterator[Gap | Unrecognised]:
    """What livecap's server has no text for, and why."""
    own = inner(body, "livecap")
    for one in objects(own, "gaps"):
        yield Gap(*_stretch(one), text(one, "reason"))
    for one in objects(own, "unrecognised"):
        yield Unrecognised(*_stretch(one), text(one, "reason"))


def _stretch(one: Frame) -> tuple[int, int]:
    start = samples(number(one, "start")) or 0
    return start, max(samples(number(one, "end")) or 0, start)


def _scores(segment: Frame) -> Scores | None:
    """How the decoder judged its text; None from those who say nothing but zeros."""
    tokens = segment.get("tokens")
    scores = Scores(
        tokens=tuple(one for one in tokens if isinstance(one, int))
        if isinstance(tokens, list)
        else (),
        temperature=number(segment, "temperature") or 0.0,
        average_logprob=number(segment, "avg_logprob") or 0.0,
        compression_ratio=number(segment, "compression_ratio") or 0.0,
        no_speech_probability=number(segment, "no_speech_prob") or 0.0,
    )
    return None if scores == Scores((), 0.0, 0.0, 0.0, 0.0) else scores


def _code(name: str) -> str | None:
    """A language as servers write it, which may be its English name -> its code, if it has one."""
    if not name or name == UNKNOWN:
        return None
    try:
        return language_code(name)
    except ConfigError:
        return None


def _same(start: int, end: int) -> tuple[int, int]:
    return start, end
