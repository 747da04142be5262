"""The README: its set-up commands, its examples, and its map of the tree, held against the code."""

import os
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
from command import ROOT, SPEECH, Command, plain
from media import Sound, mux, pack, wav
from strict import parse_srt

from livecap.cli import SHORT, app

README = (ROOT / "README.md").read_text("utf-8")
LINES = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
SETUP = [line for line in LINES if "pip install" in line]
EXAMPLES = [line for line in LINES if "pip install" not in line]
SILENCE = np.zeros(4000, np.float32)  # at 16 kHz, or 8 kHz


def words_of(line: str) -> tuple[str | None, list[str]]:
    """An example -> the file that is piped in, and the words after `livecap`."""
    before, _, command = line.rpartition("| ")
    words = shlex.split(command, comments=True)
    assert words[0] == "livecap"
    return (before.split()[1] if before else None), words[1:]


@pytest.fixture
def livecap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """With the files that the examples name, all of them silent."""
    for folder in ("talks", "more"):
        (tmp_path / folder).mkdir()
    mp3 = mux(Sound(np.zeros(4800, np.float32), codec="mp3"), form="mp3")
    for name in ("talk.mp3", "radio.mp3", "talks/one.mp3", "more/two.mp3"):
        (tmp_path / name).write_bytes(mp3)
    aac = Sound(np.zeros(4800, np.float32), codec="aac")
    (tmp_path / "talk.mp4").write_bytes(mux(aac, form="mp4"))
    (tmp_path / "film.mkv").write_bytes(mux(aac, aac, form="matroska"))
    (tmp_path / "livecap.toml").write_text("port = 9000\n")
    (tmp_path / "call.wav").write_bytes(wav(np.stack([SILENCE, SILENCE])))
    (tmp_path / "call.pcm").write_bytes(pack(np.stack([SILENCE, SILENCE])))
    return Command(monkeypatch, tmp_path)


def test_there_are_two_commands_to_set_up() -> None:
    assert LINES[:2] == SETUP
    for command in SETUP:
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    runs = (ROOT / ".ci/run").read_text("utf-8").splitlines()
    assert SETUP[1] in runs
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_their_extras_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [re.findall(r"\.\[(\w+)\]", command) for command in SETUP]
    assert extras == [["tiny"], ["dev"]]
    assert {"tiny", "dev"} <= project["optional-dependencies"].keys()
    assert project["scripts"] == {"livecap": "livecap.cli:main"}


def test_the_first_one_captions_the_recording(
    livecap: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    words = shlex.split(SETUP[0].split("&& ")[-1])
    assert words[0] == ".venv/bin/livecap"
    done = livecap(*words[1:])
    assert done.status == 0
    assert plain(" ".join(text for _, _, text in parse_srt(done.out))) == SPEECH


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_runs(
    line: str, livecap: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin, words = words_of(line)
    is_elsewhere = words[0] in ("pull", "devices", "serve") or "--server" in words
    if is_elsewhere or (words[0] == "mic" and "--from" not in words):
        # There is no network here, and no microphone; test_readme_serve.py is about servers.
        monkeypatch.chdir(tmp_path)
        app.parse_args(
            [SHORT.get(word, word) for word in words], exit_on_error=False, print_error=False
        )
        return
    done = livecap(*words, stdin=(tmp_path / stdin).read_bytes() if stdin else b"")
    if "--model" in words:  # understood, but the model isn't there
        assert (done.status, "livecap pull" in done.err) == (1, True)
        return
    assert done.status == 0, done.err
    if "->" in done.err:
        for name in re.findall(r"(?:-> |, )(\S+\.(?:srt|vtt|json|txt))", done.err):
            assert (tmp_path / name).exists()
    named = re.findall(r"(?:out/)?talk\.\w+", line.partition("#")[2])
    assert all((tmp_path / name).exists() for name in named)


def test_every_option_it_names_exists(livecap: Command) -> None:
    known = livecap("file", "--help").out + livecap("mic", "--help").out
    known += livecap("bench", "--help").out + livecap("serve", "--help").out
    for option in set(re.findall(r"`(--[a-z-]+)[ `]", README)) | {
        word.split("=")[0]
        for line in EXAMPLES
        for word in words_of(line)[1]
        if word.startswith("--")
    }:
        assert option in known, option


def test_the_map_shows_every_place() -> None:
    inside = (ROOT / "livecap/README.md").read_text("utf-8")
    places = re.findall(r"^\| `([^`]+)` \|", inside, re.MULTILINE)
    assert len(set(places)) == len(places)
    for place in places:
        assert (ROOT / place).exists(), place
        assert (ROOT / place).is_dir() == place.endswith("/"), place
    ours = {
        f"livecap/{path.name}{'/' if path.is_dir() else ''}"
        for path in (ROOT / "livecap").iterdir()
        if not path.name.startswith("__") and path.name != "README.md"
    }
    assert ours <= set(places)
