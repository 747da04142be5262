"""A CTranslate2 (faster-whisper) folder -> Whisper under Hugging Face's names."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from livecap.checkpoints.alignment_heads import alignment_heads
from livecap.checkpoints.ctranslate2 import Container, read_container
from livecap.checkpoints.files import integers, read_objects
from livecap.checkpoints.spec import (
    MOST_LAYERS,
    Checkpoint,
    GenerationFacts,
    WhisperCheckpoint,
    WhisperDims,
    check_dims,
    checked,
    damaged,
)
from livecap.checkpoints.vocabulary import known_ids, read_tokenizer
from livecap.errors import ModelError
from livecap.tokens import Tokenizer

if TYPE_CHECKING:
    import torch

GELU = 3  # in CTranslate2's list of activations
ATTENTIONS = {  # CTranslate2's sublayer -> Hugging Face's, and what each linear holds
    "self_attention": ("self_attn", (("q_proj", "k_proj", "v_proj"), ("out_proj",))),
    "attention": ("encoder_attn", (("q_proj",), ("k_proj", "v_proj"), ("out_proj",))),
}
NORM = {"gamma": "weight", "beta": "bias"}

Named = tuple[str, "torch.Tensor"]


def read_ctranslate2(checkpoint: Checkpoint) -> WhisperCheckpoint:
    """A CTranslate2 folder -> its Whisper model.

    Raises CorruptModel for damaged files, ModelError for a model that isn't Whisper.
    """
    container = read_container(checkpoint.folder / "model.bin")
    if container.specification != "WhisperSpec":
        what = f"{container.file} holds a {container.specification}, not a Whisper model"
        raise ModelError(what, remedy="Name a Whisper model.")
    dims = _dims(container)
    tensors = checked(dict(_tensors(container, dims)), dims, container.file)
    tokenizer = read_tokenizer(checkpoint.folder, dims.vocab)
    facts = _facts(checkpoint, dims, tokenizer)
    return WhisperCheckpoint(checkpoint.name, dims, tensors, facts, tokenizer)


def _dims(container: Container) -> WhisperDims:
    conv = container.raw("encoder/conv1/weight")
    embeddings = container.raw("decoder/embeddings/weight")
    if conv.ndim != 3 or embeddings.ndim != 2:
        raise damaged(container.file, "has tensors of the wrong shape: conv1 or embeddings")
    layers = {stack: _layers(container, stack) for stack in ("encoder", "decoder")}
    dims = WhisperDims(
        mels=conv.shape[1],
        width=conv.shape[0],
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        encoder_heads=container.number("encoder/num_heads"),
        decoder_heads=container.number("decoder/num_heads"),
        encoder_hidden=len(container.raw("encoder/layer_0/ffn/linear_0/bias")),
        decoder_hidden=len(container.raw("decoder/layer_0/ffn/linear_0/bias")),
        vocab=embeddings.shape[0],
        audio_positions=len(container.raw("encoder/position_encodings/encodings")),
        text_positions=len(container.raw("decoder/position_encodings/encodings")),
    )
    check_dims(dims, container.file)
    for name, value in (("pre_norm", 1), ("activation", GELU), ("alibi", 0)):
        if f"decoder/{name}" in container and container.number(f"decoder/{name}") != value:
            what = f"{container.file} is no plain Whisper model: its {name} isn't {value}"
            raise ModelError(what, remedy="Name another model.")
    return dims


def _layers(container: Container, stack: str) -> int:
    present = (f"{stack}/layer_{layer}/ffn/linear_0/bias" in container for layer in range(1 << 16))
    return next((layer for layer, there in enumerate(present) if not there), MOST_LAYERS + 1)


def _tensors(container: Container, dims: WhisperDims) -> Iterator[Named]:
    for conv in ("conv1", "conv2"):
        for part in ("weight", "bias"):
            yield f"model.encoder.{conv}.{part}", container.real(f"encoder/{conv}/{part}")
    embeddings = container.real("decoder/embeddings/weight")
    yield "model.decoder.embed_tokens.weight", embeddings
    if not _is_tied(container):
        yield "proj_out.weight", container.real("decoder/projection/weight")
    for stack, layers in (("encoder", dims.encoder_layers), ("decoder", dims.decoder_layers)):
        positions = container.real(f"{stack}/position_encodings/encodings")
        yield f"model.{stack}.embed_positions.weight", positions
        yield from _norm(container, f"{stack}/layer_norm", f"model.{stack}.layer_norm")
        for layer in range(layers):
            yield from _layer(container, f"{stack}/layer_{layer}", f"model.{stack}.layers.{layer}")


def _is_tied(container: Container) -> bool:
    name = "decoder/projection/weight"
    return container.aliases.get(name) == "decoder/embeddings/weight" or name not in container


def _norm(container: Container, theirs: str, ours: str) -> Iterator[Named]:
    for part, name in NORM.items():
        yield f"{ours}.{name}", container.real(f"{theirs}/{part}")


def _layer(container: Container, theirs: str, ours: str) -> Iterator[Named]:
    attentions = ATTENTIONS if "/decoder" in f"/{theirs}" else {"self_attention"}
    for attention in attentions:
        name, linears = ATTENTIONS[attention]
        yield from _norm(container, f"{theirs}/{attention}/layer_norm", f"{ours}.{name}_layer_norm")
        for number, parts in enumerate(linears):
            linear = f"{theirs}/{attention}/linear_{number}"
            yield from _split(container, linear, [f"{ours}.{name}.{part}" for part in parts])
    yield from _norm(container, f"{theirs}/ffn/layer_norm", f"{ours}.final_layer_norm")
    for number, name in enumerate(("fc1", "fc2")):
        yield from _split(container, f"{theirs}/ffn/linear_{number}", [f"{ours}.{name}"])


def _split(container: Container, theirs: str, ours: list[str]) -> Iterator[Named]:
    """A fused linear -> its parts, which lie one below the other in the rows."""
    for kind in ("weight", "bias"):
        fused = container.real(f"{theirs}/{kind}")
        if not fused.ndim or len(fused) % len(ours):
            raise damaged(container.file, f"has {theirs}/{kind} of shape {list(fused.shape)}")
        for name, part in zip(ours, fused.chunk(len(ours)), strict=True):
            yield f"{name}.{kind}", part


def _facts(checkpoint: Checkpoint, dims: WhisperDims, tokenizer: Tokenizer) -> GenerationFacts:
    # `lang_ids` is left aside: it is wrong for English-only models, and in no known order.
    file = checkpoint.folder / "config.json"
    config = read_objects(file)
    suppress, begin = config.get("suppress_ids"), config.get("suppress_ids_begin")
    return GenerationFacts(
        suppress=tokenizer.suppressed
        if suppress is None
        else known_ids(integers(suppress, file, "suppress_ids"), dims.vocab),
        suppress_at_begin=tokenizer.suppressed_at_begin
        if begin is None
        else known_ids(integers(begin, file, "suppress_ids_begin"), dims.vocab),
        alignment_heads=alignment_heads(
            config.get("alignment_heads"), dims=dims, name=checkpoint.name, file=file
        ),
        languages=tokenizer.specials.languages if tokenizer.specials.is_multilingual else None,
    )
