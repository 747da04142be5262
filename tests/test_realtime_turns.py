"""Turn detection: which items speech makes, what belongs to them, and when they are complete."""

import pytest
from realtime_client import (
    MS,
    Client,
    begins,
    ga,
    kinds,
    says,
    says_at,
    settled,
    stops,
)
from realtime_frames import check_order

from livecap.api.realtime import Dialect, Frame, SessionLimits
from livecap.api.realtime.dialects import STALLED, shown
from livecap.events import Gap, Language, PaceChange, Silence, Stalled, Unrecognised

TURN = ["speech_stopped", "committed", "added", "done"]


def speaking(**heard: object) -> Client:
    """A client whose hearing 1 has got five seconds of audio."""
    client = Client()
    if heard:
        client.configure(**heard)
    assert client.append(5000) == []
    assert client.hearings[1].turns
    return client


def test_a_turn_from_its_first_sound_to_its_transcript() -> None:
    client = speaking()
    [started] = client.heard(1, begins(200))
    assert started["audio_start_ms"] == 200
    item = started["item_id"]
    [delta] = client.heard(1, says("hello there"))
    assert (delta["item_id"], delta["delta"], delta["content_index"]) == (item, "hello there", 0)
    stopped, committed, added, done = client.heard(1, stops(1900))
    assert stopped["audio_end_ms"] == 1900
    assert {stopped["item_id"], committed["item_id"], added["item"]["id"]} == {item}
    assert committed["previous_item_id"] is None
    assert added["item"] == done["item"]
    assert added["item"]["role"] == "user"
    assert kinds(client.heard(1, says("friend"))) == ["delta"]
    [completed] = client.heard(1, settled(1900))
    assert completed["transcript"] == "hello there friend"
    assert completed["usage"] == {"type": "duration", "seconds": 1.7}
    check_order(client.frames, finished=True)


def test_one_append_with_speech_silence_and_speech_makes_two_items() -> None:
    client = speaking()
    told = client.heard(
        1,
        begins(100),
        stops(1500),
        begins(2000),
        says("one"),
        settled(1500),
        stops(4000),
        says("two"),
        settled(4000),
    )
    expected = ["speech_started", *TURN, "speech_started", "delta", "completed", *TURN]
    assert kinds(told) == [*expected, "delta", "completed"]
    finals = [frame for frame in told if frame["type"].endswith("completed")]
    assert [frame["transcript"] for frame in finals] == ["one", "two"]
    assert sum(len(pcm) for pcm in client.fed[1]) <= 5000 * MS
    client.commit()
    assert len(client.samples(1)) == 5000 * MS, "no sample is lost"
    client.ended(1)
    check_order(client.frames, finished=True)


def test_words_with_times_belong_to_the_item_in_whose_stretch_they_begin() -> None:
    client = speaking()
    client.heard(1, begins(100), stops(1500), begins(2000))
    first, second = (
        frame["item_id"] for frame in client.frames if frame["type"].endswith("speech_started")
    )
    client.heard(1, says_at(("a", 150), ("b", 1400), ("c", 2100)), says_at(("d", 1900)))
    assert client.text(first) == "a b"
    assert client.text(second) == "c d", "never back to an older item"


def test_padding_does_not_reach_into_the_item_before() -> None:
    client = speaking()
    client.heard(1, begins(100), stops(1500))
    [started] = client.heard(1, begins(1300))
    assert started["audio_start_ms"] == 1500


def test_speech_that_gets_too_long_is_split() -> None:
    client = speaking()
    client.heard(1, begins(100))
    told = client.heard(1, says("one two"), settled(3000, paused=False))
    assert kinds(told) == ["delta", *TURN, "completed", "speech_started"]
    assert told[1]["audio_end_ms"] == told[-1]["audio_start_ms"] == 3000
    assert kinds(client.heard(1, says("three"), stops(4500), settled(4500))) == [
        "delta", *TURN, "completed",
    ]  # fmt: skip
    check_order(client.frames, finished=True)


def test_a_split_inside_speech_that_has_ended_since_changes_nothing() -> None:
    client = speaking()
    client.heard(1, begins(100), stops(4000))
    assert client.heard(1, settled(3000, paused=False)) == []
    assert kinds(client.heard(1, settled(4000))) == ["completed"]


def test_a_pause_that_ends_no_turn_completes_nothing() -> None:
    client = speaking()
    client.heard(1, begins(100), says("one"))
    assert client.heard(1, settled(900)) == []
    assert kinds(client.heard(1, stops(2000))) == TURN
    assert kinds(client.heard(1, settled(2000))) == ["completed"]


def test_text_without_detected_speech_is_not_lost() -> None:
    client = speaking()
    told = client.heard(1, says("whisper", 700))
    assert kinds(told) == ["speech_started", "delta"]
    assert told[0]["audio_start_ms"] == 700


def test_what_clients_are_not_told_of() -> None:
    client = speaking()
    events = (
        Silence(0, 100), Gap(0, 5, "x"), PaceChange(0, 0, behind=True),
        Unrecognised(0, 9, "repetition"),
    )  # fmt: skip
    assert client.heard(1, *events) == []
    assert client.heard(77, begins(0)) == []
    assert client.ended(77) == []


def test_the_language_is_told_where_it_is_known() -> None:
    client = speaking()
    client.heard(1, Language("fr", 0.9), begins(0), says("oui"), stops(900))
    [completed] = client.heard(1, settled(900))
    assert completed["languages"] == [{"code": "fr"}]


def test_clear_in_mid_speech_abandons_the_item() -> None:
    client = speaking()
    client.heard(1, begins(100), stops(900), says("kept"), settled(900), begins(1500), says("lost"))
    abandoned = client.frames[-1]["item_id"]
    assert kinds(client.send("input_audio_buffer.clear")) == ["cleared"]
    assert client.dropped == [1]
    assert client.heard(1, stops(2500), settled(2500)) == []
    client.append(1000)
    [started] = client.heard(2, begins(5100))
    assert started["item_id"] != abandoned
    told = client.heard(2, stops(5900))
    assert told[1]["previous_item_id"] != abandoned
    assert told[1]["previous_item_id"] is not None
    client.heard(2, settled(5900))
    check_order(client.frames, finished=True)


def test_clear_keeps_items_whose_text_is_awaited() -> None:
    client = speaking()
    client.heard(1, begins(100), stops(900), begins(1500))
    client.send("input_audio_buffer.clear")
    assert client.finished == [1]
    told = client.heard(1, says_at(("kept", 200), ("lost", 1600)), settled(900))
    assert kinds(told) == ["delta", "completed"]
    assert told[1]["transcript"] == "kept"
    assert client.dropped == [1], "nothing else is wanted of it"
    check_order(client.frames, finished=True)


def test_commit_in_mid_speech() -> None:
    client = speaking()
    client.heard(1, begins(4000))
    item = client.frames[-1]["item_id"]
    told = client.commit()
    assert kinds(told) == ["committed", "added", "done"], "and no speech_stopped"
    assert told[0]["item_id"] == item
    assert client.finished == [1]
    assert client.heard(1, stops(4900), says("so")) == client.frames[-1:]
    [completed] = client.ended(1)
    assert completed["transcript"] == "so"
    assert completed["usage"]["seconds"] == 1.0
    client.append(300)
    assert 2 in client.hearings
    assert client.fed[2] == [] or client.clock > 5000 * MS
    check_order(client.frames, finished=True)


def test_commit_after_an_automatic_commit_is_empty() -> None:
    client = speaking()
    client.heard(1, begins(100), stops(4950))
    [frame] = client.commit()
    assert frame["error"]["code"] == "input_audio_buffer_commit_empty"
    assert "50.00 ms" in frame["error"]["message"]
    assert client.finished == []


def test_commit_in_silence_is_an_item_without_text() -> None:
    client = speaking()
    assert kinds(client.commit()) == ["committed", "added", "done"]
    [completed] = client.ended(1)
    assert completed["transcript"] == ""


def test_words_of_a_turn_that_voice_activity_told_too_late() -> None:
    """The commit came before: there is one item, and it has all of the text."""
    client = speaking()
    client.commit()
    told = client.heard(1, begins(100), stops(900), begins(2000), says("all of it"), settled(900))
    assert kinds(told) == ["delta"]
    assert kinds(client.ended(1)) == ["completed"]
    check_order(client.frames, finished=True)


def test_finals_wait_for_earlier_ones() -> None:
    client = speaking()
    client.heard(1, begins(100), stops(900))
    client.commit()
    client.append(2000)
    client.heard(2, begins(5100), stops(6000))
    assert kinds(client.heard(2, says("later"), settled(6000))) == ["delta"]
    assert kinds(client.heard(1, says("first"), settled(900))) == ["delta", "completed"]
    assert kinds(client.ended(1)) == ["completed", "completed"]
    check_order(client.frames, finished=True)


def test_new_settings_wait_until_nobody_speaks() -> None:
    client = speaking()
    client.heard(1, begins(100))
    client.configure(transcription={"language": "de"})
    client.append(500)
    assert list(client.hearings) == [1]
    client.heard(1, stops(5200))
    assert client.finished == [1]
    client.append(500)
    assert (client.hearings[1].language, client.hearings[2].language) == (None, "de")
    client.heard(1, says("one"), settled(5200))
    client.ended(1)
    check_order(client.frames, finished=True)


def test_a_later_hearing_waits_while_an_earlier_one_may_make_items() -> None:
    client = speaking()
    client.configure(turn_detection={"silence_duration_ms": 900})
    assert client.finished == [1], "nobody spoke"
    client.append(1000)
    assert client.hearings[2].silence_ms == 900
    assert client.heard(2, begins(5200), stops(5800)) == []
    told = client.heard(1, begins(3000))
    assert kinds(told) == ["speech_started"]
    told = client.ended(1)
    assert kinds(told) == [*TURN, "completed", "speech_started", *TURN]
    assert told[0]["audio_end_ms"] <= told[5]["audio_start_ms"]
    check_order(client.frames, finished=False)


def test_a_commit_of_audio_that_a_finished_hearing_has() -> None:
    client = speaking()
    client.configure(turn_detection={"silence_duration_ms": 900})
    assert kinds(client.commit()) == ["committed", "added", "done"]
    client.heard(1, begins(100), says("mine"), stops(900))
    [completed] = client.ended(1)
    assert completed["transcript"] == "mine"
    check_order(client.frames, finished=True)


def test_turn_detection_off_in_mid_speech_leaves_the_commit_to_the_client() -> None:
    client = speaking()
    client.heard(1, begins(100), stops(900), begins(1500), says_at(("one", 200), ("two", 1600)))
    client.configure(turn_detection=None)
    assert kinds(client.heard(1, stops(3000), settled(3000))) == ["completed"]
    client.append(1000)
    assert kinds(client.commit()) == ["committed", "added", "done"]
    assert kinds(client.ended(1)) == ["completed"]
    check_order(client.frames, finished=True)


def test_turn_detection_off_in_silence_begins_an_empty_buffer() -> None:
    client = speaking()
    client.append(200_000)
    client.configure(turn_detection=None)
    assert client.append(200) == [], "minutes of silence are not committed for the client"
    told = client.commit()
    assert kinds(told) == ["committed", "added", "done"]
    [completed] = client.ended(1)
    assert completed["usage"]["seconds"] < 0.5


def test_clear_while_a_hearing_that_is_over_waits_for_an_older_one() -> None:
    client = speaking()
    for silence in (900, 800):
        client.configure(turn_detection={"silence_duration_ms": silence})
        client.append(1000)
    client.heard(2, begins(5100), says("lost"))
    assert client.ended(2) == []
    assert kinds(client.send("input_audio_buffer.clear")) == ["cleared"]
    assert client.dropped == [1, 3]
    assert client.session.pending == 0


def test_turn_detection_on_commits_what_was_left_to_the_client() -> None:
    client = Client()
    client.configure(turn_detection=None)
    client.append(1000)
    told = client.send("session.update", session=ga(turn_detection={"type": "server_vad"}))
    assert kinds(told) == ["committed", "added", "done", "updated"]
    client.append(1000)
    assert [one.turns for one in client.hearings.values()] == [False, True]
    assert kinds(client.ended(1)) == ["completed"]


@pytest.mark.parametrize("text", ["It is so.", "Is it?", "真的。", 'He said "yes."', "¿Qué?"])
def test_semantic_turns_end_with_a_sentence(text: str) -> None:
    client = speaking(turn_detection={"type": "semantic_vad"})
    client.heard(1, begins(100))
    assert client.heard(1, stops(2000)) == [], "not before it is known what was said"
    told = client.heard(1, says(text), settled(2000))
    assert kinds(told) == ["delta", *TURN, "completed"]
    assert told[1]["audio_end_ms"] == 2000


@pytest.mark.parametrize(
    ("eagerness", "wait"), [("low", 8000), ("medium", 4000), ("auto", 4000), ("high", 2000)]
)
def test_semantic_turns_wait_where_a_sentence_goes_on(eagerness: str, wait: int) -> None:
    client = speaking(turn_detection={"type": "semantic_vad", "eagerness": eagerness})
    client.append(10_000)
    client.heard(1, begins(100), stops(14_000))
    assert kinds(client.heard(1, says("I mean..."), settled(14_000))) == ["delta"]
    assert client.append(wait - 500 - 1100) == []
    told = client.append(200)
    assert kinds(told) == [*TURN, "completed"]
    assert told[0]["audio_end_ms"] == 14_000 + wait - 500


def test_semantic_turns_go_on_after_a_pause() -> None:
    client = speaking(turn_detection={"type": "semantic_vad", "eagerness": "high"})
    client.heard(1, begins(100), stops(1000), says("I mean"), settled(1000))
    assert client.heard(1, begins(1600)) == []
    told = client.heard(1, says("it"), stops(2500), says("works."), settled(2500))
    assert kinds(told) == ["delta", "delta", *TURN, "completed"]
    assert told[-1]["transcript"] == "I mean it works."
    client.heard(1, begins(2600), says("or"), stops(3000), settled(3000))
    told = client.heard(1, begins(4900))
    assert kinds(told) == [*TURN, "completed", "speech_started"], "too late to go on"
    check_order(client.frames, finished=False)


def test_semantic_turns_do_not_grow_for_ever() -> None:
    client = speaking(turn_detection={"type": "semantic_vad"})
    client.heard(1, begins(0), stops(121_000), says("and and"))
    assert kinds(client.heard(1, settled(121_000))) == [*TURN, "completed"]


def test_partials_hold_the_whole_hypothesis() -> None:
    client = Client()
    client.send("session.update", session={"include": ["livecap.partial"]})
    client.append(3000)
    client.heard(1, begins(0))
    told = client.heard(1, says("", tail=" hell no"))
    assert [(f["text"], f["stable_chars"], f["seq"]) for f in told] == [("hell no", 0, 1)]
    delta, partial = client.heard(1, says("hello", tail=" there", heard=2000))
    assert partial["text"] == "hello there"
    assert partial["text"][: partial["stable_chars"]] == delta["delta"]
    assert partial["audio_ms"] == 2000
    delta, partial = client.heard(1, says("friend"))
    assert partial["text"] == "hello friend"
    assert client.heard(1, says("")) == [], "nothing has changed"


def test_speech_that_makes_no_text_is_told_to_those_who_follow() -> None:
    client = Client(session={"include": ["livecap.partial"]})
    client.append(3000)
    stall = Stalled(500 * MS, 2500 * MS, 1800 * MS)
    [told] = client.heard(1, begins(0), stall)[1:]
    assert told["type"] == "livecap.transcription.stalled"
    times = ("audio_start_ms", "audio_end_ms", "voiced_ms")
    assert [told[name] for name in times] == [500, 2500, 1800]
    others = Client()
    others.append(3000)
    assert others.heard(1, stall) == []


@pytest.mark.parametrize("dialect", ["vllm", "mstar", "openai-beta"])
def test_only_dialects_with_names_of_our_own_have_it(dialect: Dialect) -> None:
    event: dict[str, object] = {"type": STALLED, "voiced_ms": 20_000}
    assert shown(dialect, event) == (event if dialect == "openai-beta" else None)


def test_only_partials_may_be_replaced_by_newer_ones() -> None:
    client = Client(session={"include": ["livecap.partial"]})
    client.append(3000)
    actions = client.session.accept(1, [begins(0), says("one", tail=" tw")])
    frames = [action for action in actions if isinstance(action, Frame)]
    assert len(frames) == len(actions) == 3
    assert [bool(frame.coalesce) for frame in frames] == [False, False, True]
    assert frames[2].event["type"] == "livecap.transcription.partial"


def test_words_on_request() -> None:
    client = Client(session={"include": ["livecap.words"]})
    client.append(3000)
    assert client.hearings[1].words
    client.heard(
        1, begins(100), says_at(("one", 200), ("two", 400)), says("three", 500), stops(900)
    )
    [completed] = client.heard(1, settled(900))
    assert completed["words"] == [
        {"word": "one", "start": 0.2, "end": 0.3},
        {"word": "two", "start": 0.4, "end": 0.5},
        {"word": "three", "start": None, "end": None},
    ]
    assert completed["segments"][0] == {"id": 0, "start": 0.2, "end": 0.5, "text": "one two"}
    assert (completed["start_ms"], completed["end_ms"]) == (100, 900)


def test_log_probabilities_of_words_that_have_one() -> None:
    client = Client(session={"include": ["item.input_audio_transcription.logprobs"]})
    client.append(3000)
    client.heard(1, begins(0))
    [delta] = client.heard(1, says_at(("é", 200)))
    assert delta["logprobs"] == [
        {"token": " é", "logprob": pytest.approx(-0.693, abs=1e-3), "bytes": [32, 195, 169]}
    ]
    [delta] = client.heard(1, says("none"))
    assert delta["logprobs"] is None
    *_, completed = client.heard(1, stops(900), settled(900))
    assert len(completed["logprobs"]) == 1


def test_a_session_that_goes_on_for_ever_does_not_grow() -> None:
    client = Client(limits=SessionLimits(items=5))
    for turn in range(40):
        at = turn * 1000
        client.append(1000)
        client.heard(1, begins(at), says(f"turn {turn}"), stops(at + 900), settled(at + 900))
    ids = [f["item_id"] for f in client.frames if f["type"].endswith("completed")]
    found = [client.send("conversation.item.retrieve", item_id=one)[0] for one in ids]
    assert kinds(found) == ["error"] * 35 + ["retrieved"] * 5
    assert client.session.pending == 1
