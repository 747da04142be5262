"""How many live streams a machine bears: by what they cost, and what they usually do."""

import pytest

from livecap.runtime.capacity import HALF_LIFE_S, Capacity


def busy(capacity: Capacity, begun: float, *, cost: float, jobs: int) -> float:
    """So many pieces of work, one after the other -> when they are done."""
    for _ in range(jobs):
        capacity.count_job(is_urgent=True)
        begun += cost
        capacity.pass_time(begun, busy=cost, audio=3.0)
    return begun


def test_one_before_anything_is_known() -> None:
    assert Capacity(0.0).max_streams == 1


@pytest.mark.parametrize(("cost", "streams"), [(0.25, 8), (0.5, 4), (5.0, 1)])
def test_by_what_work_costs(cost: float, streams: int) -> None:
    capacity = Capacity(0.0)
    busy(capacity, 0.0, cost=cost, jobs=50)
    assert capacity.max_streams == streams


def test_a_burst_is_forgotten_where_nothing_runs() -> None:
    """Sums that fade alike would keep their ratio for good."""
    capacity = Capacity(0.0)
    now = busy(capacity, 0.0, cost=0.25, jobs=2)
    capacity.set_baseline()
    fresh = capacity.max_streams
    now = busy(capacity, now, cost=3.0, jobs=40)
    assert capacity.max_streams == 1
    capacity.pass_time(now + 10 * HALF_LIFE_S, busy=0.0, audio=0.0)
    assert capacity.max_streams >= fresh - 1
