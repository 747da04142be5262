"""Refusals by status, code and field; bodies that are large, slow, broken or hostile."""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI, BadRequestError
from starlette.types import Message
from uploads import (
    AUDIO,
    BOUNDARY,
    CLOSING,
    TEXT,
    Model,
    Places,
    Scripted,
    Served,
    Server,
    body,
    calling,
    error_of,
    form_of,
    run,
)

from livecap.api.errors import busy
from livecap.api.transcriptions import UploadLimits
from livecap.api.transcriptions.upload import MOST_PARTS, MOST_TEXT
from livecap.errors import CorruptModel

OPEN = Path("/proc/self/fd")  # of Linux
MULTIPART = f"multipart/form-data; boundary={BOUNDARY.decode()}"


@pytest.fixture(autouse=True)
def no_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is written under any name, and no descriptor stays open."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = len(os.listdir(OPEN)) if OPEN.exists() else 0
    yield
    assert list(tmp_path.iterdir()) == []
    assert (len(os.listdir(OPEN)) if OPEN.exists() else 0) <= before


# What is missing or can't be


def test_no_file() -> None:
    assert error_of(Server().post(None)) == (400, "missing_required_parameter", "file")


def test_a_file_as_text() -> None:
    answer = Server().post(None, form={"file": "abc"})
    assert error_of(answer) == (400, "invalid_value", "file")


def test_an_empty_file() -> None:
    assert error_of(Server().post(b"")) == (400, "invalid_value", "file")


def test_two_files() -> None:
    files = [("file", ("a.wav", AUDIO)), ("file", ("b.wav", AUDIO))]
    answer = Server().send("audio/transcriptions", files=files)
    assert error_of(answer) == (400, "invalid_value", "file")


def test_other_files_are_ignored() -> None:
    files = [("cover", ("a.png", b"x" * 100)), ("file", ("a.wav", AUDIO))]
    assert Server().send("audio/transcriptions", files=files).json()["text"] == TEXT


def test_a_file_without_a_name_or_a_type() -> None:
    head = b'--frontier\r\nContent-Disposition: form-data; name="file"'
    for rest in (b"\r\nContent-Type: audio/webm", b'; filename=""', b'; filename="blob"'):
        content = head + rest + b"\r\n\r\n" + AUDIO + CLOSING
        answer = Server().send(
            "audio/transcriptions", content=content, headers={"content-type": MULTIPART}
        )
        assert answer.json()["text"] == TEXT


def test_an_unknown_model() -> None:
    answer = Server().post(model="../../etc/passwd")
    assert error_of(answer) == (404, "model_not_found", "model")


def test_options_are_refused_before_any_decoding() -> None:
    served = Served()
    answer = Server(served).post(b"no audio", response_format="diarized_json")
    assert error_of(answer) == (400, "unsupported_value", "response_format")
    assert served.opened == []


def test_the_client_sees_code_and_param() -> None:
    async def ask(client: AsyncOpenAI) -> Any:
        file = ("a.wav", AUDIO)
        await client.audio.transcriptions.create(file=file, model="toy", language="xx")

    with pytest.raises(BadRequestError) as caught:
        Server().openai(ask)
    assert (caught.value.code, caught.value.param) == ("invalid_value", "language")
    assert caught.value.type == "invalid_request_error"


def test_a_model_that_cannot_be_loaded() -> None:
    error = CorruptModel("/secret/model.bin is damaged", remedy="Get it again")
    answer = Server(error=error).post()
    assert error_of(answer) == (500, "server_error", None)
    assert answer.headers["x-should-retry"] == "false"
    assert "secret" not in answer.text


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", ""])
def test_what_is_no_form(kind: str) -> None:
    answer = Server().send("audio/transcriptions", content=b"{}", headers={"content-type": kind})
    assert error_of(answer) == (415, None, None)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("multipart/form-data", b"--x--"),
        ("multipart/form-data; boundary=", b"--x--"),
        ("multipart/form-data; boundary=" + "x" * 5000, b"--x--"),
        (MULTIPART, b""),
        (MULTIPART, b"what?"),
        (MULTIPART, b"--frontier\r\nno header\r\n\r\n"),
        (MULTIPART, b"--frontier\r\nX: " + b"y" * 100_000),
        (MULTIPART, b"--frontier\r\n" + b"X: y\r\n" * 1000 + b"\r\n" + CLOSING),
        (MULTIPART, form_of()[:-10]),
        (MULTIPART, form_of()[: len(AUDIO) // 2]),
        (MULTIPART, b"--frontier\r\n\r\nnameless" + CLOSING),
    ],
)
def test_broken_forms(kind: str, content: bytes) -> None:
    answer = Server().send("audio/transcriptions", content=content, headers={"content-type": kind})
    assert answer.status_code == 400
    error_of(answer)


def test_too_many_fields() -> None:
    part = b'--frontier\r\nContent-Disposition: form-data; name="x"\r\n\r\n\r\n'
    content = part * (MOST_PARTS + 1) + form_of()
    answer = Server().send(
        "audio/transcriptions", content=content, headers={"content-type": MULTIPART}
    )
    assert answer.status_code == 400


def test_too_much_text() -> None:
    answer = Server().post(prompt="x" * (MOST_TEXT + 1))
    assert answer.status_code == 400
    error_of(answer)


@pytest.mark.parametrize(
    "name",
    [
        "../../../etc/passwd",
        "/etc/passwd",
        "C:\\\\windows\\\\system32",
        "a\x00b.wav",
        "\u202e3pm.exe",
        "x" * 3000,
        "con",
        ".",
        "$(reboot).wav",
        "%2e%2e%2f",
        "talk.txt",
    ],
)
def test_names_are_no_paths(name: str) -> None:
    content = form_of(filename=name)
    answer = Server().send(
        "audio/transcriptions", content=content, headers={"content-type": MULTIPART}
    )
    assert answer.json()["text"] == TEXT


def test_a_server_that_is_full() -> None:
    answer = Server(places=Places(busy(7))).post()
    assert error_of(answer) == (429, "rate_limit_exceeded", None)
    assert answer.headers["retry-after"] == "7"
    assert answer.json()["error"]["type"] == "rate_limit_error"


# Size and speed


def test_too_large_by_its_own_account() -> None:
    server = Server(limits=UploadLimits(upload=100_000))

    async def receive() -> Message:
        raise AssertionError("there is no need to look")

    async def sent() -> list[Message]:
        async with calling(server, receive, headers={"content-length": "200000"}) as (task, answer):
            with pytest.raises(AssertionError, match="no need"):
                await task  # after the answer it looks whether the client still sends
            return answer

    start, content = run(sent())
    assert start["status"] == 413
    assert (b"connection", b"close") in start["headers"]
    assert b"(100000) exceeded (200000 bytes read)" in content["body"]
    assert b'"type":"server_error"' in content["body"]


def test_too_large_without_a_length() -> None:
    limit = 1 << 20
    server = Server(limits=UploadLimits(upload=limit))
    pulled = 0
    data = form_of(bytes(100))[:-100] + bytes(1 << 16)

    async def receive() -> Message:
        nonlocal pulled
        pulled += len(data)
        await asyncio.sleep(0)
        return body(data, more=True)  # for ever

    async def sent() -> tuple[int, list[Message]]:
        chunked = {"transfer-encoding": "chunked"}
        async with calling(server, receive, headers=chunked) as (task, answer):
            while not answer:  # the answer does not wait for the rest
                await asyncio.sleep(0)
            at_answer = pulled
            await task
            return at_answer, answer

    at_answer, answer = run(sent())
    assert answer[0]["status"] == 413
    assert at_answer <= limit + 2 * len(data)
    assert pulled < 12 << 20  # what is still sent is not listened to for ever
    assert answer[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


def test_exactly_as_large_as_may_be() -> None:
    content = form_of()
    for limit, status in ((len(content), 200), (len(content) - 1, 413)):
        answer = Server(limits=UploadLimits(upload=limit)).send(
            "audio/transcriptions", content=content, headers={"content-type": MULTIPART}
        )
        assert answer.status_code == status


@pytest.mark.parametrize("limits", [UploadLimits(chunk=0.01), UploadLimits(receiving=0.01)])
def test_a_body_that_does_not_come(limits: UploadLimits) -> None:
    server = Server(limits=limits)
    data = form_of()
    pieces = [data[:200], data[200:300]]

    async def receive() -> Message:
        if pieces:
            return body(pieces.pop(0), more=True)
        await asyncio.Event().wait()
        raise AssertionError

    async def sent() -> list[Message]:
        async with calling(server, receive) as (_, answer):
            while len(answer) < 2:
                await asyncio.sleep(0)
            return answer

    answer = run(sent())
    assert answer[0]["status"] == 408
    assert (b"x-should-retry", b"false") in answer[0]["headers"]
    assert b'"code":"timeout"' in answer[1]["body"]


def test_captioning_that_takes_too_long() -> None:
    served = Served(hangs=True)
    answer = Server(served, limits=UploadLimits(least=0.01, factor=0.0)).post()
    assert error_of(answer) == (408, "timeout", None)
    assert answer.headers["x-should-retry"] == "false"
    assert served.stream.dropped.is_set()
    streamed = Server(Served(hangs=True), limits=UploadLimits(least=0.01, factor=0.0)).post(
        stream="1"
    )
    assert '"code":"timeout"' in streamed.text


def test_the_budget_grows_with_the_audio() -> None:
    limits = UploadLimits()
    assert limits.budget(0) == 120
    assert limits.budget(3600 * 16_000) == 9000


def test_a_body_in_many_pieces() -> None:
    server = Server()
    data = form_of(fields={"response_format": "text"})
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]

    async def receive() -> Message:
        if pieces:
            piece = pieces.pop(0)
            return body(piece, more=bool(pieces))
        await asyncio.Event().wait()
        raise AssertionError

    async def sent() -> list[Message]:
        async with calling(server, receive) as (task, answer):
            await task
            return answer

    answer = run(sent())
    assert b"".join(message.get("body", b"") for message in answer).decode() == TEXT + "\n"


# Clients that leave


@pytest.mark.parametrize("stream", ["true", "false"])
def test_a_client_that_leaves_frees_its_work(stream: str) -> None:
    served = Served(hangs=True)
    server = Server(served)
    pieces = [body(form_of(fields={"stream": stream}))]
    leaving = asyncio.Event()

    async def receive() -> Message:
        if pieces:
            return pieces.pop()
        await leaving.wait()
        return {"type": "http.disconnect"}

    async def left() -> list[Message]:
        async with calling(server, receive) as (task, answer):
            while not (served.opened and served.stream.finished):
                await asyncio.sleep(0)
            leaving.set()
            await task
            return answer

    answer = run(left())
    assert served.stream.dropped.is_set()
    assert not any(message.get("more_body") is False for message in answer)
    assert server.told == []


class Full(Scripted):
    """A stream that never needs more audio."""

    def wait_for_room(self, most: int, timeout: float) -> bool:
        self.notify()
        return False


def test_a_client_that_leaves_while_its_file_is_read() -> None:
    served = Served(kind=Full)
    pieces = [body(form_of())]
    leaving = asyncio.Event()

    async def receive() -> Message:
        if pieces:
            return pieces.pop()
        await leaving.wait()
        return {"type": "http.disconnect"}

    async def left() -> None:
        async with calling(Server(served), receive) as (task, _):
            while not served.opened:
                await asyncio.sleep(0)
            leaving.set()
            await task

    run(left())
    assert served.stream.dropped.is_set()
    assert served.stream.sent == []


def test_a_client_that_leaves_while_it_sends() -> None:
    pieces = [body(form_of()[:50_000], more=True), {"type": "http.disconnect"}]

    async def receive() -> Message:
        return pieces.pop(0)

    async def left() -> list[Message]:
        async with calling(Server(), receive) as (task, answer):
            await task
            return answer

    assert run(left()) == []


def test_a_request_that_is_cancelled() -> None:
    served = Served(hangs=True)
    pieces = [body(form_of())]

    async def receive() -> Message:
        if pieces:
            return pieces.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def cancelled() -> None:
        async with calling(Server(served), receive):
            while not (served.opened and served.stream.finished):
                await asyncio.sleep(0)

    run(cancelled())
    assert served.stream.dropped.is_set()


def test_a_reader_that_stops_reading() -> None:
    served = Served()
    server = Server(served, limits=UploadLimits(stalled=0.01))
    app = server.app
    pieces = [body(form_of(fields={"stream": "true"}))]

    async def receive() -> Message:
        if pieces:
            return pieces.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def stalling(scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Message) -> None:
            if message.get("body"):
                await asyncio.Event().wait()
            await send(message)

        await app(scope, receive, sending)

    server.app = stalling  # type: ignore[assignment] # any application will do

    async def stalled() -> list[Message]:
        async with calling(server, receive) as (task, answer):
            await task
            return answer

    assert [message["type"] for message in run(stalled())] == ["http.response.start"]
    assert served.stream.dropped.is_set()


# Those who count


def test_outcomes_are_told() -> None:
    server = Server(Served(Model(translates=False)))
    server.post(model="whisper-1")
    server.post(path="translations")
    first, second = server.told
    assert (first.task, first.model, first.audio, first.problem) == (
        "transcribe",
        "toy",
        48_000,
        None,
    )
    assert first.took >= 0
    assert (second.task, second.model, second.audio) == ("translate", "toy", 0)
    assert second.problem is not None
    assert second.problem.param == "model"


# Whatever comes

FIELDS = st.dictionaries(
    st.sampled_from(
        [
            "model",
            "language",
            "languages[]",
            "prompt",
            "response_format",
            "temperature",
            "stream",
            "timestamp_granularities[]",
            "include[]",
            "chunking_strategy",
            "task",
            "keywords[]",
        ]
    ),
    st.one_of(
        st.text(max_size=10),
        st.sampled_from(["toy", "en", "json", "vtt", "0.5", "true", "word", "auto", "logprobs"]),
    ),
)


@settings(deadline=None)  # whole requests, on a machine that may be busy
@given(FIELDS, st.sampled_from(["transcriptions", "translations"]))
def test_no_form_is_our_fault(fields: dict[str, str], path: str) -> None:
    fields = {name: value.encode("utf-8", "replace").decode() for name, value in fields.items()}
    answer = Server().post(path=path, form=fields)
    assert answer.status_code in (200, 400, 404)
    if answer.status_code != 200:
        error_of(answer)


@settings(deadline=None)  # whole requests, on a machine that may be busy
@given(st.binary(max_size=300), st.binary(max_size=60))
def test_no_body_is_our_fault(content: bytes, head: bytes) -> None:
    for data in (content, b"--frontier\r\n" + head + b"\r\n\r\n" + content + CLOSING):
        answer = Server().send(
            "audio/transcriptions", content=data, headers={"content-type": MULTIPART}
        )
        assert answer.status_code == 400
        error_of(answer)
