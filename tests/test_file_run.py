"""The file front end's own rules: stopping, and closed standard streams."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from livecap.checkpoints import resolve
from livecap.config import DecodeConfig, ModelConfig, VadConfig
from livecap.frontends.file import FileRun
from livecap.frontends.pump import Pump, ReadConfig
from livecap.models.load import load_model

JFK = Path(__file__).parent / "audio" / "jfk.flac"


def test_a_signal_while_a_pipe_opens_ends_the_run() -> None:
    run: FileRun

    def opener(path: str) -> Pump:
        assert run.is_opening, "the signal handler must know"
        run.stop()
        raise KeyboardInterrupt

    loaded = load_model(resolve("tiny.en"), ModelConfig())
    run = FileRun(loaded, None, decode=DecodeConfig(), vad=VadConfig(), open_source=opener)
    assert list(run.run(["first", "second"])) == []
    assert not run.is_opening


def test_only_regular_files_have_an_end(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(f"cat '{JFK}' > '{fifo}'", shell=True):
        pump = Pump(str(fifo), ReadConfig())
    assert pump.is_live
    pump.close()
    pump = Pump(str(JFK), ReadConfig())
    assert not pump.is_live
    pump.close()


@pytest.mark.parametrize(
    ("closing", "status", "said"),
    [
        ("livecap models >&-", 1, "standard output can't be written"),
        ("livecap models > /dev/full", 1, "standard output can't be written"),
        ("livecap file - -q <&-", 1, "no bytes"),
        ("livecap models 2>&-", 0, ""),
    ],
)
def test_closed_streams_cost_one_line(closing: str, status: int, said: str) -> None:
    command = closing.replace("livecap", f"{sys.executable} -m livecap", 1)
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
