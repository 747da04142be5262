"""Events -> SubRip and WebVTT. No I/O."""

from collections.abc import Sequence

from livecap.cues import Cue, Layout, Voices
from livecap.events import (
    Caption,
    Event,
    Gap,
    Language,
    Pace,
    Settled,
    Silence,
    Stalled,
    Unrecognised,
    Voice,
)
from livecap.sinks.times import clock

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
    def fast(self) -> int:
        """Cues so far that ask for more than the layout's reading speed."""
        return self._shaper.fast + sum(cue.fast for cue in self._shaper.draft())

    def draft(self) -> str:
        """The cues that follow if nothing more comes."""
        return self._render(self._shaper.draft())

    def _render(self, cues: Sequence[Cue]) -> str:
        return "".join(
            f"{number}\n{clock(cue.start, ',')} --> {clock(cue.end, ',')}\n{_srt_text(cue)}\n\n"
            for number, cue in enumerate(cues, self._count + 1)
        )


class Vtt:
    """WebVTT: escaped text, speakers as voice tags, a note where times are estimated."""

    def __init__(self, layout: Layout) -> None:
        self._shaper = Voices(layout)
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
    def fast(self) -> int:
        """Cues so far that ask for more than the layout's reading speed."""
        return self._shaper.fast + sum(cue.fast for cue in self._shaper.draft())

    def draft(self) -> str:
        """The cues that follow if nothing more comes."""
        return self._render(self._shaper.draft())

    def _render(self, cues: Sequence[Cue]) -> str:
        text, estimated = "", self._estimated
        for cue in cues:
            if cue.estimated != estimated:
                estimated = cue.estimated
                text += ESTIMATED if estimated else MEASURED
            text += f"{clock(cue.start, '.')} --> {clock(cue.end, '.')}\n{_vtt_text(cue)}\n\n"
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
        case Language() | Pace() | Voice() | Settled() | Stalled():
            return []


def _srt_text(cue: Cue) -> str:
    # SubRip can't escape, and readers look for the arrow anywhere
    return "\n".join(cue.lines).replace("-->", "->")


def _vtt_text(cue: Cue) -> str:
    if not cue.speakers:
        return _voiced(cue.speaker, "\n".join(cue.lines))
    rows = zip(cue.speakers, cue.lines, strict=True)
    return "\n".join(_voiced(speaker, line) for speaker, line in rows)


def _voiced(speaker: str | None, text: str) -> str:
    voice = " ".join((speaker or "").split())
    return (f"<v {_escaped(voice)}>" if voice else "") + _escaped(text)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
