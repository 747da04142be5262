"""An HTTP server that answers as it is told, and remembers what it was sent."""

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from livecap.api.errors import ApiError
from livecap.output.lines import strict_json


@dataclass(frozen=True)
class Says:
    """One answer. Without a status the connection breaks."""

    status: int | None = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    reads: bool = True  # all that was sent, before it answers


def refusal(status: int, message: str, **fields: Any) -> Says:
    """An error as livecap's server and OpenAI's say it."""
    headers = fields.pop("headers", {})
    return Says(status, ApiError(status, message, **fields).envelope(), headers)


class Answers(ThreadingHTTPServer):
    """Listens on this machine."""

    daemon_threads = True

    def __init__(self, *answers: Says, models: Says | None = None) -> None:
        """`answers` to uploads, in turn; the last one again and again."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = list(answers)
        self.models = models or Says(body={"object": "list", "data": []})
        self.paths: list[str] = []
        self.bodies: list[bytes] = []
        self.keys: list[str | None] = []
        self.guard = threading.Lock()
        self.scheme = "http"

    @property
    def url(self) -> str:
        """For --server."""
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Answers

    def do_GET(self) -> None:
        self._say(self.server.models)

    def do_POST(self) -> None:
        with self.server.guard:
            said = self.server.answers
            answer = said.pop(0) if len(said) > 1 else said[0]
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length) if answer.reads else b""
        with self.server.guard:
            self.server.bodies.append(body)
            self.server.paths.append(self.path)
            self.server.keys.append(self.headers["Authorization"])
        self._say(answer)

    def _say(self, answer: Says) -> None:
        self.close_connection = True
        if answer.status is None:
            return
        is_text = isinstance(answer.body, str)
        data = (answer.body if is_text else strict_json(answer.body)).encode()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@contextmanager
def answering(
    *answers: Says, models: Says | None = None, secure: ssl.SSLContext | None = None
) -> Iterator[Answers]:
    """Such a server, while it is needed."""
    with Answers(*answers, models=models) as server:
        if secure:
            server.socket = secure.wrap_socket(server.socket, server_side=True)
            server.scheme = "https"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
