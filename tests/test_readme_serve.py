"""The README's examples of the server: each is run as it stands, but for the port."""

import base64
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from command import ROOT, SPEECH, Process, plain
from media import Sound, mux, wav
from playwright.sync_api import sync_playwright
from test_server_serve import ready

from livecap.audio import AudioReader
from livecap.events import RATE

README = (ROOT / "README.md").read_text("utf-8")
HERE = "127.0.0.1:8000"
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
LATEST = 120.0  # seconds after which an example has failed


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a server."""
    with Process(tmp_path_factory.mktemp("serve"), "serve", "--port", "0") as run:
        _, port, _ = ready(run)
        yield f"127.0.0.1:{port}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the recordings that the examples name."""
    with AudioReader(ROOT / "tests/audio/jfk.flac") as reader:
        pcm = np.concatenate([block.pcm[0] for block in reader])
    (tmp_path / "talk.mp3").write_bytes(mux(Sound(pcm, rate=RATE, codec="mp3"), form="mp3"))
    (tmp_path / "talk.wav").write_bytes(wav(pcm[None]))
    return tmp_path


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=LATEST
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("line", [line for block in blocks("bash") for line in block.splitlines()])
def test_from_a_shell(line: str, address: str, folder: Path) -> None:
    if not shutil.which("curl"):
        pytest.skip("there is no curl here")
    said = run(["bash", "-c", line.replace(HERE, address)], folder)
    if "stream=true" in line:
        assert said.rstrip().endswith("data: [DONE]")
        assert "transcript.text.done" in said
    else:
        assert "-->" in said
        assert "country" in said


@pytest.mark.parametrize("source", blocks("python"))
def test_from_python(source: str, address: str, folder: Path) -> None:
    script = folder / "example.py"
    script.write_text(source.replace(HERE, address))
    said = plain(run([sys.executable, str(script)], folder).replace("\n", " "))
    if "realtime" not in source:
        assert said == SPEECH
    else:  # by turns, heard as they came: not word for word the same
        assert said.endswith("what you can do for your country")
        assert len(said.split()) == pytest.approx(len(SPEECH.split()), abs=3)


def test_from_a_page(address: str, folder: Path) -> None:
    (source,) = blocks("js")
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser is None:
        pytest.skip("there is no Chromium here")
    pcm = (folder / "talk.wav").read_bytes()[44:]
    second = 32_000  # bytes
    sent = [base64.b64encode(pcm[at : at + second]).decode() for at in range(0, len(pcm), second)]
    around = f"""const key = "none", blocks = {json.dumps(sent)};
    window.said = "";
    const write = (text) => (window.said += text);
    {source.replace(HERE, address)}
    socket.onclose = () => (window.done = true);"""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=browser, args=FLAGS)
        page = running.new_page()
        page.goto(f"http://{address}/health")  # a page of the server's own
        page.evaluate(f"() => {{ {around} }}")
        page.wait_for_function("window.done", timeout=LATEST * 1000)
        assert "your country" in page.evaluate("window.said").lower()
        running.close()
