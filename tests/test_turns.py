"""Turns: told at once, each settled once, and never before what was said in it is captioned."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from live_models import WORDS, Reader, Run, Said, chances, played, speak
from test_live import CONFIG, Stream, audio, scripts, streams

from livecap.config import VadConfig
from livecap.events import RATE, Caption, Event, Settled, Voice
from livecap.live import Live
from livecap.turns import Turns

ms = RATE // 1000
TOLD = replace(CONFIG, turns=True)


def fed(turns: Turns, found: Sequence[float]) -> list[Event]:
    turns.feed(found)
    return turns.take()


def test_a_turn_begins_with_its_padding_and_ends_when_the_pause_is_over() -> None:
    pcm = speak([Said(0, 800 * ms, 2000 * ms)], before=1024 * ms)
    found = fed(Turns(VadConfig(), 600 * ms), chances(pcm))
    begin, end = found
    assert isinstance(begin, Voice)
    assert isinstance(end, Voice)
    assert (begin.begins, end.begins) == (True, False)
    assert begin.start == (1024 - 300) * ms
    assert 0 <= end.start - (1024 + 800 + 600) * ms < 64 * ms


def test_a_pause_that_is_too_short_ends_no_turn() -> None:
    pcm = speak([Said(0, 800 * ms, 500 * ms), Said(1, 800 * ms, 2000 * ms)])
    found = fed(Turns(VadConfig(), 700 * ms), chances(pcm))
    assert [event.begins for event in found if isinstance(event, Voice)] == [True, False]


def test_turns_do_not_overlap() -> None:
    script = [Said(0, 800 * ms, 610 * ms), Said(1, 800 * ms, 610 * ms)]
    found = fed(Turns(VadConfig(vad_pad=1000), 500 * ms), chances(speak(script)))
    times = [event.start for event in found if isinstance(event, Voice)]
    assert times == sorted(times)
    assert len(times) == 4


def test_speech_that_breaks_off_at_a_gap_has_ended_there() -> None:
    turns = Turns(VadConfig(), 600 * ms)
    pcm = speak([Said(0, 960 * ms, 0)])
    assert fed(turns, chances(pcm)) == [Voice(0, begins=True)]
    turns.skip(5 * RATE)
    assert turns.take() == [Voice(len(pcm) // 512 * 512, begins=False)]
    turns.skip(9 * RATE)
    assert turns.take() == []
    later = fed(turns, chances(speak([Said(0, 960 * ms, 0)], before=160 * ms)))
    assert later == [Voice(9 * RATE, begins=True)]  # not before its audio


@settings(max_examples=80, deadline=None)
@given(stream=streams, seed=st.randoms(use_true_random=False))
def test_every_turn_is_settled_once_its_words_are_said(stream: Stream, seed: random.Random) -> None:
    """Whatever the feeds, and whenever hypotheses come."""
    run = played(audio(stream), TOLD, sizes=(160, 9000, 33), turns=seed)
    events = run.events
    voices = [event for event in events if isinstance(event, Voice)]
    assert all(one.begins != other.begins for one, other in pairwise(voices))
    assert not voices or voices[0].begins
    times = [voice.start for voice in voices]
    assert times == sorted(times)
    for event in events:
        if isinstance(event, Settled):
            later = [e for e in events[events.index(event) :] if isinstance(e, Caption)]
            starts = [w.start for caption in later for w in caption.words]
            assert all(start is not None and start >= event.start for start in starts)
    ends = [voice.start for voice in voices if not voice.begins]
    settled = [event.start for event in events if isinstance(event, Settled) and event.paused]
    for end in ends:
        assert any(at >= end for at in settled)
    assert len(settled) <= len(ends) + len(stream)  # and where a part ends in mid-speech


@settings(max_examples=40, deadline=None)
@given(script=scripts, size=st.sampled_from([160, 333, 8000, 80_000]))
def test_turns_do_not_depend_on_the_feeds(script: list[Said], size: int) -> None:
    whole, parts = Turns(VadConfig(), 600 * ms), Turns(VadConfig(), 600 * ms)
    found = chances(speak(script))
    step = max(size // 512, 1)
    pieces = [event for at in range(0, len(found), step) for event in fed(parts, found[at:][:step])]
    assert pieces == fed(whole, found)


@settings(max_examples=40, deadline=None)
@given(stream=streams)
def test_without_turns_nothing_of_them_is_told_and_all_else_is_the_same(stream: Stream) -> None:
    quiet, told = played(audio(stream), CONFIG), played(audio(stream), TOLD)
    assert not any(isinstance(event, Voice | Settled) for event in quiet.events)
    rest = [event for event in told.events if not isinstance(event, Voice | Settled)]
    assert rest == quiet.events


def test_a_segment_that_gets_too_long_is_settled_in_mid_speech() -> None:
    script = [Said(n % len(WORDS), 402 * ms, 80 * ms) for n in range(40)]
    run = played([(speak(script), -1)], TOLD)
    cuts = [event for event in run.events if isinstance(event, Settled) and not event.paused]
    assert len(cuts) >= 2
    assert all(cut.start < run.end for cut in cuts)


def test_the_beginning_of_a_turn_does_not_wait_for_hypotheses() -> None:
    live = Live(TOLD)
    run = Run(live, Reader())
    run.feed(speak([Said(0, 1600 * ms, 800 * ms)]))
    assert run.take()  # and its hypothesis does not come
    run.feed(speak([Said(1, 1600 * ms, 0)]))
    assert [event.begins for event in live.events() if isinstance(event, Voice)] == [True]
