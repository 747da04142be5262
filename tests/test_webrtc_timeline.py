"""RTP timestamps -> one clock: losses, jitter, wraps, restarts, and twenty minutes of it."""

import random

import numpy as np
import pytest
from numpy.typing import NDArray
from realtime_client import Client

from livecap.api.webrtc.timeline import BREAK, JUMP, RATE, WRAP, RtpTimeline
from livecap.events import RATE as HEARD

FRAME = RATE // 50  # samples
MINUTES = 20

TOGETHER = 5  # frames that are given on at once
OFF = 0.2  # seconds by which a cue may be off after twenty minutes
EXACT = 0.002  # seconds: a resampler's edge

Samples = NDArray[np.int16]


def frame(value: int, count: int = FRAME) -> Samples:
    """Samples that can be told from others, and from silence."""
    return np.full(count, value, np.int16)


def placed(timeline: RtpTimeline, *frames: tuple[int, Samples]) -> list[int]:
    """Frames -> the whole clock."""
    found = [timeline.position(timestamp, samples) for timestamp, samples in frames]
    return [int(one) for one in np.concatenate(found)]


def test_frames_that_follow_one_another_are_left_as_they_are() -> None:
    assert placed(RtpTimeline(), (5, frame(1, 3)), (8, frame(2, 2))) == [1, 1, 1, 2, 2]


def test_what_is_missing_is_silence() -> None:
    assert placed(RtpTimeline(), (0, frame(1, 2)), (5, frame(2, 2))) == [1, 1, 0, 0, 0, 2, 2]


def test_what_has_been_there_is_left_out() -> None:
    frames = [(0, frame(1, 4)), (0, frame(1, 4)), (2, frame(2, 4)), (6, frame(3, 1))]
    assert placed(RtpTimeline(), *frames) == [1, 1, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("start", [WRAP - 3, WRAP - 6])
def test_timestamps_wrap(start: int) -> None:
    frames = [((start + at) % WRAP, frame(at, 3)) for at in (3, 6, 12)]
    assert placed(RtpTimeline(), *frames) == [3, 3, 3, 6, 6, 6, 0, 0, 0, 12, 12, 12]


@pytest.mark.parametrize("far", [JUMP + FRAME + 1, -JUMP - FRAME - 1, WRAP // 2])
def test_a_jump_is_another_start_after_a_break(far: int) -> None:
    timeline = RtpTimeline()
    timeline.position(10, frame(1))
    told = timeline.position(10 + far, frame(2))
    assert told.tolist() == [0] * BREAK + [2] * FRAME
    assert timeline.position(10 + far + FRAME, frame(3)).tolist() == [3] * FRAME


def test_the_longest_gap_is_silence() -> None:
    timeline = RtpTimeline()
    timeline.position(0, frame(1))
    assert len(timeline.position(FRAME + JUMP, frame(2))) == JUMP + FRAME


def test_a_clock_that_was_set_back_is_another_start() -> None:
    timeline = RtpTimeline()
    timeline.position(10 * RATE, frame(1))
    told = [timeline.position(at * FRAME, frame(2)) for at in range(60)]
    assert sum(map(len, told)) == BREAK + (60 - RATE // FRAME) * FRAME


@pytest.mark.parametrize("seed", range(3))
def test_twenty_minutes_have_no_drift(seed: int) -> None:
    """Marks every ten seconds, in frames that get lost, come twice, late, or in one rush."""
    chance = random.Random(seed)
    count = MINUTES * 60 * 50
    first = WRAP - chance.randrange(count * FRAME)  # so that it wraps on the way
    mark = np.full(FRAME, 77, np.int16)
    quiet = np.full(FRAME, 1, np.int16)
    sent = []
    for number in range(count):
        marks = number % 500 == 0
        if not marks and chance.random() < 0.05:
            continue  # lost
        sent.append((number, mark if marks else quiet))
        if chance.random() < 0.02:
            sent.append(sent[-chance.randint(1, min(len(sent), 3))])  # twice, the second time late
    timeline, at, found = RtpTimeline(), 0, []
    for number, samples in sent:
        told = timeline.position((first + number * FRAME) % WRAP, samples)
        hits = np.flatnonzero(told == 77)
        if len(hits):
            found.append((at + int(hits[0])) / RATE)
        at += len(told)
    assert found == [pytest.approx(10 * number, abs=1e-9) for number in range(MINUTES * 6)]
    assert at / RATE == pytest.approx(MINUTES * 60, abs=1.0)


@pytest.mark.parametrize(("ppm", "allowed"), [(0, EXACT), (100, OFF), (-100, OFF)])
def test_twenty_minutes_of_a_session_have_no_drift(ppm: int, allowed: float) -> None:
    """Marks at known seconds, by a sender whose clock is so much too fast: where they are in the
    audio that is listened to. Its own clock is the only one that captions have, so they are off by
    what it is, and by nothing else: the session adds less than EXACT in all that time.
    """
    chance = random.Random(ppm)
    client, timeline = Client(media_rate=RATE), RtpTimeline()
    count = MINUTES * 60 * RATE // FRAME
    seconds = range(10, MINUTES * 60, 10)
    marks = [round(second * (1 + ppm * 1e-6) * RATE) for second in seconds]
    whole = np.zeros(count * FRAME, np.int16)
    for at in marks:
        whole[at : at + FRAME] = 20_000
    marked = {number for at in marks for number in (at // FRAME, at // FRAME + 1)}
    first, placed = WRAP - 1000, []
    for number in range(count):
        if number in marked or chance.random() > 0.05:
            sent = whole[number * FRAME : (number + 1) * FRAME]
            placed.append(timeline.position((first + number * FRAME) % WRAP, sent))
        if len(placed) >= TOGETHER:
            client.do(client.session.sound(np.concatenate(placed)))
            placed.clear()
    loud = np.flatnonzero(client.samples(1) > 0.3)
    found = [int(at) / HEARD for at in loud[np.diff(loud, prepend=-HEARD) > HEARD]]
    assert found == pytest.approx(list(seconds), abs=allowed)
    assert found == pytest.approx([at / RATE for at in marks], abs=EXACT)
