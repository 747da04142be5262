"""Events -> one line of JSON each, at once, for programs that read live captions."""

from collections.abc import Callable
from typing import TextIO

from livecap.events import Event
from livecap.output.lines import LINE_BREAKS, record, strict_json
from livecap.output.live_text import Status


class JsonEvents:
    """A `Terminal` for programs. `say` writes a line to standard error."""

    def __init__(self, file: TextIO, *, quiet: bool, say: Callable[[str], None]) -> None:
        self._file = file
        self._quiet = quiet
        self._say = say

    def event(self, event: Event) -> None:
        """The event as an object; see `lines.record`."""
        line = strict_json(record(event)).translate(LINE_BREAKS) + "\n"
        self._file.buffer.write(line.encode("utf-8", "replace"))
        self._file.buffer.flush()

    def status(self, status: Status) -> None:
        """A program measures for itself."""

    def notice(self, text: str) -> None:
        """A line on standard error."""
        if not self._quiet:
            self._say(text)

    def close(self) -> None:
        """Nothing is held back."""
