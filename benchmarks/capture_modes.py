"""What the page's capture modes do to the text: `python benchmarks/capture_modes.py FOLDER`.

The first recordings of FOLDER, joined, are what Chromium has for its microphone. The caption page
is opened and started as a user does, in each mode and by each way to the server; what it then shows
is held against the reference, and against what `livecap file` makes of the same WAV.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jiwer
import numpy as np
from agents_js import FLAGS
from compare import join, keep, machine, write_table
from latency import chosen
from load_servers import livecap, running
from playwright.sync_api import Page, sync_playwright
from systems import read
from whisper_normalizer.english import EnglishTextNormalizer

from livecap.events import RATE
from towers.train.manifest import write_audio

LEAD = 2.0  # seconds of silence before anything is said
TAIL = 4.0  # and behind
PATIENCE = 60.0  # seconds for the last captions
WAYS = {"WebRTC": "", "WebSocket": "?transport=websocket"}
PLAIN = ("-f", "txt", "-o", "-", "-q")
MODES = ("room", "meeting")  # the first is what the page begins with


def status(page: Page, begins: str) -> None:
    """Wait until the page says so of itself."""
    end = time.monotonic() + PATIENCE
    while not page.inner_text("#status").startswith(begins):
        if time.monotonic() > end:
            raise SystemExit(f"not {begins!r} but: {page.inner_text('body')}")
        page.wait_for_timeout(100)


def shown(host: str, way: str, mode: str, wav: Path, seconds: float) -> str:
    """What the page has as final when all was said."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    microphone = f"--use-file-for-fake-audio-capture={wav}%noloop"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=browser, args=[*FLAGS, microphone])
        try:
            page = opened.new_context(permissions=["microphone"]).new_page()
            page.goto(f"http://{host}/{WAYS[way]}")
            status(page, "Ready.")
            page.evaluate("document.getElementById('settings').open = true")
            if mode != MODES[0]:
                page.select_option("#mode", mode)
            page.click("#start")
            status(page, f"Listening by {way}")
            page.wait_for_timeout(1000 * seconds)
            page.click("#start")
            status(page, "Stopped.")
            texts = page.eval_on_selector_all(
                "#log p", "all => all.map(one => one.lastChild.textContent)"
            )
        finally:
            opened.close()
    return " ".join(texts)


def main() -> None:
    """All of them in turn; writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=120.0, help="of the recordings")
    parser.add_argument("--dry", action="store_true", help="leave README.md as it is")
    options = parser.parse_args()
    normalise = EnglishTextNormalizer()
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as log:
        folder = Path(scratch)
        corpus = join(chosen(options.folder, options.seconds, folder / "some"), folder / "all.wav")
        pcm = np.pad(read(corpus.path), (round(LEAD * RATE), round(TAIL * RATE)))
        wav = folder / "microphone.wav"
        write_audio(wav, pcm)
        command = [sys.executable, "-m", "livecap", "file", str(wav), "-m", "tiny.en", *PLAIN]
        filed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        texts = {("livecap file", ""): filed}
        with running(livecap(), log) as server:
            for way in WAYS:
                for mode in MODES:
                    texts[way, mode] = shown(server.host, way, mode, wav, len(pcm) / RATE)
    right = normalise(corpus.reference)
    rows = ["| way | capture | WER % | words wrong |", "|---|---|---|---|"]
    for (way, mode), text in texts.items():
        found = jiwer.process_words(right, normalise(text))
        wrong = found.substitutions + found.deletions + found.insertions
        rows.append(f"| {way} | {mode} | {100 * found.wer:.1f} | {wrong} |")
    keep("capture_modes", [{"way": " ".join(key), "text": text} for key, text in texts.items()])
    told = f"{machine(os.cpu_count() or 1)}; {corpus.seconds:.0f} s, {len(right.split())} words."
    text = f"{told}\n\n" + "\n".join(rows)
    if options.dry:
        print(text)
    else:
        write_table("capture-modes", text)


if __name__ == "__main__":
    main()
