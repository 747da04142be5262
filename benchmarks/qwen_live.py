"""Live Qwen3-ASR on random weights: `python benchmarks/qwen_live.py CHECKPOINT WAV [--minutes 10]`.

Feeds a recording, again and again, through the live path as fast as it goes, and tells for every
minute how many updates there were and what each took. Text is forced (3 tokens a second of speech,
the same ones at each update), since random weights say nothing; so drafts are right, as most are
with real ones, or wrong with `--wrong`. Asserts that what is published is only ever added to.
"""

import argparse
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from livecap.cli import ENVIRONMENT
from livecap.online.stream import OnlineStream

os.environ.update(ENVIRONMENT | os.environ)

import numpy as np
from compare import keep, machine, write_table
from torch import Tensor

from livecap.audio import AudioReader
from livecap.checkpoints import resolve
from livecap.config import DecodeConfig, LiveOptions, ModelConfig, VadConfig
from livecap.engine.request import Request
from livecap.events import RATE, Caption
from livecap.models.load import load_model
from livecap.models.protocol import DecodeSteps, Model
from livecap.models.streams import live_config
from livecap.online.job import DecodeJob
from livecap.runtime.batcher import Batcher
from livecap.runtime.source import MultichannelSource
from livecap.vad.silero import load

SPOKEN = 3.0  # tokens a second
FIRST = 1000  # the first token of a text
FEED = RATE // 5  # samples


@dataclass(frozen=True, slots=True)
class Forced:
    """A rule that leaves one token for each place of a text, and in the end an end token."""

    before: int  # tokens of the text before the first that is sampled
    length: int  # of the text
    end: int
    shift: int  # so that a draft from before is wrong

    def __call__(self, logits: Tensor, sampled: Sequence[int]) -> None:
        place = self.before + len(sampled)
        logits.fill_(-math.inf)
        logits[FIRST + self.shift + place if place < self.length else self.end] = 0.0


class Scripted:
    """A model whose text is forced; all else is its own."""

    def __init__(self, model: Any, *, wrong: bool) -> None:
        self.model = model
        self.wrong = wrong
        self.updates = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def decode(self, work: DecodeJob, config: DecodeConfig) -> DecodeSteps:
        """As the model's, with the rule added to its request."""
        assert work.prefix is not None
        self.updates += 1
        rule = Forced(
            before=len(work.prefix.committed),
            length=math.ceil(SPOKEN * len(work.segment.pcm) / RATE),
            end=min(self.model.ends),
            shift=self.updates % 2 * 500 if self.wrong else 0,
        )
        recognition = self.model.decode(work, config)
        answer: Any = None
        while True:
            try:
                ask = recognition.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # what the model returns
            if isinstance(ask, Request):
                ask = replace(ask, rules=(rule,), halt=None)
            answer = yield ask


def pieces(pcm: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]", seconds: int) -> Iterator[Any]:
    """So many seconds of a recording that begins again when it is over."""
    for at in range(0, seconds * RATE, FEED):
        yield at, np.take(pcm, range(at, at + FEED), mode="wrap")


def run(model: Model, pcm: Any, *, minutes: int, wrong: bool) -> list[dict[str, float]]:
    """A row for each minute."""
    scripted: Any = Scripted(model, wrong=wrong)
    config = live_config(model, LiveOptions(), vad=VadConfig(), language="en")
    assert config.updates is not None
    stream = OnlineStream(replace(config, updates=replace(config.updates, catch_up=False)))
    source = MultichannelSource([stream], load())
    batcher: Batcher[int] = Batcher(scripted, DecodeConfig(), max_jobs=1)
    rows = [dict[str, float](updates=0, seconds=0.0, words=0) for _ in range(minutes)]
    for at, chunk in pieces(pcm, minutes * 60):
        source.push(at, chunk[None])
        row = rows[at // (60 * RATE)]
        while found := source.poll():
            job = replace(found[1], deadline=0.0)
            begun = time.perf_counter()
            batcher.submit(0, job)
            while not (done := batcher.step()):
                pass
            row["seconds"] += time.perf_counter() - begun
            row["updates"] += 1
            for event in source.accept(0, done[0][1]):
                if isinstance(event, Caption):
                    row["words"] += len(event.words)
            for state in stream.freed():
                batcher.free(state)
    for state in stream.cancel():
        batcher.free(state)
    pages = model.decoder.pages
    assert pages.available == pages.count, "pages leaked"
    return rows


def cases(options: argparse.Namespace) -> dict[str, tuple[str, int, bool, int]]:
    """Name -> checkpoint, window in seconds, whether drafts are wrong, minutes."""
    short = min(options.minutes, 2)
    found = {
        "windows of 8 s, rollback": (options.checkpoint, 0, False, options.minutes),
        "windows of 8 s, rollback, drafts wrong": (options.checkpoint, 0, True, short),
        "windows of 2 s, rollback": (options.checkpoint, 2, False, short),
    }
    if options.causal:
        found["causal, append-only"] = (options.causal, 0, False, options.minutes)
    return found


def measure(options: argparse.Namespace) -> None:
    """One case in this process: a line of the table."""
    checkpoint, window, wrong, minutes = cases(options)[options.case]
    with AudioReader(options.wav) as reader:
        pcm = np.concatenate([block.pcm[0] for block in reader])
    config = ModelConfig(threads=options.threads, attention_window=window)
    model = load_model(resolve(checkpoint), config).model
    rows = run(model, pcm, minutes=minutes, wrong=wrong)
    keep("qwen_live", [{"case": options.case, "minutes": rows}])
    each = [1000 * row["seconds"] / max(row["updates"], 1) for row in rows]
    total = sum(row["seconds"] for row in rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"| {options.case} | {minutes} | {sum(row['updates'] for row in rows) / minutes:.0f} "
        f"| {each[0]:.0f} | {sorted(each)[len(each) // 2]:.0f} | {each[-1]:.0f} "
        f"| {total / (60 * minutes):.2f} | {peak:.0f} |"
    )


def main() -> None:
    """Measure every case in a process of its own, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("wav", type=Path)
    parser.add_argument("--causal", default="", help="a causal tower's checkpoint")
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--case", default="")
    options = parser.parse_args()
    if options.case:
        measure(options)
        return
    text = [
        f"{machine(options.threads)}; one stream.\n",
        "| live | minutes | updates a minute | ms an update in the first minute | the median one "
        "| the last one | of real time | peak MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in cases(options):
        command = [sys.executable, *sys.argv, "--case", name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        text.append(done.stdout.splitlines()[-1])
        print(text[-1], file=sys.stderr, flush=True)
    write_table("qwen-live", "\n".join(text))


if __name__ == "__main__":
    main()
