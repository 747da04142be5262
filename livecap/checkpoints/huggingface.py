"""A Hugging Face folder -> its Whisper model: config.json, and safetensors in one file or many."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from livecap.checkpoints.alignment_heads import alignment_heads
from livecap.checkpoints.files import integer, integers, read_object, read_objects
from livecap.checkpoints.inspect import weight_files
from livecap.checkpoints.spec import (
    Checkpoint,
    GenerationFacts,
    WhisperCheckpoint,
    WhisperDims,
    check_dims,
    checked,
    damaged,
)
from livecap.checkpoints.vocabulary import known_ids, read_tokenizer
from livecap.languages import ALIASES
from livecap.tokens import Tokenizer

if TYPE_CHECKING:
    import torch

TIED = "proj_out.weight"


def read_huggingface(checkpoint: Checkpoint) -> WhisperCheckpoint:
    """A Hugging Face folder -> its Whisper model. Raises CorruptModel for damaged files."""
    folder = checkpoint.folder
    config = read_object(folder / "config.json")
    dims = _dims(config, folder / "config.json")
    tensors: dict[str, torch.Tensor] = {}
    for file in weight_files(folder):
        tensors |= _read(file)
    # Checkpoints of the bare model leave out the prefix.
    tensors = {
        name if name.startswith(("model.", "proj_out.")) else f"model.{name}": tensor
        for name, tensor in tensors.items()
    }
    if config.get("tie_word_embeddings", True):
        tensors.pop(TIED, None)
    tensors = checked(tensors, dims, folder)
    tokenizer = read_tokenizer(folder, dims.vocab)
    facts = _facts(checkpoint, config, dims, tokenizer)
    return WhisperCheckpoint(checkpoint.name, dims, tensors, facts, tokenizer)


def _dims(config: dict[str, Any], file: Path) -> WhisperDims:
    # Defaults as in transformers' WhisperConfig, which leaves default values out of the file.
    width = integer(config, "d_model", file, 384)
    dims = WhisperDims(
        mels=integer(config, "num_mel_bins", file, 80),
        width=width,
        encoder_layers=integer(config, "encoder_layers", file, 4),
        decoder_layers=integer(config, "decoder_layers", file, 4),
        encoder_heads=integer(config, "encoder_attention_heads", file, 6),
        decoder_heads=integer(config, "decoder_attention_heads", file, 6),
        encoder_hidden=integer(config, "encoder_ffn_dim", file, 4 * width),
        decoder_hidden=integer(config, "decoder_ffn_dim", file, 4 * width),
        vocab=integer(config, "vocab_size", file, 51865),
        audio_positions=integer(config, "max_source_positions", file, 1500),
        text_positions=integer(config, "max_target_positions", file, 448),
    )
    check_dims(dims, file)
    return dims


def _read(file: Path) -> "dict[str, torch.Tensor]":
    """A file of weights -> its tensors, mapped where the format allows it."""
    if file.suffix == ".bin":
        return _read_pickle(file)
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(file)
    except SafetensorError as error:
        raise damaged(file, f"is no safetensors file: {error}") from error
    except OSError as error:
        raise damaged(file, f"can't be read: {error.strerror}", incomplete=True) from error


def _read_pickle(file: Path) -> "dict[str, torch.Tensor]":
    import pickle

    import torch

    try:
        # weights_only: no code in the file is run
        tensors = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, OSError, ValueError) as error:
        raise damaged(file, "is no PyTorch file of plain tensors") from error
    if not isinstance(tensors, dict) or not all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor)
        for name, tensor in tensors.items()
    ):
        raise damaged(file, "holds no tensors by name")
    return tensors


def _facts(
    checkpoint: Checkpoint, config: dict[str, Any], dims: WhisperDims, tokenizer: Tokenizer
) -> GenerationFacts:
    file = checkpoint.folder / "generation_config.json"
    payload = config | read_objects(file)  # older checkpoints have the lists in config.json
    suppress, begin = payload.get("suppress_tokens"), payload.get("begin_suppress_tokens")
    if suppress is None or -1 in integers(suppress, file, "suppress_tokens"):
        suppress = tokenizer.suppressed
    if begin is None:
        begin = list(tokenizer.suppressed_at_begin)
    return GenerationFacts(
        suppress=known_ids(suppress, dims.vocab),
        suppress_at_begin=known_ids(integers(begin, file, "begin_suppress_tokens"), dims.vocab),
        alignment_heads=alignment_heads(
            payload.get("alignment_heads"), dims=dims, name=checkpoint.name, file=file
        ),
        languages=_languages(payload.get("lang_to_id"), file, tokenizer),
    )


def _languages(stored: object, file: Path, tokenizer: Tokenizer) -> dict[str, int] | None:
    if not tokenizer.specials.is_multilingual:
        return None
    if not stored:
        return tokenizer.specials.languages
    if not isinstance(stored, dict):
        raise damaged(file, "should hold an object under 'lang_to_id'")
    ids = integers(list(stored.values()), file, "lang_to_id")
    if not all(0 <= number < tokenizer.vocab for number in ids):
        raise damaged(file, "names languages by ids that the model hasn't")
    codes = (token.strip("<|>") for token in stored)
    return {ALIASES.get(code, code): number for code, number in zip(codes, ids, strict=True)}
