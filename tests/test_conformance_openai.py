"""The unmodified `openai` package against the server: realtime and files."""

import asyncio
import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, Literal

import pytest
import realtime_frames
from command import JFK, SPEECH, plain
from openai import (
    APIStatusError,
    AsyncOpenAI,
    AuthenticationError,
    BadRequestError,
    NotFoundError,
    OpenAI,
    ReconnectingEvent,
    ReconnectingOverrides,
)
from openai.types.audio import (
    Transcription,
    TranscriptionTextDeltaEvent,
    TranscriptionTextDoneEvent,
    TranscriptionVerbose,
)
from openai.types.realtime import RealtimeTranscriptionSessionCreateRequestParam
from server_clients import client, encoded, pieces, run, speech
from server_fixture import Running, embedded, serving, until
from strict import parse_srt, parse_vtt
from websockets.exceptions import ConnectionClosedError

from livecap.api.options import ServeConfig

Frame = dict[str, Any]
KEY = "correct-horse"
TRANSCRIPTION = {"intent": "transcription"}
# The client connects in a way that websockets 17 is about to give up.
pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used as:DeprecationWarning")

FILE = ("speech.flac", JFK.read_bytes(), "audio/flac")


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(embedded, names=("tiny.en",)) as running:
        yield running
        running.settle()


@pytest.fixture(scope="module")
def keyed() -> Iterator[Running]:
    """A server with a key and small limits, whose model understands tones."""
    config = ServeConfig(max_sessions=1, max_upload="64K")
    with serving(config=config, keys=(KEY,)) as running:
        yield running
        running.settle()


@pytest.fixture
def http(server: Running) -> Iterator[OpenAI]:
    with OpenAI(base_url=server.http, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def strict_http(keyed: Running) -> Iterator[OpenAI]:
    with OpenAI(base_url=keyed.http, api_key=KEY, max_retries=0) as client:
        yield client


# Realtime


def session(*, turns: bool) -> RealtimeTranscriptionSessionCreateRequestParam:
    """A configuration as the client's own types have it."""
    detection: Any = {"type": "server_vad", "silence_duration_ms": 700} if turns else None
    return {
        "type": "transcription",
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24_000},
                "transcription": {"model": "whisper-1", "language": "en"},
                "turn_detection": detection,
            }
        },
    }


def assert_about(text: str) -> None:
    """It is the recording's, but for some words: a small model, at words that are cut off."""
    heard = plain(text).split()
    assert SequenceMatcher(None, heard, SPEECH.split(), autojunk=False).ratio() > 0.7, text


def checked(frames: list[Frame], *, turns: bool) -> None:
    """All that came of the recording, to the last frame."""
    realtime_frames.check_order(frames, finished=True)
    kinds = [frame["type"].rsplit(".", 1)[-1] for frame in frames]
    assert kinds[:2] == ["created", "updated"]
    shown = frames[1]["session"]["audio"]["input"]
    assert (shown["turn_detection"] is not None) is turns
    assert shown["transcription"]["model"] == "whisper-1"
    assert ("speech_started" in kinds) is turns
    assert ("speech_stopped" in kinds) is turns
    finals = [frame for frame in frames if "transcript" in frame]
    assert len(finals) >= 2 if turns else len(finals) == 1
    assert_about(" ".join(frame["transcript"] for frame in finals))
    assert sum(frame["usage"]["seconds"] for frame in finals) <= 12
    assert kinds.count("delta") > len(finals)


@pytest.mark.parametrize("turns", [True, False])
def test_realtime_with_the_asynchronous_client(server: Running, turns: bool) -> None:
    async def heard() -> list[Frame]:
        frames = []
        async with (
            AsyncOpenAI(base_url=server.http, api_key="none") as openai,
            openai.realtime.connect(extra_query=TRANSCRIPTION) as connection,
        ):
            await connection.session.update(session=session(turns=turns))
            for piece in pieces(speech(24_000), 48_000):
                await connection.input_audio_buffer.append(audio=encoded(piece))
            if not turns:
                await connection.input_audio_buffer.commit()
            await connection.send({"type": "session.close"})  # type: ignore[arg-type]  # the client has no name for it
            async for event in connection:
                frames.append(json.loads(event.to_json()))
                realtime_frames.check(frames[-1])
        return frames

    checked(run(heard), turns=turns)


@pytest.mark.parametrize("turns", [True, False])
def test_realtime_with_the_synchronous_client(server: Running, turns: bool) -> None:
    frames: list[Frame] = []
    with (
        OpenAI(base_url=server.http, api_key="none") as openai,
        openai.realtime.connect(extra_query=TRANSCRIPTION) as connection,
    ):
        connection.session.update(session=session(turns=turns))
        for piece in pieces(speech(24_000), 48_000):
            connection.input_audio_buffer.append(audio=encoded(piece))
        if not turns:
            connection.input_audio_buffer.commit()
        connection.send({"type": "session.close"})  # type: ignore[arg-type]  # the client has no name for it
        for event in connection:
            frames.append(json.loads(event.to_json()))
            realtime_frames.check(frames[-1])
    checked(frames, turns=turns)


def test_a_base_url_for_sockets_alone(server: Running) -> None:
    """As clients before 3.0 have to be told, who connect with TLS otherwise."""

    async def heard() -> Frame:
        async with (
            AsyncOpenAI(
                base_url=f"https://{server.host}/v1",
                websocket_base_url=f"ws://{server.host}/v1",
                api_key="none",
            ) as openai,
            openai.realtime.connect(model="whisper-1") as connection,
        ):
            frame: Frame = json.loads(await connection.recv_bytes())
            return frame

    frame = run(heard)
    realtime_frames.check(frame)
    assert frame["session"]["audio"]["input"]["transcription"]["model"] == "whisper-1"


def test_a_client_secret_opens_sessions_alone(keyed: Running, strict_http: OpenAI) -> None:
    wanted: Any = {"anchor": "created_at", "seconds": 60}
    made = strict_http.realtime.client_secrets.create(
        expires_after=wanted, session=session(turns=False)
    )
    assert made.value.startswith("ek_")
    with OpenAI(base_url=keyed.http, api_key=made.value, max_retries=0) as openai:
        with openai.realtime.connect(extra_query=TRANSCRIPTION) as connection:
            frame = json.loads(connection.recv_bytes())
            realtime_frames.check(frame)
            heard = frame["session"]["audio"]["input"]
            assert heard["turn_detection"] is None
            assert heard["transcription"]["language"] == "en"
        with pytest.raises(AuthenticationError):
            openai.audio.transcriptions.create(file=FILE, model="whisper-1")


def test_a_client_that_finds_the_server_full_comes_back(keyed: Running) -> None:
    async def heard() -> tuple[list[int], str]:
        codes: list[int] = []
        left = asyncio.Event()

        def again(event: ReconnectingEvent) -> None:
            codes.append(event.close_code)
            left.set()

        async def first() -> None:
            headers = {"Authorization": f"Bearer {KEY}"}
            async with client(keyed, additional_headers=headers):
                there.set()
                await left.wait()

        there = asyncio.Event()
        other = asyncio.create_task(first())
        await there.wait()
        async with (
            AsyncOpenAI(base_url=keyed.http, api_key=KEY) as openai,
            openai.realtime.connect(
                extra_query=TRANSCRIPTION,
                on_reconnecting=again,
                max_retries=1000,
                initial_delay=0.01,
                max_delay=0.02,
            ) as connection,
        ):
            async for event in connection:
                if event.type == "error":
                    assert event.error.code == "rate_limit_exceeded"
                else:
                    break
            await other
        return codes, event.type

    codes, last = run(heard)
    assert set(codes) == {1013}
    assert last == "session.created"


def test_a_client_is_told_that_the_server_restarts() -> None:
    codes: list[int] = []

    def abort(event: ReconnectingEvent) -> ReconnectingOverrides:
        codes.append(event.close_code)
        return {"abort": True}

    with (
        serving() as server,
        OpenAI(base_url=server.http, api_key="none") as openai,
        openai.realtime.connect(extra_query=TRANSCRIPTION, on_reconnecting=abort) as connection,
    ):
        assert connection.recv().type == "session.created"
        server.server.should_exit = True
        with pytest.raises(ConnectionClosedError):
            list(connection)
    assert codes == [1012]


@pytest.mark.parametrize(
    ("key", "query", "error", "code"),
    [
        ("wrong", TRANSCRIPTION, "invalid_api_key", 3000),
        (KEY, {"model": "x"}, "invalid_model", 4000),
    ],
)
def test_what_can_not_work_is_not_tried_again(
    keyed: Running, key: str, query: dict[str, str], error: str, code: int
) -> None:
    def again(event: ReconnectingEvent) -> None:
        raise AssertionError(event)

    with OpenAI(base_url=keyed.http, api_key=key) as openai:
        until(lambda: keyed.held()["sessions"] == 0)
        with openai.realtime.connect(extra_query=query, on_reconnecting=again) as connection:
            told = connection.recv()
            assert told.type == "error"
            assert told.error.code == error
            with pytest.raises(ConnectionClosedError) as closed:
                list(connection)
    assert closed.value.rcvd
    assert closed.value.rcvd.code == code


# Files


def test_json(http: OpenAI) -> None:
    answer = http.audio.transcriptions.with_raw_response.create(file=FILE, model="whisper-1")
    told = Transcription.model_validate_json(answer.text, strict=True)
    assert plain(told.text) == SPEECH
    assert told.usage
    assert told.usage.type == "duration"
    assert told.usage.seconds == 11
    assert answer.request_id


def test_text(http: OpenAI) -> None:
    told = http.audio.transcriptions.create(file=FILE, model="tiny.en", response_format="text")
    assert isinstance(told, str)
    assert told.endswith(".\n")
    assert plain(told) == SPEECH


@pytest.mark.parametrize("form", ["srt", "vtt"])
def test_subtitles(http: OpenAI, form: Literal["srt", "vtt"]) -> None:
    told = http.audio.transcriptions.create(file=FILE, model="tiny.en", response_format=form)
    cues = parse_srt(told) if form == "srt" else parse_vtt(told)
    assert plain(" ".join(text for _, _, text in cues)) == SPEECH


@pytest.mark.parametrize("words", [True, False])
def test_verbose_json(http: OpenAI, words: bool) -> None:
    wanted: list[Literal["word", "segment"]] = ["word", "segment"] if words else ["segment"]
    answer = http.audio.transcriptions.with_raw_response.create(
        file=FILE, model="tiny.en", response_format="verbose_json", timestamp_granularities=wanted
    )
    told = TranscriptionVerbose.model_validate_json(answer.text, strict=True)
    assert plain(told.text) == SPEECH
    assert told.language == "english"
    assert told.model_extra
    assert told.model_extra["languages"] == [{"code": "en"}]
    assert told.duration == 11.0
    assert told.segments
    assert plain("".join(one.text for one in told.segments)) == SPEECH
    assert (told.words is not None) is words
    if told.words:
        assert plain(" ".join(one.word for one in told.words)) == SPEECH
        times = [time for one in told.words for time in (one.start, one.end)]
        assert times == sorted(times)
        assert 0 <= times[0] < times[-1] <= 11


def test_a_stream(http: OpenAI) -> None:
    with http.audio.transcriptions.create(file=FILE, model="tiny.en", stream=True) as stream:
        events = list(stream)
    *deltas, done = events
    assert isinstance(done, TranscriptionTextDoneEvent)
    assert all(isinstance(event, TranscriptionTextDeltaEvent) for event in deltas)
    assert "".join(getattr(event, "delta", "") for event in deltas) == done.text
    assert plain(done.text) == SPEECH


def test_an_english_model_can_not_translate(http: OpenAI) -> None:
    with pytest.raises(BadRequestError) as refused, pytest.deprecated_call():
        http.audio.translations.create(file=FILE, model="tiny.en")
    assert (refused.value.code, refused.value.param) == ("unsupported_value", "model")


# Errors


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"language": "xx"}, "invalid_value", "language"),
        ({"language": "de"}, "invalid_value", "language"),
        ({"temperature": 3.0}, "invalid_value", "temperature"),
        ({"response_format": "poem"}, "unsupported_value", "response_format"),
        ({"response_format": "diarized_json"}, "unsupported_value", "response_format"),
        ({"response_format": "srt", "stream": True}, "unsupported_value", "response_format"),
        ({"file": ("a.wav", b"no audio")}, "invalid_value", "file"),
        ({"file": ("a.wav", b"")}, "invalid_value", "file"),
    ],
)
def test_what_can_not_be_is_told_by_code_and_param(
    http: OpenAI, fields: Any, code: str, param: str
) -> None:
    with pytest.raises(BadRequestError) as refused:
        http.audio.transcriptions.create(**{"file": FILE, "model": "tiny.en", **fields})
    assert (refused.value.code, refused.value.param) == (code, param)
    assert refused.value.type == "invalid_request_error"
    assert refused.value.request_id


def test_models(http: OpenAI) -> None:
    (only,) = http.models.list()
    assert only.id == "tiny.en"
    assert http.models.retrieve("tiny.en") == only
    for ask in (
        lambda: http.models.retrieve("nobody"),
        lambda: http.audio.transcriptions.create(file=FILE, model="nobody"),
    ):
        with pytest.raises(NotFoundError) as refused:
            ask()
        assert (refused.value.code, refused.value.param) == ("model_not_found", "model")


def test_a_wrong_key(keyed: Running) -> None:
    with OpenAI(base_url=keyed.http, api_key="wrong", max_retries=0) as openai:
        for ask in (
            openai.models.list,
            lambda: openai.audio.transcriptions.create(file=FILE, model="whisper-1"),
            openai.realtime.client_secrets.create,
        ):
            with pytest.raises(AuthenticationError) as refused:
                ask()
            assert refused.value.code == "invalid_api_key"


def test_a_file_that_is_too_large(strict_http: OpenAI) -> None:
    with pytest.raises(APIStatusError) as refused:
        strict_http.audio.transcriptions.create(file=FILE, model="whisper-1")
    assert refused.value.status_code == 413
    assert "65536" in refused.value.message
