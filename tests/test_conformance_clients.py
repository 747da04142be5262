"""Clients as others wrote them, by what they send and expect, all of them on one port.

Their shapes are those of vLLM's sample, M*'s benchmark, the speech-to-text plugins of LiveKit and
Pipecat, and browsers.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from realtime_client import ga
from server_clients import REALTIME, Json, Socket, client, encoded, pieces, run, utterance
from server_fixture import MANY, Running, serving
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from livecap.events import RATE

KEY = "correct-horse"
PAGES = "https://captions.example"
CARRIED = f"openai-insecure-api-key.{KEY}"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(config=replace(MANY, cors_origin=(PAGES,))) as running:
        yield running
        running.settle()


@pytest.fixture(scope="module")
def keyed() -> Iterator[Running]:
    with serving(keys=(KEY,)) as running:
        yield running
        running.settle()


# vLLM


async def vllm(server: Running, seed: int, *, names_model: bool = True, model: str = "") -> None:
    """The sample: it breaks off at whatever it doesn't know, and paces nothing."""
    raw, text = utterance(seed, 12)
    async with client(server, "/v1/realtime", ga=False, created=False) as socket:
        created = await socket.receive()
        assert created["type"] == "session.created"
        assert created["id"].startswith("sess-")
        assert isinstance(created["created"], int)
        if names_model:
            await socket.send("session.update", model=model or "tones")
        for _ in range(2):  # a session has as many utterances as it likes
            await socket.commit()
            await socket.append(raw, 4096)
            await socket.commit(final=True)
            said = ""
            while (frame := await socket.receive())["type"] == "transcription.delta":
                said += frame["delta"]
            assert frame["type"] == "transcription.done", frame
            assert frame["text"] == said == text
            assert all(isinstance(frame["usage"][f"{name}_tokens"], int) for name in COUNTED)


COUNTED = ("prompt", "completion", "total")


@pytest.mark.parametrize("names_model", [True, False])
def test_vllm(server: Running, names_model: bool) -> None:
    run(lambda: vllm(server, 1, names_model=names_model))


def test_vllm_names_a_model_that_is_not_served(server: Running) -> None:
    async def told() -> Json:
        async with client(server, "/v1/realtime", ga=False) as socket:
            await socket.send("session.update", model="mistralai/Voxtral")
            return await socket.receive()

    frame = run(told)
    assert (frame["type"], frame["code"]) == ("error", "model_not_found")
    assert isinstance(frame["error"], str)


# M*


async def mstar(server: Running, seed: int, *, insists: bool = True) -> None:
    """Its benchmark: 16 kHz is not said, partial hypotheses are not asked for."""
    raw, text = utterance(seed, 12)
    path = f"{REALTIME}&dialect=mstar" if insists else REALTIME
    async with client(server, path, ga=False) as socket:
        assert socket.frames[0]["type"].startswith("transcription_session.") is insists
        update = {"input_audio_transcription": {"language": "en"}, "mstar": {"chunk_seconds": 2.0}}
        await socket.send("transcription_session.update", session=update)
        updated = await socket.only("transcription_session.updated")
        assert updated["session"]["livecap"]["sample_rate"] == RATE
        assert updated["session"]["turn_detection"] is None
        half = len(raw) // 2
        await socket.append(raw[:half], 3200)
        partial = await socket.until("partial")
        await socket.append(raw[half:], 3200)
        await socket.commit()
        completed = await socket.until(".completed")
    assert partial["type"] == "mstar.transcription.partial"
    assert partial["text"]
    assert 0 < partial["audio_seconds"] <= len(raw) / 2 / RATE
    assert {type(partial[name]) for name in ("chunk_id", "created")} == {int}
    assert completed["transcript"] == text
    assert "".join(f["delta"] for f in socket.frames if f["type"].endswith(".delta")) == text
    assert "created" in socket.kinds[1:], "items are announced as in the beta"
    assert not {"added", "done"} & set(socket.kinds)


@pytest.mark.parametrize("insists", [True, False])
def test_mstar(server: Running, insists: bool) -> None:
    run(lambda: mstar(server, 2, insists=insists))


# OpenAI's beta


@pytest.mark.parametrize("turns", [True, False])
@pytest.mark.parametrize(
    "how",
    [
        {"additional_headers": {"OpenAI-Beta": "realtime=v1"}},
        {"subprotocols": ["realtime", "openai-beta.realtime-v1"]},
    ],
)
def test_the_beta(server: Running, how: Any, turns: bool) -> None:
    raw, text = utterance(3, rate=24_000)

    async def heard() -> Socket:
        async with client(server, ga=False, **how) as socket:
            first = socket.frames[0]
            assert first["type"] == "transcription_session.created"
            assert first["session"]["input_audio_format"] == "pcm16"
            update: Json = {
                "input_audio_format": "pcm16",
                "input_audio_transcription": {"model": "gpt-4o-transcribe", "language": "en"},
                "turn_detection": {"type": "server_vad"} if turns else None,
            }
            await socket.send("transcription_session.update", session=update)
            told = (await socket.only("transcription_session.updated"))["session"]
            assert told["object"] == "realtime.transcription_session"
            assert told["client_secret"] is None
            assert (told["turn_detection"] is not None) is turns
            await socket.append(raw)
            if not turns:
                await socket.commit()
            await socket.until(".completed")
        return socket

    socket = run(heard)
    assert socket.transcripts == [text]
    (item,) = [f for f in socket.frames if f["type"] == "conversation.item.created"]
    assert item["previous_item_id"] is None
    assert not {"added", "done"} & set(socket.kinds)
    assert ("speech_started" in socket.kinds) is turns


def test_together(server: Running) -> None:
    """Pipecat's plugin for it says all in the URL."""
    raw, text = utterance(4)
    path = (
        "/v1/realtime?intent=transcription&model=whisper-1&turn_detection=none"
        "&input_audio_format=pcm_s16le_16000"
    )
    headers = {"OpenAI-Beta": "realtime=v1"}

    async def heard() -> None:
        async with client(server, path, ga=False, additional_headers=headers) as socket:
            assert await socket.say(raw) == text

    run(heard)


# Browsers


@asynccontextmanager
async def browser(
    server: Running, *subprotocols: str, **headers: str
) -> AsyncGenerator[tuple[Any, Json]]:
    """`new WebSocket(url, subprotocols)` -> the connection, and its first frame."""
    async with connect(
        f"ws://{server.host}{REALTIME}",
        proxy=None,
        subprotocols=subprotocols or None,  # type: ignore[arg-type]  # they are plain strings
        additional_headers=headers,
    ) as connection:
        yield connection, json.loads(await connection.recv())


@pytest.mark.parametrize(
    "subprotocols",
    [
        ("realtime", CARRIED),
        (CARRIED, "realtime"),
        ("realtime", CARRIED, "openai-beta.realtime-v1"),
        ("realtime", CARRIED, "openai-agents-sdk.0.1.0"),
    ],
)
def test_a_browser_sends_its_key_as_a_subprotocol(
    keyed: Running, subprotocols: tuple[str, ...]
) -> None:
    async def heard() -> None:
        async with browser(keyed, *subprotocols, Origin="https://anywhere.example") as found:
            connection, first = found
            assert connection.subprotocol == "realtime"
            assert first["type"].endswith("session.created")

    run(heard)


def test_a_browser_with_a_wrong_key_is_told_so(keyed: Running) -> None:
    async def heard() -> None:
        for offered in (("realtime", "openai-insecure-api-key.wrong"), ("realtime",), ()):
            async with browser(keyed, *offered) as (connection, first):
                assert connection.subprotocol == ("realtime" if offered else None)
                assert first["error"]["code"] == "invalid_api_key"
                assert first["error"]["type"] == "invalid_request_error"
                await connection.wait_closed()
                assert connection.close_code == 3000
                assert connection.close_reason == "invalid_request_error.invalid_api_key"

    run(heard)


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://localhost:3000", True),
        ("http://127.0.0.1", True),
        (PAGES, True),
        ("https://evil.example", False),
        ("http://localhost.evil.example", False),
        ("null", False),
        ("file://", False),
        ("https://captions.example:444", False),
    ],
)
def test_pages_of_elsewhere_may_not_use_a_server_without_a_key(
    server: Running, origin: str, allowed: bool
) -> None:
    async def status() -> int:
        try:
            async with browser(server, Origin=origin) as (_, first):
                assert first["type"] == "session.created"
                return 101
        except InvalidStatus as refused:
            return refused.response.status_code

    assert run(status) == (101 if allowed else 403)


# Pipecat and LiveKit. Any error ends their sessions.


async def pipecat(server: Running, seed: int, *, detection: Json | None = None) -> None:
    """Waits for both frames, sends 20 ms at a time, and commits by its own voice detection."""
    async with client(server) as socket:
        heard: Json = {
            "format": {"type": "audio/pcm", "rate": 24_000},
            "transcription": {"model": "gpt-4o-transcribe", "language": "en"},
            "turn_detection": detection,
            "noise_reduction": {"type": "near_field"},
        }
        await socket.send("session.update", session=ga(**heard))
        await socket.only("session.updated")
        for turn in range(2):
            raw, text = utterance(seed + turn, rate=24_000)
            await socket.append(raw, 960)
            if detection is None:
                await socket.commit()
            assert (await socket.until(".completed"))["transcript"] == text
        socket.finished()


@pytest.mark.parametrize("detection", [None, {"type": "server_vad", "silence_duration_ms": 500}])
def test_pipecat(server: Running, detection: Json | None) -> None:
    run(lambda: pipecat(server, 5, detection=detection))


async def livekit(server: Running, seed: int, *, model: str = "gpt-4o-transcribe") -> None:
    """Says what it wants without waiting, sends 50 ms at a time, reads times and languages.

    It leaves turn detection out for models that have none, and commits itself then.
    """
    commits = model == "gpt-realtime-whisper"
    async with client(server, f"{REALTIME}&model={model}", created=False) as socket:
        heard: Json = {
            "format": {"type": "audio/pcm", "rate": 24_000},
            "transcription": {"model": model, "language": ""},
        }
        if not commits:
            heard["turn_detection"] = {
                "type": "server_vad",
                "threshold": 0.5,
                "prefix_padding_ms": 600,
                "silence_duration_ms": 350,
            }
        await socket.send("session.update", session=ga(**heard))
        ends = 0
        for turn in range(2):
            raw, text = utterance(seed + turn, rate=24_000)
            for piece in pieces(raw, 2400):
                await socket.send("input_audio_buffer.append", audio=encoded(piece))
            if commits:
                await socket.commit()
            completed = await socket.until(".completed")
            assert completed["transcript"] == text
            assert completed["languages"][0]["code"] == "en"
            if not commits:
                own = [f for f in socket.frames if f.get("item_id") == completed["item_id"]]
                [start] = [f["audio_start_ms"] for f in own if "audio_start_ms" in f]
                [end] = [f["audio_end_ms"] for f in own if "audio_end_ms" in f]
                assert ends <= start < end <= (turn + 1) * len(raw) // 48
                ends = end
        assert socket.kinds[:2] == ["created", "updated"]
        detection = socket.frames[1]["session"]["audio"]["input"]["turn_detection"]
        assert (detection is None) is commits
        socket.finished()


@pytest.mark.parametrize("model", ["gpt-4o-transcribe", "gpt-realtime-whisper"])
def test_livekit(server: Running, model: str) -> None:
    run(lambda: livekit(server, 7, model=model))


def test_all_of_them_at_once(server: Running) -> None:
    async def heard() -> None:
        async with asyncio.TaskGroup() as group:
            for seed in range(3):
                group.create_task(vllm(server, seed))
                group.create_task(mstar(server, seed, insists=bool(seed % 2)))
                group.create_task(pipecat(server, seed, detection={"type": "server_vad"}))
                group.create_task(livekit(server, seed))

    run(heard)
