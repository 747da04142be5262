"""Readers of one speaker's captions: `python benchmarks/viewers.py AUDIO`.

`livecap serve` captions a recording at the speed of speech while none, 200 and 1000 readers follow
it by server-sent events, and one more that reads nothing. All of them are clients in this process.
How much more memory the server holds is divided by the readers; how late each of them has a final
is counted from when the first one has it.
"""

import argparse
import asyncio
import base64
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from compare import keep, machine, write_table
from load_clients import Heard, paced
from load_servers import Server, livecap, running, usage
from systems import read
from websockets.asyncio.client import ClientConnection, connect

from livecap.commands.bench_measures import percentile
from livecap.events import RATE

COUNTS = (0, 200, 1000)
AT_ONCE = 50  # readers that connect at a time
SETTLE = 3.0  # seconds until memory is looked at
UNLIMITED = ("--max-readers", "0", "--max-connections", "0", "--max-per-address", "0")
SPREAD = 0.3  # seconds from the first of 200 readers to the last one, for each final
TIMES = 3  # that the recording is said
SMALL = 4096  # bytes that the socket takes of one who reads nothing
PATIENCE = 120.0  # seconds until the session has ended


@dataclass
class Crowd:
    """What readers were told."""

    arrivals: dict[int, list[float]] = field(default_factory=dict)  # by a final's number
    wrong: int = 0  # readers that did not get each final once, in order

    async def follow(self, host: str, path: str, room: asyncio.Semaphore) -> asyncio.Task[None]:
        """One reader, who is there when this returns."""
        async with room:
            reader, writer = await asyncio.open_connection(*host.split(":"))
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            await reader.readuntil(b": captions\n\n")
        return asyncio.create_task(self._read(reader, writer))

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen: list[int] = []
        while line := await reader.readline():
            told = json.loads(line.removeprefix(b"data: ")) if line.startswith(b"data: ") else {}
            if told.get("type") == "final":
                self.arrivals.setdefault(told["id"], []).append(time.perf_counter())
                seen.append(told["id"])
            if told.get("type") == "end":
                break
        self.wrong += seen != list(range(1, len(seen) + 1))
        writer.close()


async def measure(server: Server, pcm: bytes, count: int) -> dict[str, Any]:
    """One speaker and so many readers -> memory and delays."""
    assert server.pid
    crowd, room = Crowd(), asyncio.Semaphore(AT_ONCE)
    url = f"ws://{server.host}/v1/realtime?intent=transcription"
    async with connect(url, proxy=None, max_size=None) as ws:
        id = json.loads(await ws.recv())["session"]["id"]
        path = f"/v1/captions/{id}/events"
        await speak(ws, pcm)  # what is made on first use is no reader's
        before = await weighed(server.pid)
        with stalled(server.host, path):
            following = (crowd.follow(server.host, path, room) for _ in range(count))
            readers = await asyncio.gather(*following)
            there = await weighed(server.pid)
            history = set(crowd.arrivals)
            used = usage(server.pid).core_seconds
            for _ in range(TIMES):
                await speak(ws, pcm)
            used = usage(server.pid).core_seconds - used
            after = await weighed(server.pid)
            await ws.send(json.dumps({"type": "session.close"}))
            async with asyncio.timeout(PATIENCE):
                async for _ in ws:
                    pass
                await asyncio.gather(*readers)
    live = [some for number, some in crowd.arrivals.items() if number not in history]
    spreads = [max(some) - min(some) for some in live]
    every = [one - min(some) for some in live for one in some]
    return {
        "readers": count,
        "before": before,
        "there": there,
        "after": after,
        "core": used / (TIMES * len(pcm) / 2 / RATE),
        "finals": len(live),
        "lost": crowd.wrong + sum(count - len(some) for some in crowd.arrivals.values()),
        "spreads": spreads,
        "every": every,
    }


async def speak(ws: ClientConnection, pcm: bytes) -> None:
    """All of it, at the speed of speech; what comes is left unread until the end."""
    reading = asyncio.create_task(_drain(ws))
    async for piece in paced(pcm, RATE, time.perf_counter(), Heard()):
        audio = base64.b64encode(piece).decode()
        await ws.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


async def _drain(ws: ClientConnection) -> None:
    while True:
        await ws.recv()


def stalled(host: str, path: str) -> socket.socket:
    """A reader that reads nothing."""
    name, port = host.split(":")
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
    found.connect((name, int(port)))
    found.send(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    return found


async def weighed(pid: int) -> float:
    """MB that the process holds, once it has settled."""
    await asyncio.sleep(SETTLE)
    return usage(pid).resident


def table(rows: Sequence[dict[str, Any]]) -> str:
    """One line a number of readers."""
    head = (
        "| readers | MB before them | MB when all are there | KB a reader | MB after the talk | "
        "finals | lost | last reader after the first: p50 ms | p95 | most | any reader: p95 ms | "
        "core-s per s of audio |\n" + "|---" * 12 + "|\n"
    )
    lines = []
    for row in rows:
        each = (
            f"{1024 * (row['there'] - row['before']) / row['readers']:.0f}"
            if row["readers"]
            else ""
        )
        spreads, every = (
            [1000 * one for one in row[name]] if row["readers"] else []
            for name in ("spreads", "every")
        )
        late = (
            f"{percentile(spreads, 0.5):.0f} | {percentile(spreads, 0.95):.0f} | "
            f"{max(spreads):.0f} | {percentile(every, 0.95):.0f}"
            if spreads
            else " |  |  | "
        )
        lines.append(
            f"| {row['readers']} | {row['before']:.0f} | {row['there']:.0f} | {each} | "
            f"{row['after']:.0f} | {row['finals'] or ''} | {row['lost']} | {late} | "
            f"{row['core']:.2f} |"
        )
    return head + "\n".join(lines)


def main() -> None:
    """Measure and write the table; the status is 1 if finals are lost, or late at 200 readers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("audio", type=Path)
    parser.add_argument("--dry", action="store_true", help="leave README.md as it is")
    options = parser.parse_args()
    pcm = np.pad(read(options.audio), (0, 2 * RATE))
    raw = np.rint(pcm * 32767).astype("<i2").tobytes()
    rows = []
    for count in COUNTS:
        with tempfile.TemporaryFile() as log, running(livecap(*UNLIMITED), log) as server:
            rows.append(asyncio.run(measure(server, raw, count)))
        print(f"{count} readers: done", file=sys.stderr)
    keep("viewers", rows)
    if options.dry:
        print(table(rows))
    else:
        write_table("viewers", f"{machine(os.cpu_count() or 1)}.\n\n{table(rows)}")
    late = any(max(row["spreads"]) > SPREAD for row in rows if row["readers"] == 200)
    sys.exit(late or any(row["lost"] for row in rows))


if __name__ == "__main__":
    main()
