"""Live captions beside the file mode on the corpus of corpus.py, recording by recording.

`live_offline.py --corpus FOLDER` calls this. What the file mode makes of a recording is kept in
FOLDER/file_mode, by the audio, the model and the configuration (not by the code: `--fresh`).
"""

import hashlib
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import jiwer
import numpy as np
from paired import difference
from systems import Pcm, read
from torch import Tensor
from whisper_normalizer.english import EnglishTextNormalizer

from livecap.checkpoints import resolve
from livecap.commands.bench_measures import delays, erasure, word_delays, written
from livecap.commands.bench_runs import offline, replay
from livecap.config import DecodeConfig, LiveOptions, ModelConfig, VadConfig
from livecap.engine.batch import Batch
from livecap.events import RATE, Word
from livecap.models.load import Loaded, load_model
from livecap.models.streams import live_config
from livecap.vad.silero import load
from towers.train.manifest import write_audio

Clock = Literal["wall", "cpu"]
CLOCKS: dict[Clock, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
QUIET = 1e-4  # of full scale (-80 dBFS): the noise before a recording
MODEL = "tiny.en"
DECODE = DecodeConfig(words=True, language="en")
HEAD = (
    "| kind | recordings | words | WER % live | file | apart (95 %) | commit p50 s | p95 s "
    "| erasure | core-s / s | passes / update |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class Settings:
    """How recordings are heard."""

    folder: Path
    before: float = 0.0  # seconds of almost nothing before each
    clock: Clock = "wall"
    threads: int = 1  # of each process
    is_fresh: bool = False  # the file mode is run again


@dataclass(frozen=True, slots=True)
class Entry:
    """A recording, as the manifest has it."""

    name: str
    kind: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one recording."""

    name: str
    kind: str
    seconds: float
    words: int  # of the reference, normalised
    live_errors: int
    file_errors: int
    delays: tuple[float | None, ...]  # seconds from a word's end to its commit
    erased: float  # words of tails that were taken back
    said: int  # words of the live text
    cpu: float  # core-seconds of the live path
    updates: int
    passes: int  # of the decoder
    live: str
    file: str


def select(folder: Path, part: str, minutes: float | None) -> list[Entry]:
    """A part's recordings, or so many minutes of them: of each kind one, then another one."""
    lines = (folder / "manifest.jsonl").read_text("utf-8").splitlines()
    every = [row for row in map(json.loads, lines) if row["part"] == part]
    entries = [Entry(row["name"], row["kind"], row["seconds"]) for row in every]
    if minutes is None:
        return entries
    kinds: dict[str, list[Entry]] = {}
    for place in np.random.default_rng(0).permutation(len(entries)):  # so that voices vary
        kinds.setdefault(entries[place].kind, []).append(entries[place])
    found: list[Entry] = []
    for turn in range(len(entries)):
        for kind in sorted(kinds):
            found += kinds[kind][turn : turn + 1]
            if sum(one.seconds for one in found) >= 60 * minutes:
                return found
    return found


def measure(entries: Sequence[Entry], settings: Settings, jobs: int) -> list[Row]:
    """All of them, in so many processes."""
    longest = sorted(entries, key=lambda entry: -entry.seconds)
    shares = [longest[job::jobs] for job in range(min(jobs, len(longest)))]
    run = partial(_measure, settings=settings)
    if len(shares) == 1:
        rows = run(shares[0])
    else:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            rows = [row for some in pool.map(run, shares) for row in some]
    return sorted(rows, key=lambda row: row.name)


def _measure(entries: Sequence[Entry], settings: Settings) -> list[Row]:
    """One process: the model is loaded once."""
    hearing = _Hearing(settings)
    rows = []
    for entry in entries:
        rows.append(hearing.row(entry))
        told = rows[-1]
        shares = (f"{100 * n / told.words:.1f}" for n in (told.live_errors, told.file_errors))
        print(entry.name, *shares, file=sys.stderr, flush=True)
    return rows


class _Hearing:
    """A loaded model, live and offline."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loaded = load_model(resolve(MODEL), ModelConfig(threads=settings.threads))
        self._silero = load()
        self._config = live_config(
            self._loaded.model, LiveOptions(), vad=VadConfig(), language="en"
        )
        self._normalise = EnglishTextNormalizer()
        self._passes = Passes(self._loaded)

    def row(self, entry: Entry) -> Row:
        path = self._settings.folder / f"{entry.name}.flac"
        generator = np.random.default_rng(0)
        quiet = generator.normal(0, QUIET, round(self._settings.before * RATE))
        pcm = np.concatenate([quiet.astype(np.float32), read(path)])
        found = self._offline(pcm)
        passes, begun = self._passes.count, time.process_time()
        run = replay(
            self._loaded, self._silero, pcm, self._config, DECODE,
            clock=CLOCKS[self._settings.clock],
        )  # fmt: skip
        cpu = time.process_time() - begun
        reference = path.with_suffix(".txt").read_text("utf-8")
        filed = "".join(word.text for word in found)
        words, live_errors = self._errors(reference, run.text)
        said = len(written(run.text))
        return Row(
            name=entry.name, kind=entry.kind, seconds=len(pcm) / RATE, words=words,
            live_errors=live_errors, file_errors=self._errors(reference, filed)[1],
            delays=tuple(word_delays(run.captions, found)),
            erased=(erasure([run.captions]) or 0.0) * said, said=said, cpu=cpu,
            updates=run.works or 0, passes=self._passes.count - passes,
            live=run.text, file=filed,
        )  # fmt: skip

    def _errors(self, reference: str, text: str) -> tuple[int, int]:
        """Words of the reference, and word errors."""
        found = jiwer.process_words(self._normalise(reference), self._normalise(text))
        correct = found.hits + found.substitutions + found.deletions
        return correct, found.substitutions + found.deletions + found.insertions

    def _offline(self, pcm: Pcm) -> list[Word]:
        """What the file mode says, once for the same audio and configuration."""
        facts = f"{MODEL} {DECODE} {VadConfig()}".encode()
        key = hashlib.sha256(pcm.tobytes() + facts).hexdigest()[:20]
        kept = self._settings.folder / "file_mode" / f"{key}.json"
        if kept.exists() and not self._settings.is_fresh:
            return [Word(*word) for word in json.loads(kept.read_text("utf-8"))]
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "recording.wav"
            write_audio(path, pcm)
            found = offline(self._loaded, self._silero, str(path), DECODE, VadConfig())
        kept.parent.mkdir(exist_ok=True)
        told = [(word.text, word.start, word.end) for word in found]
        kept.write_text(json.dumps(told, ensure_ascii=False), "utf-8")
        return [Word(*word) for word in told]


class Passes:
    """Counts the decoder's forward passes from here on."""

    def __init__(self, loaded: Loaded) -> None:
        self.count = 0
        decoder = loaded.model.decoder
        forward = decoder.forward

        def counted(batch: Batch) -> Tensor:
            self.count += 1
            return forward(batch)

        decoder.forward = counted  # type: ignore[method-assign]


def table(rows: Sequence[Row]) -> str:
    """By kind and in all, as Markdown."""
    return "\n".join([HEAD, *(_line(name, some) for name, some in _by_kind(rows))])


def _by_kind(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for kind in dict.fromkeys(row.kind for row in rows):
        yield kind, [row for row in rows if row.kind == kind]
    yield "all", list(rows)


def _line(name: str, rows: Sequence[Row]) -> str:
    words = [row.words for row in rows]
    live, filed = ([row.live_errors for row in rows], [row.file_errors for row in rows])
    late = delays(value for row in rows for value in row.delays)
    said, updates = max(sum(row.said for row in rows), 1), max(sum(row.updates for row in rows), 1)
    return (
        f"| {name} | {len(rows)} | {sum(words)} | {100 * sum(live) / sum(words):.2f} "
        f"| {100 * sum(filed) / sum(words):.2f} | {difference(live, filed, words)} "
        f"| {late.p50:.2f} | {late.p95:.2f} | {sum(row.erased for row in rows) / said:.3f} "
        f"| {sum(row.cpu for row in rows) / sum(row.seconds for row in rows):.3f} "
        f"| {sum(row.passes for row in rows) / updates:.2f} |"
    )


def against(rows: Sequence[Row], earlier: Sequence[Row]) -> str:
    """Live errors now minus those of an earlier run, on the recordings of both, as Markdown."""
    before = {row.name: row for row in earlier}
    both = [row for row in rows if row.name in before]
    if not both:
        raise SystemExit("the two runs have no recording in common")
    lines = ["| kind | recordings | live now minus then, points (95 %) |", "|---|---|---|"]
    for name, some in _by_kind(both):
        now, then = ([one.live_errors for one in some], [before[r.name].live_errors for r in some])
        found = difference(now, then, [row.words for row in some])
        lines.append(f"| {name} | {len(some)} | {found} |")
    return "\n".join(lines)


def save(path: Path, rows: Iterable[Row]) -> None:
    """As JSON lines."""
    path.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows), "utf-8")


def saved(path: Path) -> list[Row]:
    """The rows of an earlier run."""
    return [Row(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
