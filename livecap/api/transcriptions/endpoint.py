"""The two routes: a request -> its answer, with all that is to be released in the end.

They are ASGI applications, since an answer may be a stream that outlives its handler, and since a
client that leaves has to be noticed while there is nothing to be sent.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Protocol

from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from livecap.api.errors import ApiError, response, unknown_model
from livecap.api.transcriptions import sse
from livecap.api.transcriptions.form import TranscriptionRequest, read
from livecap.api.transcriptions.job import Job, JobService
from livecap.api.transcriptions.keep_alive import Patient
from livecap.api.transcriptions.limits import UploadLimits
from livecap.api.transcriptions.plan import PlannedModel, TranscriptionPlan, plan
from livecap.api.transcriptions.source import UploadedFile, problem_of
from livecap.api.transcriptions.upload import ClientGone, RequestBody, Upload, check_head, receiving
from livecap.config import Task
from livecap.errors import LivecapError


class LoadedModel(Protocol):
    """See `livecap.models.load.Loaded`."""

    @property
    def model(self) -> PlannedModel: ...


class ModelUse(Protocol):
    """A model that is ready, and what computes for it."""

    @property
    def name(self) -> str: ...
    @property
    def loaded(self) -> LoadedModel: ...
    @property
    def silero(self) -> object | None: ...
    @property
    def service(self) -> JobService: ...


class ModelSource(Protocol):
    """The models that this server has."""

    def canonical(self, name: str | None) -> str | None:
        """The name of the model that a client calls so; None if there is no such model."""

    async def get(self, name: str) -> ModelUse:
        """The model of that canonical name, loaded on first use. Raises LivecapError, ApiError."""


class UploadAdmission(Protocol):
    """How many uploads there may be at once."""

    def upload(self) -> AbstractContextManager[object] | ApiError:
        """A place for one more, given back when it is left; or the refusal (429, Retry-After)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request, for those who count."""

    task: Task
    model: str | None  # canonical name, if it came that far
    audio: int  # samples decoded
    took: float  # seconds from its first bytes to the last of the answer
    problem: ApiError | None


@dataclass(slots=True)
class _Call:
    """One request under way."""

    scope: Scope
    receive: Receive
    send: Send
    model: str | None = None
    audio: int = 0
    problem: ApiError | None = None


def routes(
    models: ModelSource,
    admission: UploadAdmission,
    limits: UploadLimits,
    *,
    told: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Route]:
    """Both routes. `told` learns of every request that did not break off."""
    tasks: tuple[tuple[str, Task], ...] = (
        ("transcriptions", "transcribe"),
        ("translations", "translate"),
    )
    return [
        Route(
            f"/v1/audio/{name}",
            Endpoint(task, models, admission, limits, told),
            methods=["POST"],
            name=name,
        )
        for name, task in tasks
    ]


class Endpoint:
    """One route, as an ASGI application."""

    def __init__(
        self,
        task: Task,
        models: ModelSource,
        admission: UploadAdmission,
        limits: UploadLimits,
        on_outcome: Callable[[Outcome], None],
    ) -> None:
        self._task = task
        self._models = models
        self._admission = admission
        self._limits = limits
        self._told = on_outcome

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; a client that has left gets no answer."""
        clock = asyncio.get_running_loop().time
        begun, call = clock(), _Call(scope, receive, send)
        body = RequestBody(receive, self._limits)
        with suppress(ClientGone):
            try:
                await self._take(call, body)
            except ApiError as error:
                call.problem = error
                await response(error)(scope, receive, send)
            took = clock() - begun
            self._told(Outcome(self._task, call.model, call.audio, took, call.problem))

    async def _take(self, call: _Call, body: RequestBody) -> None:
        headers = Headers(scope=call.scope)
        check_head(headers, self._limits)
        slot = self._admission.upload()
        if isinstance(slot, ApiError):
            raise slot
        with slot:
            async with receiving(headers, body) as upload:
                await _unless_gone(self._caption(call, upload), call.receive)

    async def _caption(self, call: _Call, upload: Upload) -> None:
        upload.check()
        asked = await asyncio.to_thread(read, upload.fields, task=self._task)
        served = await self._served(asked, call)
        has_vad = served.silero is not None
        planned = await asyncio.to_thread(plan, asked, served.loaded.model, has_vad=has_vad)
        source = UploadedFile(upload.take(), upload.size, upload.kind)
        made = Job(source, served.service, planned, self._limits, is_streamed=asked.stream)
        async with made as job:
            try:
                await job.opened()
                await self._answer(call, job, asked, planned)
            finally:
                call.audio = job.duration

    async def _served(self, asked: TranscriptionRequest, call: _Call) -> ModelUse:
        name = self._models.canonical(asked.model)
        if name is None:
            raise unknown_model(asked.model or "")
        call.model = name
        try:
            return await self._models.get(name)
        except LivecapError as error:
            raise problem_of(error) from error

    async def _answer(
        self, call: _Call, job: Job, asked: TranscriptionRequest, planned: TranscriptionPlan
    ) -> None:
        if asked.stream:
            call.problem = await sse.stream(
                job, asked, call.send, language=planned.language, limits=self._limits
            )
            return
        answer = Patient(asked, call.send, self._limits)
        try:
            while not job.is_done:
                await answer.hear(await job.take(self._limits.ping))
        except ApiError as error:
            if not answer.has_begun:
                raise
            call.problem = error
            await answer.break_off(error)
        else:
            await answer.finish(job.duration, planned.language, job.broken)


async def _unless_gone(work: Coroutine[None, None, None], receive: Receive) -> None:
    """Does the work, and gives it up where the client leaves. Raises what the work raises; `Gone`.

    All of the body has to have come: then the next message is that the client has left.
    """
    doing = asyncio.create_task(work)
    leaving = asyncio.create_task(_left(receive))
    try:
        await asyncio.wait((doing, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientGone
        doing.result()
    finally:
        for task in (doing, leaving):
            task.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
