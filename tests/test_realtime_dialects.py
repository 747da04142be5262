"""The dialects: how each is chosen, what it changes, and that no two are mixed."""

from typing import Any

import pytest
from realtime_client import NOW, Client, begins, kinds, says, settled, stops

from livecap.api.realtime import SessionLimits, asks_for_beta

FLAT = {"input_audio_transcription": {"model": "whisper-1"}}


def types(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["type"] for frame in frames]


@pytest.mark.parametrize(
    ("query", "beta", "dialect", "first", "rate"),
    [
        ({}, False, "openai", "session.created", 24_000),
        ({"intent": "transcription"}, True, "openai-beta", "transcription_session.created", 24_000),
        ({}, True, "openai-beta", "session.created", 24_000),
        ({"dialect": "openai"}, True, "openai", "session.created", 24_000),
        ({"dialect": "openai-beta"}, False, "openai-beta", "transcription_session.created", 24_000),
        ({"dialect": "mstar"}, False, "mstar", "transcription_session.created", 16_000),
        ({"dialect": "vllm"}, False, "vllm", "session.created", 16_000),
        ({"dialect": "vllm", "sample_rate": "48000"}, False, "vllm", "session.created", 48_000),
        ({"input_audio_format": "pcm_s16le_16000"}, True, "openai-beta", "session.created", 16_000),
    ],
)
def test_how_it_begins(
    query: dict[str, str], beta: bool, dialect: str, first: str, rate: int
) -> None:
    client = Client(query, beta=beta)
    assert types(client.first) == [first]
    own = client.first[0]["session"]["livecap"]
    assert (own["dialect"], own["sample_rate"]) == (dialect, rate)
    assert own["vad"] is (dialect in ("openai", "openai-beta"))


def test_a_server_may_choose_for_all() -> None:
    client = Client(limits=SessionLimits(dialect="vllm"))
    assert client.session.settings.dialect == "vllm"
    client = Client({"dialect": "openai"}, limits=SessionLimits(dialect="vllm"))
    assert client.session.settings.dialect == "openai"


@pytest.mark.parametrize(
    ("header", "offered", "is_beta"),
    [
        (None, [], False),
        ("realtime=v1", [], True),
        ("assistants=v2, realtime=v1", [], True),
        ("realtime=v2", [], False),
        (None, ["realtime", "openai-beta.realtime-v1"], True),
        (None, ["realtime"], False),
    ],
)
def test_who_asks_for_the_beta(header: str | None, offered: list[str], is_beta: bool) -> None:
    assert asks_for_beta(header, offered) is is_beta


def test_a_vllm_client() -> None:
    """The order of vLLM's sample: update, commit, appends, commit with final."""
    client = Client()
    [created] = client.first
    assert created["id"].startswith("sess-")
    assert created["created"] == int(NOW)
    assert client.send("session.update", model="whisper-1") == []
    assert client.commit() == [], "that is a start"
    client.append(1000, rate=16_000)
    assert not client.hearings[1].turns
    [delta] = client.heard(1, says("hello"))
    assert (delta["type"], delta["delta"]) == ("transcription.delta", "hello")
    assert client.commit(final=False) == []
    client.append(1000, rate=16_000)
    assert client.commit(final=True) == []
    assert len(client.samples(1)) == 32_000
    client.heard(1, says("there"))
    [done] = client.ended(1)
    assert (done["type"], done["text"]) == ("transcription.done", "hello there")
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert done["usage"] == {**usage, "type": "duration", "seconds": 2.0}
    assert client.commit() == [], "and another start"
    client.append(100, rate=16_000)
    assert 2 in client.hearings


def test_a_vllm_stream_of_nothing() -> None:
    client = Client()
    [done] = client.commit(final=True)
    assert (done["type"], done["text"]) == ("transcription.done", "")
    assert client.session.settings.dialect == "vllm"


def test_vllm_errors_are_texts() -> None:
    client = Client({"dialect": "vllm"})
    [frame] = client.send("session.update", model="gone")
    assert frame["type"] == "error"
    assert isinstance(frame["error"], str)
    assert frame["code"] == "model_not_found"
    client.append(100, rate=16_000)
    client.commit(final=True)
    [frame] = client.do(client.session.give_up())[:1]
    assert (frame["type"], frame["code"]) == ("error", "transcription_failed")


def test_a_vllm_stream_is_not_cut_after_two_minutes() -> None:
    client = Client({"dialect": "vllm"}, limits=SessionLimits(max_buffer_s=1, max_stream_s=3))
    client.append(2500, rate=16_000)
    assert client.finished == []
    client.append(1000, rate=16_000)
    assert client.finished == [1]
    [done] = client.ended(1)
    assert done["type"] == "transcription.done"


@pytest.mark.parametrize(
    ("query", "dialect"),
    [
        ({}, "vllm"),
        ({"x": "y"}, "vllm"),
        ({"language": "de"}, "openai"),
        ({"intent": "transcription"}, "openai"),
        ({"model": "whisper-1"}, "openai"),
        ({"dialect": "openai"}, "openai"),
    ],
)
def test_a_first_commit_of_nothing(query: dict[str, str], dialect: str) -> None:
    """vLLM's clients may begin so; OpenAI's say in the URL that they are theirs."""
    client = Client(query)
    told = client.commit()
    assert client.session.settings.dialect == dialect
    assert kinds(told) == ([] if dialect == "vllm" else ["error"])


def test_a_first_commit_after_other_events_is_openais() -> None:
    client = Client()
    client.configure()
    assert kinds(client.commit()) == ["error"]
    client = Client()
    client.append(100)
    assert kinds(client.commit(final=True)) == ["committed", "added", "done"], "final is ignored"


def test_an_update_takes_a_vllm_client_back() -> None:
    client = Client()
    client.commit()
    session = client.configure()
    assert session["livecap"] == {
        "dialect": "openai", "sample_rate": 24_000, "vad": True, "ignored": []
    }  # fmt: skip


def test_a_beta_client() -> None:
    client = Client({"intent": "transcription"}, beta=True)
    [updated] = client.send(
        "transcription_session.update",
        session={
            "input_audio_format": "g711_ulaw",
            "input_audio_transcription": {"model": "gpt-4o-transcribe", "language": "en"},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 700},
            "input_audio_noise_reduction": {"type": "near_field"},
            "include": ["item.input_audio_transcription.logprobs"],
            "modalities": ["text"],
            "client_secret": {"expires_at": {"seconds": 60}},
        },
    )
    assert updated["type"] == "transcription_session.updated"
    assert updated["session"] == {
        "id": client.session.id,
        "object": "realtime.transcription_session",
        "expires_at": int(NOW) + 3600,
        "modalities": ["text"],
        "input_audio_format": "g711_ulaw",
        "input_audio_transcription": {
            "model": "gpt-4o-transcribe",
            "language": "en",
            "prompt": None,
        },
        "turn_detection": {
            "type": "server_vad",
            "threshold": 0.5,
            "prefix_padding_ms": 300,
            "silence_duration_ms": 700,
        },
        "input_audio_noise_reduction": None,
        "include": ["item.input_audio_transcription.logprobs"],
        "client_secret": None,
        "livecap": {
            "dialect": "openai-beta",
            "sample_rate": 8000,
            "vad": True,
            "ignored": ["input_audio_noise_reduction"],
        },
    }
    client.append(1000, rate=8000)
    told = client.heard(1, begins(0), says("hi"), stops(900), settled(900))
    assert types(told) == [
        "input_audio_buffer.speech_started",
        "conversation.item.input_audio_transcription.delta",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.created",
        "conversation.item.input_audio_transcription.completed",
    ]


def test_a_beta_client_may_send_the_update_of_conversations() -> None:
    client = Client(beta=True)
    [updated] = client.send("session.update", session=FLAT)
    assert updated["type"] == "session.updated"
    assert "input_audio_format" in updated["session"]


def test_a_beta_client_that_is_known_by_its_first_event() -> None:
    client = Client({"intent": "transcription"})
    [updated] = client.send("transcription_session.update", session=FLAT)
    assert updated["type"] == "transcription_session.updated"
    assert client.session.settings.dialect == "openai-beta"
    assert client.session.settings.form.rate == 24_000


def test_an_mstar_client() -> None:
    client = Client()
    [updated] = client.send("transcription_session.update", session={**FLAT, "mstar": {}})
    assert updated["session"]["livecap"]["sample_rate"] == 16_000
    assert updated["session"]["turn_detection"] is None
    [updated] = client.send("transcription_session.update", session=FLAT)
    assert updated["session"]["livecap"]["dialect"] == "mstar", "it need not be said again"
    client.append(1000, rate=16_000)
    delta, partial = client.heard(1, says("hello", tail=" th"))
    assert delta["type"] == "conversation.item.input_audio_transcription.delta"
    assert {key: partial[key] for key in partial if key not in ("event_id", "item_id")} == {
        "type": "mstar.transcription.partial",
        "text": "hello th",
        "chunk_id": 1,
        "audio_seconds": 1.0,
        "created": int(NOW),
    }
    assert types(client.commit()) == ["input_audio_buffer.committed", "conversation.item.created"]


def test_a_flat_session_in_a_ga_update() -> None:
    """As SGLang-Omni's clients send it."""
    client = Client()
    wanted = {"language": "de", "input_audio_format": "pcm16", "turn_detection": None}
    [updated] = client.send("session.update", session=wanted)
    assert updated["session"]["audio"]["input"]["transcription"]["language"] == "de"
    assert updated["session"]["livecap"] == {
        "dialect": "openai", "sample_rate": 24_000, "vad": False, "ignored": []
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("transcription_session.update", {"session": FLAT}),
        ("transcription_session.update", {"session": {"mstar": {}}}),
        ("session.update", {"model": "whisper-1"}),
    ],
)
def test_audio_is_heard_in_one_dialect(kind: str, fields: dict[str, Any]) -> None:
    client = Client()
    client.append(100)
    [frame] = client.send(kind, **fields)
    assert frame["error"]["code"] == "invalid_state"
    assert frame["error"]["param"] == "type"
    pinned = Client({"dialect": "openai"})
    [frame] = pinned.send(kind, **fields)
    assert frame["error"]["code"] == "invalid_state"


def test_empty_audio_does_not_settle_the_dialect() -> None:
    client = Client()
    client.send("input_audio_buffer.append", audio="")
    [updated] = client.send("transcription_session.update", session=FLAT)
    assert updated["type"] == "transcription_session.updated"
