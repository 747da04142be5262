"""What clients do wrong, and what they are told: code, field, and whether the session goes on."""

import base64
import json
from typing import Any

import pytest
from realtime_client import Client, encoded, error, ga, kinds

from livecap.api.realtime import SessionLimits, turned_away

APPEND = "input_audio_buffer.append"
MOST = 15 << 20


def big(size: int) -> str:
    return encoded(bytes(size))


@pytest.mark.parametrize(
    ("message", "code", "param"),
    [
        ("", "invalid_json", None),
        ("{", "invalid_json", None),
        ('{"type": NaN}', "invalid_json", None),
        ('{"type": 1e999}', "invalid_json", None),
        ("\ud800", "invalid_json", None),
        ('{"type":' + "[" * 100_000, "message_too_deep", None),
        ("[" * 100_000, "message_too_deep", None),
        ("[]", "invalid_event", None),
        ('"session.update"', "invalid_event", None),
        ("null", "invalid_event", None),
        ("{}", "invalid_event", None),
        ('{"type": 7}', "invalid_event", None),
        ('{"type": null}', "invalid_event", None),
        ('{"type": "input_audio_buffer.apend"}', "invalid_value", "type"),
        ('{"type": "input_audio_buffer.clear", "event_id": 7}', "invalid_value", "event_id"),
        (b"\x00\x00", "invalid_event", None),
        (b"", "invalid_event", None),
    ],
)
def test_messages_that_are_no_events(message: str | bytes, code: str, param: str | None) -> None:
    client = Client()
    body = error(client.raw(message))
    assert (body["code"], body["param"], body["event_id"]) == (code, param, None)
    assert body["type"] == "invalid_request_error"
    assert kinds(client.send("input_audio_buffer.clear")) == ["cleared"], "it goes on"


def test_an_unknown_type_is_told_the_known_ones() -> None:
    body = error(Client().send("x" * 10_000))
    assert "input_audio_buffer.append" in body["message"]
    assert len(body["message"]) < 500


@pytest.mark.parametrize(
    ("audio", "code"),
    [
        (7, "invalid_value"),
        (None, "invalid_value"),
        (["AAAA"], "invalid_value"),
        ("AAA", "invalid_value"),
        ("AA-_", "invalid_value"),
        ("AAAA=", "invalid_value"),
        ("AA=A", "invalid_value"),
        ("é", "invalid_value"),
        ("AA\x00A", "invalid_value"),
        (big(MOST + 2), "invalid_value"),
    ],
)
def test_audio_that_is_none(audio: Any, code: str) -> None:
    client = Client()
    body = error(client.send(APPEND, audio=audio, event_id="mine"))
    assert (body["code"], body["param"], body["event_id"]) == (code, "audio", "mine")
    assert client.hearings == {}, "nothing of it is kept"


def test_audio_that_is_missing() -> None:
    body = error(Client().send(APPEND))
    assert (body["code"], body["param"]) == ("missing_required_parameter", "audio")


@pytest.mark.parametrize("audio", ["", " \n"])
def test_empty_audio_is_a_sign_of_life(audio: str) -> None:
    client = Client()
    assert client.send(APPEND, audio=audio) == []
    assert client.hearings == {}


def test_white_space_in_base64_does_no_harm() -> None:
    client = Client()
    lines = base64.encodebytes(bytes(4800)).decode()
    assert client.send(APPEND, audio=f" {lines}\t\r\n") == []
    assert client.commit()[0]["type"].endswith("committed")


def test_the_most_audio_in_one_event() -> None:
    client = Client()
    assert client.send(APPEND, audio=big(MOST)) == []
    client.commit()
    assert len(client.samples(1)) == -(-MOST // 2 * 2 // 3)


def test_binary_audio_where_it_was_negotiated() -> None:
    client = Client({"sample_rate": "16000"}, binary=True)
    assert client.raw(bytes(3200)) == []
    assert client.raw(b"") == []
    assert client.raw(bytes(3)) == []
    assert error(client.raw(bytes(MOST + 2)))["param"] == "audio"
    assert client.raw(bytes(1)) == []
    client.commit()
    assert len(client.samples(1)) == 1602


@pytest.mark.parametrize(
    "kind",
    [
        "conversation.item.create",
        "conversation.item.truncate",
        "response.create",
        "response.cancel",
        "output_audio_buffer.clear",
    ],
)
def test_conversations_are_not_held(kind: str) -> None:
    body = error(Client().send(kind, event_id="e1"))
    assert (body["code"], body["event_id"]) == ("not_supported", "e1")


@pytest.mark.parametrize("kind", ["conversation.item.retrieve", "conversation.item.delete"])
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"item_id": "item_x"}, "item_not_found"),
        ({"item_id": "x" * 100_000}, "item_not_found"),
        ({"item_id": 7}, "invalid_value"),
        ({}, "missing_required_parameter"),
    ],
)
def test_items_that_there_are_not(kind: str, fields: dict[str, Any], code: str) -> None:
    body = error(Client().send(kind, **fields))
    assert (body["code"], body["param"]) == (code, "item_id")


@pytest.mark.parametrize("event_id", ["e" * 512, "", "é"])
def test_the_clients_event_id_comes_back(event_id: str) -> None:
    assert error(Client().send("nope", event_id=event_id))["event_id"] == event_id


def test_an_event_id_that_is_too_long() -> None:
    body = error(Client().send("input_audio_buffer.clear", event_id="e" * 513))
    assert (body["code"], body["param"], body["event_id"]) == ("invalid_value", "event_id", None)


def test_no_event_id_is_no_error() -> None:
    assert kinds(Client().send("input_audio_buffer.clear", event_id=None)) == ["cleared"]


FORMAT = "session.audio.input.format"
SPOKEN = "session.audio.input.transcription"
TURNS = "session.audio.input.turn_detection"


@pytest.mark.parametrize(
    ("session", "code", "param"),
    [
        (None, "invalid_value", "session"),
        ([], "invalid_value", "session"),
        ({"type": 7}, "invalid_value", "session.type"),
        ({"type": "translation"}, "invalid_value", "session.type"),
        ({"audio": []}, "invalid_value", "session.audio"),
        ({"audio": {"input": 7}}, "invalid_value", "session.audio.input"),
        ({"include": "livecap.words"}, "invalid_value", "session.include"),
        ({"include": [7]}, "invalid_value", "session.include"),
        (ga(format=7), "invalid_value", FORMAT),
        (ga(format="mp3"), "invalid_value", FORMAT),
        (ga(format={"type": "audio/opus"}), "invalid_value", f"{FORMAT}.type"),
        (ga(format={"rate": "24000"}), "invalid_value", f"{FORMAT}.rate"),
        (ga(format={"type": "audio/pcm", "rate": 44_100}), "invalid_value", f"{FORMAT}.rate"),
        (ga(format={"type": "audio/pcmu", "rate": 16_000}), "invalid_value", f"{FORMAT}.rate"),
        (ga(format={"rate": 10**30}), "invalid_value", f"{FORMAT}.rate"),
        (ga(transcription="whisper-1"), "invalid_value", SPOKEN),
        (ga(transcription={"model": "gpt-9"}), "model_not_found", f"{SPOKEN}.model"),
        (ga(transcription={"language": "Klingon"}), "invalid_value", f"{SPOKEN}.language"),
        (
            ga(transcription={"model": "english", "language": "fr"}),
            "invalid_value",
            f"{SPOKEN}.language",
        ),
        (
            ga(transcription={"model": "english", "languages": ["fr", "de"]}),
            "invalid_value",
            f"{SPOKEN}.languages",
        ),
        (ga(transcription={"languages": []}), "invalid_value", f"{SPOKEN}.languages"),
        (ga(transcription={"languages": ["en", 7]}), "invalid_value", f"{SPOKEN}.languages"),
        (ga(transcription={"languages": ["en", "xx"]}), "invalid_value", f"{SPOKEN}.languages"),
        (ga(transcription={"keywords": "Ada"}), "invalid_value", f"{SPOKEN}.keywords"),
        (ga(transcription={"prompt": 7}), "invalid_value", f"{SPOKEN}.prompt"),
        (ga(transcription={"prompt": "x" * 40_000}), "invalid_value", f"{SPOKEN}.prompt"),
        (ga(transcription={"delay": "none"}), "invalid_value", f"{SPOKEN}.delay"),
        (
            ga(noise_reduction={"type": "far"}),
            "invalid_value",
            "session.audio.input.noise_reduction.type",
        ),
        (ga(turn_detection="always"), "invalid_value", f"{TURNS}.type"),
        (ga(turn_detection={"type": "vad"}), "invalid_value", f"{TURNS}.type"),
        (ga(turn_detection={"threshold": 2}), "invalid_value", f"{TURNS}.threshold"),
        (ga(turn_detection={"threshold": True}), "invalid_value", f"{TURNS}.threshold"),
        (
            ga(turn_detection={"silence_duration_ms": -1}),
            "invalid_value",
            f"{TURNS}.silence_duration_ms",
        ),
        (
            ga(turn_detection={"prefix_padding_ms": 10**9}),
            "invalid_value",
            f"{TURNS}.prefix_padding_ms",
        ),
        (
            ga(turn_detection={"type": "semantic_vad", "eagerness": "very"}),
            "invalid_value",
            f"{TURNS}.eagerness",
        ),
    ],
)
def test_bad_fields_change_nothing(session: Any, code: str, param: str) -> None:
    client = Client()
    before = client.session.settings
    if isinstance(session, dict) and isinstance(session.get("audio"), dict):
        session = {**session, "include": ["livecap.words"]}
    body = error(client.send("session.update", session=session, event_id="e"))
    assert (body["code"], body["param"], body["event_id"]) == (code, param, "e")
    assert client.session.settings == before


def test_an_update_without_a_session() -> None:
    body = error(Client({"intent": "transcription"}).send("session.update"))
    assert (body["code"], body["param"]) == ("missing_required_parameter", "session")


def test_bad_fields_of_a_flat_session() -> None:
    client = Client()
    session = {"input_audio_transcription": {"language": "Klingon"}}
    body = error(client.send("transcription_session.update", session=session))
    assert body["param"] == "session.input_audio_transcription.language"
    body = error(client.send("transcription_session.update", session={"turn_detection": 7}))
    assert body["param"] == "session.turn_detection"


def test_the_format_stays_while_audio_is_not_committed() -> None:
    client = Client()
    client.append(200)
    body = error(client.send("session.update", session=ga(format={"rate": 16_000})))
    assert (body["code"], body["param"]) == ("invalid_state", FORMAT)
    session = {"input_audio_format": "g711_ulaw"}
    body = error(client.send("session.update", session=session))
    assert body["param"] == "session.input_audio_format"
    client.configure(format={"type": "audio/pcm", "rate": 24_000})  # no change
    client.commit()
    assert client.configure(format={"rate": 16_000})["livecap"]["sample_rate"] == 16_000


def test_strict_servers_refuse_unknown_fields() -> None:
    client = Client(limits=SessionLimits(strict=True))
    body = error(client.send("session.update", session=ga(format={"type": "audio/pcm", "bits": 8})))
    assert (body["code"], body["param"]) == ("unknown_parameter", f"{FORMAT}.bits")
    body = error(client.send("session.update", session={"voice": "alloy"}))
    assert (body["code"], body["param"]) == ("unknown_parameter", "session.voice")
    body = error(client.send("session.update", session={"include": ["weather"]}))
    assert (body["code"], body["param"]) == ("invalid_value", "session.include")


def test_a_language_that_the_model_knows_is_taken() -> None:
    for spoken in ({"language": "en-US"}, {"languages": ["fr", "en"]}, {"language": None}):
        client = Client({"model": "english"})
        client.configure(transcription=spoken)
    body = error(client.send("session.update", session=ga(transcription={"language": "fr"})))
    assert "english can't be told 'fr'. It knows en." in body["message"]


def test_an_unknown_model_in_the_url_ends_the_connection() -> None:
    client = Client({"model": "gpt-9", "intent": "transcription"})
    assert error(client.first)["code"] == "invalid_model"
    assert client.close
    assert client.close.code == 4000
    assert client.append(100) == []


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"language": "Klingon"}, "language"),
        ({"model": "english", "language": "fr"}, "language"),
        ({"sample_rate": "44100"}, "sample_rate"),
        ({"sample_rate": "fast"}, "sample_rate"),
        ({"input_audio_format": "pcm_s16le_7"}, "input_audio_format"),
        ({"turn_detection": "maybe"}, "turn_detection"),
        ({"dialect": "klingon"}, "dialect"),
    ],
)
def test_what_is_wrong_in_the_url_is_told_after_the_first_frame(
    query: dict[str, str], param: str
) -> None:
    client = Client(query)
    assert kinds(client.first) == ["created", "error"]
    assert client.first[1]["error"]["param"] == param
    assert client.close is None


@pytest.mark.parametrize(
    ("reason", "close", "kind"),
    [
        ("invalid_api_key", 3000, "invalid_request_error"),
        ("rate_limit_exceeded", 1013, "rate_limit_error"),
        ("internal_error", 1011, "server_error"),
    ],
)
def test_who_gets_no_session(reason: Any, close: int, kind: str) -> None:
    client = Client()
    [frame] = client.do(turned_away(reason))
    assert (frame["error"]["code"], frame["error"]["type"]) == (reason, kind)
    assert client.close
    assert client.close.code == close
    assert len(client.close.reason.encode()) <= 123


def test_errors_are_json_all_over() -> None:
    client = Client()
    [frame] = client.raw(json.dumps({"type": "\u0000\x7f\U0001f600" * 50}))
    assert json.loads(json.dumps(frame)) == frame
