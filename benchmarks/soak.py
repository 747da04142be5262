"""Hours of clients that come and go: `python benchmarks/soak.py FOLDER --hours 1`.

`livecap serve`, in a process of its own, has two who talk, one after another, and one who uploads
and does what no client should (see `soak_clients.py`). Every ten seconds it is looked at: memory,
threads and files in /proc, and by `soak_server.py` tasks, streams and pages. In the end all clients
are gone, and it must hold what it held before the first of them; memory may not have grown since
the first tenth of the time.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
import wave
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import httpx
from compare import HERE, join, keep, machine, write_table
from load_servers import Server, livecap, running, usage
from soak_clients import PESTS, TALKERS, Deed, Place, Refused, Unexpected
from soak_server import HELD
from websockets.exceptions import WebSocketException

OFTEN = 10.0  # seconds between two looks
TALKING = 2  # clients that talk at a time
PAUSE = 4.0  # seconds, at most, between two things that one does
SETTLED = 60.0  # seconds in which all that was held must be given back
GROWTH = 0.05  # of the memory, above which it grows
SHOWN = 12  # lines of the table
COUNTED = ("threads", "tasks", "streams", "files", "sessions", "uploads", "pages", "memory pages")

Sample = dict[str, float]


@dataclass
class Run:
    """What has happened so far."""

    place: Place
    pid: int
    hold: Path | None
    end: float  # on the loop's clock; later by as long as everything was held
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    health: list[float] = field(default_factory=list)  # seconds that it took to answer

    @property
    def is_held(self) -> bool:
        """Whether nothing new is to be begun, for the sake of something else on this machine."""
        return self.hold is not None and self.hold.exists()


async def client(run: Run, deeds: Mapping[Deed, int], random: Random) -> None:
    """One thing after another, until the end."""
    loop = asyncio.get_running_loop()
    while loop.time() < run.end:
        if run.is_held:
            await asyncio.sleep(1.0)
            continue
        (deed,) = random.choices(list(deeds), list(deeds.values()))
        await act(run, deed, random)
        await asyncio.sleep(random.uniform(0, PAUSE))


async def act(run: Run, deed: Deed, random: Random) -> None:
    """One thing, and what was wrong about it."""
    name = deed.__name__
    try:
        await deed(run.place, random)
    except Refused:
        name = f"{name}, refused"
    except (Unexpected, OSError, TimeoutError, httpx.HTTPError, WebSocketException) as error:
        run.wrong.append(f"{name}: {type(error).__name__}: {error}")
        print(run.wrong[-1], file=sys.stderr)
    run.done[name] += 1


async def look(run: Run, begun: float) -> Sample:
    """What the server holds now."""
    loop = asyncio.get_running_loop()
    async with httpx.AsyncClient(base_url=f"http://{run.place.host}", trust_env=False) as asked:
        await asked.get(HELD)  # the connection is there, and counted as always
        since = loop.time()
        (await asked.get("/health")).raise_for_status()
        run.health.append(loop.time() - since)
        held: Sample = (await asked.get(HELD)).raise_for_status().json()
    used = usage(run.pid)
    return {
        "minute": round((loop.time() - begun) / 60, 2),
        "resident": round(used.resident, 1),
        "core_seconds": used.core_seconds,
        "descriptors": used.files,
        **held,
    }


async def watch(run: Run, begun: float) -> None:
    """A look again and again."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(OFTEN)
        if run.is_held:
            run.end += OFTEN
        try:
            run.samples.append(await look(run, begun))
        except httpx.HTTPError as error:  # as when the engine has broken off
            run.wrong.append(f"look: {type(error).__name__}: {error}")
            print(run.wrong[-1], file=sys.stderr)
            continue
        if len(run.samples) % 6 == 0:
            left = (run.end - loop.time()) / 60
            print(f"{left:.0f} min left: {run.samples[-1]}", file=sys.stderr)


async def soak(place: Place, server: Server, options: argparse.Namespace) -> tuple[Run, Sample]:
    """All of it -> what happened, and what was held before it."""
    loop = asyncio.get_running_loop()
    assert server.pid
    run = Run(place, server.pid, options.hold, loop.time())
    for deed in (*TALKERS, *PESTS):  # what is made on first use is no leak
        await act(run, deed, Random(0))
    begun = loop.time()
    before = await settled(run, begun, None)
    begun = loop.time()
    run.end = begun + options.hours * 3600
    watching = asyncio.create_task(watch(run, begun))
    who = [TALKERS] * TALKING + [PESTS]
    await asyncio.gather(*(client(run, deeds, Random(n)) for n, deeds in enumerate(who, 1)))
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    run.samples.append(await settled(run, begun, before))
    return run, before


async def settled(run: Run, begun: float, like: Sample | None) -> Sample:
    """A look when nothing goes on any more; as before, if that comes to be so in time."""
    end = time.monotonic() + SETTLED
    while True:
        found = await look(run, begun)
        idle = not (found["sessions"] or found["uploads"] or found["streams"] or found["files"])
        same = like is None or not leaks(like, found)
        if (idle and same) or time.monotonic() > end:
            return found
        await asyncio.sleep(1.0)


def leaks(before: Sample, after: Sample) -> list[str]:
    """What is held that was not held before."""
    names = ("descriptors", *COUNTED)
    return [
        f"{name} {before[name]} -> {after[name]}" for name in names if after[name] > before[name]
    ]


def verdict(run: Run, before: Sample) -> list[str]:
    """What is wrong; nothing, if all is well."""
    found = leaks(before, run.samples[-1])
    part = max(len(run.samples) // 10, 1)
    early, late = (
        median(sample["resident"] for sample in some)
        for some in (run.samples[part : 2 * part] or run.samples[:1], run.samples[-part:])
    )
    if late > early * (1 + GROWTH):
        found.append(f"memory {early:.0f} -> {late:.0f} MB")
    return found + run.wrong


def table(run: Run, before: Sample, hours: float) -> str:
    """For README.md."""
    names = ("resident", "threads", "pooled", "descriptors", "tasks", "streams", "files", "pages")
    shown = {name: name for name in names} | {"resident": "MB", "files": "recordings"}
    head = f"| minute | {' | '.join(shown.values())} |\n" + "|---" * (len(names) + 1) + "|\n"
    step = max(len(run.samples) // SHOWN, 1)
    picked = [("before", before)] + [
        (f"{one['minute']:.0f}", one) for one in run.samples[step - 1 : -1 : step]
    ]
    picked.append(("all gone", run.samples[-1]))
    lines = [
        f"| {label} | {' | '.join(f'{one[name]:.0f}' for name in names)} |" for label, one in picked
    ]
    bad = verdict(run, before)
    deeds = ", ".join(f"{count} x {name}" for name, count in run.done.most_common())
    used = run.samples[-1]["core_seconds"] - before["core_seconds"]
    top = max(sample["resident"] for sample in run.samples)
    end = f"Not well: {'; '.join(bad)}" if bad else "Nothing is left behind, and memory is flat"
    return (
        f"{machine(os.cpu_count() or 1)}; {hours:g} h, {used / (hours * 3600):.2f} cores busy.\n\n"
        f"{head}{chr(10).join(lines)}\n\n"
        f"{end}. At most {top:.0f} MB; `/health` within {1000 * max(run.health):.0f} ms, half the "
        f"time within {1000 * median(run.health):.0f}. Done: {deeds}."
    )


def main() -> None:
    """Soak, write the table; the status is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--hold", type=Path, help="while this file is there, nothing is begun")
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="what the server says")
    parser.add_argument("--dry", action="store_true", help="leave README.md as it is")
    options = parser.parse_args()
    told = livecap()
    script = str(HERE / "soak_server.py")
    server_of = replace(
        told, command=(sys.executable, script, *told.command[3:], "--max-sessions=16")
    )
    with tempfile.TemporaryDirectory() as scratch, options.log.open("wb") as log:
        corpus = join(options.folder, Path(scratch) / "joined.wav")
        with wave.open(str(corpus.path)) as opened:
            pcm = opened.readframes(opened.getnframes())
        clips = {file.name: file.read_bytes() for file in sorted(options.folder.glob("*.flac"))}
        with running(server_of, log) as server:
            run, before = asyncio.run(soak(Place(server.host, pcm, clips), server, options))
    row: dict[str, Any] = {"hours": options.hours, "before": before, "samples": run.samples}
    keep("soak", [row | {"done": dict(run.done), "wrong": run.wrong}])
    text = table(run, before, options.hours)
    if options.dry:
        print(text)
    else:
        write_table("soak", text)
    sys.exit(bool(verdict(run, before)))


if __name__ == "__main__":
    main()
