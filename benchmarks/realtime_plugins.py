"""Agents' plugins on `livecap serve`: `python benchmarks/realtime_plugins.py AUDIO`.

Speech-to-text of LiveKit Agents and of Pipecat, as their packages are, is given the server's URL
and a recording at the speed of speech: with server VAD, and without it, when their own voice
activity detection commits each turn. Each runs in an environment of its own (`pip install
livekit-agents livekit-plugins-openai`, `pip install 'pipecat-ai[openai]'`), whose Python --livekit
and --pipecat name; what they do there is in `plugin_livekit.py` and `plugin_pipecat.py`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import wave
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
from compare import HERE, keep, machine, write_table
from load_servers import livecap, running
from systems import read
from whisper_normalizer.english import EnglishTextNormalizer

from livecap.events import RATE

QUIET = 2 * RATE  # samples of silence after the recording: turns end there
PATIENCE = 180.0  # seconds for one run
PLUGINS = {"livekit": "LiveKit, livekit-plugins-openai", "pipecat": "Pipecat, pipecat-ai[openai]"}


def heard(python: Path, plugin: str, url: str, audio: Path, vad: str) -> dict[str, Any]:
    """One run in the plugin's environment -> the line of JSON that it ends with."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(python), str(HERE / f"plugin_{plugin}.py"), url, str(audio), "--vad", vad]
    ran = subprocess.run(
        command, check=False, capture_output=True, text=True, env=kept, timeout=PATIENCE
    )
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def recording(source: Path, target: Path) -> None:
    """Any recording -> WAV, 16 kHz mono, with silence after it."""
    pcm = np.concatenate([read(source), np.zeros(QUIET, np.float32)])
    with wave.open(str(target), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes((pcm * 32767).astype("<i2").tobytes())


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a run."""
    head = (
        "| plugin | version | model asked for | server VAD | turns | interim texts | errors | "
        "words wrong | transcript |\n" + "|---" * 9 + "|\n"
    )
    lines = [
        f"| {PLUGINS[row['plugin']]} | {row['version']} | {row['model']} | {row['vad']} | "
        f"{len(row['finals'])} | {row['interims']} | {'; '.join(row['errors']) or 'none'} | "
        f"{row['wrong']} | {' / '.join(text.strip() for text in row['finals'])} |"
        for row in rows
    ]
    return head + "\n".join(lines)


def main() -> None:
    """Run them in turn and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("audio", type=Path, help="a recording with a reference of the same name")
    parser.add_argument("--livekit", type=Path)
    parser.add_argument("--pipecat", type=Path)
    parser.add_argument("--dry", action="store_true", help="leave README.md as it is")
    options = parser.parse_args()
    pythons = {"livekit": options.livekit, "pipecat": options.pipecat}
    normalise = EnglishTextNormalizer()
    reference = normalise(options.audio.with_suffix(".txt").read_text())
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch, Path(os.devnull).open("wb") as log:
        wav = Path(scratch) / "speech.wav"
        recording(options.audio, wav)
        with running(livecap(), log) as server:
            for plugin, python in pythons.items():
                for vad in ("on", "off") if python else ():
                    print(f"{plugin}, server VAD {vad}", file=sys.stderr)
                    row = heard(python, plugin, f"http://{server.host}/v1", wav, vad)
                    errors = jiwer.process_words(reference, normalise(" ".join(row["finals"])))
                    wrong = errors.substitutions + errors.deletions + errors.insertions
                    rows.append({"plugin": plugin, "vad": vad, **row, "wrong": wrong})
    keep("realtime_plugins", rows)
    if options.dry:
        print(table(rows))
    else:
        write_table("plugins", f"{machine(os.cpu_count() or 1)}.\n\n{table(rows)}")


if __name__ == "__main__":
    main()
