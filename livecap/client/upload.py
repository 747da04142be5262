"""One file -> a server's answer, over `/v1/audio/transcriptions`. Blocks; for a thread.

Source: OpenAI's API, and RFC 9110 for what its statuses ask of clients.
"""

import http.client
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from livecap.client import errors
from livecap.client.errors import ServerError, Trouble
from livecap.client.form import Form
from livecap.client.options import RemoteServer
from livecap.client.wire import Frame, frame_of, inner, text
from livecap.errors import LivecapError
from livecap.output.push.backoff import Backoff

RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504})  # as OpenAI's clients do
LARGEST = 256 << 20  # bytes of an answer: days of words
KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 6))  # seconds, and tries


@dataclass(frozen=True, slots=True)
class UploadTimeouts:
    """Times in seconds."""

    delays: Backoff = field(default_factory=Backoff)  # between two tries
    connecting: float = 10.0
    sending: float = 60.0  # until the server takes more of the file
    tries: int = 6  # in a row that fail, until a file is given up
    busy: float = 1800.0  # that a server may be busy with others


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of HTTP."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def error(self) -> Frame:
        """The error object, empty if there is none."""
        try:
            return inner(frame_of(self.body), "error")
        except ValueError:
            return {}

    def trouble(self, name: str) -> Trouble:
        """What an error means for the whole run, or for another try."""
        message = text(self.error, "message")
        return errors.of_status(name, self.status, message, self.headers.get("retry-after"))

    @property
    def is_retried(self) -> bool:
        """Whether to ask again."""
        wanted = self.headers.get("x-should-retry")
        return self.status in RETRIED if wanted is None else wanted == "true"


class UploadRefused(Exception):
    """The server does not want this file, or not like this."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


def greet(server: RemoteServer, patience: UploadTimeouts) -> None:
    """Find out whether the server is there and takes the key, before anything is sent to it.

    Raises ServerError.
    """
    try:
        reply = _exchange(server, patience, "GET", server.path("models"), None)
    except (OSError, http.client.HTTPException) as error:
        raise errors.of_error(server.name, error).error from error
    if reply.status in (401, 403):
        raise reply.trouble(server.name).error


def upload(
    server: RemoteServer,
    route: str,
    form: Form,
    patience: UploadTimeouts,
    *,
    pause: Callable[[float], None],
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> Frame:
    """Send a form, as often as is needed -> the JSON of the answer.

    `pause` waits for so many seconds, and raises to give up. Raises Refused, for what the server
    will not caption, and ServerError for what keeps it from doing so.
    """
    tries, begun = 0, clock()
    while True:
        try:
            reply = _exchange(server, patience, "POST", server.path(route), form)
        except (OSError, http.client.HTTPException) as error:
            why = errors.of_error(server.name, error)
            if why.lasting:
                raise why.error from error
        else:
            if reply.status == 200:
                return _json(server, reply)
            if not reply.is_retried:
                raise UploadRefused(reply)
            why = reply.trouble(server.name)
        tries += 1
        is_patient = clock() - begun < patience.busy if why.is_busy else tries < patience.tries
        if not is_patient:
            raise why.error
        delay = patience.delays.of(tries, asked=why.wait)
        say(f"{why.error_text}; trying again in {delay:.1f} s")
        pause(delay)


def _json(server: RemoteServer, reply: Reply) -> Frame:
    try:
        return frame_of(reply.body)
    except ValueError as error:
        raise ServerError(
            f"{server.name} does not answer as OpenAI's API does", remedy=errors.NO_PATH
        ) from error


def _exchange(
    server: RemoteServer, patience: UploadTimeouts, method: str, path: str, form: Form | None
) -> Reply:
    """One request. Raises OSError, HTTPException."""
    connection = _connection(server, patience.connecting)
    try:
        connection.connect()
        _keep_alive(connection.sock, patience.sending)
        try:
            _send(connection, server, method, path, form)
        except LivecapError:
            raise
        except OSError:
            # One who refuses may have closed before all has come. What it says counts.
            reply = _early(connection)
            if reply is None:
                raise
            return reply
        connection.sock.settimeout(None)  # it takes as long as it takes; a dead peer is noticed
        return _reply(connection)
    finally:
        connection.close()


def _connection(server: RemoteServer, timeout: float) -> http.client.HTTPConnection:
    host, port = server.url.hostname or "", server.url.port
    if server.secure:
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=server.secure)
    return http.client.HTTPConnection(host, port, timeout=timeout)


def _keep_alive(sock: socket.socket, timeout: float) -> None:
    sock.settimeout(timeout)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if hasattr(socket, name):  # not every system lets it be chosen
            sock.setsockopt(socket.IPPROTO_TCP, vars(socket)[name], value)


def _send(
    connection: http.client.HTTPConnection,
    server: RemoteServer,
    method: str,
    path: str,
    form: Form | None,
) -> None:
    connection.putrequest(method, path + (f"?{server.url.query}" if server.url.query else ""))
    for name, value in {**server.headers, "Accept": "application/json"}.items():
        connection.putheader(name, value)
    if form:
        connection.putheader("Content-Type", form.kind)
        connection.putheader("Content-Length", str(form.length))
    connection.endheaders()
    for block in form.blocks() if form else ():
        connection.send(block)


def _early(connection: http.client.HTTPConnection) -> Reply | None:
    try:
        return _reply(connection)
    except (OSError, http.client.HTTPException):
        return None


def _reply(connection: http.client.HTTPConnection) -> Reply:
    answer = connection.getresponse()
    headers = {name.lower(): value for name, value in answer.getheaders()}
    return Reply(answer.status, headers, answer.read(LARGEST))
