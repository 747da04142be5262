"""OpenAI's Agents SDK for JavaScript on `livecap serve`: `python benchmarks/agents_js.py AUDIO`.

The package `@openai/agents-realtime` is installed by npm into a folder of its own, and not changed.
Its session is given the server's URL: over a WebSocket in Node, and over WebRTC in Chromium, whose
microphone is the recording. See `agents_js/` for what runs there.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import wave
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
from compare import HERE, keep, machine, write_table
from load_clients import resampled
from load_servers import livecap, running
from playwright.sync_api import sync_playwright
from systems import read
from whisper_normalizer.english import EnglishTextNormalizer

from livecap.events import RATE

PACKAGE = "@openai/agents-realtime"
SPOKEN = 24_000  # Hz: what the SDK says it sends
BEFORE, BEHIND = 1.0, 2.0  # seconds of silence before the recording, and after it
PATIENCE = 300.0  # seconds for npm, and for one run
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
)


class _Files(SimpleHTTPRequestHandler):
    """A folder, quietly."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def pages(folder: Path) -> Iterator[str]:
    """The folder on loopback: its origin."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def installed(folder: Path) -> str:
    """The scripts and their packages in a folder -> the SDK's version."""
    shutil.copytree(HERE / "agents_js", folder, dirs_exist_ok=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run(command, cwd=folder, check=True, timeout=PATIENCE, stdout=sys.stderr)
    told = json.loads((folder / "node_modules" / PACKAGE / "package.json").read_text())
    return str(told["version"])


def recording(source: Path, target: Path) -> float:
    """Any recording -> WAV, 24 kHz mono, with silence around it; seconds."""
    pcm = np.pad(read(source), (round(BEFORE * RATE), round(BEHIND * RATE)))
    raw = resampled(np.rint(pcm * 32767).astype("<i2").tobytes(), SPOKEN)
    with wave.open(str(target), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(SPOKEN)
        out.writeframes(raw)
    return len(raw) / 2 / SPOKEN


def by_socket(folder: Path, host: str, wav: Path) -> dict[str, Any]:
    """One session in Node."""
    url = f"ws://{host}/v1/realtime?intent=transcription"
    command = ["node", str(folder / "socket.mjs"), url, str(wav)]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def by_call(origin: str, host: str, wav: Path, seconds: float) -> dict[str, Any]:
    """One session in Chromium."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    microphone = f"--use-file-for-fake-audio-capture={wav}%noloop"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=[*FLAGS, microphone])
        try:
            page = opened.new_context(permissions=["microphone"]).new_page()
            page.set_default_timeout(PATIENCE * 1000)
            said: list[str] = []
            page.on("pageerror", lambda error: said.append(str(error)))
            page.goto(f"{origin}/call.html?calls=http://{host}/v1/realtime/calls")
            page.wait_for_function("() => Boolean(window.run)")
            found: dict[str, Any] = page.evaluate("seconds => run(seconds)", seconds)
        finally:
            opened.close()
    return found | {"errors": [*found["errors"], *said]}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a transport."""
    head = (
        "| transport | package | turns | deltas | errors | words wrong | its session's history | "
        "transcript |\n" + "|---" * 8 + "|\n"
    )
    lines = [
        f"| {row['transport']} | {PACKAGE} {row['version']} | {len(row['finals'])} | "
        f"{row['deltas']} | {'; '.join(row['errors']) or 'none'} | {row['wrong']} | "
        f"{'the same' if row['history'] == row['finals'] else row['history']} | "
        f"{' / '.join(text.strip() for text in row['finals'])} |"
        for row in rows
    ]
    return head + "\n".join(lines)


def measure(audio: Path, folder: Path) -> list[dict[str, Any]]:
    """Both transports on one server."""
    version, wav = installed(folder), folder / "speech.wav"
    seconds = recording(audio, wav)
    normalise = EnglishTextNormalizer()
    reference = normalise(audio.with_suffix(".txt").read_text())
    told = livecap()
    with pages(folder) as origin, tempfile.TemporaryFile() as log:
        system = replace(told, command=(*told.command, "--cors-origin", origin))
        with running(system, log) as server:
            rows = [
                {"transport": "OpenAIRealtimeWebSocket (Node)"}
                | by_socket(folder, server.host, wav),
                {"transport": "OpenAIRealtimeWebRTC (Chromium)"}
                | by_call(origin, server.host, wav, seconds),
            ]
    for row in rows:
        errors = jiwer.process_words(reference, normalise(" ".join(row["finals"])))
        row["wrong"] = errors.substitutions + errors.deletions + errors.insertions
        row["version"] = version
    return rows


def main() -> None:
    """Run them in turn and write the table; the status is 1 if a transport got no transcript."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("audio", type=Path, help="a recording with a reference of the same name")
    parser.add_argument("--dry", action="store_true", help="leave README.md as it is")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        rows = measure(options.audio, Path(scratch))
    keep("agents_js", rows)
    if options.dry:
        print(table(rows))
    else:
        write_table("agents-js", f"{machine(os.cpu_count() or 1)}.\n\n{table(rows)}")
    sys.exit(not all(row["finals"] for row in rows))


if __name__ == "__main__":
    main()
