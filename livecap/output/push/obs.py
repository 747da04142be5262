"""Lines -> OBS Studio, as captions of its stream and into a text source.

Source: obs-websocket 5 (messages, authentication, request status codes). One caption is one row of
CEA-608, 32 characters: what is longer, OBS has been seen to cut off (obs-studio issue 5191).
"""

import base64
import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar, Protocol

from livecap.captions import PRESETS
from livecap.captions.cea608 import folded_caption
from livecap.captions.width import clusters
from livecap.events import Caption
from livecap.output.lines import one_line
from livecap.output.push.caption_line import (
    UNREADABLE,
    LineRefused,
    Pause,
    Said,
    Undelivered,
    Unshown,
    cues_of,
)

HELLO, IDENTIFY, IDENTIFIED, REQUEST, RESPONSE = 0, 1, 2, 6, 7  # kinds of messages
NOT_STREAMING, NOT_FOUND = 501, 600  # statuses of requests
WRONG_PASSWORD = 4009  # as it closes the connection then
PROTOCOL = 1  # the version of its remote procedure calls
ANSWER = 5.0  # seconds until OBS has answered, whatever else it tells meanwhile
LATER = 30.0  # seconds until a password is tried again: somebody has to change it first
ROW = 32  # characters
ROWS = 2  # of the text source
SPREAD = 3.0  # seconds over which the rows of one line are shown, at most
SPEED = 20.0  # characters a second that people can read
STAYS = 7.0  # seconds that text stays in the source when nothing more is said
NO_LETTERS = (
    "captions of a stream have no letters for some of what is said, which is left out; "
    "a text source shows it: name one with --obs-source"
)
LAYOUT = PRESETS["live608"].with_limits(max_lines=1)


class Socket(Protocol):
    """A WebSocket. Whatever is wrong with it is raised as Closed."""

    def send(self, message: str) -> None: ...
    def receive(self, timeout: float) -> str: ...
    def close(self) -> None: ...


class Closed(Undelivered):
    """The connection is over, by the code with which OBS closed it, if it did."""

    def __init__(self, why: str, code: int | None = None) -> None:
        super().__init__(why)
        self.code = code


class Obs:
    """One OBS, connected when it is needed, and again when it was away."""

    kind: ClassVar[str] = "obs"
    worth: ClassVar[float] = 5.0

    def __init__(
        self, url: str, shown: str, password: str, source: str, connect: Callable[[str], Socket]
    ) -> None:
        """`place` is shown to people; `source` names a text source, empty for none."""
        self._url = url
        self._password = password
        self._source = source
        self._connect = connect
        self._socket: Socket | None = None
        self._asked = 0  # requests so far
        self._shown: deque[str] = deque(maxlen=ROWS)  # what stands in the text source
        self._part = ("", 0, 0)  # of which line how many rows have been shown
        self.name = f"OBS ({shown})"
        self.quiet = STAYS if source else None

    def send(self, line: Said, pause: Pause) -> None:
        """Its rows one after another. Raises Undelivered or Refused."""
        plain, is_cut = folded_caption(line.caption)
        rows = list(rows_of(plain))  # of the stream's captions
        texts = list(rows_of(line.caption)) if self._source else []  # a source shows any script
        count = max(len(rows), len(texts))
        key = (line.session, line.number)
        first = self._part[2] if self._part[:2] == key else 0
        seconds = min(sum(map(len, texts or rows)) / SPEED, SPREAD)
        for number in range(first, count):
            if number:
                pause(seconds / count)
            self._show("".join(rows[number : number + 1]), "".join(texts[number : number + 1]))
            self._part = (*key, number + 1)
        if is_cut and not self._source:
            raise Unshown(NO_LETTERS)

    def rest(self) -> None:
        """The text source is emptied. Raises Undelivered or Refused."""
        if self._socket and self._shown:
            self._shown.clear()
            self._write()

    def close(self) -> None:
        """The same, and goodbye."""
        with suppress(Undelivered, LineRefused):  # it is away
            self.rest()
        self._leave()

    def _show(self, row: str, text: str) -> None:
        """A row of the stream's captions, and one of the text source; nothing where it is empty."""
        if row:
            status = self._ask("SendStreamCaption", {"captionText": row})
            if status == NOT_STREAMING and not self._source:
                raise LineRefused("it is not streaming, and takes captions only then")
        if text:
            self._shown.append(text)
            self._write()

    def _write(self) -> None:
        text = {"text": "\n".join(self._shown)}
        asked = {"inputName": self._source, "inputSettings": text, "overlay": True}
        if self._ask("SetInputSettings", asked) == NOT_FOUND:
            raise LineRefused("it has no source of the name that --obs-source gives")

    def _ask(self, kind: str, data: dict[str, object]) -> int:
        """A request -> the code of its status. Raises Undelivered."""
        socket = self._socket or self._open()
        self._asked += 1
        id = str(self._asked)
        try:
            _send(socket, REQUEST, {"requestType": kind, "requestId": id, "requestData": data})
            latest = time.monotonic() + ANSWER
            while True:
                payload = _receive(socket, RESPONSE, latest)
                if payload.get("requestId") == id:
                    return _code(payload)
        except Undelivered:
            self._leave()
            raise

    def _open(self) -> Socket:
        """Connect and say who we are. Raises Undelivered."""
        socket = self._socket = self._connect(self._url)
        try:
            latest = time.monotonic() + ANSWER
            challenge = _receive(socket, HELLO, latest).get("authentication")
            if challenge and not self._password:
                message = "it asks for a password: set LIVECAP_OBS_PASSWORD"
                raise Undelivered(message, after=LATER)
            proof = {"authentication": answer(self._password, challenge)} if challenge else {}
            _send(socket, IDENTIFY, {"rpcVersion": PROTOCOL, "eventSubscriptions": 0, **proof})
            _receive(socket, IDENTIFIED, latest)
        except Undelivered as error:
            self._leave()
            if isinstance(error, Closed) and error.code == WRONG_PASSWORD:
                raise Undelivered("it does not take the password", after=LATER) from None
            raise
        return socket

    def _leave(self) -> None:
        if self._socket:
            self._socket.close()
        self._socket = None


def answer(password: str, challenge: object) -> str:
    """What proves that we know the password. Raises Undelivered if that is not asked as it is."""
    match challenge:
        case {"salt": str(salt), "challenge": str(nonce)}:
            return _hashed(_hashed(password + salt) + nonce)
    raise Undelivered(UNREADABLE)


def rows_of(caption: Caption) -> Iterator[str]:
    """A line -> rows of at most ROW characters, however they are written."""
    for cue in cues_of(caption, LAYOUT):
        row = ""
        for cluster in clusters(one_line(" ".join(cue.lines))):
            if row and len(row) + len(cluster) > ROW:
                yield row
                row = ""
            row += cluster[:ROW]
        if row:
            yield row


def _hashed(text: str) -> str:
    found = hashlib.sha256(text.encode("utf-8", "surrogateescape"))  # as the environment has it
    return base64.b64encode(found.digest()).decode()


def _send(socket: Socket, kind: int, data: dict[str, object]) -> None:
    socket.send(json.dumps({"op": kind, "d": data}))


def _code(payload: dict[str, Any]) -> int:
    """Of a response, its status. Raises Undelivered."""
    status = payload.get("requestStatus")
    code = status.get("code") if isinstance(status, dict) else None
    if not isinstance(code, int):
        raise Undelivered(UNREADABLE)
    return code


def _receive(socket: Socket, kind: int, latest: float) -> dict[str, Any]:
    """The next message of a kind, until then; others are passed over. Raises Undelivered."""
    while True:
        left = latest - time.monotonic()
        if left <= 0:
            raise Undelivered("it does not answer")
        try:
            payload = json.loads(socket.receive(left))
            op, data = payload["op"], payload["d"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise Undelivered("it does not speak as obs-websocket 5 does") from None
        if op == kind and isinstance(data, dict):
            return data
