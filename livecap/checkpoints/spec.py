"""The one form in which every checkpoint layout leaves this package."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from livecap.errors import CorruptModel
from livecap.tokens import Tokenizer

if TYPE_CHECKING:
    import torch

# "tower": a causal tower of Qwen3-ASR alone
Layout = Literal["ctranslate2", "huggingface", "tower"]
Shapes = dict[str, tuple[int, ...]]

MOST_LAYERS = 256  # of a stack; the largest Whisper has 32
MOST_ROWS = 1 << 20  # of any single axis; the largest Whisper has 51866


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model folder on this machine whose files are all there; nothing is read into memory yet."""

    name: str  # as the user named it, or the catalogue's name when 'auto' chose it
    folder: Path
    layout: Layout
    family: str  # "whisper" or "qwen3-asr"
    sha256: str | None = None  # what the weights must hash to, where that is known beforehand
    decoder: Path | None = None  # of a tower alone: the folder with the decoder's checkpoint


@dataclass(frozen=True, slots=True)
class WhisperDims:
    """The sizes of a Whisper model."""

    mels: int  # mel bins: 80, or 128 from large-v3 on
    width: int
    encoder_layers: int
    decoder_layers: int
    encoder_heads: int
    decoder_heads: int
    encoder_hidden: int  # rows of fc1; 4 * width in every published model
    decoder_hidden: int
    vocab: int
    audio_positions: int = 1500  # 20 ms each
    text_positions: int = 448


@dataclass(frozen=True, slots=True)
class GenerationFacts:
    """What a checkpoint says about decoding with it."""

    suppress: tuple[int, ...]  # ids never to be sampled
    suppress_at_begin: tuple[int, ...]  # ids that may not come first
    alignment_heads: tuple[tuple[int, int], ...] | None  # (layer, head) of the decoder
    languages: dict[str, int] | None  # ISO 639-1 code -> token id; None: English only

    @property
    def is_multilingual(self) -> bool:
        """Whether the prompt carries a language and a task."""
        return self.languages is not None


@dataclass(frozen=True, slots=True)
class WhisperCheckpoint:
    """A Whisper model's weights and facts.

    `tensors` has Hugging Face's names (`model.encoder.conv1.weight`, ...) and the stored dtypes;
    quantised weights come as float32. Where they can, they are views of the mapped file: treat
    them as read-only. `proj_out.weight` is there only if it is not the embedding, and `k_proj.bias`
    only if it is not zero.
    """

    name: str
    dims: WhisperDims
    tensors: "dict[str, torch.Tensor]"
    generation: GenerationFacts
    tokenizer: Tokenizer


def whisper_shapes(dims: WhisperDims) -> Shapes:
    """Sizes -> the name and shape of every tensor that such a model must have."""
    width = dims.width
    shapes: Shapes = {
        "model.encoder.conv1.weight": (width, dims.mels, 3),
        "model.encoder.conv1.bias": (width,),
        "model.encoder.conv2.weight": (width, width, 3),
        "model.encoder.conv2.bias": (width,),
        "model.encoder.embed_positions.weight": (dims.audio_positions, width),
        "model.decoder.embed_positions.weight": (dims.text_positions, width),
        "model.decoder.embed_tokens.weight": (dims.vocab, width),
    }
    stacks = (
        ("encoder", dims.encoder_layers, dims.encoder_hidden, ("self_attn",)),
        ("decoder", dims.decoder_layers, dims.decoder_hidden, ("self_attn", "encoder_attn")),
    )
    for stack, layers, hidden, attentions in stacks:
        shapes |= norm_shapes(f"model.{stack}.layer_norm", width)
        for layer in range(layers):
            prefix = f"model.{stack}.layers.{layer}"
            shapes |= layer_shapes(prefix, width, hidden, attentions)
    return shapes


def layer_shapes(prefix: str, width: int, hidden: int, attentions: tuple[str, ...]) -> Shapes:
    """A transformer layer's tensors; its keys have no bias."""
    shapes = norm_shapes(f"{prefix}.final_layer_norm", width)
    shapes[f"{prefix}.fc1.weight"] = (hidden, width)
    shapes[f"{prefix}.fc1.bias"] = (hidden,)
    shapes[f"{prefix}.fc2.weight"] = (width, hidden)
    shapes[f"{prefix}.fc2.bias"] = (width,)
    for attention in attentions:
        shapes |= norm_shapes(f"{prefix}.{attention}_layer_norm", width)
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            shapes[f"{prefix}.{attention}.{part}.weight"] = (width, width)
            if part != "k_proj":
                shapes[f"{prefix}.{attention}.{part}.bias"] = (width,)
    return shapes


def norm_shapes(name: str, width: int) -> Shapes:
    """A layer normalisation's tensors."""
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def check_dims(dims: WhisperDims, file: Path) -> None:
    """Raise CorruptModel unless the sizes are ones that a Whisper model can have."""
    layers = (dims.encoder_layers, dims.decoder_layers)
    rows = (
        *(dims.mels, dims.width, dims.encoder_hidden, dims.decoder_hidden, dims.vocab),
        *(dims.audio_positions, dims.text_positions),
    )
    heads = (dims.encoder_heads, dims.decoder_heads)
    fits = (
        all(1 <= count <= MOST_LAYERS for count in layers)
        and all(1 <= count <= MOST_ROWS for count in rows)
        and all(count >= 1 and dims.width % count == 0 for count in heads)
    )
    if not fits:
        raise damaged(file, f"gives sizes that no Whisper model has: {dims}")


def checked(
    tensors: "dict[str, torch.Tensor]", dims: WhisperDims, file: Path
) -> "dict[str, torch.Tensor]":
    """Tensors as found -> the same without what says nothing (zero key biases).

    Raises CorruptModel that names the tensors which are missing, unknown or of a wrong shape.
    """
    expected = whisper_shapes(dims)
    optional: Shapes = {
        name.removesuffix("weight") + "bias": shape[:1]
        for name, shape in expected.items()
        if name.endswith("k_proj.weight")
    }
    optional["proj_out.weight"] = (dims.vocab, dims.width)
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    check_shapes(found, expected, optional, file=file, family="Whisper")
    silent = [name for name in tensors if name.endswith("k_proj.bias") and not tensors[name].any()]
    return {name: tensor for name, tensor in tensors.items() if name not in silent}


def check_shapes(
    found: Shapes, expected: Shapes, optional: Shapes, *, file: Path, family: str
) -> None:
    """Raise CorruptModel that names the tensors which are missing, unknown or of a wrong shape."""
    missing = sorted(expected.keys() - found.keys())
    if missing:
        raise damaged(file, f"lacks {_some(missing)}", incomplete=True)
    allowed = expected | optional
    unknown = sorted(found.keys() - allowed.keys())
    if unknown:
        raise damaged(file, f"has tensors that belong to no {family} model: {_some(unknown)}")
    wrong = [
        f"{name} {list(shape)} instead of {list(allowed[name])}"
        for name, shape in found.items()
        if shape != allowed[name]
    ]
    if wrong:
        raise damaged(file, f"has tensors of the wrong shape: {_some(wrong)}")


def damaged(file: Path, what: str, *, incomplete: bool = False) -> CorruptModel:
    """The error for a file that can't be what it says it is."""
    again = "Fetch the model again with `livecap pull`, or copy the folder again"
    own = "install livecap again if the model came with it"
    state = "incomplete" if incomplete else "damaged"
    return CorruptModel(f"{file} is {state}: it {what}", remedy=f"{again}; {own}.")


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
