"""The routes for uploads on a model that says what a test wants, called without a socket."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx2
import numpy as np
from media import wav
from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.types import Message, Receive, Scope

from livecap.api.access.connection_limits import Crowd
from livecap.api.errors import ApiError
from livecap.api.server.linger import Lingering
from livecap.api.transcriptions import Outcome, UploadLimits, routes
from livecap.config import DecodeConfig
from livecap.errors import ConfigError, LivecapError
from livecap.events import RATE, Caption, Event, Language, Scores, Silence, Word
from livecap.models.protocol import StreamingDefaults
from livecap.online.config import StreamConfig
from livecap.runtime.source import Rows

PATIENCE = 20.0  # seconds after which a test has failed
URL = "http://testserver/v1"
TONE = (np.sin(np.arange(3 * RATE) / 10) / 4).astype(np.float32)
AUDIO = wav(TONE)  # 3 s
Fields = Mapping[str, str | Sequence[str]]
Result = TypeVar("Result")


def word(text: str, start: float, end: float) -> Word:
    """A word timed in seconds."""
    return Word(text, round(start * RATE), round(end * RATE), 0.9)


SCORES = Scores((5, 6), 0.0, -0.25, 1.2, 0.01)
FIRST = Caption(
    0,
    RATE // 2,
    RATE,
    (word(" Hello", 0.5, 0.75), word(" <you> -->", 0.75, 1.0)),
    language="en",
    scores=SCORES,
)
SECOND = Caption(1, 3 * RATE // 2, 2 * RATE, (word("again.", 1.5, 2.0),), language="en")
EVENTS: tuple[Event, ...] = (
    Language("en", 0.98),
    Silence(0, RATE // 2),
    FIRST,
    Silence(RATE, 3 * RATE // 2),
    SECOND,
    Silence(2 * RATE, 3 * RATE),
)
TEXT = "Hello <you> --> again."


@dataclass
class Scripted:
    """A stream that says `events` when all has come, or nothing at all if it `hangs`."""

    config: StreamConfig
    decode: DecodeConfig
    notify: Callable[[], None]
    events: list[Event]
    hangs: bool = False
    error: LivecapError | None = None
    sent: list[tuple[int, Rows]] = field(default_factory=list)
    ready: list[Event] = field(default_factory=list)
    finished: bool = False
    in_flight: int = 0  # windows that are being decoded
    busy_after: int | None = None  # blocks after which the first of them is
    dropped: threading.Event = field(default_factory=threading.Event)

    def push(self, start: int, pcm: Rows, reason: str = "") -> None:
        assert not self.finished
        assert not self.dropped.is_set()
        self.sent.append((start, pcm))
        self.in_flight += len(self.sent) == self.busy_after

    def wait_for_room(self, most: int, timeout: float) -> bool:
        return True

    def finish(self) -> None:
        self.finished = True
        if not self.hangs:
            self.ready += self.events
        self.notify()

    def cancel(self) -> None:
        self.dropped.set()

    def poll(self) -> list[Event]:
        events, self.ready = self.ready, []
        if self.finished and self.error and not events:
            raise self.error
        return events

    @property
    def is_done(self) -> bool:
        if self.dropped.is_set():
            return True
        return self.finished and not self.hangs and not self.ready and not self.error


DEFAULTS = StreamingDefaults(
    ("local-agreement",), 2 * RATE, 0, 0, RATE, 28 * RATE, 30 * RATE, 28 * RATE
)


@dataclass
class Model:
    """What is known of the model."""

    name: str = "toy"
    languages: tuple[str, ...] = ("en", "de", "fr")
    segment: int = 28 * RATE
    translates: bool = True
    conditions: bool = True
    times: bool = True
    streaming: StreamingDefaults = DEFAULTS

    def check(self, config: DecodeConfig) -> None:
        refused = (
            (config.language is not None and config.language not in self.languages)
            or (config.task == "translate" and not self.translates)
            or (config.long_form == "sequential" and not self.conditions)
            or len(config.prompt) > 1000
        )
        if refused:
            raise ConfigError("That can't be followed", remedy="Leave it out.")

    def untimed(self, language: str | None) -> str | None:
        return None if self.times else "It has no aligner."


@dataclass
class Served:
    """A model, and the service that computes for it: all in one."""

    model: Model = field(default_factory=Model)
    events: Sequence[Event] = EVENTS
    hangs: bool = False
    error: LivecapError | None = None
    silero: object | None = "Silero"
    name: str = "toy"
    opened: list[Scripted] = field(default_factory=list)
    kind: type[Scripted] = Scripted

    @property
    def loaded(self) -> "Served":
        return self

    @property
    def service(self) -> "Served":
        return self

    def open(
        self, config: StreamConfig, decode: DecodeConfig, *, notify: Callable[[], None]
    ) -> Scripted:
        stream = self.kind(config, decode, notify, list(self.events), self.hangs, self.error)
        self.opened.append(stream)
        return stream

    @property
    def stream(self) -> Scripted:
        """The only one that was opened."""
        (stream,) = self.opened
        return stream


@dataclass
class Models:
    """One model by three names."""

    served: Any
    error: LivecapError | None = None

    def canonical(self, name: str | None) -> str | None:
        return "toy" if name in (None, "toy", "whisper-1") else None

    async def get(self, name: str) -> Any:
        assert name == "toy"
        if self.error:
            raise self.error
        return self.served


@dataclass
class Places:
    """Lets everybody in, or nobody."""

    refusal: ApiError | None = None

    def upload(self) -> AbstractContextManager[object] | ApiError:
        return self.refusal or nullcontext()


@dataclass
class Server:
    """The application, and what it told about its requests."""

    served: Any = field(default_factory=Served)
    limits: UploadLimits = field(default_factory=UploadLimits)
    places: Places = field(default_factory=Places)
    error: LivecapError | None = None
    told: list[Outcome] = field(default_factory=list)

    def __post_init__(self) -> None:
        models = Models(self.served, self.error)
        files = routes(models, self.places, self.limits, told=self.told.append)
        self.app = Lingering(Starlette(routes=files), Crowd(0, 0))

    def post(
        self, file: bytes | None = AUDIO, *, path: str = "transcriptions", **fields: Any
    ) -> httpx2.Response:
        """A form with a file called audio.wav. A name may be spelt with brackets: `form={...}`."""
        form: dict[str, Any] = {**fields.pop("form", {}), **fields}
        files = None if file is None else {"file": ("audio.wav", file, "audio/wav")}
        if files is None:
            files = {"unused": ("nothing", b"", "application/octet-stream")}
        return self.send(f"audio/{path}", data=form, files=files)

    def send(self, path: str, **content: Any) -> httpx2.Response:
        """A POST with whatever httpx2 can send."""

        async def sent() -> httpx2.Response:
            async with httpx2.AsyncClient(transport=httpx2.ASGITransport(self.app)) as client:
                return await client.post(f"{URL}/{path}", **content)

        return run(sent())

    def openai(self, ask: Callable[[AsyncOpenAI], Awaitable[Result]]) -> Result:
        """What the unmodified OpenAI client gets."""

        async def asked() -> Result:
            async with AsyncOpenAI(
                api_key="none",
                base_url=URL,
                max_retries=0,
                http_client=httpx2.AsyncClient(transport=httpx2.ASGITransport(self.app)),
            ) as client:
                return await ask(client)

        return run(asked())


def run(work: Awaitable[Result]) -> Result:
    """Runs it to its end, and sees to it that no thread of it is left."""

    async def bounded() -> Result:
        async with asyncio.timeout(PATIENCE):
            return await work

    try:
        return asyncio.run(bounded())
    finally:
        for thread in threading.enumerate():
            if thread.name == "livecap-upload":
                thread.join(PATIENCE)
                assert not thread.is_alive()


def error_of(answer: httpx2.Response) -> tuple[int, str | None, str | None]:
    """Status, code and param, of an answer in the one envelope."""
    error = answer.json()["error"]
    assert set(answer.json()) == {"error"}
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert error["type"] in ("invalid_request_error", "rate_limit_error", "server_error")
    return answer.status_code, error["code"], error["param"]


BOUNDARY = b"frontier"


def form_of(
    file: bytes = AUDIO, *, fields: Mapping[str, str] | None = None, filename: str = "a.wav"
) -> bytes:
    """A form as bytes, the file last."""
    parts = [
        b'--%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
        % (BOUNDARY, name.encode(), value.encode())
        for name, value in (fields or {}).items()
    ]
    head = f'Content-Disposition: form-data; name="file"; filename="{filename}"\r\n\r\n'
    return b"".join([*parts, b"--%s\r\n" % BOUNDARY, head.encode(), file, CLOSING])


CLOSING = b"\r\n--%s--\r\n" % BOUNDARY


@asynccontextmanager
async def calling(
    server: Server, receive: Receive, *, headers: Mapping[str, str] | None = None
) -> AsyncGenerator[tuple["asyncio.Task[None]", list[Message]]]:
    """One request by hand: the task that answers it, and what it sends."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    kind = f"multipart/form-data; boundary={BOUNDARY.decode()}"
    raw = {"content-type": kind, **(headers or {})}
    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/audio/transcriptions",
        "raw_path": b"/v1/audio/transcriptions",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in raw.items()],
    }
    task = asyncio.create_task(server.app(scope, receive, send))
    try:
        yield task, sent
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def body(data: bytes, *, more: bool = False) -> Message:
    """A message with some of the body."""
    return {"type": "http.request", "body": data, "more_body": more}
