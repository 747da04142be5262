"""Ten minutes on a machine that is too slow: nothing is lost, and the lag is bounded as promised.

What is promised: updates between pauses are left out first; from a lag of ten seconds on, pauses
are passed over, too, and only whole segments are decoded. So as long as a segment can be decoded in
the time that it takes to say it, the lag stays below ten seconds and what three hypotheses
take. If not even that can be done, it grows by what is missing, and nothing is left out.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from live_models import WORDS, Reader, Run, Said, changed, speak
from test_live_stream import CONFIG, ms

from livecap.events import RATE
from livecap.online.decoding import MAX_PAUSE_LAG
from livecap.online.job import DecodeJob
from livecap.online.stream import OnlineStream

SECONDS = 600
PIECE = RATE // 5  # samples fed together
INTERVAL = 2  # seconds


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of ten minutes."""

    words: list[str]
    works: int
    lags: list[float]  # seconds, at every piece


def script() -> list[Said]:
    """Ten minutes of speech: words, and a pause after every fifth, longer after the thirtieth."""
    said: list[Said] = []
    while sum(one.length + one.silence for one in said) < SECONDS * RATE:
        n = len(said)
        pause = 1500 if n % 30 == 29 else 700 if n % 5 == 4 else 80
        said.append(Said(n % len(WORDS), 400 * ms, pause * ms))
    return said


def play(cost: Callable[[DecodeJob, int], float], *, catch_up: bool = True) -> Outcome:
    """Real time on a virtual clock. `cost`: seconds for a job with so many new samples."""
    config = changed(
        CONFIG, interval=INTERVAL * RATE, min_sentence=12 * RATE, max_segment=16 * RATE
    )
    run = Run(OnlineStream(changed(config, catch_up=catch_up)), Reader())
    pcm, lags = speak(script()), list[float]()
    free, decoded = 0.0, dict[int, int]()
    for at in range(0, len(pcm), PIECE):
        run.push(pcm[at : at + PIECE])
        now = (at + PIECE) / RATE
        while free <= now:
            if run.out:
                hypothesis, run.out = run.reader(run.out), None
                run.stream.accept(hypothesis)
                run.collect()
            job = run.poll()
            if job is None:
                break
            new = len(job.segment.pcm) - decoded.get(job.number, 0)
            decoded[job.number] = len(job.segment.pcm)
            free = max(free, now) + cost(job, new)
        lags.append(run.stream.backlog / RATE)
    run.close()
    return Outcome(run.words, len(run.reader.jobs), lags)


def spoken() -> list[str]:
    return [WORDS[said.word] for said in script()]


@pytest.mark.parametrize("share", [1.3, 2.5])
def test_updates_that_take_longer_than_their_audio(share: float) -> None:
    """Every update takes 1.3 times, or 2.5 times, as long as the interval between two."""
    took = share * INTERVAL
    slow, quick = play(lambda job, new: took), play(lambda job, new: 0.0)
    assert slow.words == quick.words == spoken()
    assert max(quick.lags) <= INTERVAL + 2
    assert max(slow.lags) <= MAX_PAUSE_LAG / RATE + 3 * took + INTERVAL
    assert slow.works < quick.works
    third = len(slow.lags) // 3
    assert max(slow.lags[2 * third :]) <= max(slow.lags[third : 2 * third]) + took  # no growth


def test_a_model_slower_than_speech() -> None:
    """1.3 seconds for every second that is new to it: the lag grows by what is missing, no more."""
    outcome = play(lambda job, new: 1.3 * new / RATE)
    assert outcome.words == spoken()
    assert max(outcome.lags) <= SECONDS * (1 - 1 / 1.3) + 10


def test_without_leaving_updates_out_the_lag_grows() -> None:
    """What catching up is for."""
    took = 1.3 * INTERVAL
    bounded, growing = (play(lambda job, new: took, catch_up=way) for way in (True, False))
    assert growing.words == bounded.words
    assert max(growing.lags) > 10 * max(bounded.lags)
