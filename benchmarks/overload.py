"""A machine that is too slow, on the wall clock: `python benchmarks/overload.py FOLDER`.

`livecap mic --from` captions ten minutes of FOLDER's recordings on a terminal of its own, with an
encoder that sleeps: every hypothesis takes 1.3 times as long as the speech between two of them.
What the terminal shows, what the events say, and what became of the text is compared with a run at
the machine's own speed (`--speed 0`, where nothing is left out).
"""

import argparse
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fcntl import ioctl
from pathlib import Path
from typing import Any

import jiwer
import pyte
from compare import HERE, join, machine, write_table
from memory import repeat
from whisper_normalizer.english import EnglishTextNormalizer

SHARE = 1.3  # of the interval between updates that each of them takes
ROWS, COLUMNS = 24, 100


@dataclass
class Watched:
    """What one run did."""

    events: list[dict[str, Any]] = field(default_factory=list)
    looks: int = 0  # at the terminal
    behind: int = 0  # of them that said so
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """All that was said."""
        return "".join(one["text"] for one in self.events if one["type"] == "caption")


def slow(share: float, arguments: Sequence[str]) -> None:
    """`livecap` with an encoder that takes its time; in a process of its own."""
    from livecap.cli import main
    from livecap.events import RATE
    from livecap.models.whisper.model import Whisper

    encode = Whisper.encode

    def encode_slowly(self: Whisper, requests: Any) -> Any:
        begun = time.monotonic()
        outputs = encode(self, requests)
        time.sleep(max(share * self.streaming.interval / RATE - (time.monotonic() - begun), 0))
        return outputs

    Whisper.encode = encode_slowly  # type: ignore[method-assign] # that is the point
    main(arguments)


def watch(command: Sequence[str], jsonl: Path) -> Watched:
    """Run it on a terminal, and look at that again and again."""
    found, begun = Watched(), time.monotonic()
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    parent, child = pty.openpty()
    ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "TERM": "xterm-256color"}
    running = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=environment)
    os.close(child)
    last = 0.0
    while True:
        ready, _, _ = select.select([parent], [], [], 0.5)
        try:
            data = os.read(parent, 65_536) if ready else b""
        except OSError:  # the other end is closed
            break
        stream.feed(data)
        if ready and not data:
            break
        if time.monotonic() - last >= 1:
            last = time.monotonic()
            found.looks += 1
            found.behind += any("behind" in line for line in screen.display)
    assert running.wait() == 0, running.returncode
    found.seconds = time.monotonic() - begun
    found.events = [json.loads(line) for line in jsonl.read_text().splitlines()]
    return found


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=600)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        corpus, wav = join(options.folder, Path(scratch) / "one.wav"), Path(scratch) / "long.wav"
        repeat(corpus.path, wav, options.seconds)
        runs: dict[str, Watched] = {}
        for name, speed, share in (("at its own speed", "0", 0.0), ("slowed", "1", SHARE)):
            jsonl = Path(scratch) / f"{share}.jsonl"
            arguments = ["mic", "--from", str(wav), "--speed", speed, "-m", "tiny.en"]
            script = [sys.executable, str(Path(__file__).resolve()), "--slow", str(share)]
            runs[name] = watch([*script, *arguments, "-o", str(jsonl), "-f", "jsonl"], jsonl)
    whole, slowed = runs.values()
    normalise = EnglishTextNormalizer()
    lost = jiwer.process_words(normalise(whole.text), normalise(slowed.text))
    paces = [one for one in slowed.events if one["type"] == "pace"]
    times = [one for one in slowed.events if one["type"] in ("caption", "silence")]
    reached = max(one["heard"] if one["type"] == "caption" else one["end"] for one in times)
    write_table(
        "overload",
        f"{machine(os.cpu_count() or 1)}; {options.seconds:.0f} s of audio, each hypothesis made "
        f"to take {SHARE} times the speech between two.\n\n"
        "| what | |\n|---|---|\n"
        f"| took, of {options.seconds:.0f} s | {slowed.seconds:.0f} s, starting included |\n"
        f"| captioned up to | {reached:.1f} s |\n"
        f"| words, at its own speed and slowed | {len(normalise(whole.text).split())}, "
        f"{len(normalise(slowed.text).split())} |\n"
        f"| of them deleted, inserted, other | {lost.deletions}, {lost.insertions}, "
        f"{lost.substitutions} |\n"
        f"| events that say behind, and caught up | {sum(one['behind'] for one in paces)}, "
        f"{sum(not one['behind'] for one in paces)} |\n"
        f"| largest lag in them | {max((one['lag'] for one in paces), default=0):.1f} s |\n"
        f"| looks at the terminal that show 'behind' | {slowed.behind} of {slowed.looks} |",
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--slow"]:
        slow(float(sys.argv[2]), sys.argv[3:])
    else:
        main()
