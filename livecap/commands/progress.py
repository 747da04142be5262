"""How far a run is, on standard error: a bar on a terminal, lines elsewhere, nothing when quiet."""

import sys
import time
from typing import Protocol

from livecap.events import RATE
from livecap.log import printable, report
from livecap.runtime.runs import Progress

EVERY = 10.0  # seconds between two lines where there is no terminal


class Display(Protocol):
    """Where a run is reported."""

    def update(self, progress: Progress) -> None:
        """A file has moved on."""

    def say(self, text: str) -> None:
        """A line of its own."""

    def close(self) -> None:
        """The run is over."""


def open_display(*, quiet: bool, files: int) -> Display:
    """The display that suits standard error."""
    if quiet:
        return Quiet()
    return Bar(files) if sys.stderr.isatty() else ProgressLines()


class Quiet:
    """Says nothing; errors are reported elsewhere."""

    def update(self, progress: Progress) -> None: ...

    def say(self, text: str) -> None: ...

    def close(self) -> None: ...


class ProgressLines:
    """A line now and then."""

    def __init__(self) -> None:
        self._begun = self._last = time.monotonic()
        self._done: dict[str, int] = {}

    def update(self, progress: Progress) -> None:
        self._done[progress.path] = progress.done
        now = time.monotonic()
        if progress.state != "running" or now - self._last < EVERY:
            return
        self._last = now
        speed = sum(self._done.values()) / RATE / (now - self._begun)
        share = ""
        if progress.duration:
            left = (progress.duration - progress.done) / RATE / speed if speed else 0.0
            share = f" of {clock(progress.duration)}, about {left:.0f} s left"
        report(f"{progress.path}: {clock(progress.done)}{share}, {speed:.0f} times real time")

    def say(self, text: str) -> None:
        report(text)

    def close(self) -> None: ...


class Bar:
    """A bar a file that is under way, with speed and time left."""

    def __init__(self, files: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._rich = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}
        self._begun = time.monotonic()
        self._done: dict[str, int] = {}
        self._rich.start()

    def update(self, progress: Progress) -> None:
        path = progress.path
        self._done[path] = progress.done
        if progress.state != "running":
            if path in self._tasks:
                self._rich.remove_task(self._tasks.pop(path))
            return
        if path not in self._tasks:
            self._tasks[path] = self._rich.add_task(printable(path), total=None, speed="")
        speed = sum(self._done.values()) / RATE / max(time.monotonic() - self._begun, 1e-3)
        self._rich.update(
            self._tasks[path],
            completed=progress.done,
            total=progress.duration,
            speed=f"{speed:.0f} x",
        )

    def say(self, text: str) -> None:
        self._rich.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._rich.stop()


def clock(samples: int) -> str:
    """Samples -> h:mm:ss."""
    seconds = samples // RATE
    return f"{seconds // 3600}:{seconds % 3600 // 60:02}:{seconds % 60:02}"
