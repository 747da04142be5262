"""Answers that take long: something comes before proxies lose patience, and nothing is lost."""

import asyncio
import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from media import wav
from starlette.types import Message
from strict import parse_srt
from uploads import (
    EVENTS,
    FIRST,
    SECOND,
    TEXT,
    Scripted,
    Served,
    Server,
    body,
    calling,
    form_of,
    run,
)

from livecap.api.transcriptions import UploadLimits
from livecap.errors import EngineFault
from livecap.events import RATE

PATIENT = UploadLimits(ping=0.02)  # seconds
FORMS = ["json", "verbose_json", "text", "srt", "vtt"]


def slow(form: str, *, fails: bool = False) -> tuple[list[Message], list[bytes]]:
    """All that is sent for a file whose second half is held up; and what came before that."""
    served = Served(hangs=True)
    server = Server(served, limits=PATIENT)
    content, before = form_of(fields={"response_format": form}), list[bytes]()

    async def receive() -> Message:
        nonlocal content
        if content:
            sent, content = content, b""
            return body(sent)
        return await asyncio.Future()

    def let(count: int) -> None:
        said, stream = list(EVENTS), served.stream
        stream.ready += said[count:] if count else said[:4]
        stream.hangs = not count
        if count and fails:
            stream.ready, stream.error = [], EngineFault("it broke in /secret", remedy="Mend it")
        stream.notify()

    async def sent() -> list[Message]:
        async with calling(server, receive) as (task, answer):
            while not (served.opened and served.stream.finished):
                await asyncio.sleep(0)
            let(0)
            enough = 2 if form in ("text", "srt") else 4
            while len(answer) < enough:  # it begins although nothing more is said
                await asyncio.sleep(0)
            before.extend(one["body"] for one in answer[1:])
            let(4)
            await task
            return answer

    messages = run(sent())
    (outcome,) = server.told
    assert (outcome.problem is not None) == fails
    return messages, before


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_begins_before_it_is_complete(form: str) -> None:
    (start, *rest), before = slow(form)
    quick = Server().post(response_format=form)
    headers = dict(start["headers"])
    assert start["status"] == 200
    assert headers[b"content-type"].decode() == quick.headers["content-type"]
    assert headers[b"x-accel-buffering"] == b"no"
    assert b"content-length" not in headers
    assert not rest[-1]["more_body"]
    told = b"".join(one["body"] for one in rest).decode()
    if form.endswith("json"):
        assert not b"".join(before).strip()
        assert json.loads(told) == quick.json()
    else:
        # A cue is held back until it is known that nothing joins it.
        assert form != "text" or b"Hello" in b"".join(before), "what is final comes at once"
        assert told.split() == quick.text.split()
        assert form != "text" or told == f"{TEXT}\n"
        assert form != "srt" or parse_srt(told) == parse_srt(quick.text)
        assert form != "vtt" or told.startswith("WEBVTT")


@pytest.mark.parametrize("form", FORMS)
def test_what_goes_wrong_later_breaks_it_off(form: str) -> None:
    """Nobody takes half of the text for all of it."""
    (start, *rest), _ = slow(form, fails=True)
    assert start["status"] == 200
    assert all(one["more_body"] for one in rest), "it has no end"
    told = b"".join(one["body"] for one in rest)
    assert b"secret" not in told
    if form.endswith("json"):
        assert json.loads(told)["error"]["type"] == "server_error"


@pytest.mark.parametrize("form", FORMS)
def test_a_quick_answer_is_sent_at_once(form: str) -> None:
    server = Server(limits=replace(PATIENT, ping=60.0))
    answer = server.post(response_format=form)
    assert int(answer.headers["content-length"]) == len(answer.content)
    broken = Server(Served(error=EngineFault("it broke", remedy="Mend it"))).post()
    assert broken.status_code == 500


@pytest.mark.parametrize("is_streamed", [True, False])
def test_a_stream_has_its_first_text_after_one_window(is_streamed: bool) -> None:
    """In a batch with others it would be ready when all of them are."""

    @dataclass
    class Windowed(Scripted):
        busy_after: int | None = 2

    served = Served(kind=Windowed)
    server = Server(served)
    fields = {"stream": "true"} if is_streamed else {}
    content = form_of(wav(np.zeros(20 * RATE, np.float32)), fields=fields)

    async def receive() -> Message:
        nonlocal content
        if content:
            sent, content = content, b""
            return body(sent)
        return await asyncio.Future()

    async def sent() -> list[int]:
        counts = list[int]()
        async with calling(server, receive) as (task, answer):
            while not (served.opened and served.stream.in_flight):
                await asyncio.sleep(0)
            stream = served.stream
            if is_streamed:
                stream.ready.append(FIRST)
                stream.notify()
                while not any(b"Hello" in one.get("body", b"") for one in answer):
                    await asyncio.sleep(0)
                counts.append(len(stream.sent))
            stream.events = [SECOND] if is_streamed else [FIRST, SECOND]
            stream.in_flight = 0 if is_streamed else 1
            stream.notify()
            await task
            counts.append(len(stream.sent))
        return counts

    *early, whole = run(sent())
    assert early == ([2] if is_streamed else [])
    assert whole > 10
