"""The causal tower against the package it comes from, in any pieces, and what it costs."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from towers.causal import BLOCK_ROWS, LEFT, ROW_FRAMES, CausalState, CausalTower
from towers.layers import dense

FIXTURE = Path(__file__).parent / "fixtures" / "causal.safetensors"


@pytest.fixture(scope="module")
def given_rows() -> dict[str, Tensor]:
    return load_file(FIXTURE)


@pytest.fixture(scope="module")
def tower(given_rows: dict[str, Tensor]) -> CausalTower:
    weights = {
        name.removeprefix("weights."): tensor
        for name, tensor in given_rows.items()
        if name.startswith("weights.")
    }
    return CausalTower(weights, heads=2, make=dense(torch.float32))


def run(tower: CausalTower, mel: Tensor, sizes: Sequence[int]) -> Tensor:
    """Feed mel [bins, frame] in pieces of these sizes and then the rest -> all rows."""
    state, rows, at = tower.open(), [], 0
    for size in sizes:
        ((new, state),) = tower.encode([state], [mel[:, at : at + size]], final=False)
        rows.append(new)
        at += size
    ((new, _),) = tower.encode([state], [mel[:, at:]], final=True)
    return torch.cat([*rows, new])


def test_rows_equal_the_package(tower: CausalTower, given_rows: dict[str, Tensor]) -> None:
    rows = run(tower, given_rows["mel"], [])
    assert len(rows) == given_rows["mel"].shape[1] // ROW_FRAMES
    torch.testing.assert_close(rows, given_rows["rows.192"], rtol=1e-4, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(0, 900), max_size=8))
def test_any_feed_gives_the_same_rows(sizes: list[int]) -> None:
    given_rows = load_file(FIXTURE)
    weights = {
        name.removeprefix("weights."): tensor
        for name, tensor in given_rows.items()
        if name.startswith("weights.")
    }
    tower = CausalTower(weights, heads=2, make=dense(torch.float32))
    rows = run(tower, given_rows["mel"], sizes)
    torch.testing.assert_close(rows, given_rows["rows.192"], rtol=1e-4, atol=1e-5)


def test_streams_together_are_as_each_alone(
    tower: CausalTower, given_rows: dict[str, Tensor]
) -> None:
    mels = [given_rows["mel"][:, :frames] for frames in (0, 7, 192, 1000, 4005)]
    halves = [mel[:, : mel.shape[1] // 2] for mel in mels]
    first = tower.encode([tower.open() for _ in mels], halves, final=False)
    rests = [mel[:, mel.shape[1] // 2 :] for mel in mels]
    last = tower.encode([state for _, state in first], rests, final=True)
    for mel, (start, _), (end, _) in zip(mels, first, last, strict=True):
        together = torch.cat([start, end])
        torch.testing.assert_close(together, run(tower, mel, []), rtol=1e-4, atol=1e-5)


def test_state_is_bounded_and_a_second_costs_the_same(
    tower: CausalTower, given_rows: dict[str, Tensor]
) -> None:
    block = given_rows["mel"][:, : BLOCK_ROWS * ROW_FRAMES]
    state, costs = tower.open(), []
    for _ in range(40):
        with FlopCounterMode(display=False) as counter:
            ((_, state),) = tower.encode([state], [block], final=False)
        costs.append(counter.get_total_flops())
        assert state.keys.shape[2] <= LEFT
    assert state.keys.shape[2] == LEFT
    assert len(set(costs[10:])) == 1, "flat once the window is full"


def test_a_new_segment_starts_anew(tower: CausalTower, given_rows: dict[str, Tensor]) -> None:
    mel = given_rows["mel"][:, :400]
    assert isinstance(tower.open(), CausalState)
    torch.testing.assert_close(run(tower, mel, [100]), run(tower, mel, [100]))
    ((_, state),) = tower.encode([tower.open()], [mel], final=True)
    ((later, _),) = tower.encode([state], [mel], final=True)
    assert not torch.allclose(later, run(tower, mel, [])), "positions and keys go on"


def test_all_of_it_is_where_the_weights_are(given_rows: dict[str, Tensor]) -> None:
    weights = {
        name.removeprefix("weights."): tensor.to("meta")
        for name, tensor in given_rows.items()
        if name.startswith("weights.")
    }
    tower = CausalTower(weights, heads=2, make=dense(torch.float32))
    state = tower.open()
    for final in (False, True):
        mel = torch.zeros(128, 500, device="meta")
        ((rows, state),) = tower.encode([state], [mel], final=final)
        assert rows.device.type == "meta"
