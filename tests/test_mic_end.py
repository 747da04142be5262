"""`livecap mic` as a process, however it ends: what was captured is text, and it is on disk."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import JFK, PATIENCE, SPEECH, Process, clip, environment, jfk, plain
from media import Signal, pack, wav
from strict import said_in

RATE = 16_000
FORMATS = ("txt", "jsonl", "srt", "vtt")
FILES = ("-f", ",".join(FORMATS), "-o", "out")
LAST_SAMPLE = 10.70  # seconds: "country" has just ended, and no silence follows
ENDS = (  # seconds at which each word of the recording has ended, by `livecap file --words`
    0.77, 1.07, 1.45, 1.77, 2.25, 3.65, 4.51, 5.70, 6.04, 6.36, 6.76,
    7.02, 7.24, 8.04, 8.66, 8.96, 9.28, 9.50, 9.74, 9.94, 10.22, 10.74,
)  # fmt: skip
CLOSE = 0.3  # seconds by which a word's time may be off; so much of a word may not be enough
STOPS = {signal.SIGINT: 130, signal.SIGTERM: 143}


def cut() -> Signal:
    """The recording up to its last phoneme."""
    return jfk()[: round(LAST_SAMPLE * RATE)]


def texts(folder: Path) -> dict[str, str]:
    """The spoken letters of each output, which all parse."""
    return {name: said_in(name, (folder / f"out.{name}").read_bytes()) for name in FORMATS}


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out.jsonl").read_text("utf-8").splitlines()]


def reached(known: list[dict[str, Any]]) -> float:
    """Seconds up to which something is known of the audio."""
    return float(max(event.get("heard", event.get("end", 0.0)) for event in known))


def squeezed(text: str) -> str:
    return "".join(text.split())


def marked(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.partial"))


def is_nearly(said: str, wanted: str) -> bool:
    """Whether the text is that of those words; tiny.en may mishear the "so my" at the start."""
    words, expected = plain(said).split(), wanted.split()
    return words[-1] == expected[-1] and abs(len(words) - len(expected)) <= 1


def assert_complete(folder: Path, out: str, err: str) -> None:
    """All outputs have the text of standard output, none is marked, and there is a summary."""
    assert set(texts(folder).values()) == {squeezed(out)}
    assert marked(folder) == []
    assert "captured, " in err.splitlines()[-1]
    assert err.splitlines()[-1].startswith("livecap: 0:00:")
    assert "Traceback" not in err


# -- the end of the audio -----------------------------------------------------------------------


@pytest.mark.parametrize("way", ["file", "wav pipe"])
def test_the_last_word_is_said_where_audio_ends_on_it(way: str, tmp_path: Path) -> None:
    if way == "file":
        (tmp_path / "talk.wav").write_bytes(wav(cut()))
        done = Process(tmp_path, "mic", "--from", "talk.wav", "--speed", "20", *FILES).end()
    else:
        run = Process(tmp_path, "mic", "--from", "-", *FILES, stdin=True)
        done = run.end(wav(cut(), size=0xFFFFFFFF))
    assert done.status == 0
    assert is_nearly(done.out, SPEECH)
    assert_complete(tmp_path, done.out, done.err)
    assert reached(events(tmp_path)) == pytest.approx(LAST_SAMPLE, abs=0.001)


# -- signals ------------------------------------------------------------------------------------


def test_ctrl_c_in_the_middle(tmp_path: Path) -> None:
    """What had been said by then is text, and nothing that was to be said later."""
    with Process(tmp_path, "mic", "--from", JFK, "--speed", "1.5", *FILES) as run:
        first = run.read_line()
        run.process.send_signal(signal.SIGINT)
        out = first + run.stdout.read().decode("utf-8")
        assert run.process.wait(30) == 130
    assert_complete(tmp_path, out, run.said)
    assert plain(out).endswith("americans") or " americans " in plain(out)
    known = events(tmp_path)
    captured = reached(known)
    assert 2.5 < captured < 9
    spoken = max(end for end in ENDS if end <= captured - CLOSE)
    said = max(word["end"] for event in known for word in event.get("words", ()))
    assert spoken - CLOSE <= said <= captured


@pytest.mark.parametrize(
    ("form", "stop"),
    [("raw", signal.SIGINT), ("wav", signal.SIGTERM)],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_signal_at_a_pipe_that_has_stalled(
    form: str, stop: signal.Signals, tmp_path: Path
) -> None:
    raw = ("--raw", "s16le:16000:1") if form == "raw" else ()
    with Process(tmp_path, "mic", "--from", "-", *raw, *FILES, stdin=True) as run:
        run.write(pack(cut()) if form == "raw" else wav(cut(), size=0xFFFFFFFF))
        first = run.read_line() + run.read_line()  # said while the pipe is open
        run.process.send_signal(stop)
        out = first + run.stdout.read().decode("utf-8")
        assert run.process.wait(30) == STOPS[stop]
    assert is_nearly(out, SPEECH)
    assert_complete(tmp_path, out, run.said)


def test_a_second_ctrl_c_leaves_at_once(tmp_path: Path) -> None:
    """Much is left to be captioned; what was, is on disk and marked as incomplete."""
    pause = np.zeros(RATE, np.float32)
    talk = np.tile(np.concatenate([jfk(), pause, clip("quick_brown_fox"), pause]), 3)
    with Process(tmp_path, "mic", "--from", "-", *FILES, stdin=True) as run:
        data = threading.Thread(target=run.write, args=(wav(talk),))
        data.start()
        assert run.read_line()
        data.join(30)
        while run.process.poll() is None:  # two that come together count as one
            run.process.send_signal(signal.SIGINT)
            run.stdout.read1(1)  # type: ignore[attr-defined]  # it is buffered
        assert run.process.returncode == 130
    assert len(plain(" ".join(texts(tmp_path).values())).split()) < 4 * 60
    assert marked(tmp_path) == sorted(f"out.{name}.partial" for name in FORMATS)
    assert "captured" not in run.said
    assert "Traceback" not in run.said


def test_a_kill_leaves_what_was_said_on_disk(tmp_path: Path) -> None:
    """All of it: see `test_what_is_shown_is_on_disk` in test_mic.py."""
    with Process(tmp_path, "mic", "--from", JFK, "--speed", "6", *FILES) as run:
        lines = [run.read_line(), run.read_line()]
        run.process.send_signal(signal.SIGKILL)
        assert run.process.wait(30) == -signal.SIGKILL
    said = texts(tmp_path)  # which all parse
    for name in ("txt", "jsonl"):
        assert said[name].startswith(squeezed("".join(lines)))
    assert marked(tmp_path) == sorted(f"out.{name}.partial" for name in FORMATS)


# -- standard output ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "status", "out", "told"),
    [
        ("| head -1", 1, 1, ""),
        (">&-", 1, 0, "standard output can't be written"),
    ],
)
def test_standard_output_that_goes_away(
    target: str, status: int, out: int, told: str, tmp_path: Path
) -> None:
    words = [sys.executable, "-m", "livecap", "mic", "--from", str(JFK), "--speed", "20", *FILES]
    done = subprocess.run(
        ["bash", "-c", f"{shlex.join(words)} {target}; exit ${{PIPESTATUS[0]}}"],
        cwd=tmp_path,
        env=os.environ | environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == status
    assert done.stdout.count("\n") == out
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    said = texts(tmp_path)  # which all parse
    assert said["txt"].startswith(squeezed(done.stdout))
    assert marked(tmp_path) == []  # what was captured by then is all there


# -- again --------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["complete", "cut off"])
def test_what_was_said_is_not_written_over(state: str, tmp_path: Path) -> None:
    """Speech can't be heard again, so neither is a text that a crash cut off."""
    (tmp_path / "out.txt").write_text("precious")
    if state == "cut off":
        (tmp_path / "out.txt.partial").touch()
    words = ("mic", "--from", str(JFK), "--speed", "0", "-f", "txt", "-o", "out")
    done = Process(tmp_path, *words).end()
    assert done.status == 1
    assert "--overwrite" in done.err
    assert (tmp_path / "out.txt").read_text() == "precious"
    assert Process(tmp_path, *words, "--overwrite").end().status == 0
    assert is_nearly((tmp_path / "out.txt").read_text(), SPEECH)
