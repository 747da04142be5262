"""A live stream says every word once, in order, whatever it is fed by and whenever it ends."""

import gc
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from live_models import (
    WORDS,
    Reader,
    Run,
    Said,
    changed,
    played,
    probs,
    read,
    speak,
)

from livecap.config import VadConfig
from livecap.events import RATE, Language, Silence, Unrecognised
from livecap.online.config import StreamConfig, UpdateConfig
from livecap.online.decoding import LANGUAGE_EVIDENCE
from livecap.online.job import DecodeJob
from livecap.online.policy import (
    AlignAtt,
    AppendOnly,
    CommitPolicy,
    LocalAgreement,
    Pending,
    Rollback,
)
from livecap.online.speech_buffer import Pcm
from livecap.online.stream import OnlineStream
from livecap.vad.endpointer import FRAME, Endpointer

# Short segments, so that short streams have many.
CONFIG = StreamConfig(
    max_segment=6 * RATE,
    max_silence=2 * RATE,
    language="en",
    updates=UpdateConfig(
        policy=LocalAgreement(),
        interval=RATE,
        endpoint_silence=RATE * 6 // 10,
        min_sentence=3 * RATE,
        catch_up=False,
    ),
)
POLICIES: tuple[CommitPolicy, ...] = (AppendOnly(), LocalAgreement(), Rollback(), AlignAtt())
policies = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)

ms = RATE // 1000
SILENCES = (80 * ms, 120 * ms, 120 * ms, 120 * ms, 400 * ms, 700 * ms, 1000 * ms, 3500 * ms)
said = st.builds(
    Said,
    word=st.one_of(st.integers(0, len(WORDS) - 1), st.just(0)),  # "no no no"
    length=st.sampled_from([300 * ms, 402 * ms, 500 * ms]),
    silence=st.sampled_from(SILENCES),
)
scripts = st.lists(said, max_size=24)
befores = st.sampled_from([0, 100, FRAME, 700 * ms])
gaps = st.sampled_from([-1, 0, 1, 5000, 100_000])
streams = st.lists(st.tuples(scripts, befores, gaps), min_size=1, max_size=3)
Stream = list[tuple[list[Said], int, int]]


@dataclass(frozen=True, slots=True)
class CommitAll:
    """Every word as soon as it is there."""

    def commit(self, pending: Pending) -> int:
        return len(pending.words)


def audio(stream: Stream) -> list[tuple[Pcm, int]]:
    return [(speak(script, before), gap) for script, before, gap in stream]


def spoken(stream: Stream) -> list[str]:
    return [WORDS[said.word] for script, _, _ in stream for said in script]


def untimed(job: DecodeJob) -> bool:
    return False


def endless(count: int, seed: int = 0, gap: int = 80 * ms) -> list[Said]:
    """So many words without any pause."""
    generator = random.Random(seed)
    lengths = (300 * ms, 402 * ms, 500 * ms)
    return [Said(generator.randrange(11), generator.choice(lengths), gap) for _ in range(count)]


def reader_for(policy: CommitPolicy) -> Reader:
    """AlignAtt as for Whisper: timed, and not conditioned on its text; others as for Qwen3-ASR."""
    if isinstance(policy, AlignAtt):
        return Reader(conditioned=False)
    return Reader(timed=untimed)


# -- what is said, and when ---------------------------------------------------------------------


@policies
@settings(max_examples=25, deadline=None)
@given(stream=streams, turns=st.randoms(use_true_random=False))
def test_every_word_once_whatever_the_feeds(
    policy: CommitPolicy, stream: Stream, turns: random.Random
) -> None:
    """The events are the same for all sizes, and whenever a hypothesis comes."""
    config, parts = changed(CONFIG, policy=policy), audio(stream)
    first = played(parts, config, reader_for(policy), sizes=(80_000,))
    assert first.words == spoken(stream)
    for sizes in ((160,), (320,), (333,), (16_000,), (5, 70_000, 511)):
        again = played(parts, config, reader_for(policy), sizes=sizes, turns=turns)
        assert again.events == first.events
        assert [job.segment.pieces for job in again.reader.jobs] == [
            job.segment.pieces for job in first.reader.jobs
        ]


@policies
@settings(max_examples=30, deadline=None)
@given(stream=streams)
# a cut behind which words are committed: what follows is not decoded from less audio than before
@example(stream=[([Said(0, 4800, 1280)] * 10, 0, -1), ([Said(0, 4800, 1280)] * 8, 100, -1)])
def test_text_is_append_only_and_ends_final(policy: CommitPolicy, stream: Stream) -> None:
    """And a tail is always what a model made of the audio after the words that are said."""
    run = played(audio(stream), changed(CONFIG, policy=policy), reader_for(policy))
    numbers = [caption.segment for caption in run.captions]
    assert numbers == sorted(numbers)
    for number in set(numbers):
        captions = [caption for caption in run.captions if caption.segment == number]
        assert captions[-1].final
        assert captions[-1].tail == ""
        assert all(caption.tail == "" for caption in captions if caption.final)
        heard = [caption.processed_until for caption in captions[:-1]]
        assert heard == sorted(heard)  # a cut may lie before what was heard last
        starts = [caption.start for caption in captions]
        assert starts == sorted(starts)
        assert all(caption.start < caption.processed_until for caption in captions)


@settings(max_examples=30, deadline=None)
@given(stream=streams)
def test_words_lie_where_they_were_spoken(stream: Stream) -> None:
    """Times on the media timeline, to the sample, beyond silences and gaps."""
    run = played(audio(stream), changed(CONFIG, policy=AlignAtt()))
    places, at = [], 0
    for script, before, gap in stream:
        at += before
        for word in script:
            length = word.length // 2 * 2
            places.append((WORDS[word.word], at, at + length))
            at += length + word.silence
        at += max(gap, 0)
    found = [(w.text, w.start, w.end) for caption in run.captions for w in caption.words]
    assert found == places


@policies
def test_repeated_words_are_kept(policy: CommitPolicy) -> None:
    script = [Said(0, 300 * ms, 120 * ms)] * 30 + [Said(8, 500 * ms, 4 * RATE)]
    run = played([(speak(script), -1)], changed(CONFIG, policy=policy), reader_for(policy))
    assert run.words == [" no"] * 30 + [" yes."]
    assert len([caption for caption in run.captions if caption.words]) >= 4, "as it goes on"


def remarks(silence: int) -> Pcm:
    """Three words, a pause, and one more."""
    script = [Said(n, 400 * ms, 120 * ms) for n in range(3)]
    return speak([*script[:-1], Said(2, 400 * ms, silence), Said(3, 400 * ms, 3 * RATE)])


def finals(run: Run) -> list[tuple[int, str]]:
    return [(one.segment, one.text) for one in run.captions if one.final]


def test_a_pause_says_all_and_the_segment_goes_on() -> None:
    run = played([(remarks(900 * ms), -1)], changed(CONFIG, policy=Rollback()))
    assert finals(run)[:2] == [(0, " no that one"), (0, " is")]
    assert {one.segment for one in run.captions} == {0}
    run = played([(remarks(500 * ms), -1)], changed(CONFIG, policy=Rollback()))
    assert finals(run)[0] == (0, " no that one is")


def test_a_pause_is_told_where_all_had_been_said() -> None:
    """The update at the pause agrees with the one before it, so nothing is left to say."""
    config = changed(CONFIG, interval=RATE // 4)
    run = played([(remarks(900 * ms), -1)], config)
    assert run.words == [" no", " that", " one", " is"]
    assert sum(one.final for one in run.captions if one.processed_until < 3 * RATE) == 1


def test_a_pause_after_a_sentence_ends_a_long_segment() -> None:
    sentence = [*endless(8), Said(8, 400 * ms, 800 * ms)]
    run = played([(speak([*sentence, *sentence]), -1)], CONFIG)
    assert [segment.stop for segment in run.segments] == pytest.approx(
        [len(speak(sentence)) - 500 * ms, 2 * len(speak(sentence)) - 500 * ms], abs=FRAME
    )
    phrase = [*endless(8), Said(1, 400 * ms, 800 * ms)]
    assert len(played([(speak([*phrase, Said(8, 400 * ms, 0)]), -1)], CONFIG).segments) == 1


# -- every sample -------------------------------------------------------------------------------


def assert_tiles(run: Run) -> None:
    """What was heard, silences and gaps lie side by side and make up the whole stream.

    Only what cannot be heard at all may have been heard and then been left out, behind a cut.
    """
    count = np.zeros(run.end, int)
    for start, stop in run.gaps:
        count[start:stop] += 1
    for event in run.events:
        if isinstance(event, Silence):
            assert event.start < event.end <= run.end
            count[event.start : event.end] += 1
    for segment in run.segments:
        for piece in segment.pieces:
            count[piece.start : piece.start + piece.length] += 1
    assert count.max(initial=1) == 1
    for job in run.reader.jobs:
        for piece in job.segment.pieces:
            pcm = job.segment.pcm[piece.offset : piece.offset + piece.length]
            there = count[piece.start : piece.start + piece.length]
            there[(there == 0) & (pcm == 0)] = 1
    assert count.min(initial=1) == 1


def epochs(stream: Stream) -> list[tuple[Pcm, int]]:
    """The audio between gaps, and the gap after it."""
    joined, blocks = list[tuple[Pcm, int]](), list[Pcm]()
    for pcm, gap in audio(stream):
        blocks.append(pcm)
        if gap >= 0:
            joined.append((np.concatenate(blocks), gap))
            blocks = []
    return [*joined, (np.concatenate([*blocks, np.zeros(0, np.float32)]), 0)]


def speech(pcm: Pcm, vad: VadConfig) -> list[bool]:
    """For each sample whether it is in speech or its padding."""
    endpointer, mask = Endpointer(vad), np.zeros(len(pcm), bool)
    found = [*endpointer.push(probs(pcm), len(pcm))[0], *endpointer.finish(len(pcm))[0]]
    edges = [edge for edge in found if edge.kind in ("start", "stop")]
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        mask[max(start.at - vad.vad_pad * ms, 0) : stop.at + vad.vad_tail * ms] = True
    return mask.tolist()


@policies
@settings(max_examples=30, deadline=None)
@given(stream=streams)
def test_every_sample_is_heard_or_silent_or_in_a_gap(policy: CommitPolicy, stream: Stream) -> None:
    run = played(audio(stream), changed(CONFIG, policy=policy), reader_for(policy))
    assert_tiles(run)
    media, at = np.zeros(run.end, np.float32), 0
    expected = np.zeros(run.end, bool)
    for pcm, gap in epochs(stream):
        media[at : at + len(pcm)] = pcm
        expected[at : at + len(pcm)] = speech(pcm, VadConfig())
        at += len(pcm) + gap
    heard = np.zeros(run.end, bool)
    for segment in run.segments:
        assert len(segment.pcm) < CONFIG.max_segment + FRAME
        for piece in segment.pieces:
            there = slice(piece.start, piece.start + piece.length)
            heard[there] = True
            inside = segment.pcm[piece.offset : piece.offset + piece.length]
            assert np.array_equal(inside, media[there])
    assert not (heard & ~expected).any()
    assert not media[expected & ~heard].any(), "only what is inaudible is not heard"


@policies
@settings(max_examples=30, deadline=None)
@given(stream=streams)
def test_a_segment_only_grows(policy: CommitPolicy, stream: Stream) -> None:
    """But its beginning is cut off where it got too long and words are committed beyond the cut."""
    run = played(audio(stream), changed(CONFIG, policy=policy), reader_for(policy))
    before: dict[tuple[int, int], DecodeJob] = {}
    for job in run.reader.jobs:
        key = job.number, job.segment.start
        earlier = before.get(key)
        if earlier:
            assert earlier.prefix
            assert not earlier.prefix.final
            count, length = len(job.segment.pcm), len(earlier.segment.pcm)
            assert count > length or (job.prefix and job.prefix.final and policy == AlignAtt())
            shared = min(count, length)
            assert np.array_equal(job.segment.pcm[:shared], earlier.segment.pcm[:shared])
        before[key] = job
    numbers = dict.fromkeys(number for number, _ in before)
    assert list(numbers) == list(range(len(numbers)))


@policies
@pytest.mark.parametrize("gap", [0, 80 * ms], ids=["none", "short"])
@pytest.mark.parametrize("vad", [VadConfig(), None], ids=["vad", "no vad"])
def test_speech_without_pauses(policy: CommitPolicy, gap: int, vad: VadConfig | None) -> None:
    """Cuts lose and repeat nothing; where the words stand apart, none is cut through."""
    script = endless(150, seed=gap, gap=gap)
    config = changed(CONFIG, policy=policy, vad=vad)
    pcm = speak(script)
    run = played([(pcm, -1)], config, reader_for(policy))
    whole = np.concatenate([segment.pcm for segment in run.segments])
    assert np.array_equal(whole, pcm)
    assert all(
        CONFIG.max_segment // 2 <= len(one.pcm) <= CONFIG.max_segment for one in run.segments[:-1]
    )
    if gap:
        assert run.words == [WORDS[said.word] for said in script]


@pytest.mark.parametrize(
    "timed",
    [
        pytest.param(lambda job: True, id="timed"),
        pytest.param(untimed, id="untimed"),
        pytest.param(lambda job: len(job.segment.pcm) // RATE % 2 == 0, id="at times"),
    ],
)
@pytest.mark.parametrize("policy", [CommitAll(), LocalAgreement(), Rollback(0, 1)], ids=str)
def test_no_published_word_lies_behind_a_cut(
    policy: CommitPolicy, timed: Callable[[DecodeJob], bool]
) -> None:
    """`Reader` checks it: what was said must be in what is heard."""
    config = changed(CONFIG, policy=policy, interval=RATE // 2)
    script = endless(120, seed=3, gap=120 * ms)
    run = played([(speak(script), -1)], config, Reader(timed=timed, careful=True))
    assert run.words == [WORDS[said.word] for said in script]


# -- the end, whenever it comes -----------------------------------------------------------------


@policies
@settings(max_examples=40, deadline=None)
@given(script=scripts, share=st.floats(0, 1), turns=st.randoms(use_true_random=False))
def test_a_stream_may_end_at_any_moment(
    policy: CommitPolicy, script: list[Said], share: float, turns: random.Random
) -> None:
    """All that was said by then is there, each segment final, and no tail is left."""
    pcm = speak(script, before=100)
    pcm = pcm[: int(len(pcm) * share)]
    run = played([(pcm, -1)], changed(CONFIG, policy=policy), reader_for(policy), turns=turns)
    whole = [word.text for word in read(pcm) if word.text in WORDS]
    assert run.words[: len(whole)] == whole
    assert len(run.words) <= len(whole) + 1, "the last may not be whole"
    last = {caption.segment: caption for caption in run.captions}
    assert all(caption.final and not caption.tail for caption in last.values())
    assert_tiles(run)


@settings(max_examples=60, deadline=None)
@given(
    script=st.lists(said, min_size=1, max_size=12),
    cuts=st.lists(st.tuples(st.floats(0, 1), gaps), max_size=4),
    turns=st.randoms(use_true_random=False),
)
def test_gaps_come_at_any_moment(
    script: list[Said], cuts: list[tuple[float, int]], turns: random.Random
) -> None:
    """In the middle of a word, one after the other, and while job is out."""
    pcm, parts, at = speak(script), list[tuple[Pcm, int]](), 0
    for share, gap in sorted(cuts):
        stop = int(len(pcm) * share)
        parts.append((pcm[at:stop], gap))
        at = stop
    parts.append((pcm[at:], -1))
    run = played(parts, CONFIG, turns=turns)
    assert run.events == played(parts, CONFIG, sizes=(333,)).events
    assert_tiles(run)
    for segment in run.segments:
        for start, stop in run.gaps:
            assert segment.stop <= start or segment.start >= stop


def test_gaps_and_the_end_while_work_is_out() -> None:
    run = Run(OnlineStream(CONFIG), Reader())
    pcm = speak(endless(5))
    run.push(pcm[:20_000])
    assert run.poll()
    assert not run.stream.has_job
    run.skip(50_000)
    run.skip(7)
    run.push(pcm[20_000:])
    run.stream.finish()
    run.stream.finish()
    assert run.stream.poll() is None
    assert not run.stream.is_done
    run.close()
    assert run.gaps == [(20_000, 70_000), (70_000, 70_007)]
    assert_tiles(run)


def test_what_is_there_at_the_start_and_the_end() -> None:
    assert played([], CONFIG).events == []
    assert played([(np.zeros(1, np.float32), -1)], CONFIG).events == [Silence(0, 1)]
    assert (
        played([(np.zeros(0, np.float32), 9), (np.zeros(0, np.float32), -1)], CONFIG).events == []
    )
    bare = changed(CONFIG, vad=None)
    assert played([], bare).events == []
    assert played([(np.zeros(1, np.float32), -1)], bare).events == [Silence(0, 1)]
    [job] = played([(np.full(1, 0.5, np.float32), -1)], bare).reader.jobs
    assert len(job.segment.pcm) == 1


def test_misuse() -> None:
    live = OnlineStream(CONFIG)
    live.push(np.zeros(10, np.float32), ())
    with pytest.raises(AssertionError, match="time went back"):
        live.skip(9)
    live.finish()
    with pytest.raises(AssertionError, match="after the end"):
        live.push(np.zeros(1, np.float32), ())


@policies
@settings(max_examples=20, deadline=None)
@given(stream=streams, turns=st.randoms(use_true_random=False))
def test_without_voice_activity_all_is_heard(
    policy: CommitPolicy, stream: Stream, turns: random.Random
) -> None:
    """But for segments in which nothing can be heard at all."""
    config = changed(CONFIG, policy=policy, vad=None)
    run = played(audio(stream), config, reader_for(policy), turns=turns)
    assert run.events == played(audio(stream), config, reader_for(policy), sizes=(777,)).events
    assert run.words == spoken(stream)
    assert_tiles(run)


# -- a machine that is too slow -----------------------------------------------------------------


@policies
@settings(max_examples=20, deadline=None)
@given(stream=streams)
def test_a_backlog_changes_no_word(policy: CommitPolicy, stream: Stream) -> None:
    calm = played(audio(stream), changed(CONFIG, policy=policy), reader_for(policy))
    hasty = changed(CONFIG, policy=policy, catch_up=True)
    run = played(audio(stream), hasty, reader_for(policy), sizes=(10_000_000,))
    assert run.words == calm.words == spoken(stream)
    assert len(run.reader.jobs) <= len(calm.reader.jobs)
    assert_tiles(run)


def test_updates_of_audio_that_is_overtaken_are_left_out() -> None:
    """Of two minutes that come at once, nothing is heard twice but the newest."""
    pcm = speak(endless(240))
    calm = played([(pcm, -1)], CONFIG)
    run = played([(pcm, -1)], changed(CONFIG, catch_up=True), sizes=(len(pcm),))
    assert run.words == calm.words
    updates = [job for job in run.reader.jobs if job.prefix and not job.prefix.final]
    assert len(updates) <= 1
    assert run.stream.decoded == len(pcm)
    assert len(calm.reader.jobs) > 3 * len(run.reader.jobs)


def test_a_stream_that_keeps_up_is_heard_at_every_interval() -> None:
    pcm = speak(endless(60))
    run = played([(pcm, -1)], changed(CONFIG, catch_up=True), sizes=(FRAME,))
    assert run.events == played([(pcm, -1)], CONFIG).events


def test_words_without_times_are_heard_until_the_last_quarter_of_a_segment() -> None:
    """It is cut behind all that was heard."""
    reader = Reader(timed=lambda job: False)
    run = played([(speak(endless(24)), -1)], CONFIG, reader)
    works = [job for job in reader.jobs if job.number == 0]
    assert [len(job.segment.pcm) // RATE for job in works[:-1]] == [1, 2, 3, 4]
    assert 4 * RATE < len(works[-1].segment.pcm) <= CONFIG.max_segment
    assert run.stream.is_done


# -- text that is not believed ------------------------------------------------------------------


def doubtful(*, whole: bool) -> Callable[[DecodeJob], str | None]:
    """Doubts updates in the middle of speech, or at its pauses and ends."""
    return lambda job: "nonsense" if job.prefix and job.prefix.endpointed == whole else None


def test_an_update_that_is_not_believed_keeps_what_was_said() -> None:
    """No caption takes the tail back; at the end the text is there."""
    turn = iter(range(1000))
    reader = Reader(
        reason=lambda job: (
            "nonsense" if job.prefix and not job.prefix.endpointed and next(turn) % 2 else None
        )
    )
    script = endless(12)
    run = played([(speak(script), -1)], changed(CONFIG, interval=RATE // 2), reader)
    assert run.words == [WORDS[said.word] for said in script]
    assert not any(isinstance(event, Unrecognised) for event in run.events)
    lengths = [len(_text(run, place)) for place in range(len(run.captions))]
    assert lengths == sorted(lengths)
    assert len(lengths) < len(run.reader.jobs)


def _text(run: Run, place: int) -> str:
    """All that is shown after a caption."""
    captions = run.captions[: place + 1]
    return "".join(caption.text for caption in captions) + captions[-1].tail


@policies
@settings(max_examples=20, deadline=None)
@given(stream=streams)
def test_what_has_no_text_at_the_end_is_reported(policy: CommitPolicy, stream: Stream) -> None:
    reader = reader_for(policy)
    reader.reason = lambda job: "nonsense"
    run = played(audio(stream), changed(CONFIG, policy=policy), reader)
    assert run.words == []
    assert not any(caption.tail for caption in run.captions)
    lost = [event for event in run.events if isinstance(event, Unrecognised)]
    assert [(one.start, one.end) for one in lost] == [(s.start, s.stop) for s in run.segments]
    assert {one.reason for one in lost} <= {"nonsense"}


def test_only_the_end_of_a_segment_is_lost() -> None:
    """What is said stays; behind it there is no text, and the tail is gone."""
    reader = Reader(reason=doubtful(whole=True))
    run = played([(speak([*endless(10), Said(0, 400 * ms, 3 * RATE)]), -1)], CONFIG, reader)
    [lost] = [event for event in run.events if isinstance(event, Unrecognised)]
    words = [word for caption in run.captions for word in caption.words]
    assert 0 < len(words) < 11
    assert lost.start == words[-1].end
    assert lost.end == run.segments[-1].stop
    assert run.captions[-1].final
    assert run.captions[-1].tail == ""


# -- language and context -----------------------------------------------------------------------


def languages(run: Run) -> list[Language]:
    return [event for event in run.events if isinstance(event, Language)]


def test_a_language_is_not_told_from_a_word_or_two() -> None:
    """A sure guess about less than three seconds of speech or five words counts for nothing."""
    config = changed(CONFIG, language=None)
    short = [Said(0, 400 * ms, 3 * RATE)] * 3
    run = played([(speak(short), -1)], config)
    assert languages(run) == []
    assert {job.language for job in run.reader.jobs} == {None}
    many = [*[Said(n, 300 * ms, 80 * ms) for n in range(4)], Said(4, 300 * ms, 3 * RATE)]
    assert len(speak(many)) - 3 * RATE + 600 * ms < LANGUAGE_EVIDENCE
    run = played([(speak([*many, *short]), -1)], changed(config, policy=Rollback()))
    assert [event.code for event in languages(run)] == ["en"]
    assert run.reader.jobs[-1].language == "en"


def test_a_language_is_told_from_a_long_segment() -> None:
    """Even if it was detected before the first words were said, and given from there on."""
    run = played([(speak(endless(12)), -1)], changed(CONFIG, language=None))
    assert len(run.segments) == 1
    assert languages(run) == [Language("en", 0.9)]


def test_a_segment_whose_words_are_said_keeps_its_language() -> None:
    reader = Reader(prob=0.2)
    run = played([(speak(endless(12)), -1)], changed(CONFIG, language=None), reader)
    for job in run.reader.jobs:
        assert job.prefix
        assert job.language == ("en" if job.prefix.committed else None)


def paragraphs(count: int) -> Pcm:
    """Segments of three words, so far apart that each is one."""
    one = [Said(0, 400 * ms, 80 * ms), Said(1, 400 * ms, 80 * ms), Said(2, 400 * ms, 3 * RATE)]
    return speak(one * count)


def befores_of(run: Run) -> list[str]:
    """What each segment went on from."""
    return list({job.number: job.context_text for job in run.reader.jobs}.values())


@pytest.mark.parametrize("carry", [0, 1, 3, 4, 5, 100])
def test_a_segment_goes_on_from_the_last_words(carry: int) -> None:
    run = played([(paragraphs(4), -1)], changed(CONFIG, context_words=carry))
    words = [" no", " that", " one"]
    assert befores_of(run) == ["".join((words * n)[-carry:] if carry else []) for n in range(4)]


def test_nothing_is_carried_from_what_was_not_believed() -> None:
    reader = Reader(reason=lambda job: "nonsense" if job.number == 1 else None)
    run = played([(paragraphs(4), -1)], changed(CONFIG, context_words=3), reader)
    assert befores_of(run) == ["", " no that one", "", " no that one"]


# -- what models keep ---------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    stream=streams,
    share=st.floats(0, 1),
    turns=st.randoms(use_true_random=False),
    doubt=st.booleans(),
)
def test_a_stream_may_be_dropped_at_any_moment(
    stream: Stream, share: float, turns: random.Random, *, doubt: bool
) -> None:
    """What was kept comes back, once, also while job is out; `Reader` and `Run` check the rest."""
    run = Run(
        OnlineStream(CONFIG), Reader(reason=doubtful(whole=False) if doubt else lambda job: None)
    )
    parts = audio(stream)
    left = int(sum(len(pcm) for pcm, _ in parts) * share)
    for pcm, gap in parts:
        for at in range(0, min(left, len(pcm)), 4000):
            run.push(pcm[at : at + 4000])
            run.answer(turns)
        left -= len(pcm)
        if left <= 0:
            break
        if gap >= 0:
            run.skip(gap)
    for kept in run.stream.cancel():
        run.reader.free(kept)
    assert run.reader.kept == []
    assert run.stream.cancel() == []
    assert not run.stream.has_job
    assert run.stream.backlog == 0
    assert run.stream.is_done


@settings(max_examples=40, deadline=None)
@given(stream=streams, turns=st.randoms(use_true_random=False))
def test_what_has_not_been_heard(stream: Stream, turns: random.Random) -> None:
    """Never less than nothing, never more than came, nothing at the end (see `Run.close`)."""
    run = Run(OnlineStream(CONFIG), Reader())
    for pcm, gap in audio(stream):
        for at in range(0, len(pcm), 5000):
            settled = run.stream.final_until
            run.push(pcm[at : at + 5000])
            run.answer(turns)
            assert 0 <= run.stream.backlog <= run.stream.total
            assert run.stream.final_until >= settled
        if gap >= 0:
            run.skip(gap)
    run.close()
    assert run.stream.total == sum(len(pcm) for pcm, _ in audio(stream))
    starts = [event.start for event in run.events if not isinstance(event, Language)]
    assert starts == sorted(starts)


@pytest.mark.parametrize("beyond", [1, FRAME - 1])
def test_no_segment_is_too_long_at_the_end(beyond: int) -> None:
    """The limit lies in the last frame, which is not whole."""
    most = 150 * FRAME + 1
    pcm = np.full(150 * FRAME + 1 + beyond, 0.5, np.float32)[: 151 * FRAME - 1]
    run = played([(pcm, -1)], changed(CONFIG, vad=None, max_segment=most))
    assert sum(len(segment.pcm) for segment in run.segments) == len(pcm)
    assert max(len(segment.pcm) for segment in run.segments) <= most


# -- odd options --------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", [300, 600, 1_000, 3_000])
def test_what_follows_speech_is_heard_at_one_go(tail: int) -> None:
    """Milliseconds kept after speech: also more than a pause, or than the silence that ends it."""
    script = [Said(0, 500 * ms, 120 * ms), Said(1, 500 * ms, 9 * RATE)]
    noise = speak(script) + np.float32(1e-3)  # that can be heard, and is no word
    run = Run(OnlineStream(changed(CONFIG, vad=VadConfig(vad_tail=tail))), Reader())
    run.stream.push(noise, probs(speak(script)))
    run.answer()
    assert len(run.segments) == 1
    assert len(run.reader.jobs) <= 5


# -- hours --------------------------------------------------------------------------------------


def weight(root: object) -> int:
    """Bytes of all that an object holds."""
    seen, todo, total = set[int](), [root], 0
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, type) or callable(one):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one) + (one.nbytes if isinstance(one, np.ndarray) else 0)
        todo += gc.get_referents(one)
    return total


@pytest.mark.parametrize("minutes", [240, 20])
def test_nothing_grows_but_time(minutes: int) -> None:
    """A remark every twenty seconds for hours, or endless speech: words stay where they were."""
    end = Said(8, 400 * ms, 0)
    silence = (3 * RATE + 123) if minutes > 60 else 0
    remark = speak([*endless(5 if silence else 38), end], before=silence)
    block = np.concatenate([remark, np.zeros(20 * RATE + 77 - len(remark), np.float32)])
    run, weights, works, words = Run(OnlineStream(CONFIG), Reader()), list[int](), list[int](), 0
    for n in range(minutes * 3):
        run.push(block)
        run.answer()
        found = [word for caption in run.captions for word in caption.words]
        words += len(found)
        if silence:
            assert found[-1].start == n * len(block) + len(remark) - 400 * ms
        works.append(len(run.reader.jobs))
        run.events.clear()
        run.reader.jobs.clear()
        if n in (minutes * 3 // 8, minutes * 3 - 1):
            weights.append(weight(run.stream))
    assert set(works[1:]) == {works[1]}
    assert weights[1] <= weights[0] + 1000
    run.close()
    assert words + len(run.words) == minutes * 3 * len(read(block))
