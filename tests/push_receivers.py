"""Receivers of captions on this machine: an HTTP server and an OBS, both by a script."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from livecap.events import RATE, Caption, Word
from livecap.output.push.caption_line import Said, Sink
from livecap.output.push.delivery import Delivery

PATIENCE = 10.0  # seconds after which a test has failed
QUICK: Callable[[int, float], float] = lambda tries, asked: min(asked, 0.02) or 0.005  # noqa: E731
SPOKEN = 1_900_000_000.25  # Unix seconds


def until(is_so: Callable[[], bool], told: Callable[[], object] = lambda: "") -> None:
    """Wait for something that nobody tells of."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, told()
        time.sleep(0.002)


def said(text: str, number: int = 1, *, session: str = "sess_1", language: str = "en") -> Said:
    """A line, a word every half second."""
    words = tuple(
        Word(f" {one}", RATE + n * RATE // 2, RATE + (n + 1) * RATE // 2, 0.9)
        for n, one in enumerate(text.split(" "))
    )
    end = RATE + len(words) * RATE // 2
    return Said(session, number, Caption(number, RATE, end, words, language=language), SPOKEN)


@dataclass
class Sent:
    """One request that came."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: bytes
    at: float = field(default_factory=time.monotonic)

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Receiver:
    """Answers with what the script says, then 200."""

    script: list[tuple[int, dict[str, str]]]
    requests: list[Sent] = field(default_factory=list)
    told: bytes = b""  # body of good answers to GET
    url: str = ""
    port: int = 0

    @property
    def posts(self) -> list[Sent]:
        return [one for one in self.requests if one.method == "POST"]


@contextmanager
def receiving(
    *script: int | tuple[int, dict[str, str]], told: bytes = b"", port: int = 0
) -> Iterator[Receiver]:
    """An HTTP server that answers POSTs by a script."""
    steps = [step if isinstance(step, tuple) else (step, dict[str, str]()) for step in script]
    receiver = Receiver(steps, told=told)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._take("POST")

        def do_GET(self) -> None:
            self._take("GET")

        def _take(self, method: str) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.requests.append(Sent(method, parts.path, query, headers, body))
            answer = receiver.told if method == "GET" else b""
            status, more = 200, dict[str, str]()
            if method == "POST" and receiver.script:
                status, more = receiver.script.pop(0)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(answer)), **more}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    receiver.port = server.server_address[1]
    receiver.url = f"http://127.0.0.1:{receiver.port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def free_port() -> int:
    """A port at which nobody listens."""
    with receiving() as receiver:
        return receiver.port


@dataclass
class Told:
    """What a delivery says and counts."""

    sentences: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    def count(self, kind: str, result: str) -> None:
        self.results.append(result)


@contextmanager
def delivering(
    sink: Sink, *, delay: Callable[[int, float], float] = QUICK, last: float = 0.2, **more: Any
) -> Iterator[tuple[Delivery, Told]]:
    """A sink with its queue, from when it takes lines until it is closed."""
    told = Told()
    delivery = Delivery(sink, delay=delay, say=told.sentences.append, count=told.count, **more)
    try:
        yield delivery, told
    finally:
        delivery.finish(last)
        delivery.close()


@dataclass
class FakeObs:
    """An OBS: what it was asked, and how it answers."""

    password: str = ""
    statuses: dict[str, int] = field(default_factory=dict)  # by request type; else 100
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    connections: int = 0
    break_after: int = 0  # requests, once, after which the connection is cut
    identified: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def rows(self) -> list[str]:
        """What the stream was given."""
        return [data["captionText"] for kind, data in self.requests if kind == "SendStreamCaption"]

    def texts(self) -> list[str]:
        """What stood in the text source."""
        return [
            data["inputSettings"]["text"]
            for kind, data in self.requests
            if kind == "SetInputSettings"
        ]

    def talk(self, connection: ServerConnection) -> None:
        self.connections += 1
        with suppress(ConnectionClosed):
            self._talk(connection)

    def _talk(self, connection: ServerConnection) -> None:
        challenge = {"challenge": "ch+/=", "salt": "salz"}
        hello: dict[str, Any] = {"obsWebSocketVersion": "5.6.0", "rpcVersion": 1}
        if self.password:
            hello["authentication"] = challenge
        connection.send(json.dumps({"op": 0, "d": hello}))
        identify = json.loads(connection.recv())
        assert identify["op"] == 1
        self.identified.append(identify["d"])
        if self.password and identify["d"].get("authentication") != self._proof(challenge):
            connection.close(4009, "Authentication failed.")
            return
        connection.send(json.dumps({"op": 2, "d": {"negotiatedRpcVersion": 1}}))
        for message in connection:
            asked = json.loads(message)["d"]
            self.requests.append((asked["requestType"], asked["requestData"]))
            self.at.append(time.monotonic())
            if self.break_after and len(self.requests) == self.break_after:
                connection.close_socket()
                return
            code = self.statuses.get(asked["requestType"], 100)
            status = {"result": code == 100, "code": code}
            connection.send(json.dumps({"op": 5, "d": {"eventType": "Noise", "eventIntent": 1}}))
            told = {"requestType": asked["requestType"], "requestId": asked["requestId"]}
            connection.send(json.dumps({"op": 7, "d": {**told, "requestStatus": status}}))

    def _proof(self, challenge: dict[str, str]) -> str:
        def hashed(text: str) -> str:
            return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

        return hashed(hashed(self.password + challenge["salt"]) + challenge["challenge"])


@contextmanager
def obs_running(obs: FakeObs, port: int = 0) -> Iterator[Server]:
    """Lets it listen."""
    with serve(obs.talk, "127.0.0.1", port) as server:
        obs.url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def texts(sent: Sequence[Sent]) -> list[str]:
    """Their bodies."""
    return [one.text for one in sent]
