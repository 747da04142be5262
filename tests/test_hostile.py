"""Clients that mean harm, or are broken: told so or let go, while others get their words."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from server_clients import (
    REALTIME,
    VAD,
    Json,
    Socket,
    client,
    encoded,
    manual,
    neighbour,
    run,
    utterance,
)
from server_fixture import MANY, TRAITS, Running, serving, toned, until
from test_service import Readers
from tones import Listener
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from livecap.api.options import ServeConfig
from livecap.api.realtime import RealtimeSession
from livecap.api.server.uvicorn_server import MESSAGE
from livecap.api.server.uvicorn_websocket import FirmSocket
from livecap.api.sessions import outbox

SOON = 10.0  # seconds, far below those after which a client is given up that doesn't leave
MOST = 15 << 20  # bytes of audio in one event


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving() as running:
        yield running
        running.settle()


def event(**fields: Any) -> str:
    return json.dumps(fields)


APPEND = "input_audio_buffer.append"
UPDATE = "session.update"
TOO_LARGE, TOO_DEEP = "message_too_large", "message_too_deep"


@pytest.mark.parametrize(
    ("message", "code", "param"),
    [
        ("", "invalid_json", None),
        ("{", "invalid_json", None),
        ("nonsense", "invalid_json", None),
        ("NaN", "invalid_json", None),
        ('{"type": "session.update", "session": NaN}', "invalid_json", None),
        ('{"type": "session.update", "session": 1e999}', "invalid_json", None),
        ("[" * 100_000, "message_too_deep", None),
        ('{"a":' * 50_000, "message_too_deep", None),
        ("[]", "invalid_event", None),
        ("null", "invalid_event", None),
        ('"session.update"', "invalid_event", None),
        ("{}", "invalid_event", None),
        (event(type=None), "invalid_event", None),
        (event(type=7), "invalid_event", None),
        (event(type=""), "invalid_value", "type"),
        (event(type="\x00"), "invalid_value", "type"),
        (event(type="x" * 200_000), "invalid_value", "type"),
        (event(type="x" * 1_000_000), "message_too_large", None),
        (event(type=UPDATE, session={}, padding="x" * (256 << 10)), "message_too_large", None),
        ('{"type":"session.update","session":[' + "[]," * 7_000_000 + "[]]}", TOO_LARGE, None),
        ('{"session":[' + "[]," * 7_000_000 + '[]],"type":"session.update"}', TOO_LARGE, None),
        ('{"audio":[' + "[]," * 100_000 + f'[]],"type":"{APPEND}"}}', TOO_LARGE, None),
        ("[" * 20_000_000, "message_too_large", None),
        ('{"type":"session.update","session":' + '{"a":' * 40 + "1" + "}" * 41, TOO_DEEP, None),
        ('{"type":"session.update","session":[' + "[]," * 80_000 + "[]]}", TOO_DEEP, None),
        ('{"type":"session.update","session":[' + "[]," * 1100 + "[]]}", TOO_DEEP, None),
        (f'{{"type":"{APPEND}","x":[' + "[]," * 7_000_000 + "[]]}", TOO_LARGE, None),
        ('{"type":"session.update","session":' + "[" * 40 + "]" * 40 + "}", TOO_DEEP, None),
        ('{"type":"x","x":"' + "[" * 99 + '\\""}', "invalid_value", "type"),
        ("[{" * 40 + '"\\' * 100_000, "message_too_deep", None),
        (event(type="response.create"), "not_supported", "type"),
        (event(type=APPEND), "missing_required_parameter", "audio"),
        (event(type=APPEND, audio=None), "invalid_value", "audio"),
        (event(type=APPEND, audio=[0, 1]), "invalid_value", "audio"),
        (event(type=APPEND, audio="!!!!"), "invalid_value", "audio"),
        (event(type=APPEND, audio="AAA"), "invalid_value", "audio"),
        (event(type=APPEND, audio="AA-_"), "invalid_value", "audio"),
        (event(type=APPEND, audio="AAAA="), "invalid_value", "audio"),
        (event(type=APPEND, audio="é" * 10), "invalid_value", "audio"),
        (event(type="input_audio_buffer.commit"), "input_audio_buffer_commit_empty", None),
        (event(type="input_audio_buffer.commit", final="yes"), "invalid_value", "final"),
        (event(type=UPDATE), "missing_required_parameter", "session"),
        (event(type=UPDATE, session=[]), "invalid_value", "session"),
        (event(type=UPDATE, session={"type": "poem"}), "invalid_value", "session.type"),
        (event(type="conversation.item.retrieve", item_id="x"), "item_not_found", "item_id"),
        (event(type="conversation.item.delete", item_id={}), "invalid_value", "item_id"),
        (b"\x00\x01", "invalid_event", None),
        (b"", "invalid_event", None),
    ],
)
def test_what_is_no_event_is_told_and_harms_nothing(
    server: Running, message: str | bytes, code: str, param: str | None
) -> None:
    async def told() -> Json:
        async with manual(server) as socket:
            await socket.connection.send(message)
            frame = await socket.only("error")
            raw, text = utterance(1)
            assert await socket.say(raw) == text
            socket.finished()
        error: Json = frame["error"]
        return error

    error = run(told)
    assert (error["code"], error["param"], error["event_id"]) == (code, param, None)
    assert error["type"] == "invalid_request_error"
    assert len(error["message"]) < 1000


def test_an_error_names_the_event(server: Running) -> None:
    async def told() -> None:
        async with manual(server) as socket:
            for name in ("e1", "x" * 512, "\u0000", "😀"):
                await socket.send("nonsense", event_id=name)
                assert (await socket.only("error"))["error"]["event_id"] == name
            unusable: tuple[object, ...] = ("x" * 513, 7, {})
            for wrong in unusable:
                await socket.send("nonsense", event_id=wrong)
                assert (await socket.only("error"))["error"]["event_id"] is None

    run(told)


# Sizes


def test_audio_of_any_size(server: Running) -> None:
    async def told() -> Socket:
        async with neighbour(server), manual(server) as socket:
            await socket.send(APPEND, audio="")  # as some keep connections alive
            await socket.send(APPEND, audio=encoded(bytes(MOST)))
            for size in (MOST + 1, MOST + 2):
                await socket.send(APPEND, audio=encoded(bytes(size)), event_id=str(size))
            await socket.commit()
            while len([f for f in socket.frames if f["type"] == "error"]) < 2:
                await socket.receive()
            await socket.send("session.close")
            assert await socket.code() == 1000
        return socket

    socket = run(told)
    errors = [frame["error"] for frame in socket.frames if frame["type"] == "error"]
    assert [error["event_id"] for error in errors] == [str(MOST + n) for n in (1, 2)]
    assert {(error["code"], error["param"]) for error in errors} == {("invalid_value", "audio")}
    assert set(socket.transcripts) == {""}
    seconds = sum(f["usage"]["seconds"] for f in socket.frames if "usage" in f)
    assert seconds == pytest.approx(MOST / 32_000, abs=0.01)
    socket.finished()


def test_messages_of_any_size(server: Running) -> None:
    async def told() -> None:
        async with neighbour(server):
            async with manual(server) as socket:
                await socket.send("nonsense", padding="x" * (22 << 20))
                assert (await socket.only("error"))["error"]["code"] == "message_too_large"
                raw, text = utterance(2)
                assert await socket.say(raw) == text
            async with client(server) as socket:
                with suppress(ConnectionClosed):  # it may be refused before it is all there
                    await socket.connection.send("x" * (MESSAGE + 1))
                assert await socket.code() == 1009

    run(told)


# Frames


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x81\x82\0\0\0\0\xff\xfe", 1007),  # no UTF-8
        (b"\x81\x02{}", 1002),  # not masked
        (b"\x83\x80\0\0\0\0", 1002),  # an opcode that there is not
        (b"\xf1\x82\0\0\0\0{}", 1002),  # of an extension that was not agreed on
        (b"\x80\x82\0\0\0\0{}", 1002),  # goes on with nothing
        (b"\x09\x80\0\0\0\0", 1002),  # a ping in parts
        (b"\x89\xfe\x00\xff\0\0\0\0" + bytes(255), 1002),  # a ping that is too long
        (b"\x81\xff" + b"\xff" * 8 + bytes(4), 1009),  # longer than there is memory
        (b"GET / HTTP/1.1\r\n\r\n", 1002),
    ],
)
def test_broken_frames_end_only_their_connection(server: Running, frame: bytes, code: int) -> None:
    async def told() -> int:
        async with neighbour(server), client(server) as socket:
            socket.connection.transport.write(frame)
            return await socket.code()

    assert run(told) in ((code, 1009) if frame.startswith(b"\x81\xff") else (code,))


def test_messages_in_many_parts(server: Running) -> None:
    async def told() -> None:
        raw, text = utterance(3)
        message = event(type=APPEND, audio=encoded(raw))
        async with manual(server) as socket:
            await socket.connection.send(
                message[at : at + 999] for at in range(0, len(message), 999)
            )
            await socket.commit()
            assert (await socket.until(".completed"))["transcript"] == text

    run(told)


def test_raw_audio_where_it_was_agreed_on(server: Running) -> None:
    async def told() -> None:
        raw, text = utterance(4)
        async with client(server, f"{REALTIME}&audio=binary&sample_rate=16000") as socket:
            await socket.connection.send(raw)
            await socket.connection.send(b"\0")
            await socket.send("session.close")
            await socket.code()
        assert "error" not in socket.kinds
        assert socket.transcripts == [text]

    run(told)


# At the wrong moment


def test_events_in_mid_speech(server: Running) -> None:
    """None of them costs a word."""
    raw, text = utterance(5, 20)
    half = len(raw) // 4 * 2
    wrong: list[Json] = [
        {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 24_000}}}},
        {"audio": {"input": {"format": {"type": "audio/pcmu"}}}},
        {"audio": {"input": {"turn_detection": {"type": "server_vad", "threshold": "high"}}}},
        {"audio": {"input": {"transcription": {"model": "nobody"}}}},
        {"audio": {"input": {"transcription": {"language": "klingon"}}}},
        {"audio": 7},
    ]

    async def told() -> Socket:
        async with client(server) as socket:
            before = await socket.configure(turn_detection=VAD)
            await socket.append(raw[:half])
            await socket.until("speech_started")
            for session in wrong:
                await socket.send(UPDATE, session=session)
            await socket.send("input_audio_buffer.nonsense")
            await socket.send("conversation.item.retrieve", item_id="x")
            while socket.kinds.count("error") < len(wrong) + 2:
                await socket.receive()
            await socket.send(UPDATE, session={"include": ["livecap.words"]})
            session = (await socket.until("session.updated"))["session"]
            assert session["audio"] == before["audio"]
            await socket.append(raw[half:])
            await socket.until(".completed")
        return socket

    socket = run(told)
    assert socket.transcripts == [text]
    errors = [frame["error"] for frame in socket.frames if frame["type"] == "error"]
    assert [error["code"] for error in errors[:2]] == ["invalid_state"] * 2
    assert all(error["param"] for error in errors)
    socket.finished()


# Clients that come and go


UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


async def quick(server: Running, number: int) -> None:
    """One of many ways not to stay."""
    way = number % 6
    if way < 2:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = (
            f"GET {REALTIME} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        )
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        writer.write((head + key * way).encode())
        await writer.drain()
        writer.transport.abort()
        return
    url = f"ws://{server.host}{REALTIME}"
    async with connect(url, proxy=None, close_timeout=0.1) as connection:
        raw, _ = utterance(number)
        if way > 2:
            await connection.send(event(type=APPEND, audio=encoded(raw)))
        if way > 3:
            connection.transport.write(b"\x81\xfe\x7f")  # the first bytes of another message
        if way > 4:
            connection.transport.abort()


def test_two_hundred_come_and_go_at_once(server: Running) -> None:
    async def told() -> None:
        async with neighbour(server):
            for first in range(0, 200, 50):
                async with asyncio.TaskGroup() as group:
                    for number in range(first, first + 50):
                        group.create_task(quick(server, number))

    run(told)
    server.settle()


@pytest.mark.parametrize("how", ["close", "abort", "half"])
def test_who_leaves_in_mid_utterance_frees_its_work(server: Running, how: str) -> None:
    async def left() -> None:
        raw, _ = utterance(6, 50)
        async with neighbour(server), client(server) as socket:
            await socket.configure(turn_detection=VAD)
            await socket.append(raw[: len(raw) // 2])
            await socket.until(".delta")
            if how == "abort":
                socket.connection.transport.abort()
            elif how == "half":
                socket.connection.transport.write_eof()

    run(left)
    until(lambda: server.service.streams == 0, patience=SOON)
    server.settle()


def slow(seconds: float) -> Readers:
    """A model that takes so long at each step."""
    return Readers(Listener(), streaming=TRAITS, before=lambda: time.sleep(seconds))


def test_who_sends_faster_than_is_heard_and_leaves_frees_its_work() -> None:
    async def left(server: Running) -> None:
        raw, _ = utterance(7, 400)
        async with client(server) as socket:
            await socket.configure(turn_detection=None)
            await socket.append(raw * 2)
            await socket.until(".delta")
            socket.connection.transport.abort()

    with serving(toned(slow(0.2))) as server:
        run(lambda: left(server))
        until(lambda: server.service.streams == 0, patience=SOON)
        server.settle()


def test_who_sends_faster_than_is_heard_is_not_taken_for_dead() -> None:
    """Pings go through meanwhile, both ways; nor is it idle while its audio waits."""

    async def heard(server: Running) -> None:
        raw, text = utterance(8, 300, after=300)
        async with client(server, ping_interval=0.3, ping_timeout=0.3) as socket:
            await socket.configure(turn_detection=None)
            await socket.append(raw + raw)
            await socket.commit()
            await socket.until(".completed")
            while len(" ".join(socket.transcripts)) < 2 * len(text):
                await socket.receive()

    with serving(toned(slow(0.06)), replace(MANY, idle_timeout=1), ping=0.3) as server:
        run(lambda: heard(server))


def test_who_answers_no_ping_is_let_go() -> None:
    async def left(server: Running) -> None:
        async with client(server, ping_interval=None, close_timeout=0.1) as socket:
            await socket.append(utterance(9)[0])
            socket.connection.transport.pause_reading()
            while server.service.streams or server.parts.admission.sessions:
                await asyncio.sleep(0.01)
            assert server.service.streams == 0

    with serving(ping=0.1) as server:
        run(lambda: left(server))
        server.settle()


def test_who_stops_reading_is_let_go(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "PATIENCE", 0.2)

    async def stuck(*, comes_back: bool) -> int:
        async with client(server, max_queue=1, ping_interval=None, close_timeout=0.1) as socket:
            flooding = asyncio.create_task(flood(socket))
            while server.parts.admission.sessions > 1:
                await asyncio.sleep(0.005)
            if not comes_back:
                while len(server.server.server_state.connections) > 2:
                    await asyncio.sleep(0.005)
            flooding.cancel()
            return await socket.code()

    async def flood(socket: Socket) -> None:
        """Every answer is longer than the question."""
        question = event(type="nonsense", event_id="x" * 500)
        while True:
            await socket.connection.send(question)
            await asyncio.sleep(0)

    async def told() -> None:
        async with neighbour(server):
            while not server.parts.admission.sessions:
                await asyncio.sleep(0.005)
            assert await stuck(comes_back=True) == 1013
            monkeypatch.setattr(FirmSocket, "linger", 0.1)
            assert await stuck(comes_back=False) in (1013, 1006)

    run(told)
    server.settle()


# Limits


def test_more_than_there_is_room_for_are_refused_at_once() -> None:
    async def refused(server: Running) -> None:
        async with client(server, created=False) as socket:
            error = (await socket.only("error"))["error"]
            assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
            assert await socket.code() == 1013

    async def told(server: Running) -> None:
        async with neighbour(server), manual(server) as other:
            until(lambda: server.parts.admission.sessions == 2)
            async with asyncio.TaskGroup() as group:
                for _ in range(30):
                    group.create_task(refused(server))
            raw, text = utterance(10)
            assert await other.say(raw) == text

    with serving(config=ServeConfig(max_sessions=2)) as server:
        run(lambda: told(server))
        server.settle()


@pytest.mark.parametrize(
    ("config", "error", "code"),
    [
        (ServeConfig(max_sessions=9, idle_timeout=1), "session_idle_timeout", 1000),
        (ServeConfig(max_sessions=9, session_length=1), "session_expired", 1001),
    ],
)
def test_a_session_ends_with_its_time(config: ServeConfig, error: str, code: int) -> None:
    """Nobody stays for ever; what was said is told first."""
    raw, text = utterance(11, after=0)

    async def told(server: Running) -> Socket:
        async with client(server) as socket:
            await socket.configure(turn_detection=VAD)
            await socket.append(raw)
            assert await socket.code() == code
        return socket

    with serving(config=config) as server:
        socket = run(lambda: told(server))
        server.settle()
    assert socket.frames[-1]["error"]["code"] == error
    assert socket.transcripts == [text]
    socket.finished()


def test_a_fault_of_ours_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = RealtimeSession.receive

    def fail(session: RealtimeSession, data: str | bytes) -> Any:
        return 1 / 0 if data == "fail" else whole(session, data)

    monkeypatch.setattr(RealtimeSession, "receive", fail)

    async def told(server: Running) -> Socket:
        async with neighbour(server), client(server) as socket:
            await socket.connection.send("fail")
            assert await socket.code() == 1011
        return socket

    with serving(faults=1) as server:
        socket = run(lambda: told(server))
        server.settle()
    assert socket.frames[-1]["error"]["code"] == "internal_error"
    assert socket.connection.close_reason == "server_error.internal_error"
