"""Events -> a terminal: committed text scrolls away above, and below it stands the region.

The region is the line that is not full yet, the tail, and the state of the run. The cursor rests
at its upper left corner, and a new frame erases everything from there: so nobody has to know how
many rows the old frame takes by now. After the window was resized that is another number, and not
the same on terminals that wrap their rows anew as on those that crop them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from livecap.output.live_text import (
    Status,
    account,
    crop,
    isolated,
    label,
    letters,
    plain,
    runs_from_right,
    split,
    status_line,
    wrap,
)

if TYPE_CHECKING:
    from rich.console import Console

EVERY = 0.1  # seconds between two frames, at least
TAIL = "dim italic"  # and in brackets, for those who see neither
ASIDE = "dim"  # what nobody said

ERASE = "\x1b[?25l\r\x1b[J"  # no cursor, and nothing from the region's first row on
CROP, FLOW = "\x1b[?7l", "\x1b[?7h"  # a row of the region stays one, however wide it turns out
CURSOR = "\x1b[?25h"


@dataclass(slots=True)
class ScreenLine:
    """One speaker's line that may still grow."""

    segment: int | None = None
    text: str = ""  # committed, and not above the region yet
    tail: str = ""
    fresh: bool = True  # nothing of the segment is above the region


class Screen:
    """Live captions on a terminal with a cursor that moves."""

    def __init__(
        self,
        console: "Console",
        *,
        quiet: bool,
        no_partials: bool,
        say: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._console = console
        self._quiet = quiet
        self._no_partials = no_partials
        self._say = say
        self._clock = clock
        self._lines: dict[str | None, ScreenLine] = {}  # by speaker
        self._above = ""  # painted rows that are to stand above the region
        self._last: str | None = None  # whose text went there last
        self._status: Status | None = None
        self._language: str | None = None  # the last that was detected
        self._shown: object = None  # the frame on the screen, and the size it was made for
        self._due = -math.inf  # seconds on the clock before which no frame goes out
        self._closed = False

    def event(self, event: Event) -> None:
        """Shows what was said, or that there is no text."""
        match event:
            case Caption():
                self._caption(event)
            case Silence():
                self._drop_tail(event.speaker)
            case Stalled():
                self.notice(account(event))
            case Language() if event.code != self._language:
                self._language = event.code
                self.notice(account(event))
            case Gap() | Unrecognised():
                self._missing(event)
            case Language() | PaceChange() | VoiceActivity() | Settled():
                pass
        self._frame()

    def status(self, status: Status) -> None:
        """Shows the state of the run, and what was held back."""
        self._status = status
        self._frame()

    def notice(self, text: str) -> None:
        """A line on standard error, which may be this very terminal."""
        if self._quiet:
            return
        if not self._closed:
            self._send(ERASE + self._above)
            self._above, self._shown, self._due = "", None, -math.inf
        self._say(text)
        self._frame()

    def close(self) -> None:
        """All committed text stands on the terminal, and nothing else."""
        if self._closed:
            return
        self._closed = True
        for speaker, line in self._lines.items():
            self._lift(speaker, line, whole=True)
        self._send(ERASE + self._above + CURSOR)

    def _caption(self, event: Caption) -> None:
        line = self._lines.setdefault(event.speaker, ScreenLine())
        if line.segment != event.segment:
            self._lift(event.speaker, line, whole=True)
            line.segment = event.segment
        line.text += self._clean(event.text)
        line.tail = "" if self._no_partials else self._clean(event.tail)
        self._lift(event.speaker, line, whole=event.final)

    def _missing(self, event: Gap | Unrecognised) -> None:
        """A line where there is no text, after all text that came before it."""
        if isinstance(event, Unrecognised):
            self._drop_tail(event.speaker)
        if self._quiet:
            return
        for speaker, line in self._lines.items():
            self._lift(speaker, line, whole=True)
        rows = wrap(self._clean(f"({account(event)})"), self._limit)
        self._above += "".join(self._paint(row, ASIDE) + "\n" for row in rows)

    def _drop_tail(self, speaker: str | None) -> None:
        if speaker in self._lines:
            self._lines[speaker].tail = ""

    def _lift(self, speaker: str | None, line: ScreenLine, *, whole: bool) -> None:
        """Full rows go above the region; with `whole`, all committed text, and the line is new."""
        if line.text.strip():
            rows = wrap(self._known(speaker, line), self._limit)
            rest = "" if whole else rows.pop()
            if rows:
                self._above += "".join(f"{self._ordered(row, row, speaker)}\n" for row in rows)
                line.text = rest + line.text[len(line.text.rstrip()) :]
                line.fresh = False
                self._last = speaker
        if whole:
            line.text, line.fresh = "", True

    def _known(self, speaker: str | None, line: ScreenLine) -> str:
        """The committed text; before it a label, for a new segment or if another spoke between."""
        if not line.fresh and speaker == self._last:
            return line.text
        return self._label(speaker) + line.text.lstrip()

    def _label(self, speaker: str | None) -> str:
        return label(crop(self._clean(speaker or "").strip(), self._limit // 2 - 2))

    def _ordered(self, row: str, painted: str, speaker: str | None) -> str:
        """A painted row whose text runs its own way, whatever the label before it does."""
        if not runs_from_right(row):
            return painted
        name = self._label(speaker)
        head = name if painted.startswith(name) else ""
        return head + isolated(painted[len(head) :])

    def _frame(self) -> None:
        """What has changed goes out, unless the last frame is too young."""
        now = self._clock()
        if now < self._due or self._closed:
            return
        for speaker, line in self._lines.items():
            self._lift(speaker, line, whole=False)  # the window may be narrower now
        size = self._console.size
        region = self._region(size.height)
        if not self._above and self._shown == (size, region):
            return
        up = f"\x1b[{len(region) - 1}A" if len(region) > 1 else ""
        self._send(ERASE + self._above + CROP + "\n".join(region) + FLOW + "\r" + up)
        self._above, self._shown, self._due = "", (size, region), now + EVERY

    def _region(self, height: int) -> list[str]:
        """The rows of the region, painted; at most `height`."""
        state = ""
        if self._status and not self._quiet and height > 2:
            language = self._status.language or self._language
            state = self._clean(status_line(self._status, language, self._limit))
        max_rows = height - bool(state)
        spoken = [
            (who, line) for who, line in self._lines.items() if (line.text + line.tail).strip()
        ]
        share = max(1, max_rows // max(1, len(spoken)))
        rows = [row for who, line in spoken for row in self._rows(who, line, share)][-max_rows:]
        return [*rows, self._paint(state, ASIDE)] if state else rows

    def _rows(self, speaker: str | None, line: ScreenLine, max_rows: int) -> list[str]:
        """A line and its tail in at most `most` rows, painted; of a long tail, the end."""
        known = self._known(speaker, line)
        space = " " if line.text and line.tail[:1].isspace() else ""
        tail, opening = line.tail.strip(), "["
        while True:
            marked = f"{space}{opening}{tail}]" if tail else ""
            rows = wrap(known + marked, self._limit)
            if len(rows) <= max_rows or not tail:
                break
            opening, tail = "[...", tail[len(tail) // 8 + 1 :].strip()
        left = letters(known)
        painted = []
        for row in rows:
            committed, unsure = split(row, left)
            left -= letters(committed)
            painted.append(self._ordered(row, committed + self._paint(unsure, TAIL), speaker))
        return painted[-max_rows:]

    @property
    def _limit(self) -> int:
        """Columns of a row: all but one, as not every terminal knows when a full row ends."""
        return max(1, self._console.size.width - 1)

    def _clean(self, text: str) -> str:
        """Text that can't move the cursor and that the terminal's encoding can write."""
        encoding = self._console.encoding
        return plain(text).encode(encoding, "backslashreplace").decode(encoding)

    def _paint(self, text: str, style: str) -> str:
        """Text with the codes of a style, as far as this terminal has it."""
        from rich.text import Text

        if not text:
            return ""
        with self._console.capture() as painted:
            self._console.print(Text(text, style), soft_wrap=True, end="")
        return painted.get()

    def _send(self, text: str) -> None:
        """One write, not through the console: that one ends the process when a pipe breaks."""
        self._console.file.write(text)
        self._console.file.flush()
