"""Uploads that mean harm, or are broken: refused or let go, while others get their words."""

import asyncio
import io
import json
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import av
import httpx2
import numpy as np
import pytest
import tones
from hypothesis import given, settings
from hypothesis import strategies as st
from media import Sound, mux, wav
from server_clients import Json, ask, neighbour, run
from server_fixture import MANY, TRAITS, Running, serving, toned, until
from test_realtime_fuzz import JSON
from test_service import Readers, Valve
from uploads import BOUNDARY, error_of, form_of

from livecap.api.transcriptions import UploadLimits
from livecap.events import RATE

SOON = 10.0  # seconds, far below those after which an upload is given up that goes on
CAP = 2 << 20  # bytes
LONGEST = 600  # seconds
LIMITS = UploadLimits(upload=CAP, duration=LONGEST * RATE, chunk=0.3, receiving=0.9)

SAID = tones.some(1)
TEXT = tones.text(SAID)
TALK = (tones.say(SAID) / 32768).astype(np.float32)
FILE = wav(TALK)
HEAD = (
    "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\n"
    f"Content-Type: multipart/form-data; boundary={BOUNDARY.decode()}\r\n"
)
BEGUN = form_of(FILE)[: len(FILE) // 2]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(limits=LIMITS) as running:
        yield running
        running.settle()


@pytest.fixture(autouse=True)
def no_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert list(tmp_path.iterdir()) == []


class Raw:
    """A connection with a request under way."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, Json]:
        """Status and body, however long the connection stays open after it."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        size = next(line for line in head.splitlines() if line.startswith("content-length:"))
        body: Json = json.loads(await self.reader.readexactly(int(size.split()[1])))
        return int(head.split()[1]), body


@asynccontextmanager
async def request(server: Running, *lines: str) -> AsyncGenerator[Raw]:
    """A POST with these further lines in its head, and no body yet."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        raw = Raw(reader, writer)
        await raw.send((HEAD + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode())
        yield raw
    finally:
        writer.transport.abort()


HTTP = httpx2.Client(timeout=60, headers={"Connection": "close"}, verify=False)


def sent(server: Running, file: bytes, **fields: Any) -> httpx2.Response:
    """A whole upload."""
    files = {"file": ("a.wav", file)}
    return HTTP.post(f"{server.http}/audio/transcriptions", files=files, data=fields)


def form(server: Running, content: bytes) -> httpx2.Response:
    """A form as it is."""
    kind = {"content-type": f"multipart/form-data; boundary={BOUNDARY.decode()}"}
    return HTTP.post(f"{server.http}/audio/transcriptions", content=content, headers=kind)


# Slow, endless, too large


def test_bodies_that_do_not_come_in_time(server: Running) -> None:
    async def stall() -> tuple[int, Json]:
        async with request(server, "Content-Length: 100000") as raw:
            await raw.send(BEGUN[:100])
            return await raw.answer()

    async def drip() -> tuple[int, Json]:
        async with request(server, "Content-Length: 100000") as raw:
            answer = asyncio.create_task(raw.answer())
            for byte in BEGUN:
                await raw.send(bytes([byte]))
                if (await asyncio.wait({answer}, timeout=0.01))[0]:
                    break
            return await answer

    async def told() -> list[tuple[int, Json]]:
        async with neighbour(server):
            return await asyncio.gather(*(stall() for _ in range(8)), *(drip() for _ in range(8)))

    for status, body in run(told):
        assert (status, body["error"]["code"]) == (408, "timeout")
    server.settle()


def test_a_body_without_an_end(server: Running) -> None:
    """Two gigabytes are on their way. It is cut off at the cap, and hears why."""
    zeros = bytes(1 << 16)
    chunk = b"%x\r\n%s\r\n" % (len(zeros), zeros)

    async def told() -> tuple[int, tuple[int, Json]]:
        async with neighbour(server), request(server, "Transfer-Encoding: chunked") as raw:
            begin = form_of(b"")[: form_of(b"").index(b"\r\n\r\n") + 4]
            await raw.send(b"%x\r\n%s\r\n" % (len(begin), begin))
            answer, total = asyncio.create_task(raw.answer()), 0
            with suppress(ConnectionError):
                while total < 2 << 30:
                    await raw.send(chunk)
                    total += len(zeros)
            return total, await answer

    total, (status, body) = run(told)
    assert status == 413
    assert f"({CAP})" in body["error"]["message"]
    assert CAP < total < 64 << 20  # what the system has buffered is sent, too
    server.settle()


@pytest.mark.parametrize("further", [(), ("Expect: 100-continue",)])
def test_a_body_that_is_too_large_by_its_own_account(
    server: Running, further: tuple[str, ...]
) -> None:
    async def told() -> tuple[int, Json]:
        async with request(server, "Content-Length: 2147483648", *further) as raw:
            return await raw.answer()

    status, body = run(told)
    assert (status, body["error"]["type"]) == (413, "server_error")


@cache
def opus(seconds: int) -> bytes:
    """Silence, of which a minute takes a few kilobytes."""
    file, size = io.BytesIO(), 5760  # samples of a packet: the longest there is
    with av.open(file, "w", format="ogg") as container:
        stream = container.add_stream("libopus", rate=48_000, layout="mono")
        stream.options = {"frame_duration": "120"}
        frame = av.AudioFrame.from_ndarray(np.zeros((1, size), np.int16), "s16", "mono")
        frame.sample_rate = 48_000
        first = [*stream.encode(frame), *stream.encode(frame), *stream.encode(None)]
        for number in range(seconds * 48_000 // size):
            packet = av.Packet(bytes(first[-1]))
            packet.stream, packet.time_base = stream, Fraction(1, 48_000)
            packet.pts = packet.dts = number * size
            packet.duration = size
            container.mux(packet)
    return file.getvalue()


@pytest.mark.parametrize(
    "make",
    [
        lambda: opus(3 * 3600),
        lambda: mux(Sound(np.zeros(1200 * 8000, np.float32), 8000, "flac"), form="flac"),
    ],
)
def test_a_small_file_that_holds_hours(server: Running, make: Callable[[], bytes]) -> None:
    file = make()
    assert len(file) < CAP

    async def told() -> httpx2.Response:
        async with neighbour(server):
            return await asyncio.to_thread(sent, server, file)

    before = len(server.outcomes)
    assert error_of(run(told)) == (413, "audio_too_long", "file")
    (outcome,) = server.outcomes[before:]
    assert outcome.audio <= LONGEST * RATE, "no more is decoded than is taken"
    server.settle()


# Strange


def test_samples_that_are_no_numbers(server: Running) -> None:
    signal = TALK.copy()
    quiet = np.flatnonzero(signal == 0)[:2000]
    signal[quiet] = np.resize([np.nan, -np.nan, 1e-42], len(quiet))
    for kind in ("json", "verbose_json"):
        answer = sent(server, wav(signal, kind="f32"), response_format=kind)
        assert answer.status_code == 200
        told = json.loads(answer.text, parse_constant=_refuse)
        assert told["text"] == TEXT
    for value in (np.nan, np.inf, 3e38):
        answer = sent(server, wav(np.full(RATE, value, np.float32), kind="f32"))
        assert answer.status_code in (200, 400)
        json.loads(answer.text, parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise AssertionError(constant)


@pytest.mark.parametrize(
    "name",
    [
        "../../../../tmp/owned.wav",
        "/dev/null",
        'a"; name="model',
        "a\r\nX-Injected: yes\r\n\r\nfile",
        "a\x00b.wav",
        "\u202e\U0001f642" * 200,
        "x" * 4000,
        "http://127.0.0.1/metadata",
        "",
    ],
)
def test_names_are_never_followed(server: Running, name: str) -> None:
    answer = form(server, form_of(FILE, filename=name))
    if answer.status_code == 200:
        assert answer.json()["text"] == TEXT
    else:
        assert error_of(answer)[0] == 400
    assert "x-injected" not in answer.headers


@pytest.mark.parametrize(
    "data",
    [
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        "GET / HTTP/x\r\n\r\n",
        "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: x\r\n" + "X: " + "y" * 200_000,
        "GET /health HTTP/1.1\r\n" + "X: y\r\n" * 20_000,
        f"{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        "\x00" * 100_000,
    ],
)
def test_what_is_no_http(server: Running, data: str) -> None:
    async def told() -> bytes:
        async with neighbour(server):
            try:
                return await ask(server, data)
            except ConnectionError:  # closed while it was still sending
                return b"HTTP/1.1 400 "

    assert run(told)[:13] in (b"HTTP/1.1 400 ", b"HTTP/1.1 505 ")
    server.settle()


# Clients that leave, and more than there is room for


def test_who_leaves_in_the_middle_of_a_body(server: Running) -> None:
    async def told() -> None:
        async with neighbour(server):
            for _ in range(20):
                async with request(server, "Content-Length: 500000") as raw:
                    await raw.send(BEGUN)

    run(told)
    server.settle()


@pytest.mark.parametrize("stream", ["true", "false"])
def test_who_leaves_while_the_file_is_captioned_frees_its_place(stream: str) -> None:
    valve = Valve()
    model = Readers(tones.Listener(), streaming=TRAITS, before=valve)
    with serving(toned(model)) as server:

        async def told() -> None:
            body = form_of(FILE, fields={"stream": stream})
            async with request(server, f"Content-Length: {len(body)}") as raw:
                await raw.send(body)
                await asyncio.to_thread(valve.wait)
                assert server.service.files == 1

        run(told)
        until(lambda: server.parts.admission.uploads == 0, patience=SOON)
        valve.open()
        until(lambda: server.service.files == 0, patience=SOON)
        server.settle()


def test_more_than_there_is_room_for_are_refused_at_once() -> None:
    with serving(config=replace(MANY, max_uploads=2)) as server:

        async def told() -> None:
            async with (
                neighbour(server),
                request(server, "Content-Length: 500000") as one,
                request(server, "Content-Length: 500000") as other,
            ):
                await one.send(BEGUN)
                await other.send(BEGUN)
                until(lambda: server.parts.admission.uploads == 2)
                for _ in range(20):
                    refused = await asyncio.to_thread(sent, server, FILE)
                    assert error_of(refused) == (429, "rate_limit_exceeded", None)
                    assert int(refused.headers["retry-after"]) > 0
            until(lambda: server.parts.admission.uploads == 0)

        run(told)
        assert sent(server, FILE).json()["text"] == TEXT
        server.settle()


def test_many_at_once_beside_a_live_session(server: Running) -> None:
    async def told() -> list[httpx2.Response]:
        async with neighbour(server):
            return await asyncio.gather(*(asyncio.to_thread(sent, server, FILE) for _ in range(16)))

    assert {answer.json()["text"] for answer in run(told)} == {TEXT}
    server.settle()


# Anything at all

NAMES = st.sampled_from(
    [
        "model", "language", "languages", "languages[]", "prompt", "keywords[]", "hotwords",
        "response_format", "temperature", "timestamp_granularities[]", "include[]", "stream",
        "chunking_strategy", "chunking_strategy[type]", "chunking_strategy[threshold]", "seed",
        "known_speaker_names[]", "max_new_tokens", "repetition_penalty", "long_form", "task",
    ]
)  # fmt: skip
VALUES = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    ["tones", "whisper-1", "en", "English", "json", "vtt", "verbose_json", "word", "true", "0", "1",
     "1e999", "nan", "auto", '{"type": "server_vad", "threshold": NaN}', '{"type": []}', "["]
)  # fmt: skip
ANYTHING = settings(max_examples=60, deadline=None)


@ANYTHING
@given(st.lists(st.tuples(NAMES | VALUES, VALUES), max_size=6))
def test_fields_of_any_kind(server: Running, fields: list[tuple[str, str]]) -> None:
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name, []).append(value)
    answer = sent(server, FILE, **values)
    if answer.status_code != 200:
        assert error_of(answer)[0] in (400, 404)


@ANYTHING
@given(st.integers(0, 400), st.integers(0, 60), st.binary(max_size=60))
def test_forms_that_are_broken_anywhere(server: Running, at: int, cut: int, put: bytes) -> None:
    whole = form_of(FILE, fields={"response_format": "json"})
    answer = form(server, whole[:at] + put + whole[at + cut :])
    if answer.status_code != 200:
        assert error_of(answer)[0] in (400, 404)


@ANYTHING
@given(
    st.binary(max_size=200)
    | JSON.map(lambda found: json.dumps(found).encode())
    | st.dictionaries(st.sampled_from(["session", "expires_after"]), JSON).map(
        lambda found: json.dumps(found).encode()
    ),
    st.sampled_from(["client_secrets", "transcription_sessions"]),
)
def test_bodies_of_any_kind(server: Running, body: bytes, path: str) -> None:
    answer = HTTP.post(f"{server.http}/realtime/{path}", content=body)
    if answer.status_code != 200:
        assert error_of(answer)[0] in (400, 413)
