"""`livecap devices`: the inputs of this machine, with their levels on a terminal."""

import json
import sys
from dataclasses import asdict

from livecap.audio.devices import choose
from livecap.audio.portaudio import PortAudio, devices, load_portaudio


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
