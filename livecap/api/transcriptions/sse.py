"""Events as they come -> OpenAI's server-sent events for a transcription.

Deltas, one `transcript.text.done`, then `[DONE]`: the official clients stop at it, and so do
those written for vLLM, SGLang-Omni and M*. What fails after the headers is an event, too.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

from starlette.types import Send

from livecap.api.errors import ApiError
from livecap.api.transcriptions.form import TranscriptionRequest
from livecap.api.transcriptions.limits import UploadLimits
from livecap.api.transcriptions.render import Prose, UploadResult, language_list, missing, usage
from livecap.api.transcriptions.upload import ClientGone
from livecap.events import Event
from livecap.output.lines import LINE_BREAKS, strict_json

PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"
HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class Captions(Protocol):
    """Where the events come from; see `job.Job`."""

    @property
    def duration(self) -> int: ...
    @property
    def is_done(self) -> bool: ...
    async def take(self, patience: float) -> list[Event]: ...


async def stream(
    captions: Captions,
    asked: TranscriptionRequest,
    send: Send,
    *,
    language: str | None,
    limits: UploadLimits,
) -> ApiError | None:
    """Sends the whole answer -> what went wrong on the way, which the client has been told.

    `language` is the code, if it was known beforehand. Raises `Gone` where the client takes
    nothing for `limits.stalled` seconds.
    """
    problem: ApiError | None = None
    await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS]})
    try:
        async with aclosing(_told(captions, asked, language, limits.ping)) as frames:
            async for data in frames:
                await put(send, data, limits.stalled)
    except ApiError as error:
        problem = error
        await put(send, _frame({"type": "error", **error.envelope()}), limits.stalled)
    await put(send, DONE, limits.stalled)
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    return problem


async def _told(
    captions: Captions, asked: TranscriptionRequest, language: str | None, ping: float
) -> AsyncGenerator[bytes]:
    """All events, and a comment wherever there was none for `ping` seconds."""
    clock = asyncio.get_running_loop().time
    prose, events = Prose(), list[Event]()
    last = clock()
    while not captions.is_done:
        found = await captions.take(max(last + ping - clock(), 0.0))
        events += found
        if deltas := [delta for event in found if (delta := prose.add(event))]:
            for delta in deltas:
                yield _frame({"type": "transcript.text.delta", "delta": delta})
            last = clock()
        elif clock() >= last + ping:
            yield PING
            last = clock()
    result = UploadResult(events, captions.duration, language)
    done: dict[str, object] = {"type": "transcript.text.done", "text": prose.text}
    if asked.usage:
        done["usage"] = usage(captions.duration)
    yield _frame({**done, "languages": language_list(result), **missing(result)})


def _frame(event: dict[str, object]) -> bytes:
    """One event. Characters that some readers take for the end of a line are escaped."""
    data = strict_json(event).translate(LINE_BREAKS)
    return f"data: {data}\n\n".encode("utf-8", "replace")


async def put(send: Send, data: bytes, patience: float) -> None:
    """Some of a body. Raises `Gone` where the client takes nothing for so many seconds."""
    try:
        async with asyncio.timeout(patience):
            await send({"type": "http.response.body", "body": data, "more_body": True})
    except TimeoutError:
        raise ClientGone from None
