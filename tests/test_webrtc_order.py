"""The order of packets: late, twice, lost, at the wrap, from another start."""

import random
from collections.abc import Sequence

import pytest
from aiortc.rtp import RtpPacket

from livecap.api.webrtc.reorder import FAR, MOST, Order

WRAP = 1 << 16


def packet(number: int, ssrc: int = 1) -> RtpPacket:
    """One of a track."""
    return RtpPacket(sequence_number=number % WRAP, ssrc=ssrc)


def ordered(numbers: Sequence[int], order: Order | None = None) -> list[int]:
    """Packets as they come -> as they are given out."""
    order = order or Order()
    return [one.sequence_number for number in numbers for one in order.put(packet(number))]


def test_what_comes_in_order_is_not_kept() -> None:
    order = Order()
    assert [len(order.put(packet(number))) for number in range(5)] == [1] * 5


def test_one_that_is_late_is_waited_for_and_no_longer() -> None:
    assert ordered([0, 2, 3, 1, 4]) == [0, 1, 2, 3, 4]
    few, many = range(2, MOST), range(2, MOST + 2)
    assert ordered([0, *few]) == [0]
    assert ordered([0, *many]) == [0, *many]
    assert ordered([0, *many, 1]) == [0, *many]  # by then it is lost


def test_each_is_given_out_once() -> None:
    assert ordered([0, 0, 1, 3, 3, 2, 2, 1, 4]) == [0, 1, 2, 3, 4]


def test_a_long_gap_is_not_waited_for() -> None:
    assert ordered([0, 1000, 1001]) == [0, 1000, 1001]


@pytest.mark.parametrize("start", [WRAP - 3, WRAP // 2 - 2, 0])
def test_numbers_wrap(start: int) -> None:
    numbers = [start, start + 2, start + 1, start + 4, start + 3]
    assert ordered(numbers) == [(start + at) % WRAP for at in range(5)]


def test_another_start_goes_on_at_once_and_what_waited_is_kept() -> None:
    assert ordered([500, 502, 500 - FAR, 501 - FAR]) == [500, 502, 500 - FAR, 501 - FAR]
    order = Order()
    order.put(packet(5))
    order.put(packet(7))
    told = order.put(packet(9, ssrc=2))
    assert [(one.sequence_number, one.ssrc) for one in told] == [(7, 1), (9, 2)]


@pytest.mark.parametrize("seed", range(20))
def test_jitter_changes_nothing_and_losses_only_what_was_lost(seed: int) -> None:
    chance = random.Random(seed)
    start, count = chance.randrange(WRAP), 500
    late = [number + chance.uniform(0, MOST - 1) * (number > 0) for number in range(count)]
    came = sorted(range(count), key=late.__getitem__)
    assert ordered([start + n for n in came])[: count - MOST] == [
        (start + n) % WRAP for n in range(count - MOST)
    ]
    kept = [n for n in range(count) if n == 0 or n >= count - MOST or chance.random() > 0.2]
    assert ordered([start + n for n in kept]) == [(start + n) % WRAP for n in kept]
