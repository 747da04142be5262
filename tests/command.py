"""The command line in tests: called in this process on one loaded model, or as a process."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import pytest
from media import Drip, Signal, joined, read, wav

from livecap.checkpoints import Checkpoint, resolve
from livecap.cli import main
from livecap.config import ModelConfig
from livecap.models import load
from livecap.models.load import Loaded, load_model

ROOT = Path(__file__).parent.parent
JFK = ROOT / "tests/audio/jfk.flac"
SPEECH = (
    "and so my fellow americans ask not what your country can do for you "
    "ask what you can do for your country"
)
FORMATS = ("txt", "srt", "vtt", "json", "jsonl", "tsv")
PATIENCE = 90.0  # seconds until a process is given up


def plain(text: str) -> str:
    """Letters and single spaces alone."""
    kept = "".join(c for c in text.lower() if c.isalnum() or c.isspace())
    return " ".join(kept.split())


def jfk() -> Signal:
    """The recording that the README captions, 16 kHz."""
    signal: Signal = joined(read(JFK.read_bytes()))[0]
    return signal


def clip(name: str) -> Signal:
    """One of pytest-audioeval's spoken English clips, 16 kHz."""
    data = (files("pytest_audioeval") / f"samples/audio/en/{name}.wav").read_bytes()
    signal: Signal = joined(read(data))[0]
    return signal


def strict(line: str) -> dict[str, Any]:
    """A line of JSON as the standard has it."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    found = json.loads(line, parse_constant=refuse)
    assert isinstance(found, dict)
    return found


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str


@cache
def _model() -> Loaded:
    return load_model(resolve("tiny.en"), ModelConfig())


class Command:
    """`livecap` in this process and in one folder, on a machine with the embedded model alone."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.patch = patch
        self.loads = 0
        for name, value in environment(folder).items():
            patch.setenv(name, value)
        patch.delenv("LIVECAP_MODEL", raising=False)
        patch.chdir(folder)

        def cached(checkpoint: Checkpoint, config: ModelConfig) -> Loaded:
            self.loads += 1
            usual = (checkpoint.name, config) == ("tiny.en", ModelConfig())
            return _model() if usual else load_model(checkpoint, config)

        patch.setattr(load, "load_model", cached)

    def __call__(self, *words: str | Path, stdin: bytes = b"") -> Done:
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
        with self.patch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Drip(stdin))))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            with pytest.raises(SystemExit) as left:
                main([str(word) for word in words])
        status = left.value.code
        assert isinstance(status, int)
        return Done(status, _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8")


def environment(folder: Path) -> dict[str, str]:
    """Settings under which a command sees no models but the embedded one, and this checkout."""
    nowhere = str(folder / "nowhere")
    return {
        "HF_HUB_CACHE": nowhere,
        "LIVECAP_HOME": nowhere,
        "XDG_STATE_HOME": str(folder.parent / f"{folder.name}-state"),
        "GOMP_SPINCOUNT": "2000",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "80",
    }


class Process:
    """`livecap` as a process of its own. What it says goes to files, so that no pipe fills up."""

    def __init__(
        self, folder: Path, *words: str | Path, stdin: bool = False, code: str = ""
    ) -> None:
        self.errors = folder / "stderr.txt"
        start = ["-c", code] if code else ["-m", "livecap"]
        kept = {name: value for name, value in os.environ.items() if name != "LIVECAP_MODEL"}
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", *start, *map(str, words)],
                cwd=folder,
                env=kept | environment(folder),
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._patience = threading.Timer(PATIENCE, self.process.kill)
        self._patience.start()

    @property
    def said(self) -> str:
        """Standard error so far."""
        return self.errors.read_text("utf-8")

    @property
    def stdout(self) -> IO[bytes]:
        """Its standard output."""
        assert self.process.stdout is not None
        return self.process.stdout

    def read_line(self) -> str:
        """The next line of its standard output."""
        return self.stdout.readline().decode("utf-8")

    def write(self, data: bytes) -> None:
        """To its standard input, which stays open."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def until(self, there: Callable[[], bool]) -> None:
        """Wait for something to come about while the process is alive."""
        while not there():
            with suppress(subprocess.TimeoutExpired):
                status = self.process.wait(0.02)
                raise AssertionError(f"ended with {status}: {self.said}")

    def end(self, data: bytes | None = None) -> Done:
        """Let it end by itself."""
        with self:
            out, _ = self.process.communicate(data)
        return Done(self.process.returncode, out.decode("utf-8"), self.said)

    def __enter__(self) -> "Process":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing of it is left, whatever has happened."""
        self._patience.cancel()
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.process.wait()


def speechless(count: int, folder: Path) -> list[Path]:
    """So many files of a tenth of a second of silence."""
    paths = [folder / f"{n:02}.wav" for n in range(count)]
    for path in paths:
        path.write_bytes(wav(np.zeros(1600, np.float32)))
    return paths
