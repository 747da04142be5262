"""What a realtime server is accepted by, over the socket: frames, turns, commits, endurance."""

import asyncio
import gc
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import realtime_frames
import tones
from server_clients import (
    MS,
    REALTIME,
    VAD,
    Json,
    Socket,
    client,
    encoded,
    manual,
    pcm16,
    run,
    utterance,
)
from server_fixture import MANY, PATIENCE, TRAITS, Running, serving, toned
from test_service import Readers
from websockets.asyncio.client import connect

from livecap.api.realtime import SessionLimits
from livecap.api.sessions import session
from livecap.api.sessions.model_pool import PooledModel
from livecap.errors import CorruptModel, EngineFault
from livecap.events import RATE

MEMORY = Path("/proc/self/statm")  # of Linux


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving() as running:
        yield running
        running.settle()


# Frames

EVERY = {
    "session.created",
    "session.updated",
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed",
    "input_audio_buffer.cleared",
    "conversation.item.added",
    "conversation.item.done",
    "conversation.item.retrieved",
    "conversation.item.deleted",
    "conversation.item.input_audio_transcription.delta",
    "conversation.item.input_audio_transcription.completed",
    "conversation.item.input_audio_transcription.failed",
    "livecap.transcription.partial",
    "error",
}


def test_every_kind_of_frame_is_as_openai_has_it() -> None:
    """With all that can be asked for; `Socket` checks each frame."""
    breaks, now = threading.Event(), threading.Event()

    def hear() -> None:
        if breaks.is_set():
            assert now.wait(PATIENCE)
            raise EngineFault("the device is lost", remedy="Plug it in")

    async def told(server: Running) -> Socket:
        extras = ("livecap.partial", "livecap.words", "item.input_audio_transcription.logprobs")
        heard = {"language": "en", "languages": ["en"], "prompt": "Numbers", "keywords": ["two"]}
        async with client(server) as socket:
            await socket.configure(
                include=extras, turn_detection=VAD, transcription={"model": "whisper-1", **heard}
            )
            raw, text = utterance(1, 12)
            await socket.append(raw[: len(raw) // 2])
            await socket.until("partial")
            await socket.append(raw[len(raw) // 2 :])
            completed = await socket.until(".completed")
            assert completed["transcript"] == text
            assert [one["word"] for one in completed["words"]] == text.split()
            assert completed["start_ms"] < completed["words"][0]["start"] * 1000
            assert completed["words"][-1]["end"] * 1000 <= completed["end_ms"]
            item = {"item_id": completed["item_id"]}
            await socket.send("conversation.item.retrieve", **item)
            told = (await socket.only("conversation.item.retrieved"))["item"]
            assert told["content"][0]["transcript"] == text
            await socket.send("conversation.item.delete", **item)
            await socket.only("conversation.item.deleted")
            await socket.send("input_audio_buffer.clear")
            await socket.only("input_audio_buffer.cleared")
            await socket.send(
                "session.update", session={"audio": {"input": {"turn_detection": None}}}
            )
            await socket.until("session.updated")
            breaks.set()
            await socket.append(raw)
            await socket.commit()
            await socket.until("item.done")
            now.set()
            assert await socket.code() == 1011
        return socket

    model = Readers(tones.Listener(), streaming=TRAITS, before=hear)
    with serving(toned(model)) as server:
        socket = run(lambda: told(server))
        server.settle()
    assert {frame["type"] for frame in socket.frames} == EVERY
    socket.finished()


# Turns


def test_one_append_with_speech_silence_and_speech_makes_two_items(server: Running) -> None:
    (one, first), (other, second) = utterance(2), utterance(3)

    async def told() -> Socket:
        async with client(server) as socket:
            await socket.configure(turn_detection=VAD)
            await socket.append(one + other, len(one + other))
            await socket.send("session.close")
            assert await socket.code() == 1000
        return socket

    socket = run(told)
    socket.finished()
    assert socket.transcripts == [first, second]
    starts = [frame["audio_start_ms"] for frame in socket.frames if "audio_start_ms" in frame]
    ends = [frame["audio_end_ms"] for frame in socket.frames if "audio_end_ms" in frame]
    length = len(one) // 2 // MS
    assert starts == pytest.approx([400 - 300, length + 400 - 300], abs=32)  # padding included
    spoken = 5 * (tones.LENGTH + tones.PAUSE) - tones.PAUSE
    said = [400 + spoken, length + 400 + spoken]
    assert ends == pytest.approx([end + 500 for end in said], abs=64)  # and the silence waited for
    seconds = [frame["usage"]["seconds"] for frame in socket.frames if "usage" in frame]
    spans = [end - start for start, end in zip(starts, ends, strict=True)]
    assert seconds == pytest.approx([span / 1000 for span in spans], abs=0.002)


@pytest.mark.parametrize(
    ("rate", "size"), [(8_000, 998), (16_000, 998), (24_000, 2), (48_000, 998), (24_000, 100_000)]
)
def test_no_sample_is_lost_whatever_the_pieces(server: Running, rate: int, size: int) -> None:
    raw, text = utterance(4, 1 if size == 2 else 8, after=100, rate=rate)
    form = {"type": "audio/pcm", "rate": rate}

    async def told() -> Json:
        async with manual(server, format=form) as socket:
            for at in range(0, len(raw), size):
                piece = encoded(raw[at : at + size])
                await socket.send("input_audio_buffer.append", audio=piece)
            await socket.commit()
            return await socket.until(".completed")

    completed = run(told)
    assert completed["transcript"] == text
    assert completed["usage"]["seconds"] == pytest.approx(len(raw) / 2 / rate, abs=0.001)


# Commits and clears


def test_clear_in_mid_speech(server: Running) -> None:
    """What was cleared is never told; what comes after it is a new item."""
    (cleared, _), (raw, text) = utterance(5, 20), utterance(6)

    async def told() -> Socket:
        async with client(server) as socket:
            await socket.configure(turn_detection=VAD)
            await socket.append(cleared[: len(cleared) // 2])
            started = await socket.until("speech_started")
            await socket.send("input_audio_buffer.clear")
            await socket.until("cleared")
            before = len(socket.frames)
            await socket.append(raw)
            await socket.send("session.close")
            assert await socket.code() == 1000
            later = {frame.get("item_id") for frame in socket.frames[before:]}
            assert started["item_id"] not in later
        return socket

    socket = run(told)
    assert socket.transcripts == [text]
    [committed] = [f for f in socket.frames if f["type"] == "input_audio_buffer.committed"]
    assert committed["previous_item_id"] is None


def test_commit_in_mid_speech(server: Running) -> None:
    """It makes an item of all that was said so far; the rest belongs to the next one."""
    words = tones.some(7, 12)
    first, second = (
        pcm16(tones.say(words[:6], after=0)),
        pcm16(tones.say(words[6:], before=0)),
    )

    async def told() -> Socket:
        async with client(server) as socket:
            await socket.configure(turn_detection=VAD)
            await socket.append(first)
            await socket.until("speech_started")
            await socket.commit()
            await socket.append(second)
            await socket.send("session.close")
            assert await socket.code() == 1000
        return socket

    socket = run(told)
    socket.finished()
    assert socket.transcripts == [tones.text(words[:6]), tones.text(words[6:])]
    assert socket.kinds.count("speech_started") == 2
    assert socket.kinds.count("speech_stopped") == 1, "none for what the client committed"


def test_commit_after_the_server_has_committed(server: Running) -> None:
    """Some clients always do: it is told, and does no harm."""
    raw, text = utterance(8, after=440)

    async def told() -> Socket:
        async with client(server) as socket:
            await socket.configure(turn_detection=VAD)
            for turn in range(2):
                await socket.append(raw)
                await socket.until("committed")
                await socket.commit()
                while min(map(socket.kinds.count, ("error", "completed"))) <= turn:
                    await socket.receive()
        return socket

    socket = run(told)
    socket.finished()
    errors = [frame["error"] for frame in socket.frames if frame["type"] == "error"]
    assert [error["code"] for error in errors] == ["input_audio_buffer_commit_empty"] * 2
    assert all("100 ms" in error["message"] for error in errors)
    assert socket.transcripts == [text] * 2


def test_commits_of_next_to_nothing(server: Running) -> None:
    async def told() -> Socket:
        async with manual(server) as socket:
            for size in (0, 2, 2 * 99 * MS):
                await socket.append(bytes(size))
                await socket.commit()
                error = (await socket.only("error"))["error"]
                assert error["code"] == "input_audio_buffer_commit_empty"
            assert f"{99 + 1 / MS:.2f} ms" in error["message"]
            await socket.append(bytes(2 * MS))
            await socket.commit()
            assert (await socket.until(".completed"))["transcript"] == ""
        return socket

    run(told).finished()


# Models


def test_models_that_are_loaded_when_they_are_asked_for() -> None:
    """Nothing that is said meanwhile is lost, and one that can't be loaded fails item by item."""
    go = threading.Event()
    raw, text = utterance(9)

    def load(name: str) -> PooledModel:
        assert name != "late" or go.wait(PATIENCE)
        if name == "broken":
            raise CorruptModel("/secret/model is broken", remedy="Mend it")
        return toned()(name)

    async def told(server: Running) -> None:
        async with client(server, f"{REALTIME}&model=late") as socket:
            async with client(server, f"{REALTIME}&model=late") as gone:
                await gone.append(raw)
            await socket.configure(turn_detection=None)
            await socket.append(raw)
            await socket.commit()
            await socket.until("item.done")
            go.set()
            assert (await socket.until(".completed"))["transcript"] == text
            await socket.configure(transcription={"model": "broken"})
            for _ in range(2):
                await socket.append(raw)
                await socket.commit()
                failed = await socket.until(".failed")
                assert "secret" not in str(failed)
            await socket.configure(transcription={"model": "tones"})
            assert await socket.say(raw) == text
            assert [one.model for one in server.parts.admission._sessions] == ["tones"]
            socket.finished()

    with serving(load, names=("tones", "late", "broken")) as server:
        run(lambda: told(server))
        server.settle()


# Endurance


def test_eight_hours_in_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute of speech and silence, again and again, as fast as it is heard."""

    def limits(**told: Any) -> SessionLimits:
        return SessionLimits(items=50, **told)

    words = tones.some(9, 6)
    block = pcm16(tones.say(words, after=30_000 - 400 - 6 * (tones.LENGTH + tones.PAUSE)))
    assert len(block) == 30 * 2 * RATE
    hour = 3600 // 30
    held: list[tuple[int, int]] = []

    async def told(server: Running) -> None:
        url = f"ws://{server.host}{REALTIME}&audio=binary&sample_rate=16000"
        async with connect(url, proxy=None) as connection:
            begun = 0  # the next turn may begin before the last one's text comes
            for _ in range(8):
                sending = asyncio.create_task(send(connection))
                ends = 0
                while ends < hour:
                    frame = json.loads(await connection.recv())
                    realtime_frames.check(frame)
                    if "transcript" in frame:
                        ends += 1
                        assert frame["transcript"] == tones.text(words)
                    if "audio_start_ms" in frame:
                        assert begun * 30_000 <= frame["audio_start_ms"] < (begun + 1) * 30_000
                        begun += 1
                await sending
                gc.collect()
                held.append((len(gc.get_objects()), memory()))

    async def send(connection: Any) -> None:
        for _ in range(hour):
            await connection.send(block)

    monkeypatch.setattr(session, "SessionLimits", limits)
    with serving(config=replace(MANY, session_length=0)) as server:
        run(lambda: told(server))
        server.settle()
    objects, sizes = zip(*held, strict=True)
    assert objects[-1] - objects[0] < 500, objects
    assert sizes[-1] - sizes[0] < 32 << 20, sizes


def memory() -> int:
    """Bytes of this process, where that can be told."""
    pages = int(MEMORY.read_text().split()[1]) if MEMORY.exists() else 0
    return pages * 4096
