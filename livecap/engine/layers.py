"""Linear maps in the precision that the machine is fast at."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from livecap.config import Precision
from livecap.errors import ConfigError
from towers.layers import Linear, MakeLinear, dense

# Weights of this many elements and more no longer fit a core's cache beside the keys and values,
# so a decode step waits for memory, and a byte each beats two. Smaller ones stay in bf16.
LARGE = 2 << 20
FEW = 4  # rows up to which a product of weights in int8, which waits for memory, beats bf16
GROUP = 32  # int4 weights that share a scale: 7.8 % off on random weights; 128 would be 9.9 %
CACHED = 1024  # rows quantised at a time, so that they stay in a core's cache


@dataclass(frozen=True, slots=True)
class Packed:
    """A bf16 linear map whose weight lies as oneDNN wants it: `Dense` without its way there.

    The same to the bit; for the few rows of a decode step it takes half the time.
    """

    packed: Tensor  # oneDNN's own layout of [outputs, inputs]
    bias: Tensor | None  # [outputs]

    @staticmethod
    def of(weight: Tensor, bias: Tensor | None) -> "Packed":
        """Weight [outputs, inputs] in any precision."""
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.to(torch.bfloat16).contiguous())
        return Packed(packed, None if bias is None else bias.to(torch.bfloat16))

    def __call__(self, x: Tensor) -> Tensor:
        out: Tensor = torch.ops.mkldnn._linear_pointwise(
            x.to(torch.bfloat16), self.packed, self.bias, "none", [], ""
        )
        return out


@dataclass(frozen=True, slots=True)
class Int8:
    """A linear map with int8 weights (one scale an output row) and int8 inputs (one a row).

    Scales belong to single rows, so what else is in a batch doesn't change a row's result. The
    product is oneDNN's, which wants unsigned inputs: they are stored 128 higher.
    """

    packed: Tensor  # oneDNN's own layout of [outputs, inputs]
    scales: Tensor  # [outputs]
    zeros: Tensor  # [outputs]
    bias: Tensor | None  # [outputs], float32

    @staticmethod
    def of(weight: Tensor, bias: Tensor | None) -> "Int8":
        """Quantise a weight [outputs, inputs], symmetrically."""
        rounded, scales = _rounded(weight)
        packed = torch.ops.onednn.qlinear_prepack(rounded, None)
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        return Int8(packed, scales, zeros, None if bias is None else bias.float())

    def __call__(self, x: Tensor) -> Tensor:
        flat = x.float().flatten(0, -2)
        scale = flat.abs().amax(-1, keepdim=True).clamp_(min=1e-12).div_(127)  # [row, 1]
        shifted = (flat / scale).round_().add_(128).to(torch.uint8)
        out: Tensor = torch.ops.onednn.qlinear_pointwise(
            shifted, 1.0, 128, self.packed, self.scales, self.zeros, None,
            1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        out = out.mul_(scale)
        if self.bias is not None:
            out = out.add_(self.bias)
        return out.view(*x.shape[:-1], -1)


@dataclass(frozen=True, slots=True)
class Bytes:
    """A linear map with int8 weights (one scale an output row) and bf16 inputs.

    For very few rows: what it reads is half of bf16, and nothing has to be quantised on the way.
    """

    weight: Tensor  # int8 [outputs, inputs]
    scales: Tensor  # bf16 [outputs]
    bias: Tensor | None  # bf16 [outputs]

    @staticmethod
    def of(weight: Tensor, bias: Tensor | None) -> "Bytes":
        """Quantise a weight [outputs, inputs], symmetrically."""
        rounded, scales = _rounded(weight)
        return Bytes(rounded, scales.bfloat16(), None if bias is None else bias.bfloat16())

    def __call__(self, x: Tensor) -> Tensor:
        flat = x.to(torch.bfloat16).flatten(0, -2)
        out: Tensor = torch._weight_int8pack_mm(flat, self.weight, self.scales)
        if self.bias is not None:
            out = out.add_(self.bias)
        return out.view(*x.shape[:-1], -1)


@dataclass(frozen=True, slots=True)
class Nibbles:
    """A linear map with int4 weights (a scale and a zero for every 32 in a row) and bf16 inputs.

    For very few rows: half of what `Bytes` reads, in half the time, at sixteen values a weight.
    """

    packed: Tensor  # torch's own layout of [outputs, inputs]
    spread: Tensor  # bf16 [inputs / GROUP, outputs, 2]: scales and middles
    bias: Tensor | None  # bf16 [outputs]

    @staticmethod
    def fits(weight: Tensor) -> bool:
        """Whether a weight [outputs, inputs] can be packed."""
        return weight.shape[0] % 64 == 0 and weight.shape[1] % GROUP == 0

    @staticmethod
    def of(weight: Tensor, bias: Tensor | None) -> "Nibbles":
        """Quantise a weight [outputs, inputs] between the least and the most of each group."""
        groups = weight.float().view(len(weight), -1, GROUP)
        low, high = groups.aminmax(dim=-1, keepdim=True)
        scale = ((high - low) / 15).clamp_(min=1e-12)
        nibbles = ((groups - low) / scale).round_().clamp_(0, 15).int().flatten(1)
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(nibbles, 1)
        spread = torch.cat([scale, low + 8 * scale], -1).transpose(0, 1).contiguous().bfloat16()
        return Nibbles(packed, spread, None if bias is None else bias.bfloat16())

    def __call__(self, x: Tensor) -> Tensor:
        flat = x.to(torch.bfloat16).flatten(0, -2)
        out: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(
            flat, self.packed, GROUP, self.spread
        )
        if self.bias is not None:
            out = out.add_(self.bias)
        return out.view(*x.shape[:-1], -1)


def _rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Weight [outputs, inputs] -> int8 of the same shape, and the scales [outputs] of its rows."""
    scales = torch.empty(len(weight))
    rounded = torch.empty(weight.shape, dtype=torch.int8)
    for at in range(0, len(weight), CACHED):
        rows = weight[at : at + CACHED].float()
        scale = torch.maximum(rows.amax(1), -rows.amin(1)).clamp_(min=1e-12).div_(127)
        scales[at : at + CACHED] = scale
        # Not in place: float32 rows are the checkpoint's own.
        rounded[at : at + CACHED] = rows.div(scale[:, None]).round_()
    return rounded, scales


@dataclass(frozen=True, slots=True)
class ByRows:
    """A linear map kept twice: one way is faster, or sparser with memory, for few rows."""

    few: Linear
    many: Linear

    def __call__(self, x: Tensor) -> Tensor:
        return self.few(x) if x.shape[0] <= FEW else self.many(x)


@dataclass(frozen=True, slots=True)
class RmsNorm:
    """Root-mean-square normalisation in float32, whatever comes in."""

    weight: Tensor | None  # [width]
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), x.shape[-1:], self.weight, self.eps)


def rotary(positions: Tensor, dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Positions [row] -> cosines and signed sines [row, 1, dim] of the angles to turn by.

    Source: Su et al., RoFormer (2021).
    """
    scales = theta ** (-torch.arange(0, dim, 2, device=positions.device) / dim)
    angles = positions[:, None, None] * scales  # [row, 1, dim // 2]
    cosines, sines = angles.cos(), angles.sin()
    return torch.cat([cosines, cosines], -1), torch.cat([-sines, sines], -1)


def rotate(x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Rows [row, head, dim], turned: dimension i is paired with i + dim // 2."""
    cosines, sines = turns
    return torch.addcmul(x * cosines, x.roll(x.shape[-1] // 2, -1), sines)


@dataclass(frozen=True, slots=True)
class Precisions:
    """What `--precision` comes to on one device."""

    tower: torch.dtype
    decoder: torch.dtype  # of activations, keys and values, and of weights that aren't int8
    int8: Literal["no", "large", "all"]  # which decoder weights are
    int4: bool = False  # those of single decode steps, besides
    on_cpu: bool = True

    def make_tower_linear(self) -> MakeLinear:
        """For an encoder, whose steps have many rows."""
        return self._plain(self.tower)

    def make_decoder_linear(self) -> MakeLinear:
        """For a decoder, whose steps have few rows."""
        plain = self._plain(self.decoder)
        if self.int8 == "no":
            return plain
        smallest = LARGE if self.int8 == "large" else 0

        def make(weight: Tensor, bias: Tensor | None) -> Linear:
            return plain(weight, bias) if weight.numel() < smallest else Int8.of(weight, bias)

        return make

    def make_twofold_linear(self) -> MakeLinear:
        """For a decoder whose prompts have many rows and whose steps have few.

        With int8 for large weights only, both ways are kept: prompts stay in full precision. With
        int4 prompts are in int8.
        """
        if self.int4:
            return _int4
        if self.int8 != "large":
            return self.make_decoder_linear()
        plain = self._plain(self.decoder)

        def make(weight: Tensor, bias: Tensor | None) -> Linear:
            many = plain(weight, bias)
            return many if weight.numel() < LARGE else ByRows(Bytes.of(weight, bias), many)

        return make

    def _plain(self, dtype: torch.dtype) -> MakeLinear:
        return Packed.of if dtype == torch.bfloat16 and self.on_cpu else dense(dtype)


def _int4(weight: Tensor, bias: Tensor | None) -> Linear:
    many = Int8.of(weight, bias)
    return ByRows(Nibbles.of(weight, bias), many) if Nibbles.fits(weight) else many


def choose(precision: Precision, device: torch.device) -> Precisions:
    """An option and the device -> the dtypes. Raises ConfigError for what the device can't do.

    `auto` is bf16 where the processor multiplies bf16 (AVX512-BF16, AMX) and float32 elsewhere,
    with large decoder weights in int8 where it has VNNI.
    """
    if device.type != "cpu":
        if precision in ("int8", "int4"):
            raise ConfigError(
                f"{precision} runs on the CPU only",
                remedy="Use --precision bf16 on a GPU, or auto.",
            )
        dtype = torch.float32 if precision == "fp32" else torch.bfloat16
        return Precisions(dtype, dtype, "no", on_cpu=False)
    fast = torch.bfloat16 if has_bf16() else torch.float32
    if precision == "fp32":
        return Precisions(torch.float32, torch.float32, "no")
    if precision == "bf16":
        return Precisions(torch.bfloat16, torch.bfloat16, "no")
    if precision in ("int8", "int4"):
        return Precisions(fast, fast, "all", int4=precision == "int4")
    return Precisions(fast, fast, "large" if has_int8() else "no")


def choose_device(name: str) -> torch.device:
    """An option -> the device. Raises ConfigError for one that is not there."""
    known = ["cpu", *(f"cuda:{n}" for n in range(torch.cuda.device_count()))]
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in known and not (name == "cuda" and len(known) > 1):
        raise ConfigError(
            f"--device (--compute for live captions): there is no {name!r} here",
            remedy=f"This machine has: {', '.join(known)}.",
        )
    return torch.device(name)


# torch tells what the processor can do only under names with an underscore (2.9 to 2.13).


def has_bf16() -> bool:
    """Whether this CPU multiplies bf16 faster than float32."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def has_int8() -> bool:
    """Whether this CPU adds up products of bytes in one instruction."""
    return bool(torch.cpu._is_vnni_supported())
