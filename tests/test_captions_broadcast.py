"""A broadcast: lines once and for good, to all readers, whenever they come and however slow."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livecap.api.viewers import Broadcast, Hub, Part, Viewer
from livecap.api.viewers import channel as broadcasts
from livecap.api.viewers.documents import FORMATS, written
from livecap.api.viewers.registry import LINGER, may_read
from livecap.events import RATE, Caption, Event, Gap, Silence, Word


def word(text: str, at: float | None = None) -> Word:
    if at is None:
        return Word(text)
    return Word(text, round(at * RATE), round((at + 0.4) * RATE), 0.9)


def caption(*words: Word, tail: str = "", final: bool = False, at: float = 0.0) -> Caption:
    start = words[0].start if words and words[0].start is not None else round(at * RATE)
    return Caption(0, start, start + RATE, tuple(words), tail=tail, final=final, language="en")


def open_one() -> Broadcast:
    return Broadcast("sess_1", model="tiny.en", begun=0.0, keep=lambda line, then: then())


def told(reader: Viewer) -> list[dict[str, Any]]:
    found = b"".join(reader.take()).decode()
    return [
        json.loads(line.removeprefix("data: "))
        for line in found.splitlines()
        if line.startswith("data: ")
    ]


def test_words_become_a_line_when_a_caption_is_final() -> None:
    broadcast, reader = open_one(), None
    reader = broadcast.follow()
    broadcast.take(1, [caption(word(" Hello", 1.0), tail=" wor")])
    assert told(reader)[-1] == {"type": "tail", "text": "Hello", "tail": " wor"}
    broadcast.take(1, [caption(word(" world.", 1.5), final=True)])
    (line,) = told(reader)
    assert (line["id"], line["type"], line["text"]) == (1, "final", "Hello world.")
    assert (line["start_ms"], line["end_ms"], line["language"]) == (1000, 1900, "en")
    assert [one["word"] for one in line["words"]] == ["Hello", "world."]


def test_a_final_without_words_takes_the_tail_away() -> None:
    broadcast = open_one()
    reader = broadcast.follow()
    broadcast.take(1, [caption(tail=" uh")])
    broadcast.take(1, [caption(final=True)])
    assert told(reader) == [{"type": "tail", "text": "", "tail": ""}]
    assert not broadcast.lines


def test_late_readers_are_told_everything_first() -> None:
    broadcast = open_one()
    for n in range(5):
        broadcast.take(1, [caption(word(f" {n}", n), final=True)])
    broadcast.take(1, [caption(word(" now", 9.0), tail=" and")])
    found = told(broadcast.follow())
    assert [one.get("text") for one in found] == ["0", "1", "2", "3", "4", "now"]
    assert [one["id"] for one in told(broadcast.follow(after=3))[:-1]] == [4, 5]


def test_gaps_are_lines_and_silence_is_none() -> None:
    broadcast = open_one()
    events: list[Event] = [Gap(RATE, 3 * RATE, "the network"), Silence(3 * RATE, 5 * RATE)]
    broadcast.take(1, events)
    assert broadcast.events == events[:1]
    gap = {"type": "gap", "start_ms": 1000, "end_ms": 3000, "reason": "the network"}
    assert told(broadcast.follow())[0] == {"id": 1, **gap}


def test_the_end_tells_what_was_said_and_lets_readers_go() -> None:
    broadcast = open_one()
    reader = broadcast.follow()
    broadcast.take(1, [caption(word(" Last", 2.0), tail=" wor")])
    broadcast.end(5.0)
    assert [one["text"] for one in told(reader)] == ["Last"]
    assert reader.is_over
    assert broadcast.readers == 0
    late = broadcast.follow()
    assert [one["text"] for one in told(late)] == ["Last"]
    assert late.is_over


def test_lines_are_read_back_as_they_were() -> None:
    broadcast = open_one()
    said = caption(word(" Hello", 1.0), word(" 世界", 1.5), final=True)
    broadcast.take(1, [said])
    broadcast.take(1, [caption(Word(" untimed"), final=True, at=4.0)])
    timed, untimed = broadcast.events
    assert isinstance(timed, Caption)
    assert isinstance(untimed, Caption)
    assert timed.words == said.words
    assert untimed.words == (Word(" untimed"),)
    assert untimed.start == 4 * RATE


def test_only_the_last_lines_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcasts, "MOST_KEPT", 3)
    broadcast = open_one()
    for n in range(5):
        broadcast.take(1, [caption(word(f" {n}", n), final=True)])
    assert [one.get("id") for one in told(broadcast.follow())[:-1]] == [3, 4, 5]
    assert [one.get("id") for one in told(broadcast.follow(after=4))[:-1]] == [5]


def test_one_stream_ends_while_the_next_has_begun() -> None:
    broadcast = open_one()
    broadcast.take(1, [caption(word(" One", 1.0))])
    broadcast.take(2, [caption(word(" Two", 3.0))])
    broadcast.take(1, [caption(word(" more", 1.5), final=True)])
    broadcast.finish(2)
    assert [event.text for event in broadcast.events if isinstance(event, Caption)] == [
        " One more",
        " Two",
    ]


def test_a_reader_that_takes_nothing_is_let_go_and_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(broadcasts, "MOST_WAITING", 10)
    broadcast = open_one()
    stalled, quick = broadcast.follow(), broadcast.follow()
    seen = []
    for n in range(30):
        broadcast.take(1, [caption(word(f" {n}", n), final=True)])
        seen += [one["text"] for one in told(quick)]
    assert seen == [str(n) for n in range(30)]
    assert stalled.is_over
    assert not stalled.lines
    assert broadcast.readers == 1


def test_messages_are_made_once() -> None:
    broadcast = open_one()
    readers = [broadcast.follow() for _ in range(3)]
    broadcast.take(1, [caption(word(" Hi", 0.0), final=True)])
    first, *rest = [reader.take()[-1] for reader in readers]
    assert all(one is first for one in rest)


pieces = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 3), st.booleans(), st.text("ab ", max_size=5))
)


@settings(max_examples=100, deadline=None)
@given(script=pieces, joins=st.integers(0, 20))
def test_every_word_is_in_one_line_and_lines_never_change(
    script: list[tuple[int, int, bool, str]], joins: int
) -> None:
    broadcast, spoken, count = open_one(), dict[int, list[str]](), 0
    reader, seen = None, list[str]()
    for turn, (hearing, words, final, tail) in enumerate(script):
        if turn == joins:
            reader = broadcast.follow()
        said = []
        for _ in range(words):
            said.append(word(f" w{count}", count))
            spoken.setdefault(hearing, []).append(f"w{count}")
            count += 1
        before = list(broadcast.lines)
        broadcast.take(hearing, [caption(*said, tail=tail, final=final, at=turn)])
        assert list(broadcast.lines)[: len(before)] == before
        if reader:
            seen += [one["text"] for one in told(reader) if one["type"] == "final"]
    broadcast.end(1.0)
    if reader:
        seen += [one["text"] for one in told(reader) if one["type"] == "final"]
    lines = [event.text.split() for event in broadcast.events if isinstance(event, Caption)]
    assert sorted(w for line in lines for w in line) == sorted(
        w for said in spoken.values() for w in said
    )
    if reader:
        assert seen == [" ".join(line) for line in lines]


@pytest.mark.parametrize("form", FORMATS)
def test_documents(form: str) -> None:
    broadcast = open_one()
    broadcast.take(1, [caption(word(" Hello", 1.0), word(" world.", 1.5), final=True)])
    broadcast.take(1, [caption(word(" Again.", 4.0), final=True)])
    text = written(broadcast, form).decode()
    assert "Hello world." in text
    assert "Again." in text
    if form == "json":
        assert [one["text"].strip() for one in json.loads(text)["segments"]] == [
            "Hello world.",
            "Again.",
        ]


def test_the_hub_keeps_what_ended_for_a_while() -> None:
    now = [0.0]
    hub = Hub(lambda: now[0])
    empty, full = hub.open("a", model="m"), hub.open("b", model="m")
    full.take(1, [caption(word(" Hi", 0.0), final=True)])
    hub.close(empty)
    hub.close(full)
    assert hub.find("a") is None
    assert hub.find("b") is full.broadcast
    now[0] = LINGER + 1
    assert hub.find("b") is None


def test_links_are_given_and_taken_back() -> None:
    hub = Hub(lambda: 0.0)
    broadcast = hub.open("a", model="m").broadcast
    assert not may_read(broadcast, None)
    assert not may_read(broadcast, "")
    token = hub.share(broadcast)
    assert hub.share(broadcast) == token
    assert may_read(broadcast, token)
    assert not may_read(broadcast, token + "x")
    reader = broadcast.follow()
    hub.unshare(broadcast)
    assert reader.is_over
    assert not may_read(broadcast, token)
    assert hub.share(broadcast) != token


def test_what_is_forgotten_is_gone() -> None:
    hub = Hub(lambda: 0.0)
    speaker = hub.open("a", model="m")
    speaker.take(1, [caption(word(" Hi", 0.0), final=True)])
    assert hub.forget("a")
    assert hub.find("a") is speaker.broadcast  # still under way
    assert not speaker.broadcast.lines
    hub.close(speaker)
    assert hub.find("a") is None
    assert not hub.forget("a")


def test_a_reader_is_woken() -> None:
    async def read() -> list[dict[str, Any]]:
        broadcast = open_one()
        reader = broadcast.follow()
        reader.take()
        waiting = asyncio.create_task(reader.news.wait())
        await asyncio.sleep(0)
        broadcast.take(1, [caption(word(" Hi", 0.0), final=True)])
        await waiting
        return told(reader)

    assert [one["text"] for one in asyncio.run(read())] == ["Hi"]


def test_a_talk_goes_on_over_another_connection() -> None:
    """For its readers there is one: what is heard again is not told again, on one clock."""
    hub = Hub(lambda: 100.0)
    first = hub.open("a", model="m", part=Part())
    token, reader = hub.share(first.broadcast), first.broadcast.follow()
    first.take(1, [caption(word(" Good", 1.0), word(" morning.", 2.0), final=True)])
    first.take(1, [caption(word(" How", 4.0), final=False)])
    again = hub.open("b", model="m", part=Part("a", 2 * RATE))
    assert again.broadcast is first.broadcast
    assert again.broadcast.token == token
    first.take(1, [caption(word(" Nobody", 9.0), final=True)])  # it is not noticed to be dead
    hub.close(first)
    heard = [word(" morning.", 0.0), word(" How", 2.0), word(" are", 3.0), word(" you?", 4.0)]
    again.take(1, [caption(*heard, final=True), Gap(6 * RATE, 7 * RATE, "the network")])
    lines = again.broadcast.events
    assert [one.text for one in lines if isinstance(one, Caption)] == [
        " Good morning.",
        " How are you?",
    ]
    assert [one.start for one in lines if isinstance(one, Caption)] == [RATE, 4 * RATE]
    assert lines[2] == Gap(8 * RATE, 9 * RATE, "the network")
    assert not reader.is_over
    hub.close(again)
    assert reader.is_over


def test_readers_wait_for_a_speaker_whose_connection_broke(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        hub = Hub(lambda: 0.0)
        monkeypatch.setattr("livecap.api.viewers.registry.AWAY", 0.05)
        alone, one = hub.open("a", model="m"), hub.open("b", model="m", part=Part())
        for speaker in (alone, one):
            speaker.take(1, [caption(word(" Hi", 0.0), final=True)])
            hub.close(speaker, is_lost=True)
        assert alone.broadcast.ended is not None
        assert one.broadcast.ended is None
        back = hub.open("c", model="m", part=Part("b", RATE))
        await asyncio.sleep(0.1)
        assert back.broadcast.ended is None, "it has come back in time"
        hub.close(back, is_lost=True)
        while back.broadcast.ended is None:
            await asyncio.sleep(0.01)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ({}, None),
        ({"captions": ""}, Part()),
        ({"captions": "a", "captions_at": "1500"}, Part("a", 24_000)),
        *(
            ({"captions": "a", "captions_at": at}, Part("a"))
            for at in ("", "-1", "x", "9" * 30, "²")
        ),
    ],
)
def test_what_a_connection_says_of_its_talk(query: dict[str, str], part: Part | None) -> None:
    assert Part.of_query(query) == part


def test_only_who_began_a_talk_goes_on_with_it() -> None:
    """Its id is in every reader's link."""
    hub = Hub(lambda: 0.0, proof=lambda id: f"proof of {id}")
    first = hub.open("a", model="m", part=Part())
    first.take(1, [caption(word(" Mine.", 0.0), final=True)])
    stranger = hub.open("b", model="m", part=Part("a", key="guessed"))
    assert stranger.broadcast is not first.broadcast
    assert first.is_current
    assert hub.open("c", model="m", part=Part("a", key="proof of a")).broadcast is first.broadcast


def test_a_clock_that_cannot_be_right_silences_nobody() -> None:
    now = [0.0]
    hub = Hub(lambda: now[0])
    first = hub.open("a", model="m", part=Part())
    first.take(1, [caption(word(" One.", 0.0), final=True)])
    for at in (7 * 24 * 3600 * RATE, 30 * RATE, None):
        now[0] += 20
        speaker = hub.open("b", model="m", part=Part("a", at))
        speaker.take(1, [caption(word(" More.", 2.0), final=True)])
    assert len(first.broadcast.lines) == 4


def test_readers_are_let_go_when_the_server_stops() -> None:
    async def work() -> None:
        hub = Hub(lambda: 0.0)
        speaker = hub.open("a", model="m", part=Part())
        speaker.take(1, [caption(word(" Hi", 0.0), final=True)])
        reader = speaker.broadcast.follow()
        hub.close(speaker, is_lost=True)
        assert not reader.is_over
        hub.stop()
        assert reader.is_over

    asyncio.run(work())


def test_a_talk_that_is_deleted_while_nobody_speaks_is_gone() -> None:
    async def work() -> None:
        hub = Hub(lambda: 0.0)
        speaker = hub.open("a", model="m", part=Part())
        speaker.take(1, [caption(word(" Hi", 0.0), final=True)])
        hub.close(speaker, is_lost=True)
        assert hub.forget("a")
        assert hub.find("a") is None
        assert await hub.sessions("", "", 9) == []

    asyncio.run(work())
