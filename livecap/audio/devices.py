"""The inputs of this machine -> the one that is meant, or a list of all: `livecap devices`."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from livecap.audio.portaudio import Device, PortAudio, devices, load_portaudio
from livecap.errors import AudioError, ConfigError

# Windows lists a device once for each of its interfaces; the first one here is taken.
APIS = ("Windows WASAPI", "Windows DirectSound", "MME", "Windows WDM-KS")

PLAYED_BY_PULSE = "@DEFAULT_MONITOR@"  # what goes to the default output, in a sound server's words

NONE_FOUND = {
    "linux": "Plug one in. If `arecord -l` lists it, the user may have to join the group audio; "
    "a container needs --device /dev/snd",
    "darwin": "Plug one in, and let this terminal use it: System Settings > Privacy & Security > "
    "Microphone",
    "win32": "Plug one in, and let desktop apps use it: Settings > Privacy & security > Microphone",
}
NO_LOOPBACK = {
    "linux": "With PulseAudio or PipeWire, run: apt-get install libasound2-plugins. "
    "`livecap devices` then lists `pulse`. Or use a pipe: parec -d @DEFAULT_MONITOR@ "
    "--format=s16le --rate=16000 --channels=1 | livecap file - --raw s16le:16000:1",
    "darwin": "Run: brew install blackhole-2ch. In Audio MIDI Setup, create a Multi-Output Device "
    "of your speakers and BlackHole 2ch, and choose it as the sound output",
    "win32": "Enable Stereo Mix: Settings > System > Sound > More sound settings > Recording, a "
    "right click, Show Disabled Devices. Where there is none, install VB-CABLE from "
    "vb-audio.com/Cable and choose CABLE Input as the sound output",
}


def choose(found: Sequence[Device], text: str | None) -> Device:
    """The device meant by its index or a part of its name; None means the default one.

    Raises AudioError where there are none, and ConfigError, with the list, where the text fits
    none of them or several.
    """
    if not found:
        raise AudioError("No microphone was found", remedy=_here(NONE_FOUND))
    if text is None:
        return next((device for device in found if device.default), found[0])
    wanted = text.strip().lower()
    if wanted.isdecimal():
        fitting = [device for device in found if device.index == int(wanted)]
        problem = f"No input has the index {wanted}"
    else:
        fitting = _named(found, wanted)
        problem = f"No input has {text!r} in its name"
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        problem = f"{len(fitting)} inputs have {text!r} in their names"
    listed = "; ".join(f"{d.index} {d.name} ({d.api})" for d in fitting or found)
    raise ConfigError(problem, remedy=f"Give the index, or more of the name, of one: {listed}")


def choose_loopback(
    found: Sequence[Device], text: str | None, platform: str = sys.platform
) -> Device:
    """The input that carries what the computer plays; `text` chooses if there are several.

    Raises AudioError with exact instructions where there is none.
    """
    playing = _playing(found)
    if not playing:
        raise AudioError(
            "No input carries what this computer plays", remedy=_here(NO_LOOPBACK, platform)
        )
    return playing[0] if text is None else choose(playing, text)


def find_again(found: Sequence[Device], lost: Device, text: str | None) -> Device | None:
    """The device that was lost, in a new list; else another that `text` means, if there is one.

    An index means nothing once devices have come or gone.
    """
    alike = _playing(found) if lost.loopback else [d for d in found if not d.loopback]
    same = [d for d in alike if (d.name, d.api) == (lost.name, lost.api)]
    same += [d for d in alike if (d.model, d.api) == (lost.model, lost.api)]
    if same:
        return same[0]
    if text is not None and text.strip().isdecimal():
        return None
    try:
        return choose(alike, text)
    except (AudioError, ConfigError):
        return None


def run_devices(
    *, plain: bool = False, json_lines: bool = False, sd: PortAudio | None = None
) -> int:
    """Show all inputs on standard output, with their levels on a terminal -> exit status.

    `plain`: without levels. `json_lines`: an object a line. Raises AudioError if there are none.
    """
    from livecap.commands.levels import show_devices, watch_levels

    sd = sd or load_portaudio()
    found = devices(sd)
    choose(found, None)
    if json_lines:
        for device in found:
            row = asdict(device)
            del row["source"]
            print(json.dumps(row), flush=True)
    elif plain or not sys.stdout.isatty():
        show_devices(found)
    else:
        watch_levels(sd, found)
    return 0


def _named(found: Sequence[Device], wanted: str) -> list[Device]:
    """Devices with the text in their names; that of the very name rules out the others."""
    exact = [d for d in found if wanted in (d.name.lower(), f"{d.name}, {d.api}".lower())]
    fitting = exact or [d for d in found if wanted and wanted in d.name.lower()]
    for api in APIS:
        through = [device for device in fitting if device.api == api]
        if through:
            return through
    return fitting


def _playing(found: Sequence[Device]) -> list[Device]:
    """Those that carry what the computer plays, the default output first."""
    # ALSA lists a sound server as one input; libpulse takes PULSE_SOURCE for what that records
    servers = [d for d in found if (d.name, d.api) == ("pulse", "ALSA")]
    asked = [replace(d, loopback=True, source=PLAYED_BY_PULSE) for d in servers]
    return asked + [d for d in found if d.loopback]


def _here(texts: Mapping[str, str], platform: str = sys.platform) -> str:
    return texts.get(platform, texts["linux"])
