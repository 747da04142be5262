"""What people upload, decoded for real: odd files, long ones, damaged ones; and real captions."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import SPEECH, plain
from media import Sound, mux, wav
from oddity_files import FILES
from openai import AsyncOpenAI
from uploads import AUDIO, TEXT, TONE, Served, Server, error_of

from livecap.api.transcriptions import UploadLimits
from livecap.checkpoints import resolve
from livecap.config import DecodeConfig, ModelConfig
from livecap.events import RATE
from livecap.models.load import load_model
from livecap.runtime.service import Service
from livecap.vad.silero import load

JFK = Path(__file__).parent / "audio" / "jfk.flac"
TOO_SHORT = (400, "audio_too_short", "file")
NO_AUDIO = (400, "invalid_value", "file")
TOO_LONG = (413, "audio_too_long", "file")


def quiet(seconds: float) -> Any:
    return np.zeros(round(seconds * RATE), np.float32)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"x", NO_AUDIO),
        (b"Once upon a time.\n" * 50, NO_AUDIO),
        (bytes(5000), NO_AUDIO),
        (wav(quiet(0)), NO_AUDIO),
        (wav(TONE)[:30], NO_AUDIO),
        (b"#EXTM3U\n/etc/passwd\n", NO_AUDIO),
        (b"ffconcat version 1.0\nfile /etc/passwd\n", NO_AUDIO),
        (b'<?xml version="1.0"?><MPD/>', NO_AUDIO),
        (mux(form="matroska", video=True), NO_AUDIO),
        (wav(TONE, 2_000_000_000), NO_AUDIO),
        (wav(TONE[:1]), TOO_SHORT),
        (wav(TONE[: RATE // 10 - 1]), TOO_SHORT),
    ],
)
def test_what_cannot_be_captioned(data: bytes, error: tuple[int, str, str]) -> None:
    served = Served()
    server = Server(served)
    assert error_of(server.post(data)) == error
    assert error_of(server.post(data, stream="true")) == error  # before anything is streamed
    assert served.opened == []


@pytest.mark.parametrize(
    "data",
    [
        wav(TONE[: RATE // 10]),
        wav(TONE)[:-50_001],
        wav(TONE, size=0xFFFFFFFF),
        wav(TONE, size=4 * 3600 * RATE * 2 + 2),  # a header that promises too much
        wav(TONE * np.float32(np.nan), kind="f32"),
        wav(np.full_like(TONE, np.inf), kind="f32"),
        mux(Sound(TONE, RATE), form="matroska", video=True),
        mux(Sound(TONE, RATE, "libopus"), form="webm"),
        mux(Sound(TONE, RATE, "aac"), form="ipod"),
        mux(Sound(TONE, RATE, "libmp3lame"), form="mp3"),
        mux(Sound(np.stack([TONE] * 2), RATE, "flac"), form="ogg"),
    ],
)
def test_what_can(data: bytes) -> None:
    served = Served()
    answer = Server(served).post(data)
    assert answer.json()["text"] == TEXT
    for start, rows in served.stream.sent:
        assert start >= 0
        assert np.isfinite(rows).all()


@pytest.mark.parametrize("name", sorted(name for name, case in FILES.items() if case.row < 40))
def test_no_file_is_our_fault(name: str) -> None:
    answer = Server().post(FILES[name].make())
    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        assert error_of(answer)[2] == "file"


def test_telephone_audio_by_its_type() -> None:
    served = Served()
    codes = bytes(range(256)) * 32
    for kind in ("audio/PCMU", "audio/pcma; rate=8000"):
        files = {"file": ("call", codes, kind)}
        assert Server(served).send("audio/transcriptions", files=files).json()["text"] == TEXT
        sent = served.opened[-1].sent
        assert sum(rows.shape[1] for _, rows in sent) == 2 * len(codes)
    files = {"file": ("call.wav", AUDIO, "audio/PCMU")}
    assert Server(served).send("audio/transcriptions", files=files).json()["usage"]["seconds"] == 3


def test_gaps_are_told_to_the_stream() -> None:
    sound = Sound(np.concatenate([quiet(1.024), TONE]), RATE, gaps={16_384: 5.0})
    served = Served()
    answer = Server(served).post(mux(sound, form="matroska"))
    assert answer.json()["usage"]["seconds"] == 10
    assert served.stream.sent[-1][0] > 6 * RATE


def test_damage_is_stated() -> None:
    data = bytearray(mux(Sound(np.tile(TONE, 4), RATE, "flac"), form="matroska"))
    middle = len(data) // 2
    data[middle : middle + 9000] = b"\xff" * 9000
    answer = Server().post(bytes(data), response_format="verbose_json").json()
    assert answer["text"] == TEXT
    assert "could not be decoded" in answer["livecap"]["damaged"]


# Long audio


@cache
def bomb() -> bytes:
    """Ten minutes in a few kilobytes."""
    return mux(Sound(quiet(600), RATE, "flac"), form="flac")


def test_a_small_file_may_hold_too_much() -> None:
    assert len(bomb()) < 200_000
    served = Served()
    limits = UploadLimits(duration=60 * RATE)
    assert error_of(Server(served, limits).post(bomb())) == TOO_LONG
    assert served.opened == []  # its header says so
    ok = Server(served, UploadLimits(duration=601 * RATE)).post(bomb())
    assert ok.status_code == 200
    assert Server(Served(), UploadLimits(duration=0)).post(bomb()).status_code == 200  # any length


def test_a_header_that_hides_the_length() -> None:
    data = bytearray(bomb())
    assert data[:4] == b"fLaC"
    data[21] &= 0xF0  # the number of samples, 36 bits
    data[22:26] = bytes(4)
    served = Served()
    server = Server(served, UploadLimits(duration=60 * RATE))
    assert error_of(server.post(bytes(data))) == TOO_LONG
    assert served.stream.dropped.is_set()
    assert max(start for start, _ in served.stream.sent) < 60 * RATE
    text = Server(Served(), UploadLimits(duration=60 * RATE)).post(bytes(data), stream="true").text
    assert '"code":"audio_too_long"' in text
    assert text.endswith("data: [DONE]\n\n")


def test_the_file_is_read_no_faster_than_it_is_needed() -> None:
    from uploads import Scripted

    asked: list[int] = []

    class Slow(Scripted):
        def wait_for_room(self, most: int, timeout: float) -> bool:
            asked.append(most)
            return len(asked) % 3 == 0

    served = Served(kind=Slow)
    assert Server(served).post(AUDIO).json()["text"] == TEXT
    assert set(asked) == {60 * RATE}
    assert len(asked) == 3 * len(served.stream.sent)


# For real


@pytest.fixture(scope="module")
def real() -> Iterator[Any]:
    loaded = load_model(resolve("tiny.en"), ModelConfig())
    silero = load()
    service = Service(loaded, silero, DecodeConfig())

    class Real:
        name = "tiny.en"

    served: Any = Real()
    served.loaded, served.silero, served.service = loaded, silero, service
    yield served
    service.close()


def test_a_recording_for_real(real: Any) -> None:
    server = Server(real)

    async def ask(client: AsyncOpenAI) -> list[Any]:
        making = client.audio.transcriptions
        file = ("jfk.flac", JFK.read_bytes())
        stream = await making.create(file=file, model="whisper-1", stream=True)
        events = [event async for event in stream]
        verbose = await making.create(
            file=file,
            model="whisper-1",
            response_format="verbose_json",
            timestamp_granularities=["word", "segment"],
            language="en",
            prompt="A speech.",
        )
        srt = await making.create(file=file, model="whisper-1", response_format="srt")
        return [events, verbose, srt]

    events, verbose, srt = server.openai(ask)
    assert plain(events[-1].text) == SPEECH
    assert "".join(event.delta for event in events[:-1]) == events[-1].text
    assert plain(verbose.text) == SPEECH
    assert verbose.duration == pytest.approx(11.0, abs=0.01)
    assert len(verbose.words) == len(SPEECH.split())
    assert plain("".join(line for line in srt.splitlines(True) if line[0].isalpha())) == SPEECH
    assert real.service.files == 0
    assert error_of(server.post(JFK.read_bytes(), path="translations"))[2] == "model"
    assert error_of(server.post(JFK.read_bytes(), language="de"))[2] == "language"


def test_silence_for_real(real: Any) -> None:
    assert Server(real).post(wav(quiet(3))).json()["text"] == ""


def test_many_at_once_for_real(real: Any) -> None:
    import asyncio

    async def ask(client: AsyncOpenAI) -> list[Any]:
        file = ("jfk.flac", JFK.read_bytes())
        making = client.audio.transcriptions
        return await asyncio.gather(
            *(making.create(file=file, model="whisper-1") for _ in range(4))
        )

    found = Server(real, replace(UploadLimits(), ahead=RATE)).openai(ask)
    assert {plain(one.text) for one in found} == {SPEECH}
