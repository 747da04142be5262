"""benchmarks/paired.py: the bootstrap over recordings."""

from paired import difference

WORDS = [100, 50, 150, 200]


def test_the_same_errors_are_no_difference() -> None:
    found = difference([3, 1, 4, 1], [3, 1, 4, 1], WORDS)
    assert (found.points, found.low, found.high) == (0, 0, 0)


def test_points_are_of_all_words_together() -> None:
    assert difference([10, 0, 0, 0], [0, 5, 0, 0], WORDS).points == 1.0


def test_errors_more_in_every_recording_are_a_difference() -> None:
    found = difference([6, 4, 8, 11], [3, 2, 4, 6], WORDS)
    assert 0 < found.low <= found.points <= found.high


def test_errors_more_in_one_recording_are_none() -> None:
    found = difference([23, 1, 4, 1], [3, 2, 5, 3], WORDS)
    assert found.points > 0
    assert found.low < 0


def test_pairs_tell_more_than_the_spread_of_recordings() -> None:
    """One is hard, one easy; but in each the first system has one error more in a hundred words."""
    found = difference([51, 3], [50, 2], [100, 100])
    assert found.low == found.points == found.high == 1.0


def test_the_same_seed_gives_the_same_interval() -> None:
    one, other = ([5, 0, 9, 2], [4, 2, 3, 3])
    assert difference(one, other, WORDS, seed=7) == difference(one, other, WORDS, seed=7)


def test_it_is_told_with_its_sign() -> None:
    assert str(difference([2], [1], [100])) == "+1.00 (+1.00 to +1.00)"
