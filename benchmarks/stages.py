"""Where the time of a file goes, stage by stage, against what the machine can do.

`python benchmarks/stages.py FOLDER`: wraps the stages in clocks, captions the joined recordings
once to warm up and once to measure, and sets the encoder's arithmetic and the decoder's memory
traffic beside a measured matrix product and a measured read of memory.
"""

import argparse
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from livecap.cli import ENVIRONMENT

os.environ.update(ENVIRONMENT | os.environ)

import torch
from compare import join, machine, write_table
from systems import livecap

from livecap.config import DecodeConfig
from livecap.engine import engine, scheduler
from livecap.models.whisper import decoder
from livecap.vad.silero import Silero
from towers.mel import Mel
from towers.whisper import WhisperTower

STAGES: dict[str, list[tuple[Any, str]]] = {
    "voice activity": [(Silero, "listen")],
    "mel": [(Mel, "offline")],
    "encoder": [(WhisperTower, "encode")],
    "cross keys and values": [(decoder.WhisperDecoder, "remember")],
    "decoder, all": [(decoder.WhisperDecoder, "forward")],
    "- attention, both": [(decoder, "attend")],
    "rules and sampling": [(engine, "_sample")],
    "batches": [(scheduler.Scheduler, "batch")],
}


def clocked(original: Callable[..., Any], name: str, spent: dict[str, float]) -> Callable[..., Any]:
    """The same function, with its time added up."""

    def timed(*values: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        try:
            return original(*values, **named)
        finally:
            spent[name] += time.perf_counter() - begun
            spent[f"calls of {name}"] += 1

    return timed


def product() -> float:
    """GFLOP/s of the encoder's largest product in bf16."""
    x, w = (torch.randn(*shape, dtype=torch.bfloat16) for shape in ((1500, 384), (1536, 384)))
    torch.nn.functional.linear(x, w)
    begun = time.perf_counter()
    for _ in range(50):
        torch.nn.functional.linear(x, w)
    return 50 * 2 * 1500 * 384 * 1536 / (time.perf_counter() - begun) / 1e9


def bandwidth() -> float:
    """GB/s of reading memory that no cache holds."""
    x = torch.randn(64 << 20)
    x.sum()
    begun = time.perf_counter()
    for _ in range(5):
        x.sum()
    return 5 * x.nbytes / (time.perf_counter() - begun) / 1e9


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    spent: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as folder:
        corpus = join(options.folder, Path(folder) / "joined.wav")
        run = livecap(corpus.path, options.threads, "auto", DecodeConfig())
        run()
        patches = [
            patch.object(place, name, clocked(getattr(place, name), stage, spent))
            for stage, places in STAGES.items()
            for place, name in places
        ]
        for one in patches:
            one.start()
        begun = time.perf_counter()
        run()
        total = time.perf_counter() - begun
        for one in patches:
            one.stop()
    known = sum(spent[stage] for stage in STAGES if not stage.startswith("-"))
    rows = [
        f"| {stage} | {spent[stage]:.2f} | {100 * spent[stage] / total:.0f} | "
        f"{spent[f'calls of {stage}']:.0f} |"
        for stage in STAGES
    ]
    rows.append(f"| the rest: reading, sessions, text | {total - known:.2f} | "
                f"{100 * (total - known) / total:.0f} | |")  # fmt: skip
    windows = spent["calls of encoder"]
    work = 36.9 * windows  # GFLOP of tiny.en's encoder over 1500 positions
    speed, read = product(), bandwidth()
    head = (
        f"{machine(options.threads)}; {corpus.seconds:.0f} s of audio in {total:.2f} s, "
        f"{windows:.0f} windows.\n\n| stage | seconds | % | calls |\n|---|---|---|---|"
    )
    tail = (
        f"\nThe encoder computes {work / spent['encoder']:.0f} GFLOP/s; its largest product alone "
        f"reaches {speed:.0f} here, so at that speed it would take {work / speed:.2f} s. "
        f"Memory reads {read:.0f} GB/s; a decode step of 10 sequences reads at least "
        f"{(10 * 4 * 1340 * 384 * 2 * 2 + 51864 * 384) / 1e6:.0f} MB (cross-attention in bf16 and "
        f"the int8 head), {(10 * 4 * 1340 * 384 * 2 * 2 + 51864 * 384) / read / 1e6:.1f} ms."
    )
    write_table("stages", "\n".join([head, *rows, tail]))


if __name__ == "__main__":
    main()
