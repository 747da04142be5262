"""Many clients at once: `python benchmarks/load.py FOLDER [--sessions 1 2 4 8] [--seconds 60]`.

Live sessions speak to a server on this machine at the speed of speech, from a process of its own
(this one), each from another place of FOLDER's recordings, joined. Then the same files are
uploaded, so many at a time. The server is `livecap serve` as it is by default, or what listens at
--url, or with --wlk WhisperLiveKit (see `wlk_peer.py`) or with --speaches speaches (see
`speaches_model.py`). README.md's tables have the last run of each row.

Of a turn: "first" is from the first sample of its speech to its first words, "final" from the last
sample (before the silence that ends it) to its `completed`; both on the clock by which the audio is
spoken. "word" is from the end of a word to when it was told, as in `latency.py`, and "words" the
share of those that were. "lag": by how much the end of a turn is noticed later than its silence.
The others' turns can't be told from outside: stretches of speech are answered by the words known to
be in them. WhisperLiveKit's lag is what it says itself.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
import wave
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx
from compare import Corpus, join, keep, machine, write_table
from latency import timed
from load_clients import Heard, Realtime, WhisperLiveKit
from load_scores import (
    Row,
    saved,
    scored,
    sessions_table,
    turns_by_words,
    uploaded,
    uploads_table,
)
from load_servers import Server, System, Watch, livecap, running, speaches, whisperlivekit
from systems import read

from livecap.config import VadConfig
from livecap.events import RATE, Word

GOLDEN = 0.618034  # of the audio lies between the beginnings of two sessions: never near others
BETWEEN = 0.25  # seconds between two that connect
HOPELESS = 20.0  # seconds: finals as late as this, or half of all refused, and no more is tried
CLIPS = (10.5, 61.0)  # seconds of the recordings that are uploaded
TIMES = 5  # each of them
POLICIES = ("localagreement", "simulstreaming")

Client = Realtime | WhisperLiveKit


@dataclass(frozen=True, slots=True)
class Speech:
    """What is said: 16 kHz, twice in a row, with the words of it that are known."""

    pcm: bytes
    words: Sequence[Word]
    length: int  # samples of it once

    def excerpt(self, number: int, seconds: float) -> tuple[bytes, list[Word]]:
        """What one of the sessions says, and the words in it."""
        start = int(self.length * (number * GOLDEN % 1.0))
        stop = start + round(seconds * RATE)
        words = [
            Word(word.text, word.start - start, word.end - start)
            for word in self.words
            if word.start is not None and word.end is not None
            if start <= word.start and word.end <= stop
        ]
        return self.pcm[start * 2 : stop * 2], words


def speech(corpus: Corpus, threads: int) -> Speech:
    """The recordings."""
    with wave.open(str(corpus.path)) as opened:
        pcm = opened.readframes(opened.getnframes())
    length = len(pcm) // 2
    once = timed(corpus, threads)
    again = [
        Word(word.text, word.start + length, word.end + length)
        for word in once
        if word.start is not None and word.end is not None
    ]
    return Speech(pcm * 2, [*once, *again], length)


async def step(client: Client, said: Speech, count: int, seconds: float, server: Server) -> Row:
    """So many sessions at once -> figures."""
    parts = [said.excerpt(number, seconds) for number in range(count)]

    async def one(number: int) -> Heard:
        await asyncio.sleep(number * BETWEEN)
        return await client.play(parts[number][0])

    async with Watch(server) as watch:
        heard = await asyncio.gather(*(one(number) for number in range(count)))
    if not client.has_turns:
        for one_heard, (pcm, words) in zip(heard, parts, strict=True):
            one_heard.turns = turns_by_words(one_heard.commits, words, stretches(pcm))
    row = scored(heard, [words for _, words in parts])
    return row | watch.told(row["let_in"] * seconds)


def stretches(pcm: bytes) -> list[tuple[int, int]]:
    """Where speech is, by the pauses that `livecap serve` ends turns at: samples."""
    import numpy as np

    from livecap.commands.bench_runs import stretches as found
    from livecap.vad.silero import load

    samples = np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32768)
    return list(found(load(), samples, VadConfig(), RATE // 2))


def steps(
    name: str, client: Client, said: Speech, options: argparse.Namespace, server: Server
) -> None:
    """One system with more and more sessions, until it is hopeless."""
    asyncio.run(client.play(said.excerpt(0, 5)[0]))  # to warm up
    for count in options.sessions:
        row = asyncio.run(step(client, said, count, options.seconds, server))
        row = {"system": name, "seconds": options.seconds, **row}
        keep("load", [row])
        print(sessions_table([row]).splitlines()[-1], file=sys.stderr)
        if row["problems"]:
            print(f"problems: {row['problems'][:5]}", file=sys.stderr)
        finals = sorted(row["final"])
        if row["let_in"] <= count / 2 or (finals and finals[len(finals) // 2] > HOPELESS):
            break


async def upload(server: Server, model: str, files: Sequence[Path], at_once: int) -> Row:
    """All files, so many under way at a time -> figures."""
    bodies = {file: file.read_bytes() for file in files}
    lengths = {file: len(read(file)) / RATE for file in bodies}
    waiting, latencies, refused, audio = list(files), [], 0, 0.0
    base = f"http://{server.host}"
    async with httpx.AsyncClient(base_url=base, timeout=600, trust_env=False) as client:

        async def send(file: Path) -> None:
            nonlocal refused, audio
            begun = time.perf_counter()
            answer = await client.post(
                "/v1/audio/transcriptions",
                data={"model": model},
                files={"file": (file.name, bodies[file])},
            )
            if answer.status_code == 429:
                refused += 1
                return
            answer.raise_for_status()
            latencies.append(time.perf_counter() - begun)
            audio += lengths[file]

        async def work() -> None:
            while waiting:
                await send(waiting.pop())

        async with Watch(server) as watch:
            begun = time.perf_counter()
            await asyncio.gather(*(work() for _ in range(at_once)))
            wall = time.perf_counter() - begun
    return uploaded(latencies, audio, wall, refused) | watch.told(audio)


def uploads(system: System, server: Server, folder: Path, at_once: Sequence[int]) -> None:
    """One system with so many uploads at a time."""
    least, most = CLIPS
    clips = [
        file for file in sorted(folder.glob("*.flac")) if least < len(read(file)) / RATE < most
    ]
    files = clips * TIMES
    random.Random(1).shuffle(files)
    asyncio.run(upload(server, system.model, clips[:2], 1))  # to warm up
    for count in at_once:
        row = asyncio.run(upload(server, system.model, files, count))
        row = {"system": system.name, "at_once": count, **row}
        keep("uploads", [row])
        print(uploads_table([row]).splitlines()[-1], file=sys.stderr)


def chosen(options: argparse.Namespace) -> System:
    """The system that is measured."""
    if options.wlk:
        return whisperlivekit(options.wlk, options.wlk_model, options.policy)
    if options.speaches:
        return speaches(options.speaches, options.speaches_source, options.speaches_model)
    return livecap()


def measure(options: argparse.Namespace, said: Speech, log: IO[bytes]) -> None:
    """One system."""
    system = chosen(options)
    if options.url:
        host = options.url.split("://")[-1].rstrip("/")
        serving: AbstractContextManager[Server] = nullcontext(Server(None, host))
    else:
        serving = running(system, log)
    with serving as server:
        url = f"ws://{server.host}{system.live}"
        client = (
            WhisperLiveKit(url) if options.wlk else Realtime(url, speaches=bool(options.speaches))
        )
        if options.sessions:
            steps(system.name, client, said, options, server)
        if options.uploads:
            uploads(system, server, options.folder, options.uploads)


def tables(threads: int) -> None:
    """Into README.md, from the last run of each row."""

    def order(row: Mapping[str, object]) -> tuple[str, int]:
        return str(row["system"]).casefold(), int(str(row.get("sessions", row.get("at_once"))))

    for section, key, table in (
        ("load", "sessions", sessions_table),
        ("uploads", "at_once", uploads_table),
    ):
        rows = sorted(saved(section, ("system", key)), key=order)
        write_table(section, f"{machine(threads)}.\n\n{table(rows)}")


def main() -> None:
    """Measure and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", help="of a server that runs already, as in http://127.0.0.1:8000")
    parser.add_argument("--sessions", type=int, nargs="*", default=[1, 2, 4, 8, 10, 12, 16])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--uploads", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--wlk", type=Path, help="a Python that has whisperlivekit")
    parser.add_argument("--wlk-model", type=Path)
    parser.add_argument("--policy", choices=POLICIES, default="simulstreaming")
    parser.add_argument("--speaches", type=Path, help="a Python that has speaches")
    parser.add_argument("--speaches-source", type=Path, help="its checkout, for its web pages")
    parser.add_argument("--speaches-model", type=Path, help="what speaches_model.py wrote")
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="what the servers say")
    parser.add_argument("--dry", action="store_true", help="leave README.md as it is")
    options = parser.parse_args()
    threads = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as scratch, options.log.open("wb") as log:
        corpus = join(options.folder, Path(scratch) / "joined.wav")
        measure(options, speech(corpus, threads), log)
    if not options.dry:
        tables(threads)


if __name__ == "__main__":
    main()
