"""Whatever comes in, and whatever order it comes in: the rules hold and nothing raises."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from realtime_client import Catalogue, Client, begins, ga, says, says_at, settled, stops
from realtime_frames import check_order

from livecap.api.realtime import SessionLimits
from livecap.errors import AudioError
from livecap.events import Event

LIMITS = SessionLimits(max_buffer_s=3, items=10, pending=5, max_append_bytes=200_000)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["auto", "en", "server_vad", "semantic_vad", "none", "pcm16", "AAAA", "tiny"])
)
KEYS = st.sampled_from(
    [
        "type", "event_id", "session", "audio", "input", "format", "rate", "transcription", "model",
        "language", "languages", "keywords", "prompt", "delay", "turn_detection", "threshold",
        "silence_duration_ms", "eagerness", "include", "noise_reduction", "item_id", "final",
        "input_audio_format", "input_audio_transcription", "mstar", "id",
    ]
)  # fmt: skip
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
KINDS = st.sampled_from(
    [
        "session.update", "transcription_session.update", "input_audio_buffer.append",
        "input_audio_buffer.commit", "input_audio_buffer.clear", "conversation.item.retrieve",
        "conversation.item.delete", "response.create", "nonsense",
    ]
)  # fmt: skip
EVENTS = st.builds(
    lambda kind, fields: {**fields, "type": kind},
    KINDS,
    st.dictionaries(KEYS, JSON, max_size=4),
)
QUERIES = st.dictionaries(
    st.sampled_from(
        ["model", "intent", "language", "dialect", "sample_rate", "turn_detection", "x"]
    ),
    st.sampled_from(
        [
            "",
            "tiny",
            "vllm",
            "mstar",
            "openai",
            "openai-beta",
            "16000",
            "none",
            "en",
            "\x00",
            "x" * 99,
        ]
    ),
    max_size=3,
)
QUICK = settings(max_examples=60, deadline=None)


@QUICK
@given(st.lists(st.text(max_size=50) | st.binary(max_size=50), max_size=10), st.booleans())
def test_any_bytes(messages: list[str | bytes], binary: bool) -> None:
    client = Client(limits=LIMITS, binary=binary)
    for message in messages:
        client.raw(message)
    check_order(client.frames, finished=False)


@QUICK
@given(QUERIES, st.booleans(), st.lists(JSON | EVENTS, max_size=10))
def test_any_json(query: dict[str, str], beta: bool, messages: list[Any]) -> None:
    client = Client(query, limits=LIMITS, beta=beta)
    for message in messages:
        client.raw(json.dumps(message))


@QUICK
@given(st.dictionaries(KEYS, JSON, max_size=4), st.booleans())
def test_any_client_secret(session: dict[str, Any], strict: bool) -> None:
    Client(session=session, limits=SessionLimits(strict=strict))


@QUICK
@given(JSON)
def test_any_field_of_the_session(value: Any) -> None:
    client = Client(limits=LIMITS)
    for name in ("format", "transcription", "turn_detection", "noise_reduction"):
        client.send("session.update", session=ga(**{name: value}))
        client.send("session.update", session={f"input_audio_{name}": value, name: value})
    client.append(100)


STEPS = st.sampled_from(
    [
        "append", "append", "append", "commit", "clear", "begin", "begin", "stop", "stop", "say",
        "say", "tail", "say at", "settle", "settle", "split", "end", "fail", "manual", "turns",
        "semantic", "language", "rate", "delete",
    ]
)  # fmt: skip


class Play:
    """Drives a client at random, as a service would: times go on, and hearings end once."""

    def __init__(self, semantic: bool) -> None:
        query = {"intent": "transcription"}
        self.client = Client(query, limits=LIMITS, session={"include": ["livecap.partial"]})
        if semantic:
            self.client.configure(turn_detection={"type": "semantic_vad", "eagerness": "high"})
        self.at: dict[int, int] = {}  # ms up to which each hearing has told

    def step(self, step: str, amount: int, which: int) -> None:
        """One of STEPS, by so many ms, for one of the hearings."""
        client = self.client
        live = client.live
        if step == "append":
            client.append(amount)
        elif step == "commit":
            client.commit()
        elif step == "clear":
            client.send("input_audio_buffer.clear")
        elif step in ("manual", "turns", "semantic", "language", "rate"):
            self.configure(step)
        elif step == "delete":
            ids = [f["item_id"] for f in client.frames if f["type"].endswith("committed")]
            client.send("conversation.item.delete", item_id=ids[-1] if ids else "x")
        elif live:
            self.tell(step, live[which % len(live)], amount)

    def configure(self, step: str) -> None:
        """Some update."""
        wanted: dict[str, Any] = {
            "manual": {"turn_detection": None},
            "turns": {"turn_detection": {"type": "server_vad"}},
            "semantic": {"turn_detection": {"type": "semantic_vad"}},
            "language": {"transcription": {"language": "de"}},
            "rate": {"format": {"rate": 16_000}},
        }
        self.client.send("session.update", session=ga(**wanted[step]))

    def tell(self, step: str, number: int, amount: int) -> None:
        """A hearing's own event."""
        client = self.client
        if step in ("end", "fail"):
            if step == "fail" or number in client.finished:
                client.ended(number, AudioError("x", remedy="y") if step == "fail" else None)
            return
        at = self.at[number] = self.at.get(number, 0) + amount
        told: dict[str, Event] = {
            "begin": begins(at),
            "stop": stops(at),
            "say": says("so it is.", at, at + 100),
            "tail": says("", at, at + 100, tail=" maybe"),
            "say at": says_at(("here", at - amount), ("now", at)),
            "settle": settled(at),
            "split": settled(at, paused=False),
        }
        client.heard(number, told[step])

    def finish(self) -> None:
        """Let everything end."""
        self.client.send("session.close")
        while self.client.live:
            self.client.ended(self.client.live[-1])


@settings(max_examples=150, deadline=None)
@given(
    st.booleans(),
    st.lists(st.tuples(STEPS, st.integers(1, 1200), st.integers(0, 5)), min_size=10, max_size=80),
)
def test_any_order(semantic: bool, steps: list[tuple[str, int, int]]) -> None:
    play = Play(semantic)
    for step, amount, which in steps:
        play.step(step, amount, which)
        check_order(play.client.frames, finished=False)
    play.finish()
    assert play.client.close
    check_order(play.client.frames, finished=True)
    assert play.client.session.pending == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(STEPS, st.integers(1, 1200), st.integers(0, 5)), max_size=40))
def test_giving_up_at_any_time(steps: list[tuple[str, int, int]]) -> None:
    play = Play(semantic=False)
    for step, amount, which in steps:
        play.step(step, amount, which)
    play.client.do(play.client.session.give_up())
    assert play.client.close
    check_order(play.client.frames, finished=True)


def test_the_catalogue_of_these_tests() -> None:
    assert Catalogue().canonical("gone") is None
