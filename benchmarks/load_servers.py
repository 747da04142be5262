"""Servers as processes of their own, and what they take of the machine."""

import asyncio
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO

import httpx
from compare import HERE

PATIENCE = 120.0  # seconds until a server answers, and until it has ended
OFTEN = 0.25  # seconds between two looks at a process
SPEACHES_MODEL = "Systran/faster-whisper-tiny.en"  # as `speaches_model.py` calls the embedded one
TICKS = os.sysconf("SC_CLK_TCK")  # a second, of /proc


@dataclass(frozen=True, slots=True)
class Server:
    """One that answers."""

    pid: int | None  # None: it runs elsewhere
    host: str  # and port


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process holds and has used so far."""

    core_seconds: float
    resident: float  # MB
    threads: int
    files: int  # descriptors


class Watch:
    """Looks at a server again and again while something goes on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._begun = self._usage()
        self.peak = self._begun.resident if self._begun else None  # MB
        self.slowest = 0.0  # seconds that /health took to answer, at most

    async def __aenter__(self) -> "Watch":
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._looking.cancel()
        with suppress(asyncio.CancelledError):
            await self._looking

    async def _look(self) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            url = f"http://{self._server.host}/health"
            await client.get(url)
            while True:
                begun = time.perf_counter()
                (await client.get(url)).raise_for_status()
                self.slowest = max(self.slowest, time.perf_counter() - begun)
                used = self._usage()
                if used and self.peak is not None:
                    self.peak = max(self.peak, used.resident)
                await asyncio.sleep(OFTEN)

    def _usage(self) -> Usage | None:
        return usage(self._server.pid) if self._server.pid else None

    def told(self, audio: float) -> dict[str, float | None]:
        """Since the watch began, with so many seconds of audio: for a row of a table."""
        used, core = self._usage(), None
        if used and self._begun and audio:
            core = round((used.core_seconds - self._begun.core_seconds) / audio, 4)
        return {
            "core": core,
            "peak": self.peak and round(self.peak),
            "health_ms": round(1000 * self.slowest, 1),
        }


def usage(pid: int) -> Usage:
    """From /proc, of Linux."""
    folder = Path(f"/proc/{pid}")
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    lines = dict(
        line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line
    )
    return Usage(
        core_seconds=(int(fields[11]) + int(fields[12])) / TICKS,
        resident=int(lines["VmRSS"].split()[0]) / 1024,
        threads=int(lines["Threads"]),
        files=len(os.listdir(folder / "fd")),
    )


@dataclass(frozen=True, slots=True)
class System:
    """A server that can be started."""

    name: str
    command: Sequence[str]
    port: int
    ready: str  # the path that is answered once it is
    live: str  # the path and query of its live sessions
    model: str = "whisper-1"  # what uploads name
    folder: Path | None = None  # where it is started
    settings: Mapping[str, str] = field(default_factory=dict)  # of its environment


def livecap(*options: str) -> System:
    """`livecap serve` as it is by default, or with these options."""
    port = free_port()
    return System(
        "livecap",
        (sys.executable, "-m", "livecap", "serve", "-m", "tiny.en", "--port", f"{port}", *options),
        port,
        ready="/health/ready",
        live="/v1/realtime?intent=transcription",
        settings={"PYTHONPATH": str(HERE.parent)},
    )


def whisperlivekit(python: Path, model: Path, policy: str) -> System:
    """WhisperLiveKit's own server with its own defaults, as in `wlk_peer.py`."""
    port = free_port()
    script = (
        "import sys; from pathlib import Path; from wlk_peer import arguments; "
        f"sys.argv = ['', *arguments({policy!r}, Path({str(model)!r})), '--host', '127.0.0.1', "
        f"'--port', '{port}']; from whisperlivekit.basic_server import main; main()"
    )
    return System(
        f"WhisperLiveKit {policy}",
        (str(python), "-c", script),
        port,
        ready="/health",
        live="/asr",
        settings={"PYTHONPATH": str(HERE), "HF_HUB_OFFLINE": "1"},
    )


def speaches(python: Path, source: Path, cache: Path) -> System:
    """speaches with its own defaults, but without its web page, and with a model from `cache`."""
    port = free_port()
    address = ("--host", "127.0.0.1", "--port", f"{port}", "--log-level", "warning")
    return System(
        "speaches",
        (str(python), "-m", "uvicorn", "--factory", *address, "speaches.main:create_app"),
        port,
        ready="/health",
        live=f"/v1/realtime?intent=transcription&model={SPEACHES_MODEL}",
        model=SPEACHES_MODEL,
        folder=source,
        settings={
            "HF_HOME": str(cache),
            "HF_HUB_OFFLINE": "1",
            "ENABLE_UI": "false",
            "LOG_LEVEL": "error",
            "LOOPBACK_HOST_URL": f"http://127.0.0.1:{port}",  # its sessions post their turns there
        },
    )


@contextmanager
def running(system: System, log: IO[bytes]) -> Iterator[Server]:
    """A server, from when it is ready. What it says goes to `log`."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.Popen(
        system.command, cwd=system.folder, env={**kept, **system.settings}, stdout=log, stderr=log
    )
    try:
        _wait(process, f"http://127.0.0.1:{system.port}{system.ready}")
        yield Server(process.pid, f"127.0.0.1:{system.port}")
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: "subprocess.Popen[bytes]", url: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            raise SystemExit(f"{process.args!r} ended with {process.returncode}")
        with suppress(urllib.error.URLError, OSError), opener.open(url, timeout=5):
            return
        time.sleep(0.2)
    raise SystemExit(f"{url} does not answer")


def free_port() -> int:
    """One that nobody listens on just now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port
