"""The module sounddevice, loaded on demand -> the inputs of this machine as plain values."""

import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from livecap.errors import AudioError

MOST_CHANNELS = 32  # recorded of one device
PLAUSIBLE = 2  # channels recorded where a device names a limit instead of a count

# What inputs are called that carry the sound which the computer plays, in lower case.
PLAYED = (
    "monitor of ", "monitor von ", "moniteur de ", ".monitor", "loopback", "stereo mix",
    "stereomix", "what u hear", "wave out mix", "blackhole", "soundflower", "vb-cable",
    "cable output",
)  # fmt: skip


class PortAudio(Protocol):
    """What is used of sounddevice."""

    @property
    def default(self) -> Any: ...
    @property
    def PortAudioError(self) -> type[Exception]: ...
    def query_devices(self) -> Sequence[Mapping[str, Any]]: ...
    def query_hostapis(self) -> Sequence[Mapping[str, Any]]: ...
    def InputStream(self, **settings: Any) -> Any: ...

    # Devices that are plugged in later appear only after both, though they are not public: see
    # https://github.com/PortAudio/portaudio/issues/750
    def _terminate(self) -> None: ...
    def _initialize(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Device:
    """An input of this machine."""

    index: int  # PortAudio's, until devices come or go
    name: str
    api: str  # the interface of the system that it is reached by
    rate: int  # Hz, its own
    channels: int
    default: bool
    loopback: bool  # it carries what the computer plays
    source: str = ""  # what a sound server behind it is asked for, as in PULSE_SOURCE

    @property
    def title(self) -> str:
        """Its name in messages."""
        return f"system audio ({self.name})" if self.source else self.name

    @property
    def model(self) -> str:
        """Its name without ALSA's number of the card, which changes when it is plugged in again."""
        return re.sub(r" \(hw:[\d,]+\)$", "", self.name)

    @property
    def counts(self) -> list[int]:
        """Channels to open it with: the first count that it takes."""
        limit = min(self.channels, MOST_CHANNELS)
        if self.api == "ALSA" and "(hw:" not in self.name and self.channels >= MOST_CHANNELS:
            limit = PLAUSIBLE  # a plugin in front of a card or server; it takes any count
        return [limit, *(count for count in (2, 1) if count < limit)]


def load_portaudio() -> PortAudio:
    """sounddevice. Where it or the library below it is missing, AudioError says what to install."""
    try:
        loaded: Any = importlib.import_module("sounddevice")
    except ImportError:
        raise AudioError(
            "Microphones need the package sounddevice", remedy="Run: pip install 'livecap[mic]'"
        ) from None
    except OSError as error:
        remedy = "Run: pip install --force-reinstall sounddevice"
        if sys.platform == "linux":
            remedy = "Run: apt-get install libportaudio2"
        raise AudioError(f"Microphones need PortAudio: {error}", remedy=remedy) from None
    module: PortAudio = loaded  # it has no types of its own
    return module


def devices(sd: PortAudio) -> list[Device]:
    """All inputs, as they were when PortAudio was initialised."""
    apis = [str(api["name"]) for api in sd.query_hostapis()]
    default = int(sd.default.device[0])  # -1: none
    return [
        Device(
            index=int(found["index"]),
            name=" ".join(str(found["name"]).split()),
            api=apis[found["hostapi"]],
            rate=round(found["default_samplerate"]),
            channels=int(found["max_input_channels"]),
            default=found["index"] == default,
            loopback=any(word in str(found["name"]).lower() for word in PLAYED),
        )
        for found in sd.query_devices()
        if found["max_input_channels"] > 0
    ]
