"""Events -> live captions: a screen on a terminal, one line a stretch of speech elsewhere."""

import sys
import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Protocol, TextIO

from livecap.events import Caption, Event, Language
from livecap.output.live_text import Status, account, label, plain
from livecap.output.screen import Screen, ScreenLine

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["PlainTerminal", "Status", "Terminal", "open_terminal"]


class Terminal(Protocol):
    """Where live captions are shown. For one thread. Raises OSError where the output is gone."""

    def event(self, event: Event) -> None:
        """Something was said, or not."""

    def status(self, status: Status) -> None:
        """The state of the run. To be called often: what is held back (0.1 s) goes out then."""

    def notice(self, text: str) -> None:
        """A line about the run, for standard error."""

    def close(self) -> None:
        """All committed text is out, and the tail is gone. A second time does nothing."""


def open_terminal(
    *,
    quiet: bool,
    no_partials: bool,
    say: Callable[[str], None],
    file: TextIO | None = None,
    console: "Console | None" = None,
    clock: Callable[[], float] = time.monotonic,
) -> Terminal:
    """What suits `file`, by default standard output.

    `quiet` leaves only what was said, `no_partials` leaves out the tail. `say` writes a line to
    standard error. With `console` it is a terminal whatever that writes to; `clock` is in seconds.
    """
    file = file or sys.stdout
    if console is None and file.isatty():
        from rich.console import Console

        console = Console(file=file, force_terminal=True, force_jupyter=False)
    if console is None:
        return PlainTerminal(file, quiet=quiet, say=say)
    if console.is_dumb_terminal or console.legacy_windows:
        return PlainTerminal(console.file, quiet=quiet, say=say)
    return Screen(console, quiet=quiet, no_partials=no_partials, say=say, clock=clock)


class PlainTerminal:
    """One line for each stretch of speech, once it is final."""

    def __init__(self, file: IO[str], *, quiet: bool, say: Callable[[str], None]) -> None:
        self._file = file
        self._quiet = quiet
        self._say = say
        self._lines: dict[str | None, ScreenLine] = {}  # by speaker
        self._language: str | None = None  # the last that was detected

    def event(self, event: Event) -> None:
        """Writes a line when a segment's words are all there."""
        if isinstance(event, Caption):
            self._caption(event)
            return
        if isinstance(event, Language):
            if event.code == self._language:
                return
            self._language = event.code
        self.notice(account(event))

    def status(self, status: Status) -> None:
        """Shows nothing here."""

    def notice(self, text: str) -> None:
        """A line on standard error."""
        if text and not self._quiet:
            self._say(text)

    def close(self) -> None:
        """Writes what no final caption came for."""
        for speaker, line in self._lines.items():
            self._write(speaker, line)

    def _caption(self, event: Caption) -> None:
        line = self._lines.setdefault(event.speaker, ScreenLine())
        if line.segment != event.segment:
            self._write(event.speaker, line)
            line.segment = event.segment
        line.text += event.text
        if event.final:
            self._write(event.speaker, line)

    def _write(self, speaker: str | None, line: ScreenLine) -> None:
        text, line.text = plain(line.text).strip(), ""
        if not text:
            return
        row = f"{label(speaker)}{text}\n"
        binary = getattr(self._file, "buffer", None)  # absent from files that are memory
        if binary is None:
            self._file.write(row)
            self._file.flush()
        else:
            binary.write(row.encode("utf-8", "replace"))  # whatever the locale, as other sinks
            binary.flush()
