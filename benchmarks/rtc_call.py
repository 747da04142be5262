"""A long call without drift: `python benchmarks/rtc_call.py FOLDER [--minutes 20]`.

The shorter recordings of FOLDER are said again and again, with silence between them, to `livecap
serve` over WebRTC, by a client in a process of its own and at the speed of speech. It is known when
each word is said: from where its recording begins, and from its time in the file as livecap has it
offline. That is held against the times in the captions, in the first minutes and in the last.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import httpx
import numpy as np
from compare import HERE, Corpus, keep, machine, write_table
from latency import timed
from load_clients import resampled
from load_servers import livecap, running, usage
from rtc_client import FRAME, Call, Samples, Voice
from rtc_client import RATE as SENT
from rtc_scores import PROMISED, Clip, Saying, drift, faults, table
from systems import read

from livecap.commands.bench_measures import words
from livecap.events import RATE

LONGEST = 16.0  # seconds of a recording that is used
PAUSES = (2.0, 4.0)  # seconds of silence after each, from and to
OFTEN = 5.0  # seconds between two looks at the server's memory
KEPT = HERE / "results" / "rtc_call.jsonl"


def clips(folder: Path) -> list[Clip]:
    """Those that are short enough, with the times of their words."""
    made = []
    for path in sorted(folder.glob("*.flac")):
        pcm = read(path)
        if len(pcm) > LONGEST * RATE:
            continue
        reference = path.with_suffix(".txt").read_text().strip()
        found = timed(Corpus(path, len(pcm) / RATE, reference), threads=1)
        raw = np.rint(pcm * 32767).astype("<i2").tobytes()
        known = [(" ".join(words(one.text)), (one.start or 0) / RATE) for one in found]
        made.append(Clip(np.frombuffer(resampled(raw, SENT), np.int16), tuple(known)))
    return made


def planned(some: Sequence[Clip], seconds: float, random: Random) -> tuple[list[Saying], Samples]:
    """The call: what is said when, and all of it."""
    parts, plan, at = [np.zeros(SENT, np.int16)], [], SENT
    while at < seconds * SENT:
        for clip in random.sample(some, len(some)):
            quiet = np.zeros(round(random.uniform(*PAUSES) * SENT), np.int16)
            plan.append(Saying(clip, at / SENT))
            parts += [clip.pcm, quiet]
            at += len(clip.pcm) + len(quiet)
            if at >= seconds * SENT:
                break
    return plan, np.concatenate(parts)


async def read_along(base: str, session: str) -> list[dict[str, Any]]:
    """The finals as a reader gets them, until the end."""
    lines = []
    async with (
        httpx.AsyncClient(base_url=base, trust_env=False, timeout=None) as web,
        web.stream("GET", f"/v1/captions/{session}/events") as answer,
    ):
        async for text in answer.aiter_lines():
            told = json.loads(text.removeprefix("data: ")) if text.startswith("data: ") else {}
            if told.get("type") == "final":
                lines.append(told)
    return lines


async def weigh(pid: int, into: list[float]) -> None:
    """The server's memory, MB, again and again."""
    while True:
        into.append(usage(pid).resident)
        await asyncio.sleep(OFTEN)


async def call(base: str, pid: int, samples: Samples) -> dict[str, Any]:
    """The whole call, and a reader of it -> all that is needed to judge it."""
    voice, memory = Voice(samples), list[float]()
    one = Call(base, voice)
    weighing = asyncio.create_task(weigh(pid, memory))
    try:
        await one.open()
        reading = asyncio.create_task(read_along(base, one.told.session))
        before = usage(pid).core_seconds
        await one.speak()
        used = usage(pid).core_seconds - before
        lines = await reading
    finally:
        weighing.cancel()
        await one.close()
    finals = [
        {name: final[name] for name in ("item_id", "at", "transcript", "words", "end_ms")}
        for final in one.told.finals
    ]
    return {
        "finals": finals,
        "lines": lines,
        "problems": one.told.problems,
        "memory": memory,
        "client_late": voice.late,
        "core": used / (len(samples) / SENT),
    }


def main() -> None:
    """Call, compare and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--again", action="store_true", help="judge the last call once more")
    parser.add_argument("--dry", action="store_true", help="leave README.md as it is")
    options = parser.parse_args()
    plan, samples = planned(clips(options.folder), options.minutes * 60, Random(0))
    samples = np.pad(samples, (0, -len(samples) % FRAME))
    seconds = len(samples) / SENT
    if not options.again:
        with tempfile.TemporaryFile() as log, running(livecap(), log) as server:
            assert server.pid
            row = asyncio.run(call(f"http://{server.host}", server.pid, samples))
        keep("rtc_call", [{"minutes": options.minutes, **row}])
    row = json.loads(KEPT.read_text().splitlines()[-1])
    moved, wrong = drift(plan, row["lines"]), faults(row)
    text = (
        f"{machine(os.cpu_count() or 1)}; {seconds / 60:.1f} min, {len(row['finals'])} turns, "
        f"{len(row['lines'])} cues, {row['core']:.2f} core-seconds for a second of audio.\n\n"
        f"{table(plan, row, seconds)}\n\n"
        f"From the first quarter to the last, words moved by {1000 * moved:+.0f} ms at the median. "
        f"{'; '.join(wrong) or 'Nothing was lost, said twice or out of order'}. The client itself "
        f"was late by {1000 * row['client_late']:.0f} ms at most."
    )
    if options.dry:
        print(text)
    else:
        write_table("rtc-call", text)
    sys.exit(bool(wrong) or 1000 * abs(moved) > PROMISED)


if __name__ == "__main__":
    main()
