"""Qwen3's decoder on paged keys and values: tokens and encoder rows -> logits.

Grouped-query attention with normalised queries and keys, rotary positions, SwiGLU. Source: Qwen3
technical report (2025); the results are those of transformers' Qwen3.
"""

from collections.abc import Mapping
from collections.abc import Sequence as Items
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from livecap.engine.attention import attend
from livecap.engine.batch import Batch, pack, turn
from livecap.engine.layers import RmsNorm, rotary, rotate
from livecap.engine.pages import Pages
from livecap.engine.request import Embedded, Request, Sequence
from towers.layers import Linear, MakeLinear, Weights

PAGE = 256  # positions; a segment of 28 s takes about 500


@dataclass(frozen=True, slots=True)
class Shape:
    """What the weights alone don't tell."""

    heads: int
    kv_heads: int
    head_dim: int
    theta: float  # of the rotary positions
    eps: float  # of the norms


@dataclass(frozen=True, slots=True)
class QwenLayer:
    """One pre-norm block: self-attention, feed-forward."""

    attention_norm: RmsNorm
    qkv: Linear
    head_norm: RmsNorm  # of every query and key
    head_scales: Tensor  # [head + kv head, dim]
    out: Linear
    feed_norm: RmsNorm
    gate_up: Linear
    down: Linear

    @staticmethod
    def load(weights: Weights, shape: Shape) -> "QwenLayer":
        """The block under `layers.N.`."""
        attention, feed = weights.at("self_attn"), weights.at("mlp")

        def norm(name: str) -> RmsNorm:
            return RmsNorm(weights.tensor(f"{name}.weight"), shape.eps)

        return QwenLayer(
            norm("input_layernorm"),
            attention.linear("q_proj", "k_proj", "v_proj"),
            RmsNorm(None, shape.eps),
            torch.cat(
                [
                    weights.tensor(f"self_attn.{name}.weight").expand(heads, -1)
                    for name, heads in (("q_norm", shape.heads), ("k_norm", shape.kv_heads))
                ]
            ),
            attention.linear("o_proj"),
            norm("post_attention_layernorm"),
            feed.linear("gate_proj", "up_proj"),
            feed.linear("down_proj"),
        )


class Qwen3Decoder:
    """The decoder and its pool.

    `tensors` are named `embed_tokens.weight`, `layers.0.self_attn.q_proj.weight`, `norm.weight`;
    `head` [output, hidden] is read from its own tensor, which a tied model shares with the
    embedding. `make_head` makes the one copy of it that is multiplied with.
    """

    memory: Pages | None = None  # no cross-attention

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        *,
        shape: Shape,
        head: str,
        positions: int,
        make: MakeLinear,
        make_head: MakeLinear,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        weights = Weights(tensors, "", make)
        count = len({name.split(".")[1] for name in tensors if name.startswith("layers.")})
        self.shape, self.dtype, self.device = shape, dtype, device
        self.embedding = tensors["embed_tokens.weight"].to(device)  # [vocab, hidden], as stored
        # The largest first: while it is converted it is there twice.
        self.head = make_head(tensors[head], None)
        self.layers = [QwenLayer.load(weights.at(f"layers.{n}"), shape) for n in range(count)]
        self.norm = RmsNorm(weights.tensor("norm.weight"), shape.eps)
        self.pages = Pages(
            layers=count,
            heads=shape.kv_heads,
            dim=shape.head_dim,
            size=PAGE,
            count=-(-positions // PAGE),
            dtype=dtype,
            device=device,
        )

    @property
    def limit(self) -> int:
        """Most positions of a sequence: those of the whole pool."""
        return self.pages.count * PAGE

    def forward(self, batch: Batch) -> Tensor:
        """Store the rows' keys and values; return float32 logits [wanted, vocab]."""
        x = self.embedding[batch.tokens].float()
        for row, values in batch.embedded:
            x[row : row + len(values)] = values
        turns = rotary(batch.positions, self.shape.head_dim, self.shape.theta)
        for number, layer in enumerate(self.layers):
            attended = self._attend(number, layer, layer.attention_norm(x), turns, batch)
            x = x + layer.out(attended)
            gate, up = layer.gate_up(layer.feed_norm(x)).chunk(2, -1)
            x = x + layer.down(F.silu(gate) * up)
        return self.head(self.norm(x[batch.wanted])).float()

    @torch.inference_mode()
    def score(self, tokens: Items[int], embedded: Embedded, wanted: Items[int]) -> Tensor:
        """A whole prompt in one pass -> logits [wanted, output] of those rows. Nothing is kept.

        It must fit into what is free of the pool.
        """
        request = Request(tuple(tokens), len(tokens), frozenset(), embedded=embedded)
        table = self.pages.admit(len(tokens))
        assert table is not None, "longer than the pool"
        sequence = Sequence(request, list(tokens), table, None)
        batch = pack([turn(sequence, len(tokens))], self.pages, None, self.device)
        try:
            rows = torch.tensor(list(wanted), dtype=torch.long, device=self.device)
            return self.forward(replace(batch, wanted=rows))
        finally:
            self.pages.release(table)

    def _attend(
        self, number: int, layer: QwenLayer, x: Tensor, turns: tuple[Tensor, Tensor], batch: Batch
    ) -> Tensor:
        """A layer's normed rows [row, hidden] -> what they attend to [row, heads * dim]."""
        heads, shared = self.shape.heads, self.shape.kv_heads
        qkv = layer.qkv(x).view(len(x), heads + 2 * shared, -1)
        both, value = qkv.split_with_sizes([heads + shared, shared], 1)
        both = rotate(layer.head_norm(both) * layer.head_scales, turns).to(self.dtype)
        pages = self.pages
        pages.write(number, batch.slots, both[:, heads:], value)
        query = both[:, :heads]
        attended = attend(query, pages.keys[number], pages.values[number], batch.attention)
        return attended.flatten(1)
