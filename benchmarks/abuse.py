"""What hostile clients cost those who are honest, and the machine.

`livecap serve` with the embedded model and a key gets 200 connections of twelve hostile kinds (see
`tests/abusers.py`) for three minutes, from a process of their own, while two sessions speak and
listen. It is passed if their finals come within 3 s of the commit, `/health` within 200 ms, and
the process stays within 500 MB of what it held before, and within 50 MB of it a minute later.

    python benchmarks/abuse.py [--seconds 180] [--connections 200]
"""

import argparse
import asyncio
import base64
import json
import os
import re
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from livecap.audio import AudioReader
from livecap.events import RATE

TESTS = Path(__file__).parent.parent / "tests"
RECORDING = TESTS / "audio/jfk.flac"
STEP = RATE // 10  # samples that are sent at a time
OFTEN = 0.25  # seconds between two looks
PATIENCE = 120.0  # seconds until the server is ready
AFTER = 60.0  # seconds until memory has to be back
FINAL, HEALTH, PEAK, BACK = 3.0, 0.2, 500.0, 50.0  # seconds, seconds, MB, MB
ATTACK = (
    "import asyncio, json, sys; sys.path.insert(0, sys.argv[1]); "
    "from abusers import Target, attack; to = Target(**json.loads(sys.argv[2])); "
    "print(asyncio.run(attack(to, int(sys.argv[3]), float(sys.argv[4]))))"
)


@dataclass
class Seen:
    """What was measured."""

    finals: list[float] = field(default_factory=list)  # seconds from each commit to its text
    texts: list[str] = field(default_factory=list)
    health: list[float] = field(default_factory=list)  # seconds
    idle: float = 0.0  # MB
    peak: float = 0.0  # MB
    back: float = 0.0  # MB, a minute later
    attempts: int = 0

    def told(self) -> dict[str, Any]:
        """As a row."""
        finals, health = sorted(self.finals), sorted(self.health)
        return {
            "attempts": self.attempts,
            "utterances": len(finals),
            "texts": len(set(self.texts)),
            "final_s": round(finals[-1], 2),
            "final_median_s": round(finals[len(finals) // 2], 2),
            "health_ms": round(1000 * health[-1], 1),
            "health_p99_ms": round(1000 * health[len(health) * 99 // 100], 1),
            "idle_mb": round(self.idle),
            "peak_mb": round(self.peak - self.idle),
            "back_mb": round(self.back - self.idle),
            "passed": finals[-1] <= FINAL
            and health[-1] <= HEALTH
            and self.peak - self.idle <= PEAK
            and self.back - self.idle <= BACK,
        }


def resident(pid: int) -> float:
    """MB that a process holds. From /proc, of Linux."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


async def ask(port: int, head: str) -> str:
    """One request -> its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    try:
        return (await reader.read()).decode()
    finally:
        writer.close()


@asynccontextmanager
async def serving(key: str) -> AsyncGenerator[tuple[int, int]]:
    """A server that is ready: its process and port."""
    port = 20_000 + os.getpid() % 20_000
    words = ("-m", "livecap", "serve", "-m", "tiny.en", "--port", str(port), "--log-level", "error")
    environment = {**os.environ, "LIVECAP_API_KEY": key}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, env=environment, stderr=subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                with suppress(OSError):
                    if " 200 " in await ask(port, "GET /health/ready HTTP/1.1"):
                        break
                await asyncio.sleep(OFTEN)
        yield process.pid, port
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def speak(socket: Any, pcm: bytes, seen: Seen, over: asyncio.Event) -> None:
    """The same again and again, at the speed of speech."""
    heard = {"format": {"type": "audio/pcm", "rate": RATE}, "turn_detection": None}
    session = {"type": "transcription", "audio": {"input": heard}}
    await socket.send(json.dumps({"type": "session.update", "session": session}))
    while not over.is_set():
        for at in range(0, len(pcm), 2 * STEP):
            audio = base64.b64encode(pcm[at : at + 2 * STEP]).decode()
            await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
            await asyncio.sleep(STEP / RATE)
        begun = time.perf_counter()
        await socket.send(json.dumps({"type": "input_audio_buffer.commit"}))
        while not (frame := json.loads(await socket.recv()))["type"].endswith(".completed"):
            assert frame["type"] != "error", frame
        seen.finals.append(time.perf_counter() - begun)
        seen.texts.append(frame["transcript"])


async def watch(pid: int, port: int, seen: Seen) -> None:
    """Health and memory."""
    while True:
        begun = time.perf_counter()
        assert " 200 " in await ask(port, "GET /health HTTP/1.1")
        seen.health.append(time.perf_counter() - begun)
        seen.peak = max(seen.peak, resident(pid))
        await asyncio.sleep(OFTEN)


async def warm(port: int, head: dict[str, str]) -> None:
    """An upload, so that what that takes for good is there before."""
    name = 'Content-Disposition: form-data; name="file"; filename="a.flac"'
    body = f"--x\r\n{name}\r\n\r\n".encode() + RECORDING.read_bytes() + b"\r\n--x--\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=x", **head}
    url = f"http://127.0.0.1:{port}/v1/audio/transcriptions"
    request = urllib.request.Request(url, body, kind)
    open_it = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
    for _ in range(3):
        await asyncio.to_thread(lambda: open_it(request).read())


async def attacked(port: int, key: str, read: str, count: int, seconds: float) -> int:
    """The attackers, until they are done -> how often they tried."""
    to = json.dumps({"host": "127.0.0.1", "port": port, "key": key, "read": read})
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        ATTACK,
        str(TESTS),
        to,
        str(count),
        str(seconds),
        stdout=subprocess.PIPE,
    )
    told, _ = await process.communicate()
    assert process.returncode == 0
    return int(told)


async def measure(count: int, seconds: float) -> Seen:
    """One run."""
    seen, key = Seen(), secrets.token_urlsafe()
    with AudioReader(RECORDING) as reader:
        blocks = [block.pcm[0] for block in reader]
    pcm = b"".join((block * 32767).astype("<i2").tobytes() for block in blocks)
    head = {"Authorization": f"Bearer {key}"}
    async with serving(key) as (pid, port):
        url = f"ws://127.0.0.1:{port}/v1/realtime?intent=transcription"
        first = connect(url, proxy=None, additional_headers=head)
        second = connect(url, proxy=None, additional_headers=head)
        async with first as one, second as other:
            id = json.loads(await one.recv())["session"]["id"]
            over = asyncio.Event()
            speaking = [asyncio.create_task(speak(who, pcm, seen, over)) for who in (one, other)]
            while len(seen.finals) < 4:  # both have been heard, and all is warm
                await asyncio.sleep(OFTEN)
            seen.finals.clear()
            asked = f"POST /v1/captions/{id}/share HTTP/1.1\r\nAuthorization: Bearer {key}"
            token = json.loads((await ask(port, asked)).rpartition("\r\n\r\n")[2])["token"]
            await warm(port, head)
            seen.idle = seen.peak = resident(pid)
            watching = asyncio.create_task(watch(pid, port, seen))
            read = f"/v1/captions/{id}/events?token={token}"
            seen.attempts = await attacked(port, key, read, count, seconds)
            over.set()
            await asyncio.gather(*speaking)
            await asyncio.sleep(AFTER)
            seen.back = resident(pid)
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    return seen


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--connections", type=int, default=200)
    options = parser.parse_args()
    told = asyncio.run(measure(options.connections, options.seconds)).told()
    print(json.dumps(told, indent=1))
    sys.exit(0 if told["passed"] else 1)


if __name__ == "__main__":
    main()
