"""Endpoints are Silero's; turns are told at once, each settled once its words are committed."""

import importlib.util
import random
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from types import ModuleType

import pytest
from engines import CLIPS, clip
from hypothesis import given, settings
from hypothesis import strategies as st
from live_models import WORDS, Reader, Run, Said, changed, played, probs, speak
from test_live_stream import CONFIG, Stream, audio, scripts, streams
from test_silero import ours, package

from livecap.config import VadConfig
from livecap.events import RATE, Caption, Event, Settled, VoiceActivity
from livecap.online.stream import OnlineStream
from livecap.vad.endpointer import FRAME, Edge, Endpointer, TurnEdge

ms = RATE // 1000
Turns = list[TurnEdge]
TOLD = changed(CONFIG, turns=True)


def turns_of(vad: VadConfig, silence: int, found: Sequence[float], size: int = 1 << 20) -> Turns:
    """The turns in these frames, pushed so many at a time; the audio goes on."""
    endpointer, turns = Endpointer(vad, endpoint_silence=silence), Turns()
    for at in range(0, len(found), size):
        frames = found[at : at + size]
        turns += endpointer.push(frames, (at + len(frames)) * FRAME)[1]
    return turns


def test_a_turn_begins_with_its_padding_and_ends_when_the_pause_is_over() -> None:
    pcm = speak([Said(0, 800 * ms, 2000 * ms)], before=1024 * ms)
    begin, end = turns_of(VadConfig(), 600 * ms, probs(pcm))
    assert (begin.begins, end.begins) == (True, False)
    assert begin.at == (1024 - 300) * ms
    assert 0 <= end.at - (1024 + 800 + 600) * ms < 64 * ms


def test_a_pause_that_is_too_short_ends_no_turn() -> None:
    pcm = speak([Said(0, 800 * ms, 500 * ms), Said(1, 800 * ms, 2000 * ms)])
    found = turns_of(VadConfig(), 700 * ms, probs(pcm))
    assert [turn.begins for turn in found] == [True, False]


def test_turns_do_not_overlap() -> None:
    script = [Said(0, 800 * ms, 610 * ms), Said(1, 800 * ms, 610 * ms)]
    found = turns_of(VadConfig(vad_pad=1000), 500 * ms, probs(speak(script)))
    times = [turn.at for turn in found]
    assert times == sorted(times)
    assert len(times) == 4


def test_speech_that_breaks_off_at_a_gap_has_ended_there() -> None:
    run = Run(OnlineStream(TOLD), Reader())
    pcm = speak([Said(0, 960 * ms, 0)])

    def voices() -> Sequence[Event]:
        run.answer()
        found = [event for event in run.events if isinstance(event, VoiceActivity)]
        run.events.clear()
        return found

    run.push(pcm)
    assert voices() == [VoiceActivity(0, begins=True)]
    run.skip(4 * RATE)
    assert voices() == [VoiceActivity(len(pcm) // 512 * 512, begins=False)]
    run.skip(4 * RATE)
    assert voices() == []
    later = run.end
    run.push(speak([Said(0, 960 * ms, 0)], before=160 * ms))
    assert voices() == [VoiceActivity(later, begins=True)]  # not before its audio


@settings(max_examples=80, deadline=None)
@given(stream=streams, seed=st.randoms(use_true_random=False))
def test_every_turn_is_settled_once_its_words_are_said(stream: Stream, seed: random.Random) -> None:
    """Whatever the feeds, and whenever hypotheses come."""
    run = played(audio(stream), TOLD, sizes=(160, 9000, 33), turns=seed)
    events = run.events
    voices = [event for event in events if isinstance(event, VoiceActivity)]
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
@given(script=scripts, size=st.sampled_from([1, 2, 25, 250]))
def test_turns_do_not_depend_on_the_pieces(script: list[Said], size: int) -> None:
    found = probs(speak(script))
    whole = turns_of(VadConfig(), 600 * ms, found)
    assert turns_of(VadConfig(), 600 * ms, found, size) == whole


@settings(max_examples=40, deadline=None)
@given(stream=streams)
def test_without_turns_nothing_of_them_is_told_and_all_else_is_the_same(stream: Stream) -> None:
    quiet, told = played(audio(stream), CONFIG), played(audio(stream), TOLD)
    assert not any(isinstance(event, VoiceActivity | Settled) for event in quiet.events)
    rest = [event for event in told.events if not isinstance(event, VoiceActivity | Settled)]
    assert rest == quiet.events


def test_a_segment_that_gets_too_long_is_settled_in_mid_speech() -> None:
    script = [Said(n % len(WORDS), 402 * ms, 80 * ms) for n in range(40)]
    run = played([(speak(script), -1)], TOLD)
    cuts = [event for event in run.events if isinstance(event, Settled) and not event.paused]
    assert len(cuts) >= 2
    assert all(cut.start < run.end for cut in cuts)


def test_the_beginning_of_a_turn_does_not_wait_for_hypotheses() -> None:
    live = OnlineStream(TOLD)
    run = Run(live, Reader())
    run.push(speak([Said(0, 1600 * ms, 800 * ms)]))
    assert run.poll()  # and its hypothesis does not come
    run.push(speak([Said(1, 1600 * ms, 0)]))
    assert [event.begins for event in live.events() if isinstance(event, VoiceActivity)] == [True]


# -- endpoints ----------------------------------------------------------------------------------

HIGH, BAND, LOW = 0.9, 0.4, 0.1  # above, between and below the thresholds of 0.5 and 0.35
LEVELS = {"#": HIGH, "=": BAND, ".": LOW}
FRAMES = VadConfig(
    vad_min_speech=64, vad_min_silence=96, vad_pad=0, vad_tail=0
)  # two and three frames


def edges_of(
    probs: Sequence[float], config: VadConfig = FRAMES, sizes: Sequence[int] = ()
) -> list[Edge]:
    """Starts and stops, with the frames pushed in pieces of these sizes."""
    endpointer, at, edges = Endpointer(config), 0, list[Edge]()
    for size in [*sizes, len(probs)]:
        piece = probs[at : at + size]
        at += len(piece)
        edges += endpointer.push(piece, at * FRAME)[0]
    edges += endpointer.finish(len(probs) * FRAME)[0]
    return [edge for edge in edges if edge.kind in ("start", "stop")]


def drawn(picture: str) -> list[float]:
    return [LEVELS[character] for character in picture]


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        # where speech is, in frames
        ("", []),
        ("......", []),
        ("======", []),  # the band alone starts nothing
        ("..####......", [(2, 6)]),
        ("####......", [(0, 4)]),
        ("..#.........", []),  # too short
        ("..##........", [(2, 4)]),  # just long enough
        ("..#=........", [(2, 4)]),  # the band goes on with what has started
        ("..####..####...", [(2, 12)]),  # a short pause
        ("..####...####...", [(2, 6), (9, 13)]),  # a pause just long enough
        ("..####==####...", [(2, 12)]),
        ("..####=.=####...", [(2, 13)]),  # quiet for two frames only
        ("..###.==#...", [(2, 5)]),  # the band does not end a pause that has begun
        ("..#..#..#......", [(2, 9)]),  # pauses count once speech goes on after them
        ("..####", [(2, 6)]),  # the end of the stream
        ("..####..", [(2, 6)]),  # ... in a pause that is too short yet
        ("..#", []),
        ("..#.", []),
    ],
)
def test_the_table_of_endpoints(picture: str, expected: list[tuple[int, int]]) -> None:
    edges = edges_of(drawn(picture))
    assert [edge.kind for edge in edges] == ["start", "stop"] * len(expected)
    spans = [(start.at, stop.at) for start, stop in zip(edges[::2], edges[1::2], strict=True)]
    assert spans == [(start * FRAME, stop * FRAME) for start, stop in expected]


def test_an_edge_says_when_it_was_known() -> None:
    start, stop = edges_of(drawn("..####......"))
    assert (start.at, start.known) == (2 * FRAME, 4 * FRAME)
    assert (stop.at, stop.known) == (6 * FRAME, 9 * FRAME)


probabilities = st.lists(st.sampled_from([HIGH, HIGH, BAND, LOW, LOW]), max_size=80)


@settings(max_examples=200, deadline=None)
@given(
    probabilities,
    st.integers(0, 5),
    st.integers(0, 8),
    st.lists(st.integers(0, 9), max_size=20),
)
def test_any_feeding_gives_the_same_edges(
    heard: list[float], speech: int, silence: int, sizes: list[int]
) -> None:
    config = VadConfig(
        vad_min_speech=32 * speech, vad_min_silence=32 * silence, vad_pad=0, vad_tail=0
    )
    edges = edges_of(heard, config, sizes)
    assert edges == edges_of(heard, config)
    assert [edge.kind for edge in edges] == ["start", "stop"] * (len(edges) // 2)
    spans = [edge.at for edge in edges]
    assert spans == sorted(spans)
    known = [edge.known for edge in edges]
    assert known == sorted(known)
    assert all(edge.at <= edge.known <= len(heard) * FRAME for edge in edges)


@cache
def their_rules() -> ModuleType:
    """The package's own offline rules, without the package."""
    spec = importlib.util.spec_from_file_location("utils_vad", package() / "utils_vad.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def their_spans(heard: Sequence[float], config: VadConfig) -> list[tuple[int, int]]:
    """Their pause is measured to the start of the last frame of it, ours to its end."""
    spans = their_rules().get_speech_timestamps_from_probs(
        list(heard),
        threshold=config.vad_threshold,
        min_speech_duration_ms=config.vad_min_speech,
        min_silence_duration_ms=config.vad_min_silence - 32,
        speech_pad_ms=0,
        audio_length_samples=len(heard) * FRAME,
    )
    return [(span["start"], span["end"]) for span in spans]


def our_spans(heard: Sequence[float], config: VadConfig) -> list[tuple[int, int]]:
    at = [edge.at for edge in edges_of(heard, config)]
    return list(zip(at[::2], at[1::2], strict=True))


DEFAULT = VadConfig()
PAUSE = [0.0] * 30  # at the end of the audio their rules differ: a short pause is speech there


@pytest.mark.parametrize("name", CLIPS)
def test_spans_of_speech_are_theirs(name: str) -> None:
    heard = [*ours().probs([ours().open()], [clip(name)])[0][0].tolist(), *PAUSE]
    spans = our_spans(heard, DEFAULT)
    assert spans
    assert spans == their_spans(heard, DEFAULT)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([HIGH, LOW]), max_size=120))
def test_spans_without_the_band_are_theirs(heard: list[float]) -> None:
    """In the band they wait with ending a pause until a frame is below it again; we don't."""
    assert our_spans([*heard, *PAUSE], DEFAULT) == their_spans([*heard, *PAUSE], DEFAULT)
