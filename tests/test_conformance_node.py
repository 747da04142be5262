"""The unmodified npm package `openai`, which always speaks wss, on a server with a certificate.

It is taken where Node.js finds it from `tests/node`: a `node_modules` there or above, or NODE_PATH.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from command import PATIENCE, SPEECH, Process, jfk, plain
from test_server_serve import ready

from livecap.api.server.tls import PUBLIC

SCRIPT = Path(__file__).parent / "node/openai_realtime.cjs"
NODE = shutil.which("node")


def has_package() -> bool:
    """Whether Node.js is here, and finds the package and `ws`, which that needs."""
    if NODE is None:
        return False
    asked = [NODE, "-e", 'require.resolve("openai/realtime/ws"); require.resolve("ws")']
    found = subprocess.run(asked, cwd=SCRIPT.parent, capture_output=True, check=False)
    return found.returncode == 0


pytestmark = pytest.mark.skipif(not has_package(), reason="npm's openai and ws are not here")


def recording(folder: Path) -> Path:
    """A file of PCM at 24 kHz."""
    spoken = jfk()
    pcm = np.interp(np.arange(0, len(spoken), 2 / 3), np.arange(len(spoken)), spoken)
    file = folder / "speech.pcm"
    file.write_bytes((np.clip(pcm, -1, 1) * 32_767).astype("<i2").tobytes())
    return file


def node(base: str, file: Path, mode: str, trusted: str) -> subprocess.CompletedProcess[str]:
    assert NODE is not None
    return subprocess.run(
        [NODE, str(SCRIPT), base, str(file), mode],
        env={**os.environ, "NODE_EXTRA_CA_CERTS": trusted},
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def test_the_realtime_client(tmp_path: Path) -> None:
    pcm = recording(tmp_path)
    with Process(tmp_path, "serve", "--port", "0", "--tls", "auto") as run:
        scheme, port, _ = ready(run)
        certificate = tmp_path / "nowhere/tls" / PUBLIC
        assert f"its certificate is {certificate}" in run.said
        for mode in ("manual", "turns"):
            done = node(f"{scheme}://127.0.0.1:{port}/v1", pcm, mode, str(certificate))
            assert done.returncode == 0, done.stderr
            events = [json.loads(line) for line in done.stdout.splitlines()]
            finals = [event["transcript"] for event in events if "transcript" in event]
            committed = [event for event in events if event["type"].endswith("buffer.committed")]
            assert len(finals) == len(committed) >= 2
            heard = plain(" ".join(finals)).split()
            assert len(set(SPEECH.split()) - set(heard)) <= 2
            assert not [event for event in events if event["type"].endswith("failed")]
        assert node(f"{scheme}://127.0.0.1:{port}/v1", pcm, "turns", "").returncode == 1


def test_without_tls_the_server_says_what_to_use(tmp_path: Path) -> None:
    with Process(tmp_path, "serve", "--port", "0") as run:
        _, port, _ = ready(run)
        done = node(f"http://127.0.0.1:{port}/v1", recording(tmp_path), "turns", "")
        assert done.returncode == 1
        assert "--tls auto" in run.said
