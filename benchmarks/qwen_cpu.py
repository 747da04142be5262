"""Qwen3-ASR on a CPU beside the peers: `python benchmarks/qwen_cpu.py CHECKPOINT FOLDER`.

CHECKPOINT is of the real 0.6B shape (`qwen_checkpoint.py` makes one of random weights); FOLDER has
recordings. `--antirez` is the C program antirez/qwen-asr, built with OpenBLAS and taught to decode
QWEN_BENCH_TOKENS tokens whatever they are and to print its timers as lines `BENCH {json}`: its
results are what they were, only when it stops is not. `--sdk` is the Python of an environment with
the package qwen-asr. In every round all of them run in turn, one process each.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compare import HERE, join, keep, machine, write_table

from livecap.events import RATE

TOKENS, UPDATED = 32, 11  # decoded for a clip; for an update of 2 s: 6 new and 5 again
CLIPS = (11, 30)  # seconds
Facts = dict[str, float]


def cut(source: Path, target: Path, seconds: int) -> Path:
    """The first seconds of a WAV."""
    with wave.open(str(source)) as whole, wave.open(str(target), "wb") as out:
        out.setparams(whole.getparams())
        out.writeframes(whole.readframes(seconds * RATE))
    return target


def run(command: list[str], **variables: str) -> str:
    """A command's output, errors included."""
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
        errors="replace",
    )
    if done.returncode:
        sys.exit(f"{command} failed:\n{done.stdout}")
    return done.stdout


def livecap(options: argparse.Namespace, clip: Path, *more: str) -> Facts:
    """livecap's stages."""
    command = [sys.executable, str(HERE / "qwen_systems.py"), options.checkpoint, str(clip)]
    command += ["--threads", str(options.threads), "--tokens", str(TOKENS), *more]
    out = run(command, PYTHONPATH=str(HERE.parent), OMP_NUM_THREADS=str(options.threads))
    facts: Facts = json.loads(out.splitlines()[-1])
    return facts


def sdk(options: argparse.Namespace, clip: Path) -> Facts:
    """The package qwen-asr."""
    command = [options.sdk, str(HERE / "qwen_sdk.py"), options.checkpoint, str(clip)]
    command += ["--threads", str(options.threads), "--tokens", str(TOKENS)]
    out = run(command, OMP_NUM_THREADS=str(options.threads))
    facts: Facts = json.loads(out.splitlines()[-1])
    return facts


def antirez(options: argparse.Namespace, clip: Path, *, streaming: bool) -> Facts:
    """The C program; its second run in one process, warm like the others."""
    threads = str(options.threads)
    command = [options.antirez, "-d", options.checkpoint, "-t", threads, "-i", str(clip)]
    out = run(
        [*command, *(["--stream"] if streaming else [])],
        OPENBLAS_NUM_THREADS=threads,
        QWEN_BENCH_TOKENS=str(UPDATED if streaming else TOKENS),
        QWEN_BENCH_REPEAT="1" if streaming else "2",
    )
    lines = [json.loads(found) for found in re.findall(r"BENCH (\{.*?\})", out)]
    mode = "stream" if streaming else "offline"
    told: dict[str, Any] = next(line for line in reversed(lines) if line["mode"] == mode)
    whole = next(line for line in reversed(lines) if line["mode"] == "process")
    tokens = told.get("decode_tokens", TOKENS)
    prompt = {} if streaming else {"prefill_tokens": told["prefill_tokens"]}
    return {
        **prompt,
        "encoder": told["encoder_s"],
        "prefill": told["prefill_s"],
        "decode": told["decode_ms_per_token"] * tokens / 1000,
        "decode_steps": tokens,  # one more than it needs
        "total": told["total_s"],
        "peak_mb": whole["peak_rss_mb"],
    }


def systems(options: argparse.Namespace) -> dict[str, Callable[[Path, bool], Facts | None]]:
    """All that are there; None for what one can't do."""

    def ours(*more: str) -> Callable[[Path, bool], Facts | None]:
        return lambda clip, stream: livecap(options, clip, *more, *(["--stream"] if stream else []))

    def streamed(*more: str) -> Callable[[Path, bool], Facts | None]:
        return lambda clip, stream: livecap(options, clip, "--stream", *more) if stream else None

    found = {
        "livecap auto": ours(),
        "livecap auto, windows of 2 s": ours("--window", "2"),
        "livecap int8": ours("--precision", "int8"),
        "livecap int4": ours("--precision", "int4"),
        "livecap auto, drafts right": streamed("--accepted"),
        "livecap auto, windows of 2 s, drafts right": streamed("--window", "2", "--accepted"),
    }
    if options.antirez:
        found["antirez/qwen-asr"] = lambda clip, stream: antirez(options, clip, streaming=stream)
    if options.sdk:
        found["qwen-asr 0.0.6, bf16"] = lambda clip, stream: None if stream else sdk(options, clip)
    return found


def row(name: str, rounds: list[Facts], seconds: int, peer: list[Facts] | None) -> str:
    """A line of the table: medians, and how many times as fast as the C program."""

    def middle(stage: str, facts: list[Facts]) -> float:
        return sorted(one[stage] for one in facts)[len(facts) // 2]

    def against(stage: str) -> str:
        return f" ({middle(stage, peer) / middle(stage, rounds):.1f}x)" if peer else ""

    def step(facts: list[Facts]) -> float:
        return 1000 * middle("decode", facts) / facts[0]["decode_steps"]

    per_token = step(rounds)
    positions = rounds[0].get("prefill_tokens")  # of one prompt; updates have many
    speed = f"{positions / middle('prefill', rounds):.0f}" if positions else ""
    ratio = f" ({step(peer) / per_token:.1f}x)" if peer else ""
    return (
        f"| {name} | {middle('encoder', rounds) / seconds:.4f}{against('encoder')} "
        f"| {middle('prefill', rounds):.2f}{against('prefill')} "
        f"| {speed} | {per_token:.1f}{ratio} "
        f"| {middle('total', rounds):.2f}{against('total')} "
        f"| {middle('total', rounds) / seconds:.2f} | {middle('peak_mb', rounds):.0f} |"
    )


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--antirez", default="")
    parser.add_argument("--sdk", default="")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[tuple[int, bool, str], list[Facts]] = {}
    with tempfile.TemporaryDirectory() as folder:
        corpus = join(options.folder, Path(folder) / "joined.wav")
        clips = {n: cut(corpus.path, Path(folder) / f"{n}.wav", n) for n in CLIPS}
        cases = [(seconds, False) for seconds in CLIPS] + [(CLIPS[-1], True)]
        for number in range(options.rounds):
            for seconds, streaming in cases:
                for name, system in systems(options).items():
                    facts = system(clips[seconds], streaming)
                    if facts:
                        found.setdefault((seconds, streaming, name), []).append(facts)
                        print(f"round {number}: {name}: {seconds} s: {facts}", file=sys.stderr)
    keep("qwen_cpu", [{"case": list(case), "rounds": rounds} for case, rounds in found.items()])
    text = [f"{machine(options.threads)}; {options.rounds} rounds in turn, medians.\n"]
    for seconds, streaming in cases:
        kind = f"updates every 2 s, {UPDATED} tokens each" if streaming else f"{TOKENS} tokens"
        text.append(
            f"\n{seconds} s of audio, {kind}:\n\n| system | encoder s per audio s | prompt s "
            "| prompt tokens/s | ms a token | total s | of real time | peak MB |\n"
            f"|{'---|' * 8}"
        )
        peer = found.get((seconds, streaming, "antirez/qwen-asr"))
        for name in systems(options):
            rounds = found.get((seconds, streaming, name))
            if rounds:
                text.append(row(name, rounds, seconds, None if rounds is peer else peer))
    write_table("qwen", "\n".join(text))


if __name__ == "__main__":
    main()
