"""Live captions: `python benchmarks/latency.py FOLDER [--wlk PYTHON --wlk-model DIR] [--rounds 1]`.

The recordings of FOLDER, joined, are played in real time to livecap and, with --wlk, to
WhisperLiveKit, one process after the other: `wlk_peer.py` says what PYTHON's environment holds, and
`wlk_model.py` makes DIR. With `--sessions N`, livecap captions so many at once in one process
instead. With `--seconds N` only the first recordings are played, as many as that takes.

All are scored alike. A word counts if livecap, offline and with timed words, finds it where the
reference has it; its end by that alignment is when it has been spoken. A committed word that is
matched to one of these is late by the moment of its commit minus that end.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from statistics import median
from typing import Any

import jiwer
from compare import HERE, Corpus, join, keep, machine, write_table
from systems import read
from whisper_normalizer.english import EnglishTextNormalizer

from livecap.cli import ENVIRONMENT
from livecap.commands.bench_measures import DelayPercentiles, delays, final_delays, matched, words
from livecap.config import DecodeConfig, LiveOptions, ModelConfig, VadConfig
from livecap.events import RATE, Word

OURS = ("align-att", "local-agreement")
PEERS = ("localagreement", "simulstreaming")
WARM = 10 * RATE  # samples: as the peer

Commits = Sequence[tuple[float, str]]  # seconds since the audio began, new text


@dataclass(frozen=True)
class Score:
    """One run of a system."""

    late: list[float | None]  # seconds, for each committed word; None where it isn't matched
    wer: float  # percent
    core_seconds: float  # for a second of audio


def hear(path: Path, policy: str, threads: int, sessions: int) -> dict[str, object]:
    """livecap in real time, in this process: what `wlk_peer.py` says of its peer, and more."""
    from livecap.checkpoints import resolve
    from livecap.commands.bench_runs import perform, replay, stretches
    from livecap.models.load import load_model
    from livecap.models.streams import live_config
    from livecap.vad.silero import load

    loaded, silero = load_model(resolve("tiny.en"), ModelConfig(threads=threads)), load()
    vad, decode, pcm = VadConfig(), DecodeConfig(words=True), read(path)
    options = LiveOptions(policy=policy)
    config = live_config(loaded.model, options, vad=vad, language="en")
    replay(loaded, silero, pcm[:WARM], config, decode)
    used, begun = time.process_time(), time.perf_counter()
    runs = perform(loaded, silero, pcm, config, decode, sessions=sessions)
    used, wall = time.process_time() - used, time.perf_counter() - begun
    assert config.updates is not None
    spoken = stretches(silero, pcm, vad, config.updates.endpoint_silence)
    told = [
        {
            "commits": [(round(at, 3), one.text) for at, one in run.captions if one.text],
            "text": run.text.strip(),
            "finals": [
                None if delay is None else round(delay, 3)
                for delay in final_delays(run.captions, spoken)
            ],
            "lags": [round(lag, 3) for lag in run.lags],
        }
        for run in runs
    ]
    audio = len(pcm) / RATE
    return {"sessions": told, "audio": audio, "core_seconds": used, "wall": wall}


def timed(corpus: Corpus, threads: int) -> list[Word]:
    """Words that livecap hears offline where the reference has them, with their times."""
    options = ("-m", "tiny.en", "--words", "--json-lines", "-q")
    ran = subprocess.run(
        [sys.executable, "-m", "livecap", "file", str(corpus.path), *options],
        check=True,
        capture_output=True,
        text=True,
        env=environment(threads),
    )
    found = [
        Word(word["word"], round(word["start"] * RATE), round(word["end"] * RATE))
        for line in ran.stdout.splitlines()
        for word in json.loads(line).get("words", ())
        if word["end"] is not None
    ]
    own = [" ".join(words(word.text)) for word in found]
    matcher = SequenceMatcher(None, own, words(corpus.reference), autojunk=False)
    return [
        word for at, _, count in matcher.get_matching_blocks() for word in found[at : at + count]
    ]


def environment(threads: int, *, ours: bool = True) -> dict[str, str]:
    """For a process: livecap finds this checkout, the peer its own packages."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    kept["OMP_NUM_THREADS"] = str(threads)
    return kept | {"PYTHONPATH": str(HERE.parent)} if ours else kept


def spoken(commits: Commits) -> list[tuple[float, str]]:
    """Pieces of text -> words, each at the moment of its last character."""
    text = "".join(piece for _, piece in commits)
    moments = [at for at, piece in commits for _ in piece]
    return [(moments[found.end() - 1], found.group()) for found in re.finditer(r"\S+", text)]


def late(commits: Commits, known: Sequence[Word]) -> list[float | None]:
    """Seconds from the end of each committed word to its commit."""
    said = [(at, word) for at, word in spoken(commits) if words(word)]
    ends = matched([word for _, word in said], known)
    return [
        None if end is None else at - end / RATE for (at, _), end in zip(said, ends, strict=True)
    ]


def measure(command: Sequence[str], threads: int, *, ours: bool) -> dict[str, Any]:
    """One process -> the line of JSON that it ends with."""
    ran = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env=environment(threads, ours=ours),
    )
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def systems(options: argparse.Namespace, path: Path) -> dict[str, tuple[list[str], bool]]:
    """Names -> commands, and whether it is livecap."""
    common = ["--threads", str(options.threads)]
    own = [sys.executable, str(HERE / "latency.py"), str(path), *common]
    if options.sessions > 1:
        many = [*own, "--hear", OURS[0], "--sessions", str(options.sessions)]
        return {f"livecap {OURS[0]}": (many, True)}
    found = {f"livecap {policy}": ([*own, "--hear", policy], True) for policy in OURS}
    if options.wlk:
        peer = [str(options.wlk), str(HERE / "wlk_peer.py"), str(path)]
        rest = ["--model", str(options.wlk_model), *common]
        for policy in PEERS:
            found[f"WhisperLiveKit {policy}"] = ([*peer, policy, *rest], False)
    return found


def chosen(folder: Path, seconds: float, into: Path) -> Path:
    """The first recordings of a folder, as many as it takes, by links."""
    into.mkdir()
    length = 0.0
    for file in sorted(folder.glob("*.flac")):
        if length < seconds:
            length += len(read(file)) / RATE
            for part in (file, file.with_suffix(".txt")):
                (into / part.name).symlink_to(part.resolve())
    return into


def scored(run: Mapping[str, Any], corpus: Corpus, known: Sequence[Word]) -> Score:
    """All sessions of one run."""
    normalise = EnglishTextNormalizer()
    sessions = run.get("sessions") or [run]
    right = [normalise(corpus.reference)] * len(sessions)
    return Score(
        late=[one for session in sessions for one in late(session["commits"], known)],
        wer=100 * jiwer.process_words(right, [normalise(one["text"]) for one in sessions]).wer,
        core_seconds=run["core_seconds"] / run["audio"] / len(sessions),
    )


def row(name: str, scores: Sequence[Score]) -> str:
    """A line of the table: delays of all rounds together, medians of the rest."""
    every = delays(value for score in scores for value in score.late)
    rates = [median(score.wer for score in scores), median(score.core_seconds for score in scores)]
    unmatched = median(score.late.count(None) for score in scores)
    return (
        f"| {name} | {shown(every)} | {every.count // len(scores)} | {unmatched:.0f} | "
        f"{rates[0]:.2f} | {rates[1]:.3f} |"
    )


def shown(one: DelayPercentiles) -> str:
    """Two columns of a table."""
    return " | ".join("" if value is None else f"{value:.2f}" for value in (one.p50, one.p95))


def crowd(runs: Sequence[Mapping[str, Any]], scores: Sequence[Score]) -> str:
    """The table of many sessions at once."""
    sessions = [one for run in runs for one in run["sessions"]]
    commit = delays(value for score in scores for value in score.late)
    ends = [value for one in sessions for value in one["finals"]]
    final, latest = delays(ends), max(value for value in ends if value is not None)
    lag = delays(value for one in sessions for value in one["lags"])
    most = max(value for one in sessions for value in one["lags"])
    core = median(score.core_seconds for score in scores)
    return (
        "| sessions | commit p50 s | p95 s | final p50 s | p95 s | most s | finals | lag p50 s | "
        "p95 s | most s | WER % | core-s per s of audio |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|\n"
        f"| {len(sessions) // len(runs)} | {shown(commit)} | {shown(final)} | {latest:.2f} | "
        f"{final.count} | {shown(lag)} | {most:.2f} | "
        f"{median(score.wer for score in scores):.2f} | {core:.3f} |"
    )


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wlk", type=Path)
    parser.add_argument("--wlk-model", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--sessions", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--hear", choices=OURS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hear:  # a process of its own, where FOLDER is the WAV
        os.environ.update(ENVIRONMENT | os.environ)
        print(json.dumps(hear(options.folder, options.hear, options.threads, options.sessions)))
        return
    if bool(options.wlk) != bool(options.wlk_model):
        parser.error("--wlk and --wlk-model go together")
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder
        if options.seconds:
            folder = chosen(folder, options.seconds, Path(scratch) / "some")
        corpus = join(folder, Path(scratch) / "joined.wav")
        known = timed(corpus, options.threads)
        runs: dict[str, list[dict[str, Any]]] = {}
        for number in range(options.rounds):
            for name, (command, ours) in systems(options, corpus.path).items():
                print(f"round {number + 1}: {name}", file=sys.stderr)
                runs.setdefault(name, []).append(measure(command, options.threads, ours=ours))
    scores = {name: [scored(run, corpus, known) for run in some] for name, some in runs.items()}
    rounds = f"{options.rounds} round{'s' if options.rounds > 1 else ''}"
    head = (
        f"{machine(options.threads)}; {corpus.seconds:.0f} s of audio in real time, {rounds}.\n\n"
    )
    if options.sessions > 1:
        (name,) = runs
        section, body = "sessions", crowd(runs[name], scores[name])
    else:
        section, body = (
            "latency",
            "\n".join(
                [
                    f"{len(known)} words of the reference have times.\n\n"
                    "| system | commit p50 s | p95 s | words | unmatched | WER % | "
                    "core-s per s of audio |\n|---|---|---|---|---|---|---|",
                    *(row(name, some) for name, some in scores.items()),
                ]
            ),
        )
    write_table(section, head + body)
    keep("latency", [{"system": name, **run} for name, some in runs.items() for run in some])


if __name__ == "__main__":
    main()
