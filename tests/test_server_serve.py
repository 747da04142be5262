"""`livecap serve` as a process, with the embedded model: from its first line to its exit status."""

import base64
import http.client
import json
import re
import signal
import socket
import ssl
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import JFK, PATIENCE, SPEECH, Command, Process, environment, jfk, plain
from test_server_listen import has_six
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from livecap.api.server.tls import PUBLIC


def where(port: int) -> str:
    """What a server of this machine says of where it listens."""
    six = f" and http://[::1]:{port}" if has_six() else ""
    return f"http://127.0.0.1:{port}{six}"


READY = re.compile(
    r"^livecap serve: (https?)://127\.0\.0\.1:(\d+)(?: and \S+)? ready, model (\S+)$", re.M
)


def ready(run: Process) -> tuple[str, int, str]:
    """Wait for the line that says so -> scheme, port, model."""
    run.until(lambda: READY.search(run.said) is not None)
    found = READY.search(run.said)
    assert found
    return found[1], int(found[2]), found[3]


def get(
    port: int, path: str, *, secure: ssl.SSLContext | None = None, **headers: str
) -> tuple[int, Any]:
    """Status and JSON."""
    if secure:
        made: http.client.HTTPConnection = http.client.HTTPSConnection(
            "localhost", port, context=secure
        )
    else:
        made = http.client.HTTPConnection("127.0.0.1", port)
    with closing(made):
        made.request("GET", path, headers=headers)
        answer = made.getresponse()
        return answer.status, json.loads(answer.read())


def post(port: int, path: str, file: bytes) -> tuple[int, Any]:
    """An upload with no other fields than `model`."""
    edge = "----livecap"
    part = f"--{edge}\r\nContent-Disposition: form-data; name="
    body = f'{part}"model"\r\n\r\nwhisper-1\r\n{part}"file"; filename="private.flac"\r\n\r\n'
    data = body.encode() + file + f"\r\n--{edge}--\r\n".encode()
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as made:
        kind = f"multipart/form-data; boundary={edge}"
        made.request("POST", path, data, {"Content-Type": kind})
        answer = made.getresponse()
        return answer.status, json.loads(answer.read())


def metrics(port: int) -> dict[str, float]:
    """Samples without labels, and with them as they are written."""
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as made:
        made.request("GET", "/metrics")
        lines = made.getresponse().read().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_from_start_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    with Process(tmp_path, "serve", "--port", "0") as run:
        scheme, port, model = ready(run)
        assert (scheme, model) == ("http", "tiny.en")
        assert get(port, "/health/ready") == (
            200,
            {"status": "ready", "ready": True, "model": "tiny.en"},
        )
        status, models = get(port, "/v1/models")
        assert (status, [one["id"] for one in models["data"]]) == (200, ["tiny.en"])
        status, refused = get(port, "/v1/models/private")
        assert (status, refused["error"]["code"]) == (404, "model_not_found")
        status, told = post(port, "/v1/audio/transcriptions", JFK.read_bytes())
        assert (status, plain(told["text"])) == (200, SPEECH)
        counted = metrics(port)
        assert counted[
            'livecap_audio_seconds_total{endpoint="transcriptions",model="tiny.en"}'
        ] == (pytest.approx(11.0))
        assert counted['livecap_items_total{result="completed"}'] == 1
        assert counted["livecap_rtf_count"] == 1
        assert counted["livecap_queue_depth"] == 0
        run.process.send_signal(number)
        done = run.end()
    assert (done.status, done.out) == (128 + number, "")
    assert "Traceback" not in done.err
    spoken = [line for line in done.err.splitlines() if line.startswith("livecap serve: ")]
    assert spoken == [
        f"livecap serve: {where(port)}, loading tiny.en",
        "livecap serve: phones, and clients that always use TLS (npm's openai), need --tls auto",
        f"livecap serve: {where(port)} ready, model tiny.en",
        "livecap serve: finishing what was heard; once more to leave at once",
    ]
    logged = [json.loads(line) for line in done.err.splitlines() if line not in spoken]
    assert [line["route"] for line in logged] == [
        "/health/ready",
        "/v1/models",
        "/v1/models/{id:path}",
        "/v1/audio/transcriptions",
        "/metrics",
    ]
    assert "private" not in done.err
    assert "country" not in done.err


def test_a_stop_in_mid_speech_loses_no_word(tmp_path: Path) -> None:
    """All that was sent is told, then the socket is closed as one that may come back."""
    audio = (np.clip(jfk(), -1, 1) * 32767).astype("<i2").tobytes()
    with Process(tmp_path, "serve", "--port", "0") as run:
        _, port, _ = ready(run)
        url = f"ws://127.0.0.1:{port}/v1/realtime?sample_rate=16000"
        texts: list[str] = []
        with connect(url, proxy=None) as client:
            for start in range(0, len(audio), 32_000):
                piece = base64.b64encode(audio[start : start + 32_000]).decode()
                client.send(json.dumps({"type": "input_audio_buffer.append", "audio": piece}))
            stopped = False
            with suppress(ConnectionClosed):
                while True:
                    event = json.loads(client.recv(PATIENCE))
                    assert event["type"] != "error"
                    if event["type"].endswith("transcription.delta") and not stopped:
                        run.process.send_signal(signal.SIGTERM)
                        stopped = True
                    if event["type"].endswith("transcription.completed"):
                        texts.append(event["transcript"])
            assert client.close_code == 1012
        said = plain(" ".join(texts))
        assert said.startswith("and so")
        assert said.endswith("what you can do for your country")
        done = run.end()
    assert done.status == 128 + signal.SIGTERM
    assert "Traceback" not in done.err


def test_options_from_a_file_over_tls_with_a_key(tmp_path: Path) -> None:
    config = tmp_path / "livecap.toml"
    config.write_text('port = 0\ntls = "auto"\napi-key = "k"\nalias = "mine=tiny.en"\n', "utf-8")
    home = Path(environment(tmp_path)["LIVECAP_HOME"])
    with Process(tmp_path, "serve", "--config", config, "--log-level", "warning") as run:
        scheme, port, _ = ready(run)
        assert scheme == "https"
        trusting = ssl.create_default_context(cafile=home / "tls" / PUBLIC)
        assert get(port, "/health", secure=trusting)[0] == 200
        assert get(port, "/v1/models", secure=trusting)[0] == 401
        told = get(port, "/v1/models/mine", secure=trusting, Authorization="Bearer k")
        assert told[1]["id"] == "mine"
        run.process.send_signal(signal.SIGTERM)
        done = run.end()
    assert done.status == 128 + signal.SIGTERM
    assert not [line for line in done.err.splitlines() if line.startswith("{")]


def test_what_can_not_begin_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    livecap = Command(monkeypatch, tmp_path)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        for words, status, told in (
            (("--port", port), 1, f"port {port} already"),
            (("--host", "0.0.0.0"), 2, "--insecure"),
            (("--model", "no-such-model"), 1, "no-such-model"),
            (("--model", "tiny.en", "--model", "no-such-model"), 1, "no-such-model"),
            (("--tls", "nowhere"), 2, "--tls"),
            (("--alias", "a=b"), 2, "--alias a=b"),
        ):
            done = livecap("serve", *words)
            assert (done.status, done.out) == (status, "")
            assert told in done.err
            assert done.err.count("\n") == 1
    assert livecap.loads == 0


def test_a_model_that_can_not_run_ends_the_server(tmp_path: Path) -> None:
    done = Process(tmp_path, "serve", "--port", "0", "--precision", "int4").end()
    assert (done.status, done.out) == (2, "")
    assert "int4" in done.err
    assert "Traceback" not in done.err
