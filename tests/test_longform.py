"""Sequential long form: windows that go on from each other, as a session."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livecap.config import VadConfig
from livecap.events import RATE, Caption, Scores, Silence, Word
from livecap.longform import WINDOW, Conditioned
from livecap.session import SessionConfig
from livecap.vad import FRAME
from livecap.work import Hypothesis, Passage, Work

SCORES = Scores((), 0.0, -0.1, 1.0, 0.0)


def answer(work: Work, consumed: int, context: tuple[int, ...] = ()) -> Hypothesis:
    """A hypothesis with one word over what is consumed."""
    passage = Passage(0, consumed, (Word(f" w{work.number}", 0, consumed, 1.0),), SCORES)
    return Hypothesis(work, (passage,), "en", consumed=consumed, context=context)


def pcm(seconds: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.arange(int(seconds * RATE), dtype=np.float32) / 1e7 + 0.01


def test_each_window_starts_where_the_last_one_was_done() -> None:
    session = Conditioned(SessionConfig(vad=None, language="en"))
    audio = pcm(70)
    session.feed(audio, ())
    session.close()
    starts = []
    for consumed in (20.0, 29.5, 10.0, 10.5):
        work = session.work()
        assert work
        assert not session.has_work, "one window at a time"
        starts.append(work.segment.start)
        assert np.array_equal(work.segment.pcm, audio[starts[-1] : starts[-1] + WINDOW])
        session.accept(answer(work, int(consumed * RATE)))
    assert starts == [0, 20 * RATE, int(49.5 * RATE), int(59.5 * RATE)]
    assert session.is_done
    captions = [event for event in session.finish() if isinstance(event, Caption)]
    assert [caption.heard for caption in captions] == [*starts[1:], 70 * RATE]
    assert session.heard == session.total == 70 * RATE


def test_context_is_that_of_the_last_result() -> None:
    session = Conditioned(SessionConfig(vad=None, language="en"))
    session.feed(pcm(61), ())
    session.close()
    first = session.work()
    assert first
    assert first.context == ()
    session.accept(answer(first, WINDOW, context=(1, 2, 3)))
    second = session.work()
    assert second
    assert second.context == (1, 2, 3)
    session.accept(answer(second, WINDOW))
    third = session.work()
    assert third
    assert third.context == ()


def test_a_window_waits_until_it_is_whole() -> None:
    session = Conditioned(SessionConfig(vad=None, language="en"))
    session.feed(pcm(29), ())
    assert not session.has_work
    session.feed(pcm(1), ())
    assert session.has_work


def test_silence_is_stepped_over_and_said() -> None:
    vad = VadConfig(vad_min_speech=0, vad_min_silence=96, vad_pad=0, vad_tail=0)
    session = Conditioned(SessionConfig(vad=vad, language="en"))
    quiet, speech = 60 * RATE // FRAME, 2 * RATE // FRAME
    chances = [0.0] * quiet + [1.0] * speech + [0.0] * quiet
    session.feed(np.full(len(chances) * FRAME, 0.1, np.float32), chances)
    session.close()
    work = session.work()
    assert work
    assert work.segment.start == quiet * FRAME
    session.accept(answer(work, len(work.segment.pcm)))
    assert session.is_done
    events = session.finish()
    assert isinstance(events[0], Silence)
    assert (events[0].start, events[0].end) == (0, quiet * FRAME)
    assert isinstance(events[-1], Silence)
    assert events[-1].end == len(chances) * FRAME


def test_a_gap_keeps_media_times() -> None:
    session = Conditioned(SessionConfig(vad=None, language="en"))
    session.feed(pcm(10), ())
    session.skip(100 * RATE)
    session.feed(pcm(10), ())
    session.close()
    work = session.work()
    assert work
    places = [(piece.start, piece.length) for piece in work.segment.pieces]
    assert places == [(0, 10 * RATE), (100 * RATE, 10 * RATE)]
    session.accept(answer(work, 20 * RATE))
    events = session.finish()
    assert not [event for event in events if isinstance(event, Silence)], "a gap is no silence"
    assert [event.heard for event in events if isinstance(event, Caption)] == [110 * RATE]


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40 * RATE), min_size=1, max_size=8),
    steps=st.lists(st.integers(RATE, WINDOW), min_size=1, max_size=6),
)
def test_windows_do_not_depend_on_the_feed(sizes: list[int], steps: list[int]) -> None:
    audio = pcm(sum(sizes) / RATE)

    def run(parts: list[int]) -> list[tuple[int, int]]:
        session = Conditioned(SessionConfig(vad=None, language="en"))
        found, at = [], 0
        for size in [*parts, None]:
            if size is None:
                session.close()
            else:
                session.feed(audio[at : at + size], ())
                at += size
            while work := session.work():
                found.append((work.segment.start, work.segment.stop))
                session.accept(answer(work, steps[work.number % len(steps)]))
        return found

    assert run([len(audio)]) == run(sizes)


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_next_to_nothing_is_no_window(seconds: float) -> None:
    session = Conditioned(SessionConfig(vad=None, language="en"))
    session.feed(pcm(seconds), ())
    session.close()
    assert session.work() is None
    assert session.is_done


def test_digital_silence_is_never_a_window() -> None:
    session = Conditioned(SessionConfig(vad=None, language="en"))
    session.feed(np.zeros(45 * RATE, np.float32), ())
    session.feed(pcm(20), ())
    session.close()
    work = session.work()
    assert work
    assert work.segment.start == 30 * RATE
    session.accept(answer(work, len(work.segment.pcm)))
    rest = session.work()
    assert rest
    session.accept(answer(rest, len(rest.segment.pcm)))
    assert session.is_done
    first = session.finish()[0]
    assert isinstance(first, Silence)
    assert (first.start, first.end) == (0, 30 * RATE)
