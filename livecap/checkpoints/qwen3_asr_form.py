"""The form in which every Qwen3-ASR checkpoint leaves this package, and its tensors' shapes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from livecap.checkpoints.spec import Shapes, layer_shapes, norm_shapes
from livecap.qwen_tokens import Qwen3Tokenizer

if TYPE_CHECKING:
    import torch

MELS = 128  # mel bins
ROWS = MELS // 8  # frequencies that the convolutions leave of them


@dataclass(frozen=True, slots=True)
class Qwen3AudioDims:
    """The sizes of an audio tower."""

    layers: int
    width: int
    heads: int
    hidden: int  # rows of fc1
    output: int  # width of the rows that the decoder gets
    channels: int  # of the convolutions
    window: int  # chunks of 1 s that attend to each other


@dataclass(frozen=True, slots=True)
class Qwen3TextDims:
    """The sizes of a decoder."""

    layers: int
    hidden: int
    inner: int  # rows of gate_proj
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int  # rows of the embedding; the vocabulary has fewer tokens
    positions: int
    theta: float  # base of the rotary positions
    eps: float  # of the norms


@dataclass(frozen=True, slots=True, eq=False)
class Qwen3AsrCheckpoint:
    """A Qwen3-ASR model's weights and facts.

    `tower` has the official names without prefix (`conv2d1.weight`, `layers.0.fc1.weight`,
    `ln_post.weight`, `proj1.weight`, ...), `decoder` those below `model.` (`embed_tokens.weight`,
    `layers.0.self_attn.q_norm.weight`, `norm.weight`, ...). `lm_head.weight` is there only if it
    is not the embedding; an aligner has `score.weight` [classes, hidden] instead. A tensor is read
    from its file each time it is asked for, in the stored dtype: treat it as read-only.
    """

    name: str
    kind: Literal["windowed", "causal", "aligner"]
    audio: Qwen3AudioDims
    text: Qwen3TextDims
    tower: "Mapping[str, torch.Tensor]"
    decoder: "Mapping[str, torch.Tensor]"
    tokenizer: Qwen3Tokenizer
    ends: frozenset[int]  # each of these ends a text
    chunk: int  # seconds of audio at once that suit it


def tower_shapes(dims: Qwen3AudioDims) -> Shapes:
    """Sizes -> the name and shape of every tensor that such a tower must have."""
    width, channels = dims.width, dims.channels
    shapes: Shapes = {
        "conv_out.weight": (width, channels * ROWS),
        "proj1.weight": (width, width),
        "proj1.bias": (width,),
        "proj2.weight": (dims.output, width),
        "proj2.bias": (dims.output,),
    }
    for number, inputs in ((1, 1), (2, channels), (3, channels)):
        shapes[f"conv2d{number}.weight"] = (channels, inputs, 3, 3)
        shapes[f"conv2d{number}.bias"] = (channels,)
    shapes |= norm_shapes("ln_post", width)
    for layer in range(dims.layers):
        shapes |= layer_shapes(f"layers.{layer}", width, dims.hidden, ("self_attn",))
        shapes[f"layers.{layer}.self_attn.k_proj.bias"] = (width,)
    return shapes


def decoder_shapes(dims: Qwen3TextDims) -> Shapes:
    """Sizes -> the name and shape of every tensor that such a decoder must have."""
    hidden, queries, keys = dims.hidden, dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim
    shapes: Shapes = {
        "embed_tokens.weight": (dims.vocab, hidden),
        "norm.weight": (hidden,),
    }
    layer: Shapes = {
        "input_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "self_attn.q_norm.weight": (dims.head_dim,),
        "self_attn.k_norm.weight": (dims.head_dim,),
        "post_attention_layernorm.weight": (hidden,),
        "mlp.gate_proj.weight": (dims.inner, hidden),
        "mlp.up_proj.weight": (dims.inner, hidden),
        "mlp.down_proj.weight": (hidden, dims.inner),
    }
    for number in range(dims.layers):
        shapes |= {f"layers.{number}.{name}": shape for name, shape in layer.items()}
    return shapes
