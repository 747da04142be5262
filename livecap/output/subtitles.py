"""Events -> SubRip and WebVTT. No I/O."""

from collections.abc import Sequence

from livecap.captions import Cue, Layout, Unmet, Voices
from livecap.events import (
    Caption,
    Event,
    Gap,
    Language,
    PaceChange,
    Settled,
    Silence,
    Stalled,
    Unrecognised,
    VoiceActivity,
)
from livecap.output.times import clock, milliseconds

MEASURED = "NOTE times from here on are measured\n\n"
ESTIMATED = "NOTE times from here on are estimated\n\n"


class Srt:
    """SubRip: cues numbered from 1, a comma before the milliseconds, speakers as 'Name: '."""

    def __init__(self, layout: Layout) -> None:
        self._shaper = Voices(layout, label=True)
        self._count = 0  # cues given out for good

    def head(self) -> str:
        return ""

    def feed(self, event: Event) -> str:
        """The cues to append for good."""
        cues = settled(self._shaper, event)
        text = self._render(cues)
        self._count += len(cues)
        return text

    @property
    def unmet(self) -> Unmet:
        """Cues so far that don't keep the layout's rules."""
        return self._shaper.unmet

    def draft(self) -> str:
        """The cues that follow if nothing more comes."""
        return self._render(self._shaper.draft())

    def _render(self, cues: Sequence[Cue]) -> str:
        return "".join(
            f"{number}\n{clock(cue.start, ',')} --> {clock(cue.end, ',')}\n{_srt_text(cue)}\n\n"
            for number, cue in enumerate(cues, self._count + 1)
        )


class Vtt:
    """WebVTT: escaped text, speakers as voice tags, a note where times are estimated. With `words`,
    each word that is known to begin inside its cue has that time before it.
    """

    def __init__(self, layout: Layout, *, words: bool = False) -> None:
        self._shaper = Voices(layout)
        self._words = words
        self._estimated = False  # what the last note said; measured is the rule

    def head(self) -> str:
        return "WEBVTT\n\n"

    def feed(self, event: Event) -> str:
        """The cues to append for good."""
        cues = settled(self._shaper, event)
        text = self._render(cues)
        self._estimated = cues[-1].estimated if cues else self._estimated
        return text

    @property
    def unmet(self) -> Unmet:
        """Cues so far that don't keep the layout's rules."""
        return self._shaper.unmet

    def draft(self) -> str:
        """The cues that follow if nothing more comes."""
        return self._render(self._shaper.draft())

    def _render(self, cues: Sequence[Cue]) -> str:
        text, estimated = "", self._estimated
        for cue in cues:
            if cue.estimated != estimated:
                estimated = cue.estimated
                text += ESTIMATED if estimated else MEASURED
            text += f"{clock(cue.start, '.')} --> {clock(cue.end, '.')}\n"
            text += f"{_vtt_text(cue, words=self._words)}\n\n"
        return text


def settled(shaper: Voices, event: Event) -> list[Cue]:
    """The cues that an event makes final. Only captions have text."""
    match event:
        case Caption():
            return shaper.feed(event)
        case Silence() | Unrecognised():  # of one speaker; another may not be silent
            return shaper.pause(event.start, event.end, event.speaker)
        case Gap():
            return shaper.pause(event.start, event.end)
        case Language() | PaceChange() | VoiceActivity() | Settled() | Stalled():
            return []


def _srt_text(cue: Cue) -> str:
    # SubRip can't escape, and readers look for the arrow anywhere
    return "\n".join(cue.lines).replace("-->", "->")


def _vtt_text(cue: Cue, *, words: bool) -> str:
    rows = _with_times(cue) if words else [_escaped(line) for line in cue.lines]
    if not cue.speakers:
        return _voiced(cue.speaker, "\n".join(rows))
    pairs = zip(cue.speakers, rows, strict=True)
    return "\n".join(_voiced(speaker, row) for speaker, row in pairs)


def _with_times(cue: Cue) -> list[str]:
    """Escaped lines with the times of words, each later than the one before and inside the cue."""
    rows, last, end = list[str](), milliseconds(cue.start), milliseconds(cue.end)
    for line, marks in zip(cue.lines, cue.marks, strict=True):
        row, done = "", 0
        for at, sample in marks:
            if last < milliseconds(sample) < end:
                row += f"{_escaped(line[done:at])}<{clock(sample, '.')}>"
                done, last = at, milliseconds(sample)
        rows.append(row + _escaped(line[done:]))
    return rows


def _voiced(speaker: str | None, text: str) -> str:
    """Escaped text after its speaker's tag."""
    voice = " ".join((speaker or "").split())
    return (f"<v {_escaped(voice)}>" if voice else "") + text


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
