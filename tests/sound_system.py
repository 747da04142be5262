"""A sound system for tests, in the place of the module sounddevice. The test drives its time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from media import Signal
from numpy.typing import NDArray


class SoundError(Exception):
    """What PortAudio raises."""


@dataclass
class Input:
    """An input that is plugged in."""

    name: str = "USB Mic"
    rate: int = 16_000
    channels: int = 1
    api: str = "ALSA"
    busy: bool = False  # another program has it
    most: int = 1000  # channels that it really takes


@dataclass
class Stream:
    """An open stream, which the test drives."""

    system: "SoundSystem"
    settings: Mapping[str, Any]
    active: bool = False
    closed: bool = False
    latency: float = 0.0
    buffer: NDArray[np.float32] | None = None  # used again for every block

    def start(self) -> None:
        self.active = True

    def abort(self) -> None:
        self.active = False

    def close(self) -> None:
        self.active, self.closed = False, True

    def give(self, pcm: Signal, *, overflow: bool = False, stamp: float | None = None) -> None:
        """One block [sample, channel], which was recorded up to now."""
        assert self.active
        self.buffer = np.array(pcm, np.float32)
        if stamp is None:
            stamp = self.system.now + 1000 - len(pcm) / self.settings["samplerate"]
        self.settings["callback"](
            self.buffer,
            len(pcm),
            SimpleNamespace(inputBufferAdcTime=stamp),
            SimpleNamespace(input_overflow=overflow),
        )
        self.buffer[:] = np.nan

    def end(self) -> None:
        """It ends by itself, as when the device is pulled out."""
        self.active = False
        self.settings["finished_callback"]()


@dataclass
class SoundSystem:
    """The module, its devices, and a clock."""

    inputs: list[Input]
    default_input: int = 0
    now: float = 100.0  # seconds
    streams: list[Stream] = field(default_factory=list)
    starts: int = 0  # of PortAudio, after the first
    latency: float = 0.0
    on_open: Callable[[], None] = lambda: None
    PortAudioError: type[Exception] = SoundError

    def __post_init__(self) -> None:
        self._known = list(self.inputs)

    @property
    def default(self) -> Any:
        return SimpleNamespace(device=(self.default_input if self._known else -1, 1))

    @property
    def stream(self) -> Stream:
        """The one that was opened last."""
        return self.streams[-1]

    def clock(self) -> float:
        return self.now

    def query_hostapis(self) -> Sequence[Mapping[str, Any]]:
        return [{"name": api} for api in self._apis()]

    def query_devices(self) -> Sequence[Mapping[str, Any]]:
        inputs = [
            {
                "index": index,
                "name": one.name,
                "hostapi": self._apis().index(one.api),
                "default_samplerate": float(one.rate),
                "max_input_channels": one.channels,
            }
            for index, one in enumerate(self._known)
        ]
        speaker = {
            "index": len(inputs),
            "name": "Speaker",
            "hostapi": 0,
            "default_samplerate": 48_000.0,
            "max_input_channels": 0,
        }
        return [*inputs, speaker]

    def InputStream(self, **settings: Any) -> Stream:
        self.on_open()
        wanted = self._known[settings["device"]]
        assert settings["dtype"] == "float32"
        if wanted.busy or wanted not in self.inputs:
            raise SoundError("Device unavailable [PaErrorCode -9985]")
        if settings["channels"] > wanted.most:
            raise SoundError("Invalid number of channels [PaErrorCode -9998]")
        self.streams.append(Stream(self, settings, latency=self.latency))
        return self.stream

    def _terminate(self) -> None:
        assert all(stream.closed for stream in self.streams)

    def _initialize(self) -> None:
        self.starts += 1
        self._known = list(self.inputs)

    def _apis(self) -> list[str]:
        return list(dict.fromkeys(["ALSA", *(one.api for one in self._known)]))

    def play(self, signal: Signal, block: int = 480) -> None:
        """Sound [sample] or [channel, sample] comes in, in real time, cut into blocks."""
        pcm = np.atleast_2d(signal).T
        for first in range(0, len(pcm), block):
            part = pcm[first : first + block]
            self.now += len(part) / self.stream.settings["samplerate"]
            self.stream.give(part)
