"""Events -> SubRip and WebVTT. No I/O."""

from collections.abc import Sequence

from livecap.cues import Cue, Layout, Shaper
from livecap.events import (
    Caption,
    Event,
    Gap,
    Language,
    Pace,
    Settled,
    Silence,
    Unrecognised,
    Voice,
)
from livecap.sinks.times import clock

MEASURED = "NOTE times from here on are measured\n\n"
ESTIMATED = "NOTE times from here on are estimated\n\n"


class Srt:
    """SubRip: cues numbered from 1, a comma before the milliseconds, speakers as 'Name: '."""

    def __init__(self, layout: Layout) -> None:
        self._shaper = Shaper(layout, label=True)
        self._count = 0  # cues given out for good

    def head(self) -> str:
        return ""

    def feed(self, event: Event) -> str:
        """The cues to append for good."""
        cues = settled(self._shaper, event)
        text = self._render(cues)
        self._count += len(cues)
        return text

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
        self._shaper = Shaper(layout)
        self._estimated = False  # what the last note said; measured is the rule

    def head(self) -> str:
        return "WEBVTT\n\n"

    def feed(self, event: Event) -> str:
        """The cues to append for good."""
        cues = settled(self._shaper, event)
        text = self._render(cues)
        self._estimated = cues[-1].estimated if cues else self._estimated
        return text

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


def settled(shaper: Shaper, event: Event) -> list[Cue]:
    """The cues that an event makes final. Only captions have text."""
    match event:
        case Caption():
            return shaper.feed(event)
        case Silence(speaker=None) | Gap() | Unrecognised(speaker=None):
            return shaper.pause(event.start, event.end)
        case Silence() | Unrecognised() | Language() | Pace() | Voice() | Settled():
            return []  # one channel is silent; another may not be


def _srt_text(cue: Cue) -> str:
    # SubRip can't escape, and readers look for the arrow anywhere
    return "\n".join(cue.lines).replace("-->", "->")


def _vtt_text(cue: Cue) -> str:
    voice = " ".join((cue.speaker or "").split())
    return (f"<v {_escaped(voice)}>" if voice else "") + _escaped("\n".join(cue.lines))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
