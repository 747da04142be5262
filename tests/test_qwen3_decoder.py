"""Qwen3's decoder against transformers', and every shortcut of the engine against the long way."""

from collections.abc import Sequence as Tokens
from dataclasses import replace
from typing import Any

import pytest
import torch
from engines import CPU, drain
from qwen_models import decoder_of, tiny_qwen
from torch import Tensor

from livecap.config import Precision
from livecap.engine import attention, scheduler
from livecap.engine.batch import Batch
from livecap.engine.engine import Engine
from livecap.engine.layers import ByRows, Bytes, Nibbles, choose
from livecap.engine.request import Embedded, PrefixCache, Request, Sequence
from livecap.models.qwen3_asr.decoder import Qwen3Decoder, Shape
from towers.layers import dense

VOCAB, HIDDEN = 640, 32
POSITIONS = 2048


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def model(request: pytest.FixtureRequest) -> Any:
    return tiny_qwen(tied=request.param)


def ours(model: Any, precision: Precision = "fp32", positions: int = POSITIONS) -> Qwen3Decoder:
    config, tensors = model.config.text_config, decoder_of(model)
    precisions = choose(precision, CPU)
    return Qwen3Decoder(
        tensors,
        shape=Shape(4, 2, 16, 1e6, config.rms_norm_eps),
        head="lm_head.weight" if "lm_head.weight" in tensors else "embed_tokens.weight",
        positions=positions,
        make=precisions.make_twofold_linear(),
        make_head=precisions.make_decoder_linear(),
        dtype=precisions.decoder,
        device=CPU,
    )


@pytest.fixture(scope="module")
def decoder(model: Any) -> Qwen3Decoder:
    return ours(model)


def tokens_of(length: int, seed: int = 0) -> tuple[int, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(0, 600, (length,), generator=generator).tolist())


def rows_of(length: int, seed: int = 0) -> Tensor:
    return torch.randn(length, HIDDEN, generator=torch.Generator().manual_seed(seed))


@torch.inference_mode()
def theirs(model: Any, tokens: Tokens[int], embedded: Embedded | None = None) -> Tensor:
    """Transformers' logits after each token [token, vocab]."""
    x = model.get_input_embeddings()(torch.tensor([list(tokens)]))
    if embedded:
        x[0, embedded.start : embedded.start + len(embedded.rows)] = embedded.rows
    logits: Tensor = model(inputs_embeds=x).logits[0]
    return logits


def greedy(model: Any, request: Request, ends: frozenset[int] = frozenset()) -> list[int]:
    """What transformers would go on with, one whole forward a token."""
    tokens = list(request.prompt)
    while len(tokens) < request.limit:
        token = int(theirs(model, tokens, request.embedded)[-1].argmax())
        if token in ends:
            break
        tokens.append(token)
    return tokens[len(request.prompt) :]


def asked(length: int, sampled: int = 12, seed: int = 0, **more: Any) -> Request:
    """A request with audio rows in the middle of its prompt."""
    rows = Embedded(5, rows_of(length - 10, seed))
    prompt = tokens_of(length, seed)
    return Request(prompt, length + sampled, frozenset(), embedded=rows, **more)


def test_logits_equal_transformers(model: Any, decoder: Qwen3Decoder) -> None:
    tokens, embedded = tokens_of(150), Embedded(9, rows_of(130))
    found = decoder.score(tokens, embedded, range(150))
    expected = theirs(model, tokens, embedded)
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-4)
    assert decoder.pages.available == decoder.pages.count


def test_greedy_tokens_equal_transformers(model: Any, decoder: Qwen3Decoder) -> None:
    requests = [asked(length, seed=length) for length in (11, 64, 65, 130)]
    found = drain(Engine(decoder, most=4), requests)
    assert [one.sampled for one in found] == [greedy(model, one) for one in requests]
    assert all(one.status == "limit" for one in found)


def test_either_end_token_ends(model: Any, decoder: Qwen3Decoder) -> None:
    request = asked(40)
    said = greedy(model, request)
    for end in {said[3], said[7]}:
        ends = frozenset({end, 639})
        one = Request(request.prompt, request.limit, ends, embedded=request.embedded)
        (found,) = drain(Engine(decoder, most=1), [one])
        assert found.status == "end"
        assert found.sampled == greedy(model, request, ends)


def test_batched_equals_alone(decoder: Qwen3Decoder) -> None:
    requests = [asked(length, seed=length) for length in (11, 30, 64, 65, 90, 130)]
    alone = [drain(Engine(decoder, most=1), [one])[0].sampled for one in requests]
    batched = [one.sampled for one in drain(Engine(decoder, most=6), requests)]
    assert batched == alone


def test_a_prompt_in_parts_is_the_whole(
    decoder: Qwen3Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [asked(length, seed=length, watch=(length - 3, 7)) for length in (130, 30, 200)]
    whole = drain(Engine(decoder, most=3), requests)
    for rows in (1, 7, 64):
        monkeypatch.setattr(scheduler, "PREFILL", rows)
        parts = drain(Engine(decoder, most=3), requests)
        assert [one.sampled for one in parts] == [one.sampled for one in whole]
        for one, other in zip(parts, whole, strict=True):
            assert one.watched == pytest.approx(other.watched, abs=1e-5)


def test_others_get_tokens_while_a_long_prompt_is_read(
    decoder: Qwen3Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "PREFILL", 16)
    engine = Engine(decoder, most=2)
    engine.submit(asked(11, sampled=10))
    engine.step()
    engine.submit(asked(400, sampled=2))
    finished: list[Sequence] = []
    for _ in range(10):
        finished += engine.step()
    assert [len(one.request.prompt) for one in finished] == [11]
    drain(engine)


@pytest.mark.parametrize("right", [0, 1, 5, 12])
def test_drafted_equals_undrafted(decoder: Qwen3Decoder, right: int) -> None:
    request = asked(40)
    (plain,) = drain(Engine(decoder, most=1), [request])
    wrong = [(token + 1) % 600 for token in plain.sampled]
    draft = (*plain.sampled[:right], *wrong[right:])[:11]
    (found,) = drain(Engine(decoder, most=1), [asked(40, draft=draft)])
    assert found.sampled == plain.sampled
    torch.testing.assert_close(found.logprobs, plain.logprobs, atol=1e-4, rtol=1e-4)


class Counter:
    """A decoder that counts the rows it computes."""

    def __init__(self, decoder: Qwen3Decoder) -> None:
        self.decoder = decoder
        self.pages, self.memory, self.device = decoder.pages, None, decoder.device
        self.rows = 0

    def forward(self, batch: Batch) -> Tensor:
        self.rows += len(batch.tokens)
        return self.decoder.forward(batch)


def growing(rows: Tensor, stable: int, blocks: int, kept: PrefixCache | None) -> Request:
    """A stream's request: so many rows are stable, the others will be replaced."""
    head, tail = (1, 2, 3), (4, 5, 6, 7)
    identity = (*head, *(("stream", n // 13, n) for n in range(stable)))
    prompt = (*head, *(9,) * len(rows), *tail)
    return Request(
        prompt,
        len(prompt) + 8,
        frozenset(),
        embedded=Embedded(len(head), rows),
        prefix_cache=kept,
        identity=identity if kept else (),
    )


def test_kept_equals_rebuilt(decoder: Qwen3Decoder) -> None:
    counter, kept, stable = Counter(decoder), PrefixCache(), rows_of(104, seed=3)
    engine = Engine(counter, most=1)
    before = 0
    for step in range(1, 9):
        done = 13 * step
        rows = torch.cat([stable[:done], rows_of(5, seed=100 + step)])
        (fresh,) = drain(Engine(decoder, most=1), [growing(rows, done, step, None)])
        counter.rows = 0
        (found,) = drain(engine, [growing(rows, done, step, kept)])
        assert found.sampled == fresh.sampled
        assert counter.rows == 3 + len(rows) + 4 + 7 - before, "what is known was computed again"
        before = 3 + done
        assert len(kept.identity) == before
        assert len(kept.table.pages) == decoder.pages.needed(before)
        assert kept.table.promised == 0
    decoder.pages.release(kept.table)
    assert decoder.pages.available == decoder.pages.count


def test_rows_of_another_block_are_not_taken_for_known(decoder: Qwen3Decoder) -> None:
    kept, first, second = PrefixCache(), rows_of(40, seed=1), rows_of(40, seed=2)
    engine = Engine(decoder, most=1)
    drain(engine, [growing(first, 40, 0, kept)])
    request = growing(second, 40, 0, kept)
    other = tuple(("other", *name[1:]) if isinstance(name, tuple) else name
                  for name in request.identity)  # fmt: skip
    request = Request(
        request.prompt, request.limit, frozenset(), embedded=request.embedded, prefix_cache=kept,
        identity=other,
    )  # fmt: skip
    (found,) = drain(engine, [request])
    (fresh,) = drain(engine, [growing(second, 40, 0, None)])
    assert found.sampled == fresh.sampled
    decoder.pages.release(kept.table)


def test_what_was_cut_short_is_not_taken_for_known(
    decoder: Qwen3Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "PREFILL", 16)
    kept, rows = PrefixCache(), rows_of(40, seed=1)
    engine = Engine(decoder, most=1)
    engine.submit(growing(rows, 40, 0, kept))
    engine.step()
    engine.clear()
    assert len(kept.identity) == 16
    (found,) = drain(engine, [growing(rows, 40, 0, kept)])
    (fresh,) = drain(engine, [growing(rows, 40, 0, None)])
    assert found.sampled == fresh.sampled
    decoder.pages.release(kept.table)


def test_many_long_requests_in_a_small_pool_all_finish(model: Any) -> None:
    decoder = ours(model, positions=512)
    requests = [asked(100 + n, sampled=30, seed=n) for n in range(8)]
    found = drain(Engine(decoder, most=8), requests)
    assert [one.status for one in found] == ["limit"] * 8
    assert decoder.pages.available == decoder.pages.count


# Bounds of the lower precisions on random weights, whose logits are about 10 wide.
@pytest.mark.parametrize(("precision", "bound"), [("bf16", 0.03), ("int8", 0.06), ("auto", 0.03)])
def test_precisions_stay_near(model: Any, precision: Precision, bound: float) -> None:
    tokens, embedded = tokens_of(150), Embedded(9, rows_of(130))
    exact = theirs(model, tokens, embedded)
    found = ours(model, precision).score(tokens, embedded, range(150))
    error = (found - exact).square().mean().sqrt() / exact.square().mean().sqrt()
    assert float(error) < bound


# -- attention and weights in low precision --------------------------------------------------------


def heads_of(rows: int, heads: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, heads, 16, generator=generator).to(torch.bfloat16)


@pytest.mark.parametrize("block", [1, 300, 1 << 22])
@pytest.mark.parametrize(("rows", "length"), [(2, 40), (33, 40), (40, 40)])
def test_prompts_in_bf16_attend_as_in_float32(
    block: int, rows: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "BLOCK", block)
    pages, size = [3, 0, 5, 1, 4], 8
    query = heads_of(rows, 4, 1)
    keys, values = (heads_of(6 * size, 2, seed).view(6, 2, size, 16) for seed in (2, 3))
    entry = attention.Entry(rows, pages, length, causal=True)
    plan = attention.plan([entry], size=size, device=CPU)
    found = attention.attend(query, keys, values, plan)
    exact = attention.attend(query.float(), keys.float(), values.float(), plan)
    torch.testing.assert_close(found.float(), exact, atol=0.03, rtol=0.03)


@pytest.mark.parametrize("lengths", [(40,), (40, 33), (40, 9), (1, 40, 17)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_single_rows_attend_alike_by_either_way(
    lengths: tuple[int, ...], dtype: torch.dtype
) -> None:
    size = 8
    free = iter(range(20))
    entries = [
        attention.Entry(1, [next(free) for _ in range(-(-length // size))], length, causal=True)
        for length in lengths
    ]
    query = heads_of(len(lengths), 4, 1).to(dtype)
    keys, values = (heads_of(20 * size, 2, seed).view(20, 2, size, 16).to(dtype) for seed in (2, 3))
    plan = attention.plan(entries, size=size, device=CPU)
    assert plan.singles
    assert plan.singles.is_even == (len({len(one.pages) for one in entries}) == 1)
    tabled = replace(plan, singles=replace(plan.singles, is_even=False))
    found = attention.attend(query, keys, values, plan)
    bound = 1e-5 if dtype == torch.float32 else 0.02
    torch.testing.assert_close(
        found, attention.attend(query, keys, values, tabled), atol=bound, rtol=bound
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_in_bytes_stay_near_and_leave_the_checkpoint(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    weight, bias = torch.randn(96, 64, generator=generator).to(dtype), torch.randn(96)
    before = weight.clone()
    linear = Bytes.of(weight, bias)
    assert torch.equal(weight, before)
    x = torch.randn(3, 64, generator=generator)
    exact = x @ weight.float().T + bias
    error = (linear(x).float() - exact).square().mean().sqrt() / exact.square().mean().sqrt()
    assert float(error) < 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_in_four_bits_stay_within_half_a_step(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    weight, bias = torch.randn(128, 96, generator=generator).to(dtype), torch.randn(128)
    before = weight.clone()
    linear = Nibbles.of(weight, bias)
    assert torch.equal(weight, before)
    found = linear(torch.eye(96)).float().T - bias[:, None]  # the weights, as they are multiplied
    groups = before.float().view(128, 3, 32)
    step = (groups.amax(-1) - groups.amin(-1)) / 15
    error = (found - before.float()).abs().view(128, 3, 32).amax(-1)
    assert bool((error <= step / 2 + 0.05).all())  # bf16 keeps 8 bits of scale, middle and bias
    x = torch.randn(3, 96, generator=generator)
    exact = x @ before.float().T + bias
    off = (linear(x).float() - exact).square().mean().sqrt() / exact.square().mean().sqrt()
    assert float(off) < 0.1  # 0.079 was seen


def test_four_bits_are_for_few_rows_and_whole_groups() -> None:
    make = choose("int4", CPU).make_twofold_linear()
    both = make(torch.randn(128, 96), None)
    assert isinstance(both, ByRows)
    many, few = torch.randn(5, 96), torch.randn(4, 96)
    assert torch.equal(both(many), both.many(many))
    assert torch.equal(both(few), both.few(few))
    assert not isinstance(make(torch.randn(100, 96), None), ByRows)
    assert not isinstance(make(torch.randn(128, 100), None), ByRows)


def test_all_of_it_is_where_the_weights_are(model: Any) -> None:
    tensors = {name: tensor.to("meta") for name, tensor in decoder_of(model).items()}
    decoder = Qwen3Decoder(
        tensors,
        shape=Shape(4, 2, 16, 1e6, 1e-6),
        head="embed_tokens.weight",
        positions=512,
        make=dense(torch.float32),
        make_head=dense(torch.float32),
        dtype=torch.float32,
        device=torch.device("meta"),
    )
    rows = torch.zeros(30, HIDDEN, device="meta")
    logits = decoder.score(tokens_of(40), Embedded(5, rows), [39])
    assert logits.device.type == "meta"
