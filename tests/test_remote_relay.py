"""Live audio that a server captions, cut apart anywhere: every word once, and every sample told."""

import random

import numpy as np
import pytest
from remote_pair import (
    MS,
    WANTED,
    FakeServer,
    Pair,
    Said,
    check_times,
    pieces,
    silence,
    speak,
    spoken,
    talk,
)

from livecap.client.relay import BACKLOG, LATE, Relay
from livecap.events import RATE, Caption, Gap, Silence, Unrecognised
from livecap.online.speech_buffer import Pcm


def played(pcm: Pcm, turns: random.Random, cuts: float) -> Pair:
    """Audio in pieces; frames go over when chance has it, and connections break."""
    pair = Pair()
    for piece in pieces(pcm, turns):
        pair.hear(piece)
        if pair.server is None and turns.random() < 0.5:
            pair.connect()
        for _ in range(turns.randrange(12)):
            if turns.random() < cuts:
                pair.cut()
            if turns.random() < 0.5:
                pair.send()
            else:
                pair.tell()
        pair.events += pair.relay.take()
    pair.end()
    return pair


@pytest.mark.parametrize("seed", range(12))
def test_cut_anywhere(seed: int) -> None:
    turns = random.Random(seed)
    pcm = speak(talk(turns, 60), before=700)
    whole = played(pcm, random.Random(seed), 0.0)
    assert whole.words == spoken(pcm)
    broken = played(pcm, turns, 0.03)
    assert broken.connections > 3
    assert broken.words == whole.words
    for pair in (whole, broken):
        check_times(pair.events, len(pcm))
        assert not any(isinstance(event, Gap | Unrecognised) for event in pair.events)
        numbers = [caption.segment for caption in pair.captions]
        assert numbers == list(range(len(numbers)))
    placed = [word for caption in whole.captions for word in caption.words]
    again = [word for caption in broken.captions for word in caption.words]
    for one, other in zip(placed, again, strict=True):
        assert (one.start, one.end) == pytest.approx((other.start, other.end), abs=RATE // 100)


def sentence(words: int = 4, pause: int = 1500) -> Pcm:
    return speak([*map(Said, range(words - 1)), Said(words - 1, silence=pause)])


def test_the_tail_is_shown_and_goes() -> None:
    pair = Pair()
    pair.connect()
    pair.hear(speak([*map(Said, range(6))]))
    pair.settle()
    tails = [event.tail for event in pair.events if isinstance(event, Caption)]
    assert tails[-1].startswith("One two three,")
    assert pair.words == []
    pair.hear(silence(900))
    pair.settle()
    last = pair.captions[-1]
    assert (last.text, last.tail, last.final) == ("One two three, Straße 界 it's", "", True)
    assert last.language == "en"


def test_what_was_final_is_not_sent_again() -> None:
    """And of what comes after it, all is."""
    pair = Pair()
    pair.connect()
    pcm = sentence()
    pair.hear(pcm)
    pair.settle()
    assert len(pair.captions) == 1
    pair.hear(sentence()[: 2 * RATE])  # somebody is speaking
    pair.settle()
    pair.cut()
    server = pair.connect()
    pair.settle()
    (run,) = server.runs.values()
    assert run.end < 2 * RATE + len(pcm) - pair.captions[0].processed_until + 1
    assert spoken(pcm) == pair.words
    pair.hear(silence(1500))
    pair.settle()
    assert pair.words == spoken(pcm) + spoken(sentence()[: 2 * RATE])


def test_gaps_keep_their_places() -> None:
    """Short ones are heard as silence, long ones end a turn, and one that goes on does so too."""
    pair = Pair()
    pair.connect()
    one, two = sentence(pause=0), sentence(2, pause=0)
    pair.hear(one, RATE, "it was late")
    short = RATE + len(one) + RATE // 4
    pair.hear(two, short, "a packet was lost")
    gone = short + len(two) + 60 * RATE
    pair.hear(np.zeros(0, np.float32), gone, "the cable was out")
    pair.settle()
    assert pair.words == spoken(one) + spoken(two)  # although nothing has come since
    pair.hear(two, gone + 40 * RATE, "the cable was out")
    pair.end()
    end = gone + 40 * RATE + len(two)
    check_times(pair.events, end)
    gaps = [event for event in pair.events if isinstance(event, Gap)]
    assert [gap.reason for gap in gaps] == [
        "it was late",
        "a packet was lost",
        *["the cable was out"] * (len(gaps) - 2),
    ]
    assert gaps[0] == Gap(0, RATE, "it was late")
    assert gaps[1] == Gap(RATE + len(one), short, "a packet was lost")
    assert (gaps[2].start, gaps[-1].end) == (short + len(two), gone + 40 * RATE)
    starts = [word.start for caption in pair.captions for word in caption.words]
    assert starts[-2] == pytest.approx(gone + 40 * RATE + 500 * MS, abs=RATE // 100)


def test_the_oldest_audio_is_given_up_where_too_much_waits() -> None:
    pair = Pair(Relay(WANTED, most=10 * RATE))
    pcm = sentence(5, 2000)
    for _ in range(10):
        pair.hear(pcm)
    lost = 10 * len(pcm) - 10 * RATE
    assert pair.relay.lag == 10
    pair.end()
    gaps = [event for event in pair.events if isinstance(event, Gap)]
    assert gaps == [Gap(0, lost, BACKLOG)]
    check_times(pair.events, 10 * len(pcm))
    assert pair.words == spoken(np.tile(pcm, 10)[lost:])


def test_what_waits_for_a_server_that_does_not_take_it() -> None:
    """The connection stands. What the server has, is not given up."""
    pair = Pair(Relay(WANTED, most=10 * RATE))
    pair.connect()
    pair.settle()
    pcm = sentence(5, 2000)
    for _ in range(2):
        pair.hear(pcm)
        while pair.send():  # and no answer comes
            pass
    taken = 2 * len(pcm)
    for _ in range(11):
        pair.hear(pcm)
    pair.end()
    (gap,) = (event for event in pair.events if isinstance(event, Gap))
    assert gap == Gap(taken, 13 * len(pcm) - 10 * RATE, BACKLOG)
    check_times(pair.events, 13 * len(pcm))
    every = np.tile(pcm, 13)
    heard = np.concatenate([every[:taken], silence(4000), every[gap.end :]])
    assert pair.words == spoken(heard)


def test_long_silence_is_not_kept() -> None:
    """No turn tells that it is final, but the server answers that it has come."""
    pair = Pair()
    pair.connect()
    for _ in range(300):
        pair.hear(silence(1000))
        pair.settle()
    kept = pair.relay._kept
    assert kept.count(0) <= LATE + 3 * RATE
    pair.cut()
    pair.hear(sentence())
    pair.end()
    assert pair.words == spoken(sentence())
    silent = [event for event in pair.events if isinstance(event, Silence)]
    assert (silent[0].start, silent[0].end // RATE) == (0, 300)


def test_a_session_that_ends_for_good_reasons_goes_on_in_another() -> None:
    pair = Pair()
    server = pair.connect()
    pcm = np.concatenate([sentence(), sentence(6)])
    pair.hear(pcm[: len(sentence()) + RATE])
    while pair.send() or len(server.said) < 3:
        pair.tell()
    server.expire("shutdown")  # it tells what it has heard, and closes with 1012
    pair.settle()
    assert pair.server is None
    pair.connect()
    pair.hear(pcm[len(sentence()) + RATE :])
    pair.end()
    text = " ".join(pair.words)
    assert text.startswith("One two three, Straße")
    check_times(pair.events, len(pcm))


def test_a_server_that_fails_at_some_speech_is_asked_again_and_then_it_is_left_out() -> None:
    bad = 3 * speak([Said(9, silence=1500)])  # it is too loud

    def failing(pcm: Pcm) -> bool:
        return bool(np.abs(pcm).max(initial=0) > 0.5)

    pair = Pair(make=lambda: FakeServer(failing))
    pair.connect()
    pcm = np.concatenate([sentence(), bad, silence(20_000), sentence(3)])
    pair.hear(pcm)
    pair.end()
    assert pair.words == spoken(sentence()) + spoken(sentence(3))
    check_times(pair.events, len(pcm))
    (lost,) = (event for event in pair.events if isinstance(event, Unrecognised))
    assert lost.start <= len(sentence()) + 500 * MS
    assert lost.end >= len(sentence()) + 740 * MS
    assert pair.connections == 4


def test_a_server_that_can_caption_nothing_is_given_up() -> None:
    pair = Pair(make=lambda: FakeServer(lambda pcm: True))
    pair.hear(sentence())
    for times in range(1, 4):
        pair.connect()
        pair.settle()
        assert pair.server is None
        assert (pair.relay.hopeless is not None) == (times == 3)
    assert "a fault" not in (pair.relay.hopeless or "")  # of what went wrong there, only the kind


def test_giving_up_says_what_was_not_captioned() -> None:
    pair = Pair()
    pair.connect()
    pair.hear(sentence())
    pair.settle()
    pair.hear(sentence())
    pair.relay.finish()
    pair.relay.give_up("the server is gone")
    pair.events += pair.relay.take()
    assert pair.relay.is_done
    assert pair.words == spoken(sentence())
    assert pair.events[-1] == Gap(
        pair.captions[0].processed_until, 2 * len(sentence()), "the server is gone"
    )
    check_times(pair.events, 2 * len(sentence()))


def test_nothing_at_all() -> None:
    pair = Pair()
    assert pair.end() == []


def test_lag_is_what_the_server_has_not_heard() -> None:
    pair = Pair()
    pair.hear(silence(3000))
    assert pair.relay.lag == 3
    pair.connect()
    pair.settle()
    assert pair.relay.lag == 0
    pair.hear(sentence(8, 0))
    assert pair.relay.lag > 3
    pair.settle()
    assert 0 < pair.relay.lag <= 1.2  # its last update was not long ago
