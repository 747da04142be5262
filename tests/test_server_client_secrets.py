"""The routes for client secrets: what they carry, open and refuse."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from server_parts import BASE, HERE, INVALID, application, client, envelope
from starlette.testclient import TestClient

from livecap.api.options import ServeConfig
from livecap.api.sessions.state import AppState

SECRETS = "/v1/realtime/client_secrets"
BETA = "/v1/realtime/transcription_sessions"


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_a_secret_opens_live_sessions_and_nothing_else(keys: tuple[str, ...]) -> None:
    parts, app = application(keys=keys)
    with TestClient(app, client=HERE, base_url=BASE) as http:
        key = {"Authorization": "Bearer k"}
        session = {
            "type": "transcription",
            "audio": {"input": {"transcription": {"model": "whisper-1", "language": "German"}}},
        }
        body = {"expires_after": {"anchor": "created_at", "seconds": 60}, "session": session}
        made = http.post(SECRETS, json=body, headers=key).json()
        assert made.keys() == {"value", "expires_at", "session"}
        assert made["value"].startswith("ek_")
        told = made["session"]
        assert (told["type"], told["object"]) == (
            "transcription",
            "realtime.transcription_session",
        )
        assert told["id"].startswith("sess_")
        assert told["audio"]["input"]["transcription"]["language"] == "de"
        found = parts.secrets.read(made["value"])
        assert found
        assert found.session == session
        assert found.expires == made["expires_at"]
        secret = {"Authorization": f"Bearer {made['value']}"}
        for path in ("/v1/models", "/v1/audio/transcriptions", SECRETS, BETA):
            method = "GET" if path == "/v1/models" else "POST"
            refused = http.request(method, path, headers=secret)
            assert (refused.status_code, envelope(refused.json())[1]) == (401, "invalid_api_key")


def lasts(parts: AppState, value: str, expires: int) -> int:
    found = parts.secrets.read(value)
    assert found
    assert found.expires == expires
    return found.expires


def test_without_a_body_there_are_defaults() -> None:
    parts, app = application()
    with TestClient(app, client=HERE, base_url=BASE) as http:
        before = int(time.time())
        for body in (None, {}, {"session": None, "expires_after": None}):
            made = http.post(SECRETS, json=body) if body is not None else http.post(SECRETS)
            assert made.status_code == 200
            expires = lasts(parts, made.json()["value"], made.json()["expires_at"])
            assert 600 <= expires - before <= 660
            assert made.json()["session"]["audio"]["input"]["format"]["rate"] == 24_000


def test_the_beta_has_its_own_shape() -> None:
    parts, app = application()
    with TestClient(app, client=HERE, base_url=BASE) as http:
        assert http.post(BETA).json()["client_secret"]["value"].startswith("ek_")
        body = {
            "input_audio_format": "g711_ulaw",
            "input_audio_transcription": {"model": "gpt-4o-transcribe", "prompt": "Ada"},
            "turn_detection": None,
            "client_secret": {"expires_after": {"anchor": "created_at", "seconds": 10}},
        }
        made = http.post(BETA, json=body).json()
        secret = made["client_secret"]
        lasts(parts, secret["value"], secret["expires_at"])
        assert made["input_audio_format"] == "g711_ulaw"
        assert made["input_audio_transcription"]["prompt"] == "Ada"
        assert made["turn_detection"] is None
        found = parts.secrets.read(secret["value"])
        assert found
        assert "client_secret" not in found.session


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (SECRETS, {"expires_after": {"seconds": 9}}, "expires_after.seconds"),
        (SECRETS, {"expires_after": {"seconds": 7201}}, "expires_after.seconds"),
        (SECRETS, {"expires_after": {"seconds": "600"}}, "expires_after.seconds"),
        (SECRETS, {"expires_after": {"anchor": "now"}}, "expires_after.anchor"),
        (SECRETS, {"expires_after": 600}, "expires_after"),
        (SECRETS, {"session": []}, "session"),
        (SECRETS, {"session": {"type": "poem"}}, "session.type"),
        (
            SECRETS,
            {"session": {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 1}}}}},
            "session.audio.input.format.rate",
        ),
        (
            SECRETS,
            {"session": {"audio": {"input": {"transcription": {"model": "nobody"}}}}},
            "session.audio.input.transcription.model",
        ),
        (BETA, {"client_secret": {"expires_after": {"seconds": 1}}}, "client_secret.expires_after"),
    ],
)
def test_what_can_not_be_is_refused_with_its_place(
    path: str, body: dict[str, object], param: str
) -> None:
    with client() as http:
        refused = http.post(path, json=body)
    assert refused.status_code == 400
    kind, code, place = envelope(refused.json())
    assert kind == INVALID
    assert code in ("invalid_value", "model_not_found")
    assert place is not None
    assert place.startswith(param)


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'"x"', 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b" " * (300 << 10), 413),
        (json.dumps({"session": {"x": 10**40}}).encode(), 400),
    ],
)
def test_what_is_no_configuration_is_refused(content: bytes, status: int) -> None:
    with client() as http:
        refused = http.post(SECRETS, content=content)
    assert refused.status_code == status, refused.text
    envelope(refused.json())


def test_strict_servers_refuse_fields_that_are_not_known() -> None:
    body = {"session": {"type": "transcription", "shoe_size": 43}}
    with client() as http:
        assert http.post(SECRETS, json=body).json()["session"]["livecap"]["ignored"] == [
            "shoe_size"
        ]
    with client(ServeConfig(strict=True)) as http:
        refused = http.post(SECRETS, json=body)
    assert envelope(refused.json()) == (INVALID, "unknown_parameter", "session.shoe_size")


def test_how_deep_it_goes_is_no_fault() -> None:
    with client() as http:
        for depth in (100, 500, 900, 950, 980, 2000):
            nested = b"[" * depth + b"]" * depth
            answer = http.post(SECRETS, content=b'{"session":{"x":' + nested + b"}}")
            assert answer.status_code in (200, 400)


FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
FIELDS = st.sampled_from(
    ["session", "expires_after", "seconds", "anchor", "audio", "input", "type"]
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(FIELDS, JSON | st.dictionaries(FIELDS, JSON)))
def test_no_configuration_is_a_fault(body: dict[str, object]) -> None:
    _, app = application()
    http = TestClient(app, client=HERE, base_url=BASE)  # not entered: no model is loaded
    for path in (SECRETS, BETA):
        answer = http.post(path, json=body)
        assert answer.status_code in (200, 400)


@pytest.mark.parametrize("path", ["client_secrets", "transcription_sessions"])
def test_a_body_that_goes_too_deep_is_refused(path: str) -> None:
    body = '{"session":' + '{"audio":' * 40 + "{}" + "}" * 41
    with client() as web:
        answer = web.post(f"/v1/realtime/{path}", content=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")
