"""The file front end's own rules: stopping, and closed standard streams."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from livecap.audio import AudioReader
from livecap.audio.prefetch import Pump, ReadConfig
from livecap.checkpoints import resolve
from livecap.commands.file import FileRun, Progress
from livecap.config import DecodeConfig, ModelConfig, VadConfig
from livecap.events import RATE, Caption
from livecap.models.load import load_model
from livecap.vad.silero import load as load_silero
from towers.train.manifest import write_audio

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


@pytest.mark.parametrize("words", [False, True], ids=["plain", "words"])
@pytest.mark.parametrize("no_timestamps", [False, True], ids=["timestamps", "none"])
def test_no_caption_reaches_over_a_silence(
    tmp_path: Path, *, words: bool, no_timestamps: bool
) -> None:
    """Silences are left out of what is decoded together, and no segment's times span them."""
    with AudioReader(JFK) as reader:
        jfk = np.concatenate([block.pcm[0] for block in reader])
    places = [5, 40, 63]  # seconds at which somebody speaks for four
    pcm = np.zeros(80 * RATE, np.float32)
    for place, start in zip(places, (0, 3, 7), strict=True):
        pcm[place * RATE : (place + 4) * RATE] = jfk[start * RATE : (start + 4) * RATE]
    path = tmp_path / "sparse.wav"
    write_audio(path, pcm)
    run = FileRun(
        load_model(resolve("tiny.en"), ModelConfig()),
        load_silero(),
        decode=DecodeConfig(words=words, no_timestamps=no_timestamps),
        vad=VadConfig(),
        open_source=lambda name: Pump(name, ReadConfig()),
    )
    events = [item[1] for item in run.run([str(path)]) if not isinstance(item, Progress)]
    captions = [event for event in events if isinstance(event, Caption)]
    assert len(captions) >= 3
    for caption in captions:
        near = [s for s in places if (s - 0.5) * RATE <= caption.start < (s + 4.5) * RATE]
        assert near, caption
        assert caption.processed_until <= (near[0] + 4.5) * RATE
        assert all((word.end is not None) == words for word in caption.words)
