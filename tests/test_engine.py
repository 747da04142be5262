"""Pages are never lost or shared by mistake; whoever is admitted finishes, in order."""

import math
from dataclasses import replace

import pytest
import torch
from engines import CPU, Recorder, drain, remember, toy_decoder, toy_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from torch import Tensor

from livecap.engine.engine import HALT_EVERY, Engine
from livecap.engine.pages import Pages, Table
from livecap.engine.request import Request
from livecap.engine.sampler import Suppress
from livecap.errors import CorruptModel

END = 80
ONLY_TEXT = Suppress(torch.arange(END, 120))  # it never ends by itself


def pool(count: int = 12, size: int = 4) -> Pages:
    return Pages(layers=2, heads=2, dim=3, size=size, count=count, dtype=torch.float32, device=CPU)


def request_of(prompt: int, sampled: int, **changes: object) -> Request:
    """A request for exactly so many tokens."""
    request = Request(
        prompt=tuple(n % END for n in range(prompt)),
        limit=prompt + sampled,
        ends=frozenset([END]),
        rules=(ONLY_TEXT,),
    )
    return replace(request, **changes)  # type: ignore[arg-type]


# -- pages --------------------------------------------------------------------------------------


class AnyUse(RuleBasedStateMachine):
    """A pool under any order of legal calls, beside a plain account of who holds what."""

    def __init__(self) -> None:
        super().__init__()
        self.pages = pool()
        self.promises: list[tuple[Table, int]] = []  # with the pages that each may have in all
        self.lengths: list[int] = []

    @rule(length=st.integers(1, 60))
    def admit(self, length: int) -> None:
        needed, available = -(-length // 4), self.pages.available
        table = self.pages.admit(length)
        assert (table is not None) == (needed <= available)
        if table is not None:
            self.promises.append((table, needed))
            self.lengths.append(0)

    @precondition(lambda self: bool(self.promises))
    @rule(which=st.integers(0, 99), share=st.floats(0, 1))
    def grow(self, which: int, share: float) -> None:
        which %= len(self.promises)
        table, promised = self.promises[which]
        low = self.lengths[which]
        length = low + round(share * (promised * 4 - low))
        before = list(table.pages)
        self.pages.grow(table, length)
        assert table.pages[: len(before)] == before
        self.lengths[which] = length

    @precondition(lambda self: bool(self.promises))
    @rule(which=st.integers(0, 99), share=st.floats(0, 1))
    def truncate(self, which: int, share: float) -> None:
        which %= len(self.promises)
        table, _ = self.promises[which]
        length = round(share * self.lengths[which])
        before = list(table.pages)
        self.pages.truncate(table, length)
        assert table.pages == before[: -(-length // 4)]
        self.lengths[which] = length

    @precondition(lambda self: bool(self.promises))
    @rule(which=st.integers(0, 99))
    def release(self, which: int) -> None:
        which %= len(self.promises)
        table, _ = self.promises.pop(which)
        self.lengths.pop(which)
        self.pages.release(table)
        assert (table.pages, table.promised) == ([], 0)

    @invariant()
    def nothing_is_lost(self) -> None:
        promised = sum(promise for _, promise in self.promises)
        assert self.pages.available == self.pages.count - promised >= 0
        held = [page for table, _ in self.promises for page in table.pages]
        assert len(held) == len(set(held)), "a page in two tables"
        assert set(held) <= set(range(self.pages.count))
        for (table, promise), length in zip(self.promises, self.lengths, strict=True):
            assert len(table.pages) == -(-length // 4)
            assert len(table.pages) + table.promised == promise


TestAnyUse = AnyUse.TestCase
TestAnyUse.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


def test_growing_past_the_promise_is_our_bug() -> None:
    pages = pool()
    table = pages.admit(8)
    assert table is not None
    with pytest.raises(AssertionError, match="admitted for"):
        pages.grow(table, 9)


def test_rows_lie_where_the_slots_say() -> None:
    pages = pool()
    others = [pages.admit(4), pages.admit(10)]
    assert all(others)
    table = pages.admit(12)
    assert table is not None
    pages.grow(table, 10)
    slots = pages.slots(table, 3, 10)
    keys, values = torch.randn(2, 7, 2, 3)
    pages.write(1, torch.tensor(slots).T, keys, values)
    for n, at in enumerate(range(3, 10)):
        page, slot = table.pages[at // 4], at % 4
        assert torch.equal(pages.keys[1, page, :, slot], keys[n])
        assert torch.equal(pages.values[1, page, :, slot], values[n])
    assert not pages.keys[0].any()
    assert int(pages.keys[1].any(-1).any(1).sum()) == 7  # and nowhere else


# -- the engine ---------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 40)), min_size=1, max_size=20),
    st.integers(1, 6),
)
def test_many_requests_and_few_pages(sizes: list[tuple[int, int]], most: int) -> None:
    """All finish, though only one of the longest fits at a time, and the pool is whole again."""
    decoder = toy_decoder(sequences=1)  # 4 pages
    memory = remember(decoder, toy_rows(10, 1))
    engine = Engine(decoder, most=most)
    requests = [request_of(*size, memory=memory) for size in sizes]
    for (_, sampled), sequence in zip(sizes, drain(engine, requests), strict=True):
        assert (sequence.status, len(sequence.sampled)) == ("limit", sampled)
        assert len(sequence.logprobs) == sampled
        assert sequence.table.pages == []
    assert decoder.pages.available == decoder.pages.count


def test_what_runs_is_never_short_of_pages() -> None:
    """Admission counts what a request can need in the end, not what its prompt needs."""
    decoder = toy_decoder(sequences=1)  # 4 pages of 32
    memory = remember(decoder, toy_rows(10, 1))
    engine = Engine(decoder, most=8)
    for _ in range(4):
        engine.submit(request_of(2, 60, memory=memory))  # 2 pages in the end
    engine.step()
    assert len(engine.scheduler.running) == 2
    assert [sequence.status for sequence in drain(engine)] == ["limit"] * 4


def test_a_request_larger_than_the_pool_is_our_bug() -> None:
    engine = Engine(toy_decoder(sequences=1), most=1)
    with pytest.raises(AssertionError, match="never be admitted"):
        engine.submit(request_of(100, 100))
    assert engine.is_idle


def test_no_more_run_than_may() -> None:
    decoder = toy_decoder(sequences=8)
    memory = remember(decoder, toy_rows(10, 1))
    recorder = Recorder(decoder)
    drain(Engine(recorder, most=3), [request_of(1, 5, memory=memory) for _ in range(7)])
    assert [len(logits) for logits in recorder.logits] == [3] * 10 + [1] * 5


def test_the_earliest_deadline_goes_first() -> None:
    decoder = toy_decoder(sequences=1)
    memory = remember(decoder, toy_rows(10, 1))
    engine = Engine(decoder, most=1)
    deadlines = [math.inf, 3.0, 1.0, math.inf, 2.0, 1.0]
    requests = [request_of(1, 2, memory=memory, deadline=when) for when in deadlines]
    for request in requests:
        engine.submit(request)
    order = [requests.index(sequence.request) for sequence in drain(engine)]
    assert order == [2, 5, 4, 1, 0, 3]  # equals in the order in which they came


def test_what_runs_is_not_displaced() -> None:
    decoder = toy_decoder(sequences=1)
    memory = remember(decoder, toy_rows(10, 1))
    engine = Engine(decoder, most=1)
    offline = request_of(1, 3, memory=memory)
    engine.submit(offline)
    engine.step()
    engine.submit(request_of(1, 3, memory=memory, deadline=0.0))
    assert drain(engine)[0].request is offline


def test_clearing_gives_everything_back() -> None:
    decoder = toy_decoder(sequences=2)
    memory = remember(decoder, toy_rows(10, 1))
    engine = Engine(decoder, most=1)
    for _ in range(3):
        engine.submit(request_of(5, 30, memory=memory))
    engine.step()
    engine.clear()
    assert engine.is_idle
    assert engine.step() == []
    assert decoder.pages.available == decoder.pages.count


@pytest.mark.parametrize("sampled", [1, 2, 33])
def test_the_limit(sampled: int) -> None:
    decoder = toy_decoder(sequences=1)
    request = request_of(31, sampled, memory=remember(decoder, toy_rows(10, 1)))
    [sequence] = drain(Engine(decoder, most=1), [request])
    assert (sequence.status, len(sequence.inputs)) == ("limit", 31 + sampled)


def test_the_end_token_is_scored_but_not_part_of_the_result() -> None:
    decoder = toy_decoder(sequences=1)
    memory = remember(decoder, toy_rows(10, 1))
    free = request_of(3, 20, memory=memory)
    truth = drain(Engine(decoder, most=1), [free])[0]
    at = next(n for n, token in enumerate(truth.sampled) if token not in truth.sampled[:n] and n)
    ends = replace(free, ends=frozenset([truth.sampled[at], 119]))
    [sequence] = drain(Engine(decoder, most=1), [ends])
    assert sequence.status == "end"
    assert sequence.sampled == truth.sampled[:at]
    assert len(sequence.logprobs) == at + 1
    assert sequence.logprobs == pytest.approx(truth.logprobs[: at + 1], abs=1e-5)


def test_halting() -> None:
    decoder = toy_decoder(sequences=1)
    asked: list[int] = []

    def halt(sampled: object) -> bool:
        assert isinstance(sampled, list)
        asked.append(len(sampled))
        return len(sampled) >= 20

    request = request_of(3, 60, memory=remember(decoder, toy_rows(10, 1)), halt=halt)
    [sequence] = drain(Engine(decoder, most=1), [request])
    assert sequence.status == "halted"
    assert asked == [8, 16, 24]
    assert len(sequence.sampled) == 3 * HALT_EVERY
    assert decoder.pages.available == decoder.pages.count


@pytest.mark.parametrize("at", [0, 2, 5])
@pytest.mark.parametrize("draft", [(), (4, 4, 4)])
def test_the_watched_probability_is_that_of_the_raw_logits(at: int, draft: tuple[int, ...]) -> None:
    decoder = toy_decoder(sequences=2)
    memory = remember(decoder, toy_rows(10, 1))
    recorder = Recorder(decoder)
    forbids = Suppress(torch.tensor([7]))
    request = request_of(
        6, 9, memory=memory, watch=(at, 7), rules=(ONLY_TEXT, forbids), draft=draft
    )
    other = request_of(4, 9, memory=memory)
    watching = drain(Engine(recorder, most=2), [other, request])[1]
    whole = Recorder(decoder)
    drain(Engine(whole, most=1), [request_of(at + 1, 1, memory=memory)])
    expected = float(whole.logits[0][0].softmax(-1)[7])
    assert watching.watched == pytest.approx(expected, abs=1e-6)
    assert expected > 0


def test_logprobs_are_those_of_what_the_rules_allow() -> None:
    decoder = toy_decoder(sequences=1)
    recorder = Recorder(decoder)
    request = request_of(3, 5, memory=remember(decoder, toy_rows(10, 1)))
    [sequence] = drain(Engine(recorder, most=1), [request])
    for logits, token, logprob in zip(
        recorder.logits, sequence.sampled, sequence.logprobs, strict=True
    ):
        row: Tensor = logits[0].clone()
        row[END:] = -math.inf
        assert logprob == pytest.approx(float(row.log_softmax(-1)[token]), abs=1e-5)


def test_a_seed_gives_the_same_again_and_another_gives_another() -> None:
    decoder = toy_decoder(sequences=1)
    memory = remember(decoder, toy_rows(10, 1))
    warm = request_of(3, 30, memory=memory, temperature=1.5)
    requests = [replace(warm, seed=seed) for seed in (1, 1, 2)]
    first, again, other = drain(Engine(decoder, most=3), requests)
    assert first.sampled == again.sampled != other.sampled


def test_memories_come_and_go() -> None:
    decoder = toy_decoder(memories=1)  # 15 pages of 100 rows
    first = remember(decoder, toy_rows(1001, 1))
    assert decoder.project_cross_kv(toy_rows(500, 2)) is None
    second = remember(decoder, toy_rows(400, 2))
    assert not set(first.table.pages) & set(second.table.pages)
    decoder.free(first)
    assert decoder.project_cross_kv(toy_rows(1100, 3)) is not None
    assert decoder.memory.available == 0


def test_weights_that_are_no_numbers_are_said_to_be_damaged() -> None:
    decoder = toy_decoder()
    decoder.embedding[:] = math.nan
    engine = Engine(decoder, most=1)
    engine.submit(request_of(3, 5, memory=remember(decoder, toy_rows(20, 1))))
    with pytest.raises(CorruptModel, match="no numbers"):
        drain(engine)
