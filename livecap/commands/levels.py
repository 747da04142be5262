"""Inputs -> a table for a person, and how loud each one is right now."""

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from livecap.audio.portaudio import Device, PortAudio
from livecap.commands.models import WIDE
from livecap.log import printable

if TYPE_CHECKING:
    from rich.table import Table

FLOOR = -60  # dBFS at which a bar is empty
BAR = 24  # characters of a full one
EVERY = 0.1  # seconds between two looks
PEAKS = 50  # blocks of a stream that nobody has looked at


class Meter:
    """The level of one input since the last look, or why there is none."""

    def __init__(self, sd: PortAudio, device: Device) -> None:
        self._peaks: deque[float] = deque(maxlen=PEAKS)  # the callback's thread adds, ours takes
        self._stream: Any = None  # open, or None
        self._error = ""  # why it is not
        for channels in device.counts:
            try:
                self._stream = sd.InputStream(
                    device=device.index,
                    samplerate=device.rate,
                    channels=channels,
                    dtype="float32",
                    callback=self._hear,
                )
                self._stream.start()
            except (sd.PortAudioError, ValueError) as error:
                self._error = str(error)
                self.close()
            else:
                self._error = ""
                break

    def _hear(self, data: NDArray[np.float32], frames: int, times: Any, status: Any) -> None:
        self._peaks.append(float(np.abs(data).max(initial=0.0)))

    def look(self) -> str:
        """A bar with its number, the error, or nothing if no audio has come."""
        peaks = [self._peaks.popleft() for _ in range(len(self._peaks))]
        return bar(max(peaks)) if peaks else self._error

    def close(self) -> None:
        """Release the device. Safe to call twice."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def bar(peak: float) -> str:
    """The largest magnitude, full scale 1 -> a bar and dBFS."""
    if not peak > 0 or math.isinf(peak):
        return "." * BAR + " silent"
    decibels = 20 * math.log10(peak)
    filled = round(BAR * min(max(1 - decibels / FLOOR, 0.0), 1.0))
    return "#" * filled + "." * (BAR - filled) + f" {decibels:.0f} dBFS"


def table(found: Sequence[Device], levels: Sequence[str] | None = None) -> "Table":
    """A row a device."""
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    shown.add_column("index", justify="right")
    shown.add_column("name", overflow="fold")
    shown.add_column("system")
    shown.add_column("rate", justify="right", no_wrap=True)
    shown.add_column("channels", justify="right")
    shown.add_column("marks", no_wrap=True)
    if levels is not None:
        shown.add_column("level")
    for number, device in enumerate(found):
        marks = ["default"] * device.default + ["loopback"] * device.loopback
        shown.add_row(
            str(device.index),
            _safe(device.name),
            device.api,
            f"{device.rate} Hz",
            str(device.channels),
            ", ".join(marks),
            *([] if levels is None else [_safe(levels[number])]),
        )
    return shown


def show_devices(found: Sequence[Device]) -> None:
    """The table on standard output, whole where that is no terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDE
    Console(width=width, markup=False, highlight=False).print(table(found))


def watch_levels(
    sd: PortAudio, found: Sequence[Device], pause: Callable[[float], object] = time.sleep
) -> None:
    """The table with levels on standard output, a terminal, until Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    meters: list[Meter] = []
    console = Console(markup=False, highlight=False)
    try:
        for device in found:
            meters.append(Meter(sd, device))
        with Live(table(found), console=console, auto_refresh=False) as live:
            while True:
                pause(EVERY)
                live.update(table(found, [meter.look() for meter in meters]), refresh=True)
    except KeyboardInterrupt:
        pass
    finally:
        for meter in meters:
            meter.close()


def _safe(text: str) -> str:
    """In characters that standard output has."""
    encoding = sys.stdout.encoding or "utf-8"
    return printable(text).encode(encoding, "backslashreplace").decode(encoding)
