"""A folder with the causal tower of Qwen3-ASR alone: its file, and the decoder it needs besides."""

from pathlib import Path

from livecap.checkpoints.lazy_tensors import header_names
from livecap.checkpoints.spec import Checkpoint
from livecap.errors import ModelError, ModelNotFound

TENSORS = {"conv2d1.weight", "ln_post.weight"}  # without prefix only a tower alone has them
SUBFOLDER = "decoder"  # of the tower's folder, where its decoder's checkpoint may lie


def find_tower(folder: Path) -> Path | None:
    """A folder -> its tower's file: the first safetensors file, if that holds a tower alone."""
    first = min(folder.glob("*.safetensors"), default=None)
    return first if first and header_names(first) >= TENSORS else None


def without_decoder(checkpoint: Checkpoint) -> ModelNotFound:
    """The error for a tower whose decoder is not on this machine."""
    what = f"{checkpoint.name} needs the decoder of Qwen3-ASR-0.6B, which is not on this machine"
    return ModelNotFound(what, remedy=_remedy(checkpoint))


def wrong_decoder(checkpoint: Checkpoint) -> ModelError:
    """The error for a tower that was given another model's decoder."""
    what = f"{checkpoint.name} only fits Qwen3-ASR-0.6B, and {checkpoint.decoder} holds another"
    return ModelError(what, remedy=_remedy(checkpoint))


def _remedy(checkpoint: Checkpoint) -> str:
    index = checkpoint.folder / SUBFOLDER
    return f"Fetch it: `livecap pull qwen3-asr-0.6b`, or put that model into {index}."
