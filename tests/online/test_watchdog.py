"""Speech that makes no text is said, and decoded anew; an ever lower voice stays captioned."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from live_models import SCORES, WORDS, Reader, Said, changed, played, speak

from livecap import audio
from livecap.events import RATE, Caption, Event, Stalled, Unrecognised, Word
from livecap.online.config import StreamConfig, UpdateConfig
from livecap.online.job import DecodeJob, Hypothesis, TextSpan
from livecap.online.policy import AlignAtt, AppendOnly, CommitPolicy, LocalAgreement, Rollback
from livecap.online.stream import OnlineStream
from livecap.online.watchdog import MAX_UNHEARD
from livecap.runtime.source import MultichannelSource
from livecap.vad.silero import load

SPEECH = Path(__file__).parents[1] / "audio" / "jfk.flac"
ms = RATE // 1000
CONFIG = StreamConfig(
    max_segment=28 * RATE,
    language="en",
    updates=UpdateConfig(policy=LocalAgreement(), interval=RATE, catch_up=False),
)
POLICIES: tuple[CommitPolicy, ...] = (AppendOnly(), LocalAgreement(), Rollback(), AlignAtt())
policies = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)


def talk(seconds: int, silence: int = 100 * ms) -> list[Said]:
    """Words of 0.4 s, with so many samples between."""
    count = seconds * RATE // (400 * ms + silence)
    return [Said(n * 7 % len(WORDS), 400 * ms, silence) for n in range(count)]


def stalls(events: Sequence[Event]) -> list[Stalled]:
    return [event for event in events if isinstance(event, Stalled)]


@dataclass
class Stuck(Reader):
    """Hears nothing new in the first segment from some time on, as long as it goes on with it."""

    deaf_from: int = 4 * RATE  # samples

    def __call__(self, job: DecodeJob) -> Hypothesis:
        assert job.prefix
        is_deaf = job.segment.start == 0 and len(job.segment.pcm) >= self.deaf_from
        if not is_deaf:
            return super().__call__(job)
        pcm = job.segment.pcm.copy()
        pcm[self.deaf_from :] = 0
        heard = super().__call__(replace(job, segment=replace(job.segment, pcm=pcm)))
        return replace(heard, job=job)


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("conditioned", [True, False])
@pytest.mark.parametrize("max_segment", [28, 60])
@policies
def test_what_a_stuck_decoder_missed_is_decoded_anew(
    policy: CommitPolicy, max_segment: int, conditioned: bool, timed: bool
) -> None:
    """Every word is there once, although nothing came of 20 s of them at first; in mid-segment, or
    where that ends at its limit.
    """
    if isinstance(policy, AlignAtt) and not timed:
        pytest.skip("it needs times")
    script = talk(40)
    reader = Stuck(careful=True, conditioned=conditioned, timed=lambda job: timed)
    config = changed(CONFIG, policy=policy, max_segment=max_segment * RATE)
    run = played([(speak(script), -1)], config, reader)
    [stall] = stalls(run.events)
    assert MAX_UNHEARD < stall.voiced <= MAX_UNHEARD + RATE
    assert 3 * RATE <= stall.start <= 5 * RATE
    assert stall.end == pytest.approx(stall.start + stall.voiced, abs=RATE)
    said = [WORDS[one.word] for one in script]
    assert run.words == said


def test_pauses_do_not_count() -> None:
    """It is speech that is counted: little of it, far between, and no word for any."""
    script = talk(60, silence=3 * RATE)
    run = played([(speak(script), -1)], CONFIG, Reader(reason=lambda job: "nonsense"))
    assert len(speak(script)) > 2 * MAX_UNHEARD
    assert stalls(run.events) == []


@pytest.mark.parametrize("size", [333, 8000, 200_000])
@pytest.mark.parametrize("max_segment", [6, 28])
def test_where_there_is_never_text_it_is_said_again_and_again(max_segment: int, size: int) -> None:
    config = changed(CONFIG, max_segment=max_segment * RATE)
    run = played(
        [(speak(talk(70)), -1)], config, Reader(reason=lambda job: "nonsense"), sizes=[size]
    )
    found = stalls(run.events)
    assert len(found) == 3
    for before, after in pairwise(found):
        assert before.end <= after.start + RATE
    assert run.words == []
    lost = [event for event in run.events if isinstance(event, Unrecognised)]
    assert [(one.start, one.end) for one in lost] == [(s.start, s.stop) for s in run.segments]
    assert sum(len(segment.pcm) for segment in run.segments) >= 69 * RATE


def test_a_word_now_and_then_is_text() -> None:
    """Slow, but not stuck: every tenth second of speech has a word."""

    class Slow(Reader):
        def __call__(self, job: DecodeJob) -> Hypothesis:
            found = super().__call__(job)
            words = tuple(word for word in found.words if (word.start or 0) // (500 * ms) % 20 == 0)
            spans = (TextSpan(0, len(job.segment.pcm), words, SCORES),) if words else ()
            return replace(
                found, spans=spans, tokens=tuple(range(len(words))), token_counts=(1,) * len(words)
            )

    reader = Slow(conditioned=False, careful=True)
    run = played([(speak(talk(60)), -1)], CONFIG, reader)
    assert run.words
    assert stalls(run.events) == []


# -- a voice that sinks -------------------------------------------------------------------------


def hears(job: DecodeJob) -> Hypothesis:
    """One word for each second of what it is given, whatever that is."""
    assert job.prefix
    words = tuple(
        Word(f" w{second}", second * RATE, (second + 1) * RATE)
        for second in range(len(job.segment.pcm) // RATE)
    )
    spans = (TextSpan(0, len(job.segment.pcm), words, SCORES),) if words else ()
    count = len(words)
    return Hypothesis(job, spans, "en", tokens=tuple(range(count)), token_counts=(1,) * count)


def test_a_level_that_sinks_by_quarters_stays_captioned() -> None:
    """Each quarter 6 dB lower, with pauses: all of the speech is still found."""
    with audio.AudioReader(SPEECH) as reader:
        voice = np.concatenate([block.pcm[0] for block in reader])
    pause = np.random.default_rng(0).normal(0, 1e-4, 12 * RATE).astype(np.float32)
    quarter = np.concatenate([voice, pause, voice, pause])
    pcm = np.concatenate([quarter * 10 ** (-6 * n / 20) for n in range(5)]).astype(np.float32)
    stream = OnlineStream(CONFIG)
    source = MultichannelSource([stream], load(), resets=True)
    events: list[Event] = []
    for at in range(0, len(pcm), RATE):
        source.push(at, pcm[None, at : at + RATE])
        while found := source.poll():
            events += source.accept(0, hears(found[1]))
    source.finish()
    while found := source.poll():
        events += source.accept(0, hears(found[1]))
    events += source.close()
    assert stalls(events) == []
    words = [word for event in events if isinstance(event, Caption) for word in event.words]
    counts = [
        sum(1 for word in words if n <= (word.start or 0) // len(quarter) < n + 1) for n in range(5)
    ]
    assert min(counts) >= 0.9 * max(counts)
    assert min(counts) >= 16  # of 22 s, pauses among them
