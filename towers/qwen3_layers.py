"""What the two towers of Qwen3-ASR have in common: convolutions, transformer blocks, projector.

Tensors are named as in the official audio tower (`conv2d1.weight`, `layers.0.fc1.weight`,
`ln_post.weight`, `proj1.weight`, ...), without prefix.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from towers.layers import EncoderBlock, MakeLinear, Weights

BINS = 128  # mel bands
AT_ONCE = 800  # mel frames convolved at once: the first convolution makes 60 times as much of them

TILE = 32  # channels


class Stem:
    """Mel chunks, each alone -> convolved rows without positions: three halvings of time."""

    def __init__(self, weights: Weights, dtype: torch.dtype) -> None:
        # Processors with AMX convolve bf16 in tiles of 32 channels, and what is left over comes out
        # as NaN now and then (torch 2.13): the published towers' 480 channels are whole tiles.
        channels = len(weights.tensor("conv2d1.bias"))
        dtype = dtype if channels % TILE == 0 else torch.float32
        self.dtype = dtype
        self.convolutions = [
            tuple(weights.tensor(f"conv2d{n}.{part}").to(dtype) for part in ("weight", "bias"))
            for n in (1, 2, 3)
        ]
        self.embed = weights.linear("conv_out")

    def __call__(self, chunks: Tensor) -> Tensor:
        """Mel [chunk, bins, frame] -> float32 [chunk, frame / 8 rounded up, width]."""
        return torch.cat(
            [self._rows(part) for part in torch.split_with_sizes(chunks, _parts(chunks))]
        )

    def _rows(self, chunks: Tensor) -> Tensor:
        x = chunks[:, None].to(self.dtype)
        for weight, bias in self.convolutions:
            x = F.gelu(F.conv2d(x, weight, bias, stride=2, padding=1))
        return self.embed(x.permute(0, 3, 1, 2).flatten(2)).float()


def _parts(chunks: Tensor) -> list[int]:
    """How many chunks [chunk, bins, frame] go at once."""
    max_chunks = max(AT_ONCE // chunks.shape[2], 1)
    return [min(max_chunks, len(chunks) - at) for at in range(0, len(chunks), max_chunks)]


class Projector:
    """Encoder rows -> rows as wide as the decoder's embeddings."""

    def __init__(self, weights: Weights) -> None:
        self.norm = weights.norm("ln_post")
        self.first, self.second = weights.linear("proj1"), weights.linear("proj2")

    def __call__(self, x: Tensor) -> Tensor:
        """Rows [row, width] -> float32 [row, output]."""
        return self.second(F.gelu(self.first(self.norm(x)))).float()


class TowerLayers:
    """A checkpoint's tower, taken apart."""

    def __init__(
        self, tensors: Mapping[str, Tensor], *, heads: int, make: MakeLinear, dtype: torch.dtype
    ) -> None:
        weights = Weights(tensors, "", make)
        names = {name.split(".")[1] for name in tensors if name.startswith("layers.")}
        self.stem = Stem(weights, dtype)
        self.layers = [
            EncoderBlock.load(weights.at(f"layers.{n}"), heads) for n in range(len(names))
        ]
        self.project = Projector(weights)
        self.heads = heads
        last = weights.tensor("ln_post.weight")
        self.width, self.device = len(last), last.device


def sinusoids(start: int, stop: int, width: int, device: torch.device) -> Tensor:
    """Positions [start, stop) -> [position, width]: sines, then cosines. There is no last one."""
    step = math.log(10_000) / (width // 2 - 1)
    scales = torch.exp(-step * torch.arange(width // 2, device=device))
    angles = torch.arange(start, stop, device=device)[:, None] * scales
    return torch.cat([angles.sin(), angles.cos()], 1)
