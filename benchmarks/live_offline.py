"""The text of live captions beside the file mode's: `python benchmarks/live_offline.py FOLDER`.

Each recording of FOLDER is a stream of its own, behind so much almost silent noise, and a file of
its own; then all of them joined are one. What little of a beginning a model hears first depends on
where the speech begins, so one such take says little. On the virtual clock: computing takes as long
as it does, waiting nothing.

With `--corpus FOLDER --part tune|report` it's the corpus of corpus.py instead, by kind, with the
confidence of the difference; `--against` compares with the `--out` of an earlier run. `--clock cpu`
counts core-seconds instead, for a machine that others use as well.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from livecap.cli import ENVIRONMENT

os.environ.update(ENVIRONMENT | os.environ)

import jiwer
import numpy as np
from compare import join, keep, machine, write_table
from live_corpus import (
    CLOCKS,
    DECODE,
    QUIET,
    Settings,
    against,
    measure,
    save,
    saved,
    select,
    table,
)
from systems import Pcm, read
from whisper_normalizer.english import EnglishTextNormalizer

from livecap.checkpoints import resolve
from livecap.commands.bench_measures import delays, word_delays
from livecap.commands.bench_runs import offline, replay
from livecap.config import LiveOptions, ModelConfig, VadConfig
from livecap.events import RATE
from livecap.models.load import load_model
from livecap.models.streams import live_config
from livecap.vad.silero import load
from towers.train.manifest import write_audio

BEFORE = (0.0, 0.31, 0.77, 1.23)  # seconds


@dataclass(frozen=True, slots=True)
class Take:
    """What is heard at one go."""

    pcm: Pcm
    reference: str


class Ways:
    """A loaded model, live and offline."""

    def __init__(self, threads: int, scratch: Path) -> None:
        self._loaded = load_model(resolve("tiny.en"), ModelConfig(threads=threads))
        self._silero = load()
        self._config = live_config(
            self._loaded.model, LiveOptions(), vad=VadConfig(), language="en"
        )
        self._path = scratch / "take.wav"

    def row(self, name: str, takes: Sequence[Take]) -> str:
        """A line of the table."""
        normalise = EnglishTextNormalizer()
        right, live, filed = list[str](), list[str](), list[str]()
        late: list[float | None] = []
        for take in takes:
            write_audio(self._path, take.pcm)
            found = offline(self._loaded, self._silero, str(self._path), DECODE, VadConfig())
            run = replay(self._loaded, self._silero, take.pcm, self._config, DECODE)
            right.append(normalise(take.reference))
            live.append(normalise(run.text))
            filed.append(normalise("".join(word.text for word in found)))
            late += word_delays(run.captions, found)
        wrong, offline_wrong = (100 * jiwer.wer(right, some) for some in (live, filed))
        told = delays(late)
        apart = wrong - offline_wrong
        keep("live_offline", [{"take": name, "live": live, "offline": filed}])
        return (
            f"| {name} | {wrong:.2f} | {offline_wrong:.2f} | {apart:+.2f} "
            f"| {told.p50:.2f} | {told.p95:.2f} |"
        )


def takes(folder: Path, seconds: float) -> Iterator[Take]:
    """The recordings behind so much of almost nothing."""
    generator = np.random.default_rng(0)
    for path in sorted(folder.glob("*.flac")):
        if path.with_suffix(".txt").exists():
            quiet = generator.normal(0, QUIET, round(seconds * RATE)).astype(np.float32)
            text = path.with_suffix(".txt").read_text("utf-8")
            yield Take(np.concatenate([quiet, read(path)]), text)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="for the five takes")
    parser.add_argument("--threads", type=int, default=2, help="of the five takes")
    parser.add_argument("--corpus", type=Path, metavar="FOLDER")
    parser.add_argument("--part", choices=("tune", "report"), default="tune")
    parser.add_argument("--limit", type=float, metavar="MINUTES", help="evenly over kinds")
    parser.add_argument("--before", type=float, default=0.0, metavar="SECONDS", help="of silence")
    parser.add_argument("--jobs", type=int, default=1, help="processes of one thread")
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall")
    parser.add_argument("--fresh", action="store_true", help="run the file mode again, too")
    parser.add_argument("--out", type=Path, metavar="RESULTS.jsonl", help="where rows are kept")
    parser.add_argument("--against", type=Path, metavar="RESULTS.jsonl", help="an earlier --out")
    options = parser.parse_args()
    if (options.folder is None) == (options.corpus is None):
        parser.error("either a FOLDER for the five takes, or --corpus FOLDER")
    if options.corpus:
        measure_corpus(options)
    else:
        measure_takes(options.folder, options.threads)


def measure_corpus(options: argparse.Namespace) -> None:
    """A part of the corpus: the table by kind, and what changed since an earlier run."""
    settings = Settings(
        options.corpus, options.before, options.clock, threads=1, is_fresh=options.fresh
    )
    rows = measure(select(options.corpus, options.part, options.limit), settings, options.jobs)
    if options.out:
        save(options.out, rows)
    told = f"{machine(1)}; {options.part}, {sum(row.seconds for row in rows):.0f} s"
    print(f"{told}, {options.clock} clock, {options.jobs} processes.\n\n{table(rows)}")
    if options.against:
        print(f"\n{against(rows, saved(options.against))}")


def measure_takes(folder: Path, threads: int) -> None:
    """The five takes, into README.md."""
    rows = [
        "| silence before s | WER % live | file | apart | commit p50 s | p95 s |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as scratch:
        ways = Ways(threads, Path(scratch))
        for seconds in BEFORE:
            some = list(takes(folder, seconds))
            rows.append(ways.row(f"{seconds:.2f}", some))
            print(rows[-1], flush=True)
        corpus = join(folder, Path(scratch) / "all.wav")
        rows.append(ways.row("all joined", [Take(read(corpus.path), corpus.reference)]))
    told = f"{machine(threads)}; {len(some)} recordings, {corpus.seconds:.0f} s in all."
    write_table("live-offline", f"{told}\n\n" + "\n".join(rows))


if __name__ == "__main__":
    main()
