"""The client's side of `/v1/realtime`, frame by frame: livecap's server, and others of that API."""

import base64
import json
from typing import Any

import numpy as np
import pytest

from livecap.client.conversation import SYNC, WINDOW, Conversation
from livecap.client.relay import Relay
from livecap.client.timeline import Clock
from livecap.client.transcript import Story, words_of
from livecap.client.wire import Wanted
from livecap.events import RATE, Caption, Event, Gap, Silence, Unrecognised, Word

Json = dict[str, Any]
MS = RATE // 1000
TRANSCRIPTION = "conversation.item.input_audio_transcription"


def said(messages: list[str | bytes]) -> list[Json]:
    """The client's events among its messages."""
    return [json.loads(message) for message in messages if isinstance(message, str)]


def frame(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, "event_id": "event_1", **fields})


OWN = {"type": "transcription", "livecap": {"sample_rate": 24_000}, "expires_at": 4600}
OTHER = {"type": "transcription", "audio": {"input": {}}, "expires_at": 4600}


def opened(wanted: Wanted | None = None, *, own: bool = False) -> tuple[Conversation, Json]:
    """A conversation that may begin, and what the server was asked for."""
    talk = Conversation(wanted or Wanted())
    assert talk.room == 0
    created = frame("session.created", session=OWN if own else OTHER, created=1000)
    (update,) = said(talk.receive(created))
    assert talk.state == "configuring"
    heard = {"input": {"transcription": {"model": "tiny"}}}
    assert talk.receive(frame("session.updated", session={"audio": heard})) == []
    assert (talk.state, talk.model, talk.is_own) == ("open", "tiny", own)
    return talk, update


def test_what_livecaps_server_is_asked_for() -> None:
    wanted = Wanted("small", "de", "Von Ada.", ("Babbage", "Byron"), 0.3, 200, 700)
    talk, update = opened(wanted, own=True)
    assert talk.length == 3600
    assert update == {
        "type": "session.update",
        "session": {
            "type": "transcription",
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": 16_000},
                    "transcription": {
                        "model": "small",
                        "language": "de",
                        "prompt": "Von Ada.",
                        "keywords": ["Babbage", "Byron"],
                    },
                    "turn_detection": {
                        "type": "server_vad",
                        "threshold": 0.3,
                        "prefix_padding_ms": 200,
                        "silence_duration_ms": 700,
                    },
                }
            },
            "include": ["livecap.partial", "livecap.words"],
        },
    }


def test_what_another_server_is_asked_for() -> None:
    """Nothing that it may not know, and audio at the one rate that all take."""
    _, update = opened()
    session = update["session"]
    assert "include" not in session
    assert session["audio"]["input"] == {
        "format": {"type": "audio/pcm", "rate": 24_000},
        "transcription": {},
        "turn_detection": {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300},
    }


def test_raw_audio_for_livecaps_server() -> None:
    talk, _ = opened(own=True)
    pcm = np.arange(-800, 800, dtype=np.int16)
    assert talk.audio(pcm) == [pcm.astype("<i2").tobytes()]


def test_audio_for_another_server_is_at_24_khz() -> None:
    talk, _ = opened()
    tone = (8000 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)).astype(np.int16)
    events = said([m for at in range(0, RATE, 1600) for m in talk.audio(tone[at : at + 1600])])
    *rest, commit = said(talk.finish())
    assert commit["type"] == "input_audio_buffer.commit"
    assert {event["type"] for event in [*events, *rest]} == {"input_audio_buffer.append"}
    raw = b"".join(base64.b64decode(event["audio"]) for event in [*events, *rest])
    heard = np.frombuffer(raw, "<i2").astype(float)
    assert abs(len(heard) - 24_000) <= 48
    wanted = 8000 * np.sin(2 * np.pi * 440 * np.arange(24_000) / 24_000)
    inner = slice(1000, 23_000)
    assert np.abs(heard[inner] - wanted[inner]).max() < 400  # without edges between the pieces


def test_livecaps_server_is_not_sent_more_than_it_takes() -> None:
    talk, _ = opened(own=True)
    sent = []
    while talk.room:
        sent += talk.audio(np.zeros(min(talk.room, RATE), np.int16))
    assert talk.sent == WINDOW
    asked = said(sent)
    assert [event["type"] for event in asked] == ["session.update"] * (WINDOW // SYNC)
    assert talk.is_asked
    talk.receive(frame("session.updated", session={}))
    assert talk.room == SYNC
    talk.receive(frame("error", error={"code": "odd", "message": "no", "event_id": "sync"}))
    assert talk.room == 2 * SYNC
    assert talk.notices == []


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([frame("error", error={"code": "invalid_api_key", "message": "No."})], "invalid_api_key"),
        ([frame("session.created", session=OWN), frame("error", error={"code": "x"})], "x"),
        ([frame("hello")], ""),
        (["<html>"], ""),
        (["[]"], ""),
    ],
)
def test_refusals(frames: list[str], code: str) -> None:
    talk = Conversation(Wanted())
    for one in frames:
        talk.receive(one)
    assert talk.refusal is not None
    assert talk.refusal[0] == code
    assert talk.refusal[1]


# -- a relay, and frames that a server might send ------------------------------------------------


class Talk:
    """A relay whose server is these tests."""

    def __init__(self, *, own: bool = False) -> None:
        self.relay = Relay(Wanted())
        self.relay.begin()
        self.own = own
        self.sent: list[Json] = []
        self.tell("session.created", session=OWN if own else OTHER)
        self.tell("session.updated", session={})

    def tell(self, kind: str, **fields: Any) -> None:
        self.sent += said(self.relay.receive(frame(kind, **fields)))

    def hear(self, ms: int) -> None:
        self.relay.hear(self.end, np.zeros(ms * MS, np.float32), "")
        self.flow()

    def flow(self) -> None:
        while messages := self.relay.outgoing():
            self.sent += said(messages)

    @property
    def end(self) -> int:
        return self.relay._kept.end

    def item(self, kind: str, item: str, **fields: Any) -> None:
        self.tell(f"{TRANSCRIPTION}.{kind}", item_id=item, content_index=0, **fields)

    def turn(self, item: str, start: int, stop: int) -> None:
        """A stretch of speech, in ms."""
        self.tell("input_audio_buffer.speech_started", audio_start_ms=start, item_id=item)
        self.tell("input_audio_buffer.speech_stopped", audio_end_ms=stop, item_id=item)
        self.tell("input_audio_buffer.committed", item_id=item, previous_item_id=None)

    def finish(self) -> None:
        self.relay.finish()
        self.flow()

    def take(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.relay.take() if isinstance(event, kind)]


def text_of(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Caption) and event.words]


def test_another_server_tells_deltas_and_texts() -> None:
    talk = Talk()
    talk.hear(8000)
    talk.turn("a", 500, 3000)
    talk.item("delta", "a", delta="Hello")
    talk.item("delta", "a", delta=" there")
    events = talk.relay.take()
    tails = [event.tail for event in events if isinstance(event, Caption)]
    assert tails == ["Hello", "Hello there"]
    talk.item("completed", "a", transcript="Hello there,  you.", usage={})
    silent, caption = talk.relay.take()
    assert silent == Silence(0, 500 * MS)
    words = (Word("Hello"), Word(" there,"), Word("  you."))
    assert caption == Caption(0, 500 * MS, 3000 * MS, words)


def test_texts_in_another_order_than_the_turns() -> None:
    talk = Talk()
    talk.hear(9000)
    talk.turn("a", 500, 3000)
    talk.turn("b", 4000, 6000)
    talk.item("completed", "b", transcript="two")
    assert text_of(talk.relay.take()) == []
    talk.item("completed", "a", transcript="one")
    assert text_of(talk.relay.take()) == ["one", "two"]
    talk.item("delta", "a", delta="late")  # and so is this
    assert talk.relay.take() == []


def test_the_tail_is_that_of_all_turns_under_way() -> None:
    talk = Talk(own=True)
    talk.hear(9000)
    talk.turn("a", 500, 3000)
    talk.tell("livecap.transcription.partial", item_id="a", text="one tw", audio_ms=2000)
    talk.tell("input_audio_buffer.speech_started", audio_start_ms=4000, item_id="b")
    talk.tell("livecap.transcription.partial", item_id="b", text="three", audio_ms=1000)
    assert [event.tail for event in talk.take(Caption)] == ["one tw", "one tw three"]  # type: ignore[union-attr]  # captions
    talk.item("completed", "a", transcript="one two")
    events = talk.relay.take()
    assert [(e.segment, e.text, e.tail) for e in events if isinstance(e, Caption)] == [
        (0, "one two", ""),
        (1, "", "three"),
    ]


def test_a_turn_that_has_failed_elsewhere_is_one_without_text() -> None:
    talk = Talk()
    talk.hear(9000)
    talk.turn("a", 500, 3000)
    talk.item("failed", "a", error={"code": "audio_unintelligible", "message": "Too noisy."})
    talk.turn("b", 4000, 6000)
    talk.item("completed", "b", transcript="")
    told = talk.take(Unrecognised)
    assert told == [
        Unrecognised(500 * MS, 3000 * MS, "Too noisy."),
        Unrecognised(4000 * MS, 6000 * MS, "the server made no text of it"),
    ]
    talk.hear(1000)
    assert talk.relay.talk
    assert talk.relay.talk.broken is None


def test_speech_that_makes_no_text_there_is_said_here() -> None:
    talk, _ = opened(own=True)
    assert talk.receive(frame("livecap.transcription.stalled", voiced_ms=21_400)) == []
    assert talk.notices == ["21 s of speech made no text; the server decodes it anew"]


@pytest.mark.parametrize("answer", ["committed", "error", "error without an id"])
def test_the_end_with_another_server(answer: str) -> None:
    talk = Talk()
    talk.hear(3000)
    talk.tell("input_audio_buffer.speech_started", audio_start_ms=500, item_id="a")
    talk.finish()
    assert talk.sent[-1]["type"] == "input_audio_buffer.commit"
    if answer == "committed":
        talk.tell("input_audio_buffer.committed", item_id="a", previous_item_id=None)
    else:
        event_id = "finish" if answer == "error" else None
        code = "input_audio_buffer_commit_empty"
        talk.tell("input_audio_buffer.speech_stopped", audio_end_ms=3000, item_id="a")
        talk.tell("error", error={"code": code, "message": "Empty", "event_id": event_id})
    assert not talk.relay.is_done
    talk.item("completed", "a", transcript="the end")
    assert talk.relay.is_done
    events = talk.relay.take()
    assert text_of(events) == ["the end"]
    assert events[-1] == Caption(0, 500 * MS, 3000 * MS, (Word("the"), Word(" end")))


def test_a_commit_of_nothing_is_silence() -> None:
    talk = Talk()
    talk.hear(3000)
    talk.finish()
    talk.tell("input_audio_buffer.committed", item_id="a", previous_item_id=None)
    talk.item("completed", "a", transcript="")
    assert talk.relay.is_done
    assert talk.relay.take() == [Silence(0, 3000 * MS)]


def test_words_of_livecaps_server_have_times_on_the_medias_timeline() -> None:
    talk = Talk(own=True)
    talk.relay.hear(90 * RATE, np.zeros(4 * RATE, np.float32), "it was late")
    talk.flow()
    talk.turn("a", 500, 3000)
    words = [
        {"word": "Hello", "start": 1.0, "end": 1.5},
        {"word": "you", "start": None, "end": None},
    ]
    languages = [{"code": "en"}]
    talk.item("completed", "a", transcript="Hello you", words=words, languages=languages)
    events = talk.relay.take()
    assert events[0] == Gap(0, 90 * RATE, "it was late")
    assert events[1] == Silence(90 * RATE, 90 * RATE + 500 * MS)
    caption = events[2]
    assert isinstance(caption, Caption)
    assert caption.words == (Word("Hello", 91 * RATE, 91 * RATE + RATE // 2), Word(" you"))
    assert (caption.language, talk.relay.language) == ("en", "en")


@pytest.mark.parametrize(
    "odd",
    [
        {"type": None},
        {"type": "rate_limits.updated", "limits": []},
        {"type": f"{TRANSCRIPTION}.completed"},
        {"type": f"{TRANSCRIPTION}.delta", "item_id": 7, "delta": ["x"]},
        {"type": f"{TRANSCRIPTION}.segment", "item_id": "a", "text": "x"},
        {"type": "input_audio_buffer.speech_started", "audio_start_ms": "soon", "item_id": None},
        {"type": "input_audio_buffer.speech_stopped", "audio_end_ms": 1e300, "item_id": "q"},
        {"type": "livecap.transcription.partial", "text": 3, "audio_ms": float("nan")},
        {"type": "error", "error": "broken"},
        {"type": "conversation.item.added", "item": 5},
    ],
)
def test_odd_frames_do_no_harm(odd: Json) -> None:
    talk = Talk(own=True)
    talk.hear(3000)
    talk.relay.receive(json.dumps(odd))
    talk.turn("a", 500, 3000)
    talk.item("completed", "a", transcript="fine")
    talk.hear(1000)
    assert talk.relay.talk
    assert talk.relay.talk.refusal is None
    first = talk.relay.talk.turns[0].id if talk.relay.talk.turns else None
    assert text_of(talk.relay.take()) == (["fine"] if first is None else [])
    assert first in (None, "q")  # of which it was told that it had ended, and not how


# -- times and words -----------------------------------------------------------------------------


def test_the_clock_knows_gaps() -> None:
    clock = Clock()
    assert clock.skip(0, 500, 100) == 0  # nothing came before it
    clock.send(1000, 400)
    clock.send(1400, 100)
    assert clock.skip(1500, 1530, 100) == 30
    assert clock.skip(1530, 9000, 100) == 70
    assert clock.skip(9000, 9500, 100) == 0
    clock.send(9500, 50)
    assert clock.sent == 650
    assert [clock.start(at) for at in (0, 499, 500, 599, 600, 650, 999)] == [
        1000, 1499, 9500, 9500, 9500, 9550, 9550,
    ]  # fmt: skip
    assert [clock.end(at) for at in (0, 1, 500, 501, 600, 601, 650)] == [
        1000, 1001, 1500, 1500, 1500, 9501, 9550,
    ]  # fmt: skip
    clock.forget(620)
    assert clock.start(650) == 9550


def test_gaps_for_one_reason_are_one() -> None:
    story = Story()
    story.gap(100, 200, "lost")
    story.gap(500, 600, "late")
    story.gap(200, 300, "lost")
    story.pass_gaps(50)
    assert story.events == []
    story.pass_gaps(5000)
    assert story.events == [Gap(100, 300, "lost"), Gap(500, 600, "late")]


@pytest.mark.parametrize(
    ("transcript", "spoken", "texts"),
    [
        ("Hello,  you.", ["Hello,", "you."], ["Hello,", "  you."]),
        ("你好吗", ["你好", "吗"], ["你好", "吗"]),
        ("no no no", ["no", "no", "no"], ["no", " no", " no"]),
        ("that a", ["a"], None),  # a is in that, but is not it
        ("one two", ["one"], None),
        ("one", ["one", "two"], None),
        ("one", [], None),
        ("one", [""], None),
    ],
)
def test_words_joined_are_the_text(
    transcript: str, spoken: list[str], texts: list[str] | None
) -> None:
    told = [(word, 10 * n, 10 * n + 5) for n, word in enumerate(spoken)]
    words = words_of(transcript, told, lambda start, end: (start + 1, end + 1))
    assert "".join(word.text for word in words) == transcript
    assert all((word.start is not None) == (texts is not None) for word in words)
    assert texts is None or [word.text for word in words] == texts
