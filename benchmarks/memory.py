"""Peak memory of long inputs: `python benchmarks/memory.py FOLDER [--hours 1 4]`.

The recordings of FOLDER are repeated to a WAV of so many hours; `livecap file` captions it as a
process of its own, whose largest resident size is read from the operating system.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import wave
from pathlib import Path

from compare import HERE, join, keep, machine, write_table


def repeat(source: Path, target: Path, seconds: float) -> None:
    """A WAV that plays `source` again and again for that long."""
    with wave.open(str(source)) as once, wave.open(str(target), "wb") as out:
        out.setparams(once.getparams())
        frames = once.readframes(once.getnframes())
        left = int(seconds * once.getframerate()) * once.getsampwidth()
        while left > 0:
            out.writeframes(frames[:left])
            left -= len(frames)


def caption(path: Path) -> tuple[float, float]:
    """Seconds and peak megabytes of captioning a file."""
    begun = time.perf_counter()
    worker = subprocess.Popen(
        [sys.executable, "-m", "livecap", "file", str(path), "-q", "-o", os.devnull, "-f", "srt"],
        env={**os.environ, "PYTHONPATH": str(HERE.parent)},
    )
    _, status, usage = os.wait4(worker.pid, 0)
    assert status == 0, status
    return time.perf_counter() - begun, usage.ru_maxrss / 1024


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hours", type=float, nargs="*", default=[0.25, 1, 4])
    options = parser.parse_args()
    rows: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        corpus = join(options.folder, Path(folder) / "joined.wav")
        for hours in options.hours:
            path = Path(folder) / "long.wav"
            repeat(corpus.path, path, hours * 3600)
            seconds, peak = caption(path)
            rows.append(
                f"| {hours:g} h | {peak:.0f} | {seconds:.1f} | {hours * 3600 / seconds:.0f} |"
            )
            keep("memory", [{"hours": hours, "peak_mb": peak, "seconds": seconds}])
    head = (
        f"{machine(os.cpu_count() or 1)}; captions as SRT with timed words, whole process.\n\n"
        "| input | peak MB | seconds | times real time |\n|---|---|---|---|"
    )
    write_table("memory", "\n".join([head, *rows]))


if __name__ == "__main__":
    main()
