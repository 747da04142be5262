"""Sequential long form: windows that go on from each other, as a session."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livecap.config import VadConfig
from livecap.events import RATE, Caption, Scores, Silence, Word
from livecap.online.config import StreamConfig
from livecap.online.job import DecodeJob, Hypothesis, TextSpan
from livecap.online.stream import OnlineStream
from livecap.online.windows import WINDOW
from livecap.vad.endpointer import FRAME

SCORES = Scores((), 0.0, -0.1, 1.0, 0.0)


def answer(job: DecodeJob, consumed: int, context: tuple[int, ...] = ()) -> Hypothesis:
    """A hypothesis with one word over what is consumed."""
    span = TextSpan(0, consumed, (Word(f" w{job.number}", 0, consumed, 1.0),), SCORES)
    return Hypothesis(job, (span,), "en", consumed=consumed, context=context)


def pcm(seconds: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.arange(int(seconds * RATE), dtype=np.float32) / 1e7 + 0.01


def test_each_window_starts_where_the_last_one_was_done() -> None:
    session = OnlineStream(StreamConfig(sequential=True, vad=None, language="en"))
    audio = pcm(70)
    session.push(audio, ())
    session.finish()
    starts = []
    for consumed in (20.0, 29.5, 10.0, 10.5):
        job = session.poll()
        assert job
        assert not session.has_job, "one window at a time"
        starts.append(job.segment.start)
        assert np.array_equal(job.segment.pcm, audio[starts[-1] : starts[-1] + WINDOW])
        session.accept(answer(job, int(consumed * RATE)))
    assert starts == [0, 20 * RATE, int(49.5 * RATE), int(59.5 * RATE)]
    assert session.is_done
    captions = [event for event in session.close() if isinstance(event, Caption)]
    assert [caption.processed_until for caption in captions] == [*starts[1:], 70 * RATE]
    assert session.decoded == session.total == 70 * RATE


def test_context_is_that_of_the_last_result() -> None:
    session = OnlineStream(StreamConfig(sequential=True, vad=None, language="en"))
    session.push(pcm(61), ())
    session.finish()
    first = session.poll()
    assert first
    assert first.context == ()
    session.accept(answer(first, WINDOW, context=(1, 2, 3)))
    second = session.poll()
    assert second
    assert second.context == (1, 2, 3)
    session.accept(answer(second, WINDOW))
    third = session.poll()
    assert third
    assert third.context == ()


def test_a_window_waits_until_it_is_whole() -> None:
    session = OnlineStream(StreamConfig(sequential=True, vad=None, language="en"))
    session.push(pcm(29), ())
    assert not session.has_job
    session.push(pcm(1), ())
    assert session.has_job


def test_silence_is_stepped_over_and_said() -> None:
    vad = VadConfig(vad_min_speech=0, vad_min_silence=96, vad_pad=0, vad_tail=0)
    session = OnlineStream(StreamConfig(sequential=True, vad=vad, language="en"))
    quiet, speech = 60 * RATE // FRAME, 2 * RATE // FRAME
    chances = [0.0] * quiet + [1.0] * speech + [0.0] * quiet
    session.push(np.full(len(chances) * FRAME, 0.1, np.float32), chances)
    session.finish()
    job = session.poll()
    assert job
    assert job.segment.start == quiet * FRAME
    session.accept(answer(job, len(job.segment.pcm)))
    assert session.is_done
    events = session.close()
    assert isinstance(events[0], Silence)
    assert (events[0].start, events[0].end) == (0, quiet * FRAME)
    assert isinstance(events[-1], Silence)
    assert events[-1].end == len(chances) * FRAME


def test_a_gap_keeps_media_times() -> None:
    session = OnlineStream(StreamConfig(sequential=True, vad=None, language="en"))
    session.push(pcm(10), ())
    session.skip(100 * RATE)
    session.push(pcm(10), ())
    session.finish()
    job = session.poll()
    assert job
    places = [(piece.start, piece.length) for piece in job.segment.pieces]
    assert places == [(0, 10 * RATE), (100 * RATE, 10 * RATE)]
    session.accept(answer(job, 20 * RATE))
    events = session.close()
    assert not [event for event in events if isinstance(event, Silence)], "a gap is no silence"
    assert [event.processed_until for event in events if isinstance(event, Caption)] == [110 * RATE]


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40 * RATE), min_size=1, max_size=8),
    steps=st.lists(st.integers(RATE, WINDOW), min_size=1, max_size=6),
)
def test_windows_do_not_depend_on_the_feed(sizes: list[int], steps: list[int]) -> None:
    audio = pcm(sum(sizes) / RATE)

    def run(parts: list[int]) -> list[tuple[int, int]]:
        session = OnlineStream(StreamConfig(sequential=True, vad=None, language="en"))
        found, at = [], 0
        for size in [*parts, None]:
            if size is None:
                session.finish()
            else:
                session.push(audio[at : at + size], ())
                at += size
            while job := session.poll():
                found.append((job.segment.start, job.segment.stop))
                session.accept(answer(job, steps[job.number % len(steps)]))
        return found

    assert run([len(audio)]) == run(sizes)


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_next_to_nothing_is_no_window(seconds: float) -> None:
    session = OnlineStream(StreamConfig(sequential=True, vad=None, language="en"))
    session.push(pcm(seconds), ())
    session.finish()
    assert session.poll() is None
    assert session.is_done


def test_digital_silence_is_never_a_window() -> None:
    session = OnlineStream(StreamConfig(sequential=True, vad=None, language="en"))
    session.push(np.zeros(45 * RATE, np.float32), ())
    session.push(pcm(20), ())
    session.finish()
    job = session.poll()
    assert job
    assert job.segment.start == 30 * RATE
    session.accept(answer(job, len(job.segment.pcm)))
    rest = session.poll()
    assert rest
    session.accept(answer(rest, len(rest.segment.pcm)))
    assert session.is_done
    first = session.close()[0]
    assert isinstance(first, Silence)
    assert (first.start, first.end) == (0, 30 * RATE)
