"""The rules of timestamps agree with a second opinion; sampling keeps to what is allowed."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import GenerationConfig
from transformers.generation.logits_process import WhisperTimeStampLogitsProcessor

from livecap.engine.sampler import Only, Suppress, SuppressFirst, Timestamps

# A small vocabulary: text, the end, other specials, "no timestamps", then times.
END, PREVIOUS, NONE, BEGIN, LAST = 20, 25, 28, 29, 59
VOCAB = LAST + 1
RULE = Timestamps(begin=BEGIN, last=LAST, end_of_text=END, no_timestamps=NONE, first=10)

text = st.integers(0, END - 1)
times = st.integers(BEGIN, LAST)
histories = st.lists(st.one_of(text, times), max_size=12)


def logits_of(seed: int, lean: float = 0.0) -> Tensor:
    """Random logits; `lean` is added to the times."""
    logits = torch.randn(VOCAB, generator=torch.Generator().manual_seed(seed)) * 3
    logits[BEGIN:] += lean
    return logits


def ruled(logits: Tensor, sampled: list[int], rule: Timestamps = RULE) -> list[float]:
    out = logits.clone()
    rule(out, sampled)
    values: list[float] = out.tolist()
    return values


def theirs(logits: Tensor, sampled: list[int]) -> list[float]:
    """As transformers does it. It takes the prompt too, and leaves non-finite rows alone."""
    config = GenerationConfig(
        eos_token_id=END,
        bos_token_id=END,
        no_timestamps_token_id=NONE,
        max_initial_timestamp_index=10,
    )
    processor: Any = WhisperTimeStampLogitsProcessor(config, begin_index=2)
    ids = torch.tensor([[21, 22, *sampled]])
    out: list[float] = processor(ids, logits[None].clone())[0].tolist()
    return out


def by_the_book(logits: Tensor, sampled: list[int]) -> list[float]:
    """The rules, one id at a time, from the description of openai-whisper's decoder."""

    def forbidden(token: int) -> bool:
        is_time = token >= BEGIN
        if token == NONE:
            return True
        if not sampled:
            return not BEGIN <= token <= BEGIN + RULE.first
        last_is_time = sampled[-1] >= BEGIN
        pair_is_whole = len(sampled) == 1 or sampled[-2] >= BEGIN
        if last_is_time and pair_is_whole and is_time:
            return True
        if last_is_time and not pair_is_whole and token < END:
            return True
        said = [token for token in sampled if token >= BEGIN]
        if is_time and said:
            reopens = last_is_time and not pair_is_whole and token == said[-1]
            return token <= said[-1] and not reopens
        return False

    out = [-math.inf if forbidden(n) else value for n, value in enumerate(logits.tolist())]
    mass = torch.tensor(out[BEGIN:]).logsumexp(0).item()
    if mass > max(out[:BEGIN]):
        out[:BEGIN] = [-math.inf] * BEGIN
    return out


@settings(max_examples=400, deadline=None)
@given(histories, st.integers(0, 10**6), st.sampled_from([-6.0, -2.0, 0.0, 6.0]))
def test_timestamps_by_the_book_and_by_transformers(
    sampled: list[int], seed: int, lean: float
) -> None:
    logits = logits_of(seed, lean)
    ours = ruled(logits, sampled)
    assert ours == by_the_book(logits, sampled)
    assert ours == theirs(logits, sampled)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40))
def test_what_the_rules_allow_is_well_formed(seed: int, length: int) -> None:
    """Sampled under the rules: time, text, time, time, text, time, ... and time never goes back."""
    generator = torch.Generator().manual_seed(seed)
    sampled: list[int] = []
    for step in range(length):
        logits = torch.tensor(ruled(logits_of(seed + step, -2.0), sampled))
        assert logits.max() > -math.inf, "nothing is allowed"
        token = int(torch.multinomial(logits.softmax(0), 1, generator=generator))
        if END <= token < BEGIN:
            break
        sampled.append(token)
    said = [token for token in sampled if token >= BEGIN]
    assert said == sorted(said)
    assert sampled[0] >= BEGIN
    runs = "".join("t" if token >= BEGIN else "w" for token in sampled)
    assert "ttt" not in runs
    assert not runs.startswith("tt")


@pytest.mark.parametrize(
    ("sampled", "allowed"),
    [
        ([], [(BEGIN, BEGIN + 10)]),
        ([BEGIN + 3], [(0, NONE - 1)]),  # one time: text follows
        ([BEGIN + 3, 5], [(0, NONE - 1), (BEGIN + 4, LAST)]),
        ([BEGIN + 3, 5, BEGIN + 9], [(END, NONE - 1), (BEGIN + 9, LAST)]),  # the same may reopen
        ([BEGIN + 3, 5, BEGIN + 9, BEGIN + 9], [(0, NONE - 1)]),
        ([BEGIN + 3, 5, BEGIN + 9, BEGIN + 9, 5], [(0, NONE - 1), (BEGIN + 10, LAST)]),
        ([BEGIN, 5, LAST, LAST, 5], [(0, NONE - 1)]),  # no time is left
        ([BEGIN, 5, LAST], [(END, NONE - 1), (LAST, LAST)]),
    ],
)
def test_the_table_of_what_may_follow(sampled: list[int], allowed: list[tuple[int, int]]) -> None:
    logits = torch.zeros(VOCAB)
    logits[BEGIN:] = -9.0  # together still less likely than text
    expected = {token for low, high in allowed for token in range(low, high + 1)}
    values = ruled(logits, sampled)
    assert {n for n, value in enumerate(values) if value > -math.inf} == expected


def test_times_that_are_likelier_together_win() -> None:
    logits = torch.zeros(VOCAB)
    values = ruled(logits, [BEGIN, 5])
    assert max(values[:BEGIN]) == -math.inf  # 30 times with 0 each outweigh a text with 0


def test_suppressing() -> None:
    never, first = Suppress(torch.tensor([1, 2])), SuppressFirst(torch.tensor([3]))
    for sampled, gone in (([], {1, 2, 3}), ([7], {1, 2})):
        logits = torch.zeros(6)
        for rule in (never, first):
            rule(logits, sampled)
        assert {n for n in range(6) if logits[n] == -math.inf} == gone


def test_only() -> None:
    logits = torch.arange(6.0)
    Only(torch.tensor([4, 2]))(logits, [])
    assert logits.tolist() == [-math.inf, -math.inf, 2, -math.inf, 4, -math.inf]
