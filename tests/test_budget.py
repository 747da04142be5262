"""How many live streams a machine bears: by what they cost, and what they usually do."""

import pytest

from livecap.budget import HALF_LIFE, Budget


def busy(budget: Budget, begun: float, *, cost: float, works: int) -> float:
    """So many pieces of work, one after the other -> when they are done."""
    for _ in range(works):
        budget.begin(is_urgent=True)
        begun += cost
        budget.pass_time(begun, busy=cost, audio=3.0)
    return begun


def test_one_before_anything_is_known() -> None:
    assert Budget(0.0).bears == 1


@pytest.mark.parametrize(("cost", "bears"), [(0.25, 8), (0.5, 4), (5.0, 1)])
def test_by_what_work_costs(cost: float, bears: int) -> None:
    budget = Budget(0.0)
    busy(budget, 0.0, cost=cost, works=50)
    assert budget.bears == bears


def test_a_burst_is_forgotten_where_nothing_runs() -> None:
    """Sums that fade alike would keep their ratio for good."""
    budget = Budget(0.0)
    now = busy(budget, 0.0, cost=0.25, works=2)
    budget.remember()
    fresh = budget.bears
    now = busy(budget, now, cost=3.0, works=40)
    assert budget.bears == 1
    budget.pass_time(now + 10 * HALF_LIFE, busy=0.0, audio=0.0)
    assert budget.bears >= fresh - 1
