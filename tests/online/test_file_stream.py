"""A stream's events come in order and account for every sample, in whatever order work is done."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livecap.config import VadConfig
from livecap.events import RATE, Caption, Event, Language, Scores, Silence, Unrecognised, Word
from livecap.online.config import StreamConfig
from livecap.online.job import DecodeJob, Hypothesis, TextSpan
from livecap.online.speech_buffer import Piece
from livecap.online.stream import OnlineStream
from livecap.online.transcript import LANGUAGE_SEGMENTS, SURE_LANGUAGE
from livecap.vad.endpointer import FRAME

SCORES = Scores((), 0.0, -0.1, 1.0, 0.0)
CONFIG = StreamConfig(max_segment=3 * RATE, max_silence=2 * RATE, language="en", speaker="left")
Model = Callable[[DecodeJob], Hypothesis]

runs = st.lists(st.integers(0, 120), min_size=1, max_size=10)
streams = st.lists(  # runs of silence and speech, samples beyond, and the gap that follows
    st.tuples(runs, st.integers(0, FRAME - 1), st.sampled_from([0, 1, 5000, 100_000])),
    min_size=1,
    max_size=4,
)


def frames_of(lengths: Sequence[int]) -> list[float]:
    return [0.9 if n % 2 else 0.0 for n, length in enumerate(lengths) for _ in range(length)]


def numbered(start: int, length: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Audio whose samples say where they are on the media timeline."""
    return np.arange(start, start + length, dtype=np.float32)


def span(start: int, stop: int, text: str = " word") -> TextSpan:
    return TextSpan(start, stop, (Word(text, start, stop), Word(" untimed")), SCORES)


def attentive(job: DecodeJob) -> Hypothesis:
    """Hears one span in all of it."""
    return Hypothesis(job, (span(0, len(job.segment.pcm)),), language=job.language)


def deaf(job: DecodeJob) -> Hypothesis:
    return Hypothesis(job, (), reason="no speech")


def patchy(job: DecodeJob) -> Hypothesis:
    """Hears two spans in the first half, and nothing after them."""
    half = len(job.segment.pcm) // 2
    spans = (span(0, half // 2), span(half // 2 + 1, half))
    return Hypothesis(job, spans, language=job.language, reason="repetition")


@dataclass
class Run:
    """What came of a stream."""

    events: list[Event] = field(default_factory=list)
    jobs: list[DecodeJob] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0


def played(
    stream: Sequence[tuple[Sequence[int], int, int]],
    model: Model,
    config: StreamConfig = CONFIG,
    *,
    sizes: Sequence[int] = (8000,),
    shuffle: random.Random | None = None,
) -> Run:
    """Feed a stream in pieces; take what work there is, and answer it in any order."""
    session, run, asked = OnlineStream(config), Run(), list[DecodeJob]()

    def answer(*, all_of_it: bool) -> None:
        while (job := session.poll()) is not None:
            run.jobs.append(job)
            asked.append(job)
            if config.language is None:
                break
        if shuffle:
            shuffle.shuffle(asked)
        while asked and (all_of_it or not shuffle or shuffle.random() < 0.5):
            session.accept(model(asked.pop(0)))
            run.events += session.events()

    for lengths, beyond, gap in stream:
        frames = frames_of(lengths)
        pcm, at, turn = numbered(run.end, len(frames) * FRAME + beyond), 0, 0
        while at < len(pcm):
            stop = min(at + sizes[turn % len(sizes)], len(pcm))
            chances = frames[at // FRAME : stop // FRAME] if config.vad else []
            session.push(pcm[at:stop], chances)
            at, turn = stop, turn + 1
            answer(all_of_it=False)
        run.end += len(pcm)
        if gap:
            session.skip(run.end + gap)
            run.gaps.append((run.end, run.end + gap))
            run.end += gap
    session.finish()
    while not session.is_done:
        answer(all_of_it=True)
    run.events += session.close()
    assert session.decoded == sum(len(job.segment.pcm) for job in run.jobs)
    assert session.total == run.end - sum(stop - start for start, stop in run.gaps)
    return run


def pieces(run: Run) -> list[Piece]:
    return [piece for job in run.jobs for piece in job.segment.pieces]


def assert_tiles(run: Run, spans: list[tuple[int, int]]) -> None:
    """The spans and the gaps lie side by side and make up the whole stream."""
    at = 0
    for start, stop in sorted([*spans, *run.gaps]):
        assert start == at
        assert stop > start
        at = stop
    assert at == run.end


def spans_of(events: Sequence[Event], *kinds: type) -> list[tuple[int, int]]:
    return [
        (event.start, event.end)
        for event in events
        if isinstance(event, Silence | Unrecognised) and isinstance(event, kinds)
    ]


# -- the account of every sample ----------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(streams, st.lists(st.integers(300, 50_000), min_size=1, max_size=4))
def test_silence_segments_and_gaps_are_the_whole_stream(
    stream: list[tuple[list[int], int, int]], sizes: list[int]
) -> None:
    run = played(stream, attentive, sizes=sizes)
    heard = [(piece.start, piece.start + piece.length) for piece in pieces(run)]
    assert_tiles(run, [*spans_of(run.events, Silence), *heard])
    for job in run.jobs:  # and every sample has its own place, beyond gaps too
        for piece in job.segment.pieces:
            expected = numbered(piece.start, piece.length)
            got = job.segment.pcm[piece.offset : piece.offset + piece.length]
            assert np.array_equal(got, expected)


@settings(max_examples=40, deadline=None)
@given(streams)
def test_what_has_no_text_is_reported_whole(stream: list[tuple[list[int], int, int]]) -> None:
    run = played(stream, deaf)
    assert not any(isinstance(event, Caption) for event in run.events)
    assert_tiles(run, spans_of(run.events, Silence, Unrecognised))
    starts = [event.start for event in run.events if not isinstance(event, Language)]
    assert starts == sorted(starts)


@settings(max_examples=40, deadline=None)
@given(streams)
def test_what_has_text_in_part(stream: list[tuple[list[int], int, int]]) -> None:
    """Heard as far as the spans go, and lost from there to the segment's end."""
    run = played(stream, patchy)
    lost = spans_of(run.events, Unrecognised)
    for job in run.jobs:
        half = len(job.segment.pcm) // 2
        rest = {at for at in job.segment.pcm[half:].astype(int).tolist()}
        reported = {
            at
            for start, stop in lost
            if job.segment.start <= start < job.segment.stop
            for at in range(start, stop)
        }
        assert reported == rest


@settings(max_examples=40, deadline=None)
@given(streams)
def test_without_voice_activity_everything_is_heard(
    stream: list[tuple[list[int], int, int]],
) -> None:
    config = StreamConfig(vad=None, max_segment=3 * RATE, language="en")
    run = played(stream, attentive, config)
    assert spans_of(run.events, Silence) == []
    assert_tiles(run, [(job.segment.start, job.segment.stop) for job in run.jobs])
    assert all(len(job.segment.pcm) <= 3 * RATE for job in run.jobs)


# -- order --------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(streams, st.randoms(use_true_random=False), st.sampled_from([attentive, deaf, patchy]))
def test_the_order_of_work_does_not_matter(
    stream: list[tuple[list[int], int, int]], shuffle: random.Random, model: Model
) -> None:
    calm = played(stream, model)
    wild = played(stream, model, sizes=(3000, 700), shuffle=shuffle)
    assert wild.events == calm.events
    starts = [event.start for event in calm.events if not isinstance(event, Language)]
    assert starts == sorted(starts)


def test_a_result_waits_for_the_earlier_ones() -> None:
    session = OnlineStream(CONFIG)
    frames = frames_of([0, 60, 20, 60, 20, 60])
    session.push(numbered(0, len(frames) * FRAME), frames)
    session.finish()
    works = [session.poll() for _ in range(3)]
    first, second, third = (job for job in works if job)
    assert session.poll() is None
    assert [job.number for job in (first, second, third)] == [0, 1, 2]
    for job in (third, second):
        session.accept(attentive(job))
        assert session.events() == []
        assert not session.is_done
    session.accept(attentive(first))
    captions = [event for event in session.events() if isinstance(event, Caption)]
    assert [caption.segment for caption in captions] == [0, 1, 2]
    assert session.is_done
    assert session.events() == []


# -- places on the timeline ---------------------------------------------------------------------


def test_captions_lie_where_their_words_were_said() -> None:
    """A segment of two remarks, one second and two seconds in, with the silence left out."""
    vad = VadConfig(vad_pad=0, vad_tail=0)
    first, second, length = 30 * FRAME, 70 * FRAME, 20 * FRAME
    words = (
        Word(" a", 10, 20, 0.5),
        Word(" b"),
        Word(" c", length - 20, length + 10),
        Word(" d", length + 10, length + 15),
    )
    found = TextSpan(10, length + 20, words, SCORES)

    def model(job: DecodeJob) -> Hypothesis:
        assert job.segment.pieces == (Piece(0, first, length), Piece(length, second, length))
        return Hypothesis(job, (found,), language="de")

    config = StreamConfig(vad=vad, language="de", speaker="A")
    before, caption, between, after = played([([30, 20, 20, 20, 9], 0, 0)], model, config).events
    assert before == Silence(0, first, "A")
    assert between == Silence(first + length, second, "A")
    assert after == Silence(second + length, second + length + 9 * FRAME, "A")
    assert isinstance(caption, Caption)
    assert (caption.start, caption.processed_until) == (first + 10, second + 20)
    assert caption.words == (
        Word(" a", first + 10, first + 20, 0.5),
        Word(" b"),
        Word(" c", first + length - 20, first + length),  # it lies where more of it is
        Word(" d", second + 10, second + 15),
    )
    assert caption.text == " a b c d"
    assert (caption.segment, caption.language, caption.speaker) == (0, "de", "A")
    assert caption.scores == SCORES
    assert caption.final


def test_media_times_go_on_after_a_gap() -> None:
    stream = [([0, 40, 30], 100, 77_000), ([20, 40], 0, 0)]
    run = played(stream, attentive)
    [(start, stop)] = run.gaps
    assert (start, stop) == (70 * FRAME + 100, 70 * FRAME + 77_100)
    first, second = (job.segment for job in run.jobs)
    assert first.start == 0
    assert first.stop <= start  # what was heard before the gap is one segment, never across it
    assert second.start == stop + 20 * FRAME - 4800  # with its padding
    captions = [event for event in run.events if isinstance(event, Caption)]
    assert captions[1].start == second.start


def test_time_does_not_go_back() -> None:
    session = OnlineStream(CONFIG)
    session.push(numbered(0, 5000), [0.0] * (5000 // FRAME))
    with pytest.raises(AssertionError, match="time went back"):
        session.skip(4999)


def test_silence_alone() -> None:
    run = played([([100], 3, 0)], attentive)
    assert run.events == [Silence(0, 100 * FRAME + 3, "left")]
    assert run.jobs == []
    assert played([([0], 0, 0)], attentive).events == []


@settings(max_examples=30, deadline=None)
@given(streams)
def test_what_is_settled_stays_so(stream: list[tuple[list[int], int, int]]) -> None:
    """No caption begins before the time that was said to be settled."""
    session, end, settled = OnlineStream(CONFIG), 0, 0
    for lengths, beyond, gap in stream:
        frames = frames_of(lengths)
        pcm = numbered(end, len(frames) * FRAME + beyond)
        for at in range(0, len(pcm), 4000):
            stop = min(at + 4000, len(pcm))
            session.push(pcm[at:stop], frames[at // FRAME : stop // FRAME])
            assert session.final_until >= settled
            settled = session.final_until
            if session.has_job:
                assert session.next_start >= settled
                job = session.poll()
                assert job
                assert session.final_until <= job.segment.start
                session.accept(attentive(job))
                captions = [one for one in session.events() if isinstance(one, Caption)]
                assert all(one.start >= settled for one in captions)
        end += len(pcm) + gap
        session.skip(end)


# -- language -----------------------------------------------------------------------------------

GUESSED = StreamConfig(max_segment=3 * RATE)
TALK = [([0, *([60, 25] * 7)], 0, 0)]  # seven segments


def guessing(guesses: Sequence[tuple[str | None, float | None]]) -> Model:
    """Hears the languages in turn where none was given."""

    def model(job: DecodeJob) -> Hypothesis:
        language, probability = (job.language, None) if job.language else guesses[job.number]
        found = (span(0, len(job.segment.pcm)),)
        return Hypothesis(job, found, language=language, language_probability=probability)

    return model


def told(run: Run) -> tuple[list[str | None], list[Language]]:
    events = [event for event in run.events if isinstance(event, Language)]
    return [job.language for job in run.jobs], events


def test_a_sure_language_is_kept() -> None:
    languages, events = told(played(TALK, guessing([("fr", 0.9)]), GUESSED))
    assert languages == [None] + ["fr"] * 6
    assert events == [Language("fr", 0.9)]


def test_an_unsure_language_is_asked_for_again() -> None:
    guesses = [("fr", 0.3), ("fr", SURE_LANGUAGE)]
    languages, events = told(played(TALK, guessing(guesses), GUESSED))
    assert languages == [None, None] + ["fr"] * 5
    assert events == [Language("fr", (0.3 + SURE_LANGUAGE) / 2)]


def test_after_some_tries_the_likeliest_is_kept() -> None:
    guesses = [("fr", 0.4), ("de", 0.3), ("fr", 0.1), ("de", 0.3)]
    assert len(guesses) == LANGUAGE_SEGMENTS
    languages, events = told(played(TALK, guessing(guesses), GUESSED))
    assert languages == [None] * LANGUAGE_SEGMENTS + ["de"] * 3
    [event] = events
    assert event.code == "de"
    assert event.probability == pytest.approx(0.6 / 4)


def test_a_segment_that_says_nothing_of_the_language_is_no_try() -> None:
    guesses: list[tuple[str | None, float | None]] = [(None, None)] * 4 + [("it", 0.8)]
    languages, events = told(played(TALK, guessing(guesses), GUESSED))
    assert languages == [None] * 5 + ["it"] * 2
    assert events == [Language("it", 0.8)]


def test_a_given_language_is_never_asked_for() -> None:
    languages, events = told(played(TALK, guessing([]), CONFIG))
    assert set(languages) == {"en"}
    assert events == []


def test_one_at_a_time_while_the_language_is_unknown() -> None:
    session = OnlineStream(GUESSED)
    frames = frames_of(TALK[0][0])
    session.push(numbered(0, len(frames) * FRAME), frames)
    session.finish()
    first = session.poll()
    assert first is not None
    assert not session.has_job
    assert session.poll() is None
    session.accept(guessing([("es", 0.99)])(first))
    assert all(session.poll() for _ in range(6))


def test_the_language_comes_before_the_captions_in_it() -> None:
    events = played(TALK, guessing([("fr", 0.9)]), GUESSED).events
    kinds = [type(event) for event in events]
    assert kinds.index(Language) < kinds.index(Caption)


def test_voice_activity_and_its_options() -> None:
    """Padding and thresholds are those of the configuration."""
    vad = VadConfig(vad_threshold=0.95, vad_pad=0, vad_tail=0)
    config = StreamConfig(vad=vad, language="en")
    assert played([([5, 40], 0, 0)], attentive, config).jobs == []
    config = StreamConfig(vad=VadConfig(vad_pad=32, vad_tail=32), language="en")
    [job] = played([([5, 40, 30], 0, 0)], attentive, config).jobs
    assert (job.segment.start, job.segment.stop) == (4 * FRAME, 46 * FRAME)
