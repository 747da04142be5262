"""Commits without turn detection, every row of the rules; and clears, failures, retrieval."""

import numpy as np
import pytest
from realtime_client import MS, Client, begins, error, kinds, says, settled, stops
from realtime_frames import check_order

from livecap.api.realtime import SessionLimits
from livecap.errors import ConfigError, CorruptModel, EngineFault

COMMIT = ["committed", "added", "done"]


def manual(limits: SessionLimits | None = None, **query: str) -> Client:
    """A client that commits itself."""
    client = Client({"turn_detection": "none", **query}, limits=limits)
    assert client.frames[0]["session"]["audio"]["input"]["turn_detection"] is None
    return client


def test_a_commit_makes_an_item() -> None:
    client = manual()
    client.append(1000)
    assert not client.hearings[1].turns
    [delta] = client.heard(1, says("early"))
    told = client.commit()
    assert kinds(told) == COMMIT
    assert told[0]["item_id"] == delta["item_id"], "the id was reserved"
    assert client.finished == [1]
    assert len(client.samples(1)) == 1000 * MS
    assert kinds(client.heard(1, says("and late"))) == ["delta"]
    [completed] = client.ended(1)
    assert completed["transcript"] == "early and late"
    assert completed["usage"]["seconds"] == 1.0
    check_order(client.frames, finished=True)


def test_the_clock_goes_on_over_commits_and_clears() -> None:
    client = manual()
    client.append(1000)
    client.commit()
    client.append(500)
    client.send("input_audio_buffer.clear")
    client.append(250)
    client.commit()
    assert [len(client.samples(number)) for number in (1, 3)] == [1000 * MS, 250 * MS]
    assert client.clock == 1750 * MS
    assert client.dropped == [2]


@pytest.mark.parametrize(
    ("least", "held", "is_committed"),
    [(100, 0, False), (100, 99, False), (100, 100, True), (0, 0, False), (0, 1, True)],
)
def test_the_least_that_can_be_committed(least: int, held: int, is_committed: bool) -> None:
    client = manual(SessionLimits(min_commit_ms=least))
    client.append(held)
    told = client.commit()
    if is_committed:
        assert kinds(told) == COMMIT
        return
    body = error(told)
    assert body["code"] == "input_audio_buffer_commit_empty"
    assert body["param"] is None
    assert f"{held:.2f} ms" in body["message"]
    client.append(100)
    assert kinds(client.commit()) == COMMIT, "the buffer was kept"
    assert len(client.samples(1)) == (100 + held) * MS


def test_audio_without_speech_is_completed_all_the_same() -> None:
    client = manual()
    client.append(1000)
    client.commit()
    [completed] = client.ended(1)
    assert completed["transcript"] == ""
    assert "languages" not in completed


@pytest.mark.parametrize("pieces", [1, 7, 100])
def test_a_full_buffer_is_committed_for_the_client(pieces: int) -> None:
    client = manual(SessionLimits(max_buffer_s=2))
    told = [frame for _ in range(pieces) for frame in client.append(5000 / pieces, rate=24_000)]
    assert kinds(told) == [*COMMIT, *COMMIT]
    assert [len(client.samples(number)) for number in (1, 2)] == [2000 * MS, 2000 * MS]
    client.commit()
    assert len(client.samples(3)) == client.clock - 4000 * MS
    for number in (2, 3, 1):
        client.ended(number)
    check_order(client.frames, finished=True)


def test_finals_are_in_the_order_of_the_commits() -> None:
    client = manual()
    for _ in range(3):
        client.append(200)
        client.commit()
    assert kinds(client.heard(2, says("two"))) == ["delta"], "text need not wait"
    assert client.ended(2) == []
    assert client.ended(3) == []
    finals = client.ended(1)
    assert [frame["transcript"] for frame in finals] == ["", "two", ""]
    check_order(client.frames, finished=True)


def test_clear_abandons_the_item_that_was_reserved() -> None:
    client = manual()
    client.append(1000)
    [delta] = client.heard(1, says("lost"))
    assert kinds(client.send("input_audio_buffer.clear")) == ["cleared"]
    assert client.dropped == [1]
    assert client.heard(1, says("more")) == []
    assert error(client.commit())["code"] == "input_audio_buffer_commit_empty"
    client.append(200)
    told = client.commit()
    assert told[0]["item_id"] != delta["item_id"]
    assert told[0]["previous_item_id"] is None


def test_clear_of_nothing_is_no_error() -> None:
    assert kinds(manual().send("input_audio_buffer.clear")) == ["cleared"]


def test_voice_activity_says_nothing_where_the_client_commits() -> None:
    client = manual()
    client.append(1000)
    assert client.heard(1, begins(0), stops(900), settled(900)) == []


def test_settings_apply_from_the_next_item() -> None:
    client = manual()
    client.append(500)
    client.configure(transcription={"language": "de", "prompt": "names", "keywords": ["Ada"]})
    client.append(500)
    client.commit()
    client.append(500)
    assert [one.language for one in client.hearings.values()] == [None, "de"]
    assert client.hearings[2].prompt == "names"
    assert client.hearings[2].keywords == ("Ada",)


def test_a_hearing_that_fails_is_a_failed_item() -> None:
    client = manual()
    client.append(500)
    client.commit()
    fault = CorruptModel("/home/x/model.bin is damaged", remedy="Fetch it again")
    [failed] = client.ended(1, fault)
    assert failed["type"].endswith("failed")
    assert failed["error"]["type"] == "server_error"
    assert failed["error"]["code"] == "transcription_failed"
    assert "/home" not in failed["error"]["message"]
    client.append(500)
    assert kinds(client.commit()) == COMMIT
    assert kinds(client.ended(2)) == ["completed"]
    check_order(client.frames, finished=True)


def test_a_hearing_that_fails_before_the_commit() -> None:
    client = manual()
    client.append(500)
    refused = ConfigError("tiny can't hear Welsh", remedy="It hears: en")
    assert client.ended(1, refused) == []
    assert client.append(500) == []
    assert list(client.hearings) == [1], "nobody would hear the beginning"
    told = client.commit()
    assert kinds(told) == [*COMMIT, "failed"]
    assert "Welsh" in told[-1]["error"]["message"]
    client.append(500)
    assert 2 in client.hearings
    check_order(client.frames, finished=True)


def test_with_turn_detection_a_failed_hearing_is_tried_again() -> None:
    client = Client()
    client.append(1000)
    body = error(client.ended(1, ConfigError("tiny can't hear Welsh", remedy="It hears: en")))
    assert body["code"] == "transcription_failed"
    assert body["type"] == "server_error"
    assert client.append(4900) == []
    assert list(client.hearings) == [1], "but not at every event"
    client.append(200)
    client.append(200)
    assert list(client.hearings) == [1, 2]
    client.ended(2, ConfigError("tiny can't hear Welsh", remedy="It hears: en"))
    client.configure(transcription={"language": "en"})
    client.append(200)
    assert 3 in client.hearings, "new settings may help"


def test_speech_under_way_fails_with_its_hearing() -> None:
    client = Client()
    client.append(1000)
    client.heard(1, begins(0), says("half"))
    told = client.ended(1, CorruptModel("x", remedy="y"))
    assert kinds(told) == ["speech_stopped", *COMMIT, "failed"]
    [frame] = client.send("conversation.item.retrieve", item_id=told[-1]["item_id"])
    assert frame["item"]["content"][0]["transcript"] is None
    check_order(client.frames[:-1], finished=True)


def test_a_stream_that_stops_by_itself_has_failed() -> None:
    client = manual()
    client.append(500)
    client.ended(1)
    assert kinds(client.commit()) == [*COMMIT, "failed"]


def test_nothing_can_be_heard_without_an_engine() -> None:
    client = manual()
    client.append(500)
    client.commit()
    client.append(500)
    told = client.ended(1, EngineFault("broke off", remedy="report it"))
    assert kinds(told) == ["failed", "error"]
    assert told[1]["error"]["code"] == "internal_error"
    assert client.close
    assert client.close.code == 1011
    assert client.append(100) == []
    check_order(client.frames, finished=True)


def test_commits_whose_text_is_awaited_are_limited() -> None:
    client = manual(SessionLimits(pending=3))
    for _ in range(3):
        client.append(100)
        client.commit()
    client.append(100)
    body = error(client.commit())
    assert (body["code"], body["type"]) == ("rate_limit_exceeded", "rate_limit_error")
    client.ended(1)
    assert kinds(client.commit()) == COMMIT
    assert client.session.pending == 3


def test_items_can_be_retrieved_and_deleted() -> None:
    client = manual()
    client.append(500)
    item = client.commit()[0]["item_id"]

    def retrieve() -> dict[str, object]:
        [frame] = client.send("conversation.item.retrieve", item_id=item)
        found: dict[str, object] = frame["item"]["content"][0]
        return found

    assert retrieve() == {"type": "input_audio", "transcript": None}
    client.heard(1, says("kept"))
    client.ended(1)
    assert retrieve() == {"type": "input_audio", "transcript": "kept"}
    [deleted] = client.send("conversation.item.delete", item_id=item)
    assert (deleted["type"], deleted["item_id"]) == ("conversation.item.deleted", item)
    body = error(client.send("conversation.item.retrieve", item_id=item))
    assert (body["code"], body["param"]) == ("item_not_found", "item_id")


def test_a_deleted_item_still_gets_its_transcript() -> None:
    client = manual()
    client.append(500)
    item = client.commit()[0]["item_id"]
    client.send("conversation.item.delete", item_id=item)
    assert kinds(client.ended(1)) == ["completed"]


@pytest.mark.parametrize("kind", ["session.close", "transcription.done", "input_audio.end"])
def test_the_client_says_that_it_is_done(kind: str) -> None:
    client = manual()
    client.append(50)
    assert kinds(client.send(kind)) == COMMIT, "however little there is"
    assert client.append(500) == []
    assert client.close is None
    assert kinds(client.heard(1, says("bye"))) == ["delta"]
    assert kinds(client.ended(1)) == ["completed"]
    assert client.close
    assert (client.close.code, client.close.reason) == (1000, "")
    assert client.send("session.update", session={}) == []
    check_order(client.frames, finished=True)


def test_done_in_mid_speech() -> None:
    client = Client()
    client.append(2000)
    client.heard(1, begins(100))
    assert client.send("session.close") == []
    told = client.heard(1, stops(900), begins(1200), says("one"), settled(900))
    assert kinds(told) == ["speech_stopped", *COMMIT, "speech_started", "delta", "completed"]
    assert kinds(client.ended(1)) == ["speech_stopped", *COMMIT, "completed"]
    assert client.close
    check_order(client.frames, finished=True)


def test_done_with_nothing_closes_at_once() -> None:
    client = Client()
    client.send("session.close")
    assert client.close
    assert client.session.is_closed


@pytest.mark.parametrize(
    ("reason", "code", "close"),
    [
        ("idle", "session_idle_timeout", 1000),
        ("duration", "session_expired", 1001),
        ("shutdown", None, 1012),
    ],
)
def test_time_is_over(reason: str, code: str | None, close: int) -> None:
    client = manual()
    client.append(500)
    told = client.do(client.session.expire(reason))  # type: ignore[arg-type]  # one of the three
    assert kinds(told) == COMMIT, "what was said is still captioned"
    told = client.ended(1)
    assert kinds(told) == ["completed", "error"] if code else ["completed"]
    if code:
        assert told[1]["error"]["code"] == code
    assert client.close
    assert client.close.code == close
    assert client.do(client.session.expire("idle")) == []
    assert client.do(client.session.give_up()) == []


def test_the_longest_duration_is_named() -> None:
    client = Client(limits=SessionLimits(max_session_s=5400))
    body = error(client.do(client.session.expire("duration")))
    assert "90 minutes" in body["message"]


def test_a_wait_that_takes_too_long_is_given_up() -> None:
    client = manual()
    for _ in range(2):
        client.append(500)
        client.commit()
    client.append(500)
    client.do(client.session.expire("shutdown"))
    client.ended(2)
    told = client.do(client.session.give_up())
    assert kinds(told) == ["failed", "completed", "failed"]
    assert client.close
    assert client.close.code == 1012
    assert client.dropped == [1, 3]
    check_order(client.frames, finished=True)


def test_giving_up_in_mid_speech() -> None:
    client = Client()
    client.append(500)
    client.heard(1, begins(0))
    told = client.do(client.session.give_up())
    assert kinds(told) == ["speech_stopped", *COMMIT, "failed", "error"]
    assert client.close
    assert client.close.code == 1011
    check_order(client.frames, finished=True)


def test_audio_of_a_media_track() -> None:
    client = Client(media_rate=48_000)
    body = error(client.append(100))
    assert (body["code"], body["param"]) == ("not_supported", "type")
    client.do(client.session.sound(np.zeros(48_000, np.int16)))
    assert kinds(client.commit()) == COMMIT
    assert len(client.samples(1)) == 1000 * MS
    assert client.session.settings.form.rate == 48_000
