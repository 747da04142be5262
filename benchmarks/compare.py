"""Runs systems in turn, round by round, and keeps what they said and how long they took."""

import json
import os
import platform
import subprocess
import sys
import wave
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from livecap.events import RATE

HERE = Path(__file__).parent
GAP = RATE // 2  # samples of silence between two recordings


@dataclass(frozen=True, slots=True)
class Corpus:
    """Recordings joined to one, with their references."""

    path: Path
    seconds: float
    reference: str


@dataclass(frozen=True, slots=True)
class Result:
    """What one system did in all rounds."""

    name: str
    seconds: tuple[float, ...]
    texts: tuple[str, ...]

    @property
    def median(self) -> float:
        """Seconds of the middle round."""
        return sorted(self.seconds)[len(self.seconds) // 2]


def join(folder: Path, path: Path) -> Corpus:
    """All recordings of a folder (NAME.flac with NAME.txt), half a second apart, as one WAV."""
    from systems import read

    files = sorted(folder.glob("*.flac"))
    silence = np.zeros(GAP, np.float32)
    pcm = np.concatenate([part for file in files for part in (read(file), silence)])
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes((pcm * 32767).astype("<i2").tobytes())
    texts = [file.with_suffix(".txt").read_text().strip() for file in files]
    return Corpus(path, len(pcm) / RATE, " ".join(texts))


def compare(names: Sequence[str], corpus: Corpus, *, threads: int, rounds: int) -> Iterable[Result]:
    """Load all systems, let each run once to warm up, then time them in turn."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "PYTHONPATH": str(HERE.parent),
    }
    workers = {}
    for name in names:
        workers[name] = subprocess.Popen(
            [sys.executable, str(HERE / "systems.py"), name, str(threads), str(corpus.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        _answer(workers[name])
    found: dict[str, list[dict[str, object]]] = {name: [] for name in names}
    for number in range(rounds + 1):
        for name, worker in workers.items():
            assert worker.stdin
            worker.stdin.write("\n")
            worker.stdin.flush()
            answer = json.loads(_answer(worker))
            if number:  # the first was the warm-up
                found[name].append(answer)
            print(f"round {number}: {name}: {answer['seconds']:.2f} s", file=sys.stderr)
    for worker in workers.values():
        assert worker.stdin
        worker.stdin.close()
        worker.wait()
    return [
        Result(
            name,
            tuple(float(str(answer["seconds"])) for answer in answers),
            tuple(str(answer["text"]) for answer in answers),
        )
        for name, answers in found.items()
    ]


def _answer(worker: "subprocess.Popen[str]") -> str:
    assert worker.stdout
    line = worker.stdout.readline()
    if not line:
        raise SystemExit(f"{worker.args!r} ended with status {worker.wait()}")
    return line


def machine(threads: int) -> str:
    """One line about where and when."""
    name = platform.processor() or platform.machine()
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        lines = [line for line in facts.read_text().splitlines() if line.startswith("model name")]
        name = lines[0].split(":")[1].strip() if lines else name
    return f"{name}, {threads} threads, Python {platform.python_version()}, {date.today()}"


def write_table(section: str, text: str) -> None:
    """Put a table into README.md, between the section's two markers."""
    path = HERE / "README.md"
    page = path.read_text()
    start, end = f"<!-- {section} -->", f"<!-- end {section} -->"
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(end)
    path.write_text(f"{before}{start}\n{text}\n{end}{after}")
    print(text)


def keep(name: str, rows: Iterable[dict[str, object]]) -> None:
    """Append raw results to results/NAME.jsonl."""
    path = HERE / "results" / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as out:
        out.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def last(count: int) -> list[Result]:
    """The results of the last run of throughput.py over so many systems."""
    lines = (HERE / "results" / "throughput.jsonl").read_text().splitlines()[-count:]
    rows = [json.loads(line) for line in lines]
    return [Result(row["system"], tuple(row["seconds"]), tuple(row["texts"])) for row in rows]
