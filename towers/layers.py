"""The pieces every tower and decoder is made of: linear maps, norms, and dense attention."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

Linear = Callable[[Tensor], Tensor]  # [..., inputs] -> [..., outputs]
MakeLinear = Callable[[Tensor, Tensor | None], Linear]  # weight [outputs, inputs], bias -> Linear


@dataclass(frozen=True, slots=True)
class Dense:
    """A linear map in the precision of its weight."""

    weight: Tensor  # [outputs, inputs]
    bias: Tensor | None  # [outputs]

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x.to(self.weight.dtype), self.weight, self.bias)


def dense(dtype: torch.dtype) -> MakeLinear:
    """A precision -> a maker of `Dense` maps in it."""

    def make(weight: Tensor, bias: Tensor | None) -> Linear:
        return Dense(weight.to(dtype), None if bias is None else bias.to(dtype))

    return make


@dataclass(frozen=True, slots=True)
class Norm:
    """Layer normalisation in float32, whatever comes in."""

    weight: Tensor  # [width]
    bias: Tensor  # [width]

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x.float(), self.weight.shape, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class Weights:
    """The tensors of a checkpoint under one prefix, and how its linear maps are made."""

    tensors: Mapping[str, Tensor]
    prefix: str
    make: MakeLinear

    def at(self, name: str) -> "Weights":
        """The same below `name`."""
        return Weights(self.tensors, f"{self.prefix}{name}.", self.make)

    def tensor(self, name: str) -> Tensor:
        """One tensor in float32."""
        return self.tensors[self.prefix + name].float()

    def norm(self, name: str) -> Norm:
        """A layer normalisation."""
        return Norm(self.tensor(f"{name}.weight"), self.tensor(f"{name}.bias"))

    def linear(self, *names: str) -> Linear:
        """One linear map, or several that take the same input fused into one.

        A missing bias counts as zero where another of the fused ones has one.
        """
        weights = [self.tensors[f"{self.prefix}{name}.weight"] for name in names]
        biases = [self.tensors.get(f"{self.prefix}{name}.bias") for name in names]
        if all(bias is None for bias in biases):
            return self.make(torch.cat(weights), None)
        filled = [
            weight.new_zeros(len(weight)) if bias is None else bias
            for weight, bias in zip(weights, biases, strict=True)
        ]
        return self.make(torch.cat(weights), torch.cat(filled))


@dataclass(frozen=True, slots=True)
class EncoderBlock:
    """One pre-norm transformer block of an encoder; what its rows attend to is up to the tower.

    Both Whisper and Qwen3-ASR name its tensors in this way.
    """

    attention_norm: Norm
    qkv: Linear
    out: Linear
    feed_norm: Norm
    widen: Linear
    narrow: Linear
    heads: int

    @staticmethod
    def load(weights: Weights, heads: int) -> "EncoderBlock":
        """The block under `layers.N.`."""
        attention = weights.at("self_attn")
        return EncoderBlock(
            weights.norm("self_attn_layer_norm"),
            attention.linear("q_proj", "k_proj", "v_proj"),
            attention.linear("out_proj"),
            weights.norm("final_layer_norm"),
            weights.linear("fc1"),
            weights.linear("fc2"),
            heads,
        )

    def project(self, x: Tensor) -> Tensor:
        """Rows [..., width] -> queries, keys and values [..., 3, head, dim]."""
        return self.qkv(self.attention_norm(x)).view(*x.shape[:-1], 3, self.heads, -1)

    def merge(self, x: Tensor, attended: Tensor) -> Tensor:
        """Rows and what they attended to, [..., width] each -> the rows after the block."""
        x = x + self.out(attended)
        return x + self.narrow(F.gelu(self.widen(self.feed_norm(x))))


SHORT = 256  # rows up to which all heads at once are faster than one after another


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Full attention, [batch, head, row, dim] each -> [batch, head, row of `query`, dim].

    On a CPU in bf16, head by head with plain products: torch's fused kernel runs its products in
    float32 there and takes 1.6 times as long for 1500 rows.
    """
    if query.device.type != "cpu" or query.dtype != torch.bfloat16:
        return F.scaled_dot_product_attention(query, key, value)
    scaled = query * (1 / math.sqrt(query.shape[-1]))
    if key.shape[-2] <= SHORT:
        return (scaled @ key.mT).softmax(-1) @ value
    out = torch.empty_like(query)
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            scores = torch.mm(scaled[b, h], key[b, h].T)  # [row, row]
            torch.mm(scores.softmax(-1), value[b, h], out=out[b, h])
    return out
