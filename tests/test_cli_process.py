"""The command line as a process: pipes, signals, kills, and what it loads to start fast."""

import os
import random
import signal
from pathlib import Path

import numpy as np
import pytest
from command import FORMATS, JFK, SPEECH, Process, clip, jfk, plain
from media import pack, wav
from strict import parse_srt, said_in

MINUTES = 10
EARLY = ("--batch-size", "2")  # the first text comes when the first of a batch is done
# `livecap` with its modules as a last line on standard error
LISTED = (
    "import sys\nfrom livecap.cli import main\n"
    "try: main()\nfinally: print('MODULES', *sys.modules, file=sys.stderr)"
)
HEAVY = {"torch", "transformers", "tokenizers", "av", "numpy", "rich.progress", "huggingface_hub"}
NOT_FOR_FILES = {"transformers", "huggingface_hub", "sounddevice", "aiortc", "starlette", "uvicorn"}


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A talk of 22 s, over and over. (The recording alone would be taken for a loop.)"""
    path = tmp_path_factory.mktemp("long") / "long.wav"
    parts = [jfk(), *map(clip, ("quick_brown_fox", "counting", "hello_world"))]
    once = np.concatenate([np.pad(part, (0, 16_000)) for part in parts])
    path.write_bytes(wav(np.tile(once, MINUTES * 60 * 16_000 // len(once))))
    return path


def modules(said: str) -> set[str]:
    return set(said.splitlines()[-1].removeprefix("MODULES ").split())


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    done = Process(tmp_path, "--help", code=LISTED).end()
    assert done.status == 0
    assert "Captions from speech" in done.out
    assert not HEAVY & modules(done.err)


def test_a_pipe_is_captioned_with_the_least_loaded(tmp_path: Path) -> None:
    done = Process(tmp_path, "file", "-", stdin=True, code=LISTED).end(JFK.read_bytes())
    assert (done.status, plain(done.out)) == (0, SPEECH)
    assert not NOT_FOR_FILES & modules(done.err)


def test_a_bad_option_ends_in_two(tmp_path: Path) -> None:
    done = Process(tmp_path, "file", str(JFK), "--precision", "fp4").end()
    assert (done.status, done.out) == (2, "")
    assert "int8" in done.err


def test_ctrl_c_finishes_and_a_second_one_leaves(tmp_path: Path, long: Path) -> None:
    output, sign = tmp_path / "long.srt", tmp_path / "long.srt.partial"
    command = ("file", long, "-o", "./", "-f", "srt", *EARLY)
    with Process(tmp_path, *command) as run:
        run.until(lambda: output.exists() and output.stat().st_size > 0)
        run.process.send_signal(signal.SIGINT)
        done = run.end()
    assert (done.status, done.out) == (130, "")
    assert "finishing what was heard" in done.err
    assert "stopped before the end" in done.err
    cues = parse_srt(output.read_text("utf-8"))
    assert plain(" ".join(text for _, _, text in cues)).startswith(SPEECH)
    assert cues[-1][1] < MINUTES * 60_000
    assert sign.exists()

    # incomplete, so it is done again
    written = output.stat().st_mtime_ns
    with Process(tmp_path, *command) as run:
        run.until(lambda: output.stat().st_mtime_ns != written and output.stat().st_size > 0)
        run.process.send_signal(signal.SIGINT)
        run.until(lambda: "finishing" in run.said)
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(2) == 130
    parse_srt(output.read_text("utf-8"))
    assert sign.exists()


def test_a_kill_at_any_moment_leaves_whole_files(tmp_path: Path, long: Path) -> None:
    """Stopped by the system at many moments, and at last killed: what is on disk always parses."""
    outputs = {name: tmp_path / f"out/long.{name}" for name in FORMATS}
    chance = random.Random(1)
    moments, before = 0, dict.fromkeys(FORMATS, "")
    with Process(
        tmp_path, "file", long, "-o", "out/", "-f", ",".join(FORMATS), "-q", *EARLY
    ) as run:
        run.until(lambda: all(path.exists() for path in outputs.values()))
        while moments < 40 and len(before["txt"]) < 900:
            wanted = outputs["txt"].stat().st_size + chance.randrange(2)  # now, or at the next text
            run.until(lambda size=wanted: outputs["txt"].stat().st_size >= size)  # type: ignore[misc]
            run.process.send_signal(signal.SIGSTOP)
            assert os.WIFSTOPPED(os.waitpid(run.process.pid, os.WUNTRACED)[1])
            said = {name: said_in(name, path.read_bytes()) for name, path in outputs.items()}
            for name, text in said.items():
                assert text.startswith(before[name]), "text that was there is gone"
            assert all(Path(f"{path}.partial").exists() for path in outputs.values())
            moments, before = moments + 1, said
            run.process.send_signal(signal.SIGCONT)
    assert moments > 5
    assert run.process.returncode == -signal.SIGKILL
    for name, path in outputs.items():
        assert said_in(name, path.read_bytes()).startswith(before[name])


def test_a_reader_that_goes_away(tmp_path: Path, long: Path) -> None:
    with Process(tmp_path, "file", long, "-o", "-", *EARLY) as run:
        line = run.read_line()
        assert line
        assert SPEECH.startswith(plain(line))
        run.stdout.close()
        assert run.process.wait(60) == 1
    assert "Traceback" not in run.said


def test_ctrl_c_at_a_pipe_that_goes_on(tmp_path: Path) -> None:
    """Text of what was heard comes out although the pipe stays open."""
    with Process(tmp_path, "file", "-", "--raw", "s16le:16000:1", stdin=True) as run:
        run.write(pack(np.concatenate([jfk(), np.zeros(48_000, np.float32)])))
        first = run.read_line()  # said while the pipe is open
        assert first
        assert SPEECH.startswith(plain(first))
        run.process.send_signal(signal.SIGINT)
        rest = run.stdout.read().decode("utf-8")
        assert run.process.wait(60) == 130
    assert plain(first + rest) == SPEECH
    assert "Traceback" not in run.said
