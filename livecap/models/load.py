"""A checkpoint -> a model that runs: the one place that lists the families."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from livecap.checkpoints import Checkpoint
from livecap.config import ModelConfig
from livecap.errors import ModelError
from livecap.models.protocol import Model

if TYPE_CHECKING:
    import torch

LARGEST_POOL = 1 << 30  # bytes for encoder rows held at once on a CPU, unless a batch is asked for
BATCH = 16  # pieces of work at once; more gain nothing on a CPU


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model, and how many pieces of work it takes at once."""

    model: Model
    batch: int


def load_model(checkpoint: Checkpoint, config: ModelConfig) -> Loaded:
    """Read the weights and build the family's model. Raises ModelError and ConfigError."""
    import torch

    from livecap.engine.layers import choose_device

    device = choose_device(config.device)
    if config.threads:
        torch.set_num_threads(config.threads)
    if checkpoint.family == "whisper":
        return _whisper(checkpoint, config, device)
    if checkpoint.family == "qwen3-asr":
        from livecap.models.qwen3_asr.load import load_qwen3

        return Loaded(*load_qwen3(checkpoint, config, device))
    raise ModelError(
        f"{checkpoint.name} is of the family {checkpoint.family!r}, which can't be run",
        remedy="`livecap models` lists what can.",
    )


def _whisper(checkpoint: Checkpoint, config: ModelConfig, device: "torch.device") -> Loaded:
    from livecap.checkpoints import load_whisper
    from livecap.engine.layers import choose
    from livecap.models.whisper.decoder import PoolSizes
    from livecap.models.whisper.model import LONGEST, Whisper

    segment = config.segment(LONGEST, LONGEST, "Whisper")
    config.refuse_window("Whisper")
    config.refuse_int4("Whisper")
    precisions = choose(config.precision, device)
    read = load_whisper(checkpoint)
    row = 2 * read.dims.decoder_layers * read.dims.width * precisions.decoder.itemsize
    fits = max(LARGEST_POOL // (row * read.dims.audio_positions), 1)
    batch = config.batch_size or min(BATCH, fits)
    room = PoolSizes(batch, batch)
    return Loaded(Whisper(read, precisions, room=room, segment=segment, device=device), batch)
