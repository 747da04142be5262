"""The session object: what clients may say in it, how updates merge, and how it is shown."""

from typing import Any

import pytest
from openai.types.realtime import ClientSecretCreateResponse
from realtime_client import HOSTED, NOW, Catalogue, Client, ga

from livecap.api.realtime import Refusal, SessionLimits, check_session

USUAL = {
    "type": "server_vad",
    "threshold": 0.5,
    "prefix_padding_ms": 300,
    "silence_duration_ms": 500,
}


def test_the_first_session() -> None:
    client = Client({"intent": "transcription"})
    [frame] = client.first
    session = frame["session"]
    assert frame["type"] == "session.created"
    assert session["type"] == "transcription"
    assert session["object"] == "realtime.transcription_session"
    assert session["id"] == client.session.id
    assert len(session["id"]) == len("sess_") + 21
    assert session["expires_at"] == int(NOW) + 3600
    assert session["include"] is None
    assert session["audio"]["input"] == {
        "format": {"type": "audio/pcm", "rate": 24_000},
        "transcription": {"model": "tiny", "language": None, "prompt": None},
        "noise_reduction": None,
        "turn_detection": USUAL,
    }
    assert session["livecap"] == {
        "dialect": "openai", "sample_rate": 24_000, "vad": True, "ignored": []
    }  # fmt: skip


def test_a_session_without_an_end() -> None:
    client = Client(limits=SessionLimits(max_session_s=0))
    assert client.frames[0]["session"]["expires_at"] is None


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ({"type": "audio/pcm", "rate": 8000}, {"type": "audio/pcm", "rate": 8000}),
        ({"type": "audio/pcm"}, {"type": "audio/pcm", "rate": 24_000}),
        ({"rate": 48_000}, {"type": "audio/pcm", "rate": 48_000}),
        ({"type": "audio/pcmu"}, {"type": "audio/pcmu"}),
        ({"type": "audio/pcma", "rate": 8000}, {"type": "audio/pcma"}),
        ("pcm16", {"type": "audio/pcm", "rate": 24_000}),
        ("g711_ulaw", {"type": "audio/pcmu"}),
        ("g711_alaw", {"type": "audio/pcma"}),
        (None, {"type": "audio/pcm", "rate": 24_000}),
    ],
)
def test_formats(wanted: Any, shown: dict[str, Any]) -> None:
    assert Client().configure(format=wanted)["audio"]["input"]["format"] == shown


def test_a_format_that_changes_back_has_its_usual_rate() -> None:
    client = Client({"sample_rate": "48000"})
    assert client.frames[0]["session"]["livecap"]["sample_rate"] == 48_000
    client.configure(format={"rate": 16_000})
    client.configure(format={"type": "audio/pcmu"})
    session = client.configure(format={"type": "audio/pcm"})
    assert session["audio"]["input"]["format"]["rate"] == 48_000


@pytest.mark.parametrize("model", [*HOSTED, "tiny", "small"])
def test_models_are_named_as_the_client_does(model: str) -> None:
    client = Client()
    session = client.configure(transcription={"model": model})
    assert session["audio"]["input"]["transcription"]["model"] == model
    client.append(100)
    assert client.hearings[1].model == ("small" if model == "small" else "tiny")


@pytest.mark.parametrize(
    ("wanted", "code"),
    [("en", "en"), ("English", "en"), ("zh-CN", "zh"), ("", None), ("auto", None), (None, None)],
)
def test_languages(wanted: str | None, code: str | None) -> None:
    client = Client({"language": "fr"})
    session = client.configure(transcription={"language": wanted})
    assert session["audio"]["input"]["transcription"]["language"] == code


def test_one_of_several_languages_is_that_language() -> None:
    client = Client()
    client.configure(transcription={"languages": ["German"]})
    client.append(100)
    assert client.hearings[1].language == "de"
    client.commit()
    shown = client.configure(transcription={"languages": ["de", "en"]})
    assert shown["audio"]["input"]["transcription"]["languages"] == ["de", "en"]
    client.append(100)
    assert (client.hearings[2].language, client.hearings[2].languages) == (None, ("de", "en"))


def test_only_what_is_present_changes() -> None:
    client = Client()
    client.configure(
        transcription={"model": "small", "language": "de", "prompt": "x", "delay": "low"},
        turn_detection={"silence_duration_ms": 900},
    )
    session = client.configure(transcription={"prompt": None, "keywords": ["Ada"]})
    assert session["audio"]["input"]["transcription"] == {
        "model": "small", "language": "de", "prompt": None, "keywords": ["Ada"], "delay": "low",
    }  # fmt: skip
    assert session["audio"]["input"]["turn_detection"] == {**USUAL, "silence_duration_ms": 900}
    [frame] = client.send("session.update", session={})
    assert frame["session"] == {**session, "livecap": frame["session"]["livecap"]}


def test_no_transcription_means_the_one_to_begin_with() -> None:
    client = Client({"model": "whisper-1", "language": "fr"})
    first = client.frames[0]["session"]["audio"]["input"]["transcription"]
    client.configure(transcription={"model": "small", "language": "de", "prompt": "x"})
    assert client.configure(transcription=None)["audio"]["input"]["transcription"] == first


@pytest.mark.parametrize(
    ("updates", "shown"),
    [
        ([{"threshold": 0.8}], {**USUAL, "threshold": 0.8}),
        ([{"threshold": 0.8}, {"prefix_padding_ms": 100.4}],
         {**USUAL, "threshold": 0.8, "prefix_padding_ms": 100}),
        ([{"threshold": 0.8}, {"threshold": None}], USUAL),
        ([None], None),
        (["none"], None),
        ([{"type": "none"}], None),
        ([None, {"silence_duration_ms": 250}], {**USUAL, "silence_duration_ms": 250}),
        ([{"type": "semantic_vad"}], {"type": "semantic_vad", "eagerness": "auto"}),
        ([{"type": "semantic_vad", "eagerness": "high"}, {"create_response": True}],
         {"type": "semantic_vad", "eagerness": "high"}),
        ([{"threshold": 0.8}, {"type": "semantic_vad"}, {"type": "server_vad"}], USUAL),
        ([{"type": "server_vad", "create_response": False, "interrupt_response": None}], USUAL),
    ],
)  # fmt: skip
def test_turn_detection(updates: list[Any], shown: Any) -> None:
    client = Client()
    for wanted in updates:
        session = client.configure(turn_detection=wanted)
    assert session["audio"]["input"]["turn_detection"] == shown
    assert session["livecap"]["vad"] is (shown is not None)


@pytest.mark.parametrize("model", ["gpt-live-transcribe", "gpt-realtime-whisper"])
def test_models_whose_clients_commit_themselves(model: str) -> None:
    session = Client().configure(transcription={"model": model})
    assert session["audio"]["input"]["turn_detection"] is None
    assert Client({"model": model}).frames[0]["session"]["livecap"]["vad"] is False
    wanted = {"type": "server_vad"}
    session = Client().configure(transcription={"model": model}, turn_detection=wanted)
    assert session["audio"]["input"]["turn_detection"] == USUAL, "if they don't, they say so"


def test_fields_without_effect_are_named() -> None:
    client = Client()
    [frame] = client.send(
        "session.update",
        session={
            "type": "realtime",
            "voice": "alloy",
            "audio": {
                "output": {"speed": 2},
                "input": {
                    "noise_reduction": {"type": "near_field", "strength": 1},
                    "turn_detection": {"idle_timeout_ms": 6000},
                    "format": {"bits": 16},
                },
            },
            "include": ["livecap.words", "weather"],
            "id": "sess_1",
        },
    )
    session = frame["session"]
    assert session["livecap"]["ignored"] == [
        "voice",
        "audio.output",
        "audio.input.format.bits",
        "audio.input.noise_reduction",
        "audio.input.turn_detection.idle_timeout_ms",
        "include.weather",
    ]
    assert session["audio"]["input"]["noise_reduction"] is None
    assert session["include"] == ["livecap.words"]
    [frame] = client.send("session.update", session={"include": None})
    assert frame["session"]["livecap"]["ignored"] == []


def test_not_all_of_a_thousand_unknown_fields_are_named() -> None:
    client = Client()
    [frame] = client.send("session.update", session={str(n) * 70: n for n in range(1000)})
    ignored = frame["session"]["livecap"]["ignored"]
    assert len(ignored) == 50
    assert max(map(len, ignored)) <= 200


def test_a_session_may_be_sent_back_as_it_was_shown() -> None:
    client = Client({"language": "fr"}, limits=SessionLimits(strict=True))
    first = client.frames[0]["session"]
    [frame] = client.send("session.update", session=first)
    assert frame["session"] == first


@pytest.mark.parametrize("include", [["livecap.partial"], [], None])
def test_include(include: list[str] | None) -> None:
    [frame] = Client().send("session.update", session={"include": include})
    assert frame["session"]["include"] == include


def test_a_client_secret_says_how_to_begin() -> None:
    secret = {
        "type": "transcription",
        "include": ["livecap.words"],
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 16_000},
                "transcription": {"model": "small", "language": "de"},
                "turn_detection": None,
            }
        },
    }
    client = Client({"language": "fr"}, session=secret)
    session = client.frames[0]["session"]
    assert session["audio"]["input"]["transcription"]["model"] == "small"
    assert session["audio"]["input"]["transcription"]["language"] == "fr", "the URL counts more"
    assert session["livecap"]["sample_rate"] == 16_000
    assert session["livecap"]["vad"] is False
    assert client.configure(transcription={"language": "en"})["include"] == ["livecap.words"]


def test_a_client_secret_that_no_longer_holds() -> None:
    client = Client(session=ga(transcription={"model": "gone"}))
    assert client.frames[1]["error"]["code"] == "model_not_found"
    assert client.close is None


def test_sessions_for_client_secrets() -> None:
    body = ga(transcription={"model": "whisper-1", "language": "German"})
    views = check_session(body, Catalogue(), SessionLimits(), beta=False)
    answer = {"value": "ek_1", "expires_at": 1, "session": views.ga}
    ClientSecretCreateResponse.model_validate(answer, strict=True)
    assert views.beta["input_audio_transcription"] == {
        "model": "whisper-1", "language": "de", "prompt": None
    }  # fmt: skip
    flat = check_session({}, Catalogue(), SessionLimits(), beta=True).beta
    assert flat["input_audio_format"] == "pcm16"
    assert flat["turn_detection"] == USUAL


@pytest.mark.parametrize(
    ("body", "beta", "param"),
    [
        (ga(format={"rate": 7}), False, "session.audio.input.format.rate"),
        ({"input_audio_format": "mp3"}, True, "input_audio_format"),
        ({"input_audio_transcription": 7}, True, "input_audio_transcription"),
    ],
)
def test_sessions_that_no_secret_is_made_for(body: Any, beta: bool, param: str) -> None:
    with pytest.raises(Refusal) as refusal:
        check_session(body, Catalogue(), SessionLimits(), beta=beta)
    assert refusal.value.param == param


def test_strict_sessions_for_client_secrets() -> None:
    with pytest.raises(Refusal) as refusal:
        check_session(
            {"x": 1, "language": "en"}, Catalogue(), SessionLimits(strict=True), beta=True
        )
    assert (refusal.value.code, refusal.value.param) == ("unknown_parameter", "x")
