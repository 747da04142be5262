"""A Qwen3-ASR checkpoint -> the model that runs, and how much it does at once."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from livecap.checkpoints import Checkpoint, Qwen3AsrCheckpoint, load_qwen3_asr, resolve
from livecap.config import ModelConfig
from livecap.engine.layers import Precisions, choose, choose_device
from livecap.errors import ModelError
from livecap.events import RATE
from livecap.models.qwen3_asr.aligner import ForcedAligner, OnDemand
from livecap.models.qwen3_asr.answer import budget
from livecap.models.qwen3_asr.decoder import Qwen3Decoder, Shape
from livecap.models.qwen3_asr.model import CONTEXT, Qwen3Asr
from towers import causal, qwen3_windowed
from towers.mel import Mel
from towers.qwen3_layers import BINS

ALIGNER = "qwen3-forced-aligner-0.6b"
BEST, LONGEST = 28, 1200  # seconds of a piece of work: longer ones cost accuracy
CAUSAL = 16  # seconds: the streaming tower's positions go no further
POOL = 400 << 20  # bytes of keys and values held at once on a CPU, unless more is asked for
BATCH = 16  # pieces of work at once; more gain little on a CPU
FORM = 64  # positions of a prompt around audio and context
ALIGNED = 16_384  # positions that aligning 180 s can take


def load_qwen3(
    checkpoint: Checkpoint, config: ModelConfig, device: torch.device
) -> tuple[Qwen3Asr, int]:
    """The model, and how many pieces of work it takes at once. Raises ModelError, ConfigError."""
    read = load_qwen3_asr(checkpoint)
    if read.kind == "aligner":
        raise ModelError(
            f"{checkpoint.name} only aligns texts that are known",
            remedy="Name a model that hears, e.g. --model qwen3-asr-0.6b.",
        )
    precisions = choose(config.precision, device)
    is_causal = read.kind == "causal"
    if is_causal:
        config.refuse_window(read.name)
    best, longest = (CAUSAL, CAUSAL) if is_causal else (BEST, LONGEST)
    seconds = config.segment(min(best, read.chunk), longest, read.name)
    positions, batch = _room(read, precisions, config, seconds)
    window = config.attention_window or read.audio.window
    tower = (
        _causal(read, precisions, device)
        if is_causal
        else _windowed(read, precisions, device, window)
    )
    model = Qwen3Asr(
        read,
        mel=Mel(BINS, device=device),
        tower=tower,
        decoder=_decoder(read, precisions, device, positions),
        segment=seconds * RATE,
        aligner=_aligner(config),
    )
    return model, batch


def _room(
    read: Qwen3AsrCheckpoint, precisions: Precisions, config: ModelConfig, seconds: int
) -> tuple[int, int]:
    """Positions of the pool, and pieces of work at once.

    Each piece can take what its audio, its prompt and its longest text need, so the largest fits.
    """
    text = read.text
    each = qwen3_windowed.rows_of(seconds * 100) + FORM + budget(seconds)
    position = 2 * text.layers * text.kv_heads * text.head_dim * precisions.decoder.itemsize
    batch = config.batch_size or min(BATCH, max(POOL // (position * each), 1))
    return batch * each + CONTEXT, batch


def _decoder(
    read: Qwen3AsrCheckpoint, precisions: Precisions, device: torch.device, positions: int
) -> Qwen3Decoder:
    text = read.text
    heads = ("score.weight", "lm_head.weight", "embed_tokens.weight")
    return Qwen3Decoder(
        OnDevice(read.decoder, device),
        shape=Shape(text.heads, text.kv_heads, text.head_dim, text.theta, text.eps),
        head=next(name for name in heads if name in read.decoder),
        positions=positions,
        make=precisions.make_twofold_linear(),
        make_head=precisions.make_decoder_linear(),
        dtype=precisions.decoder,
        device=device,
    )


def _windowed(
    read: Qwen3AsrCheckpoint, precisions: Precisions, device: torch.device, window: int
) -> qwen3_windowed.WindowedTower:
    return qwen3_windowed.WindowedTower(
        OnDevice(read.tower, device),
        heads=read.audio.heads,
        make=precisions.make_tower_linear(),
        dtype=precisions.tower,
        window=window,
    )


def _causal(
    read: Qwen3AsrCheckpoint, precisions: Precisions, device: torch.device
) -> causal.CausalTower:
    return causal.CausalTower(
        OnDevice(read.tower, device),
        heads=read.audio.heads,
        make=precisions.make_tower_linear(),
        dtype=precisions.tower,
    )


def _aligner(config: ModelConfig) -> OnDemand | None:
    """The forced aligner, if a sound one is on this machine."""
    try:
        read = read_aligner(resolve(ALIGNER))  # its files are checked now, its weights read later
    except ModelError:
        return None
    return OnDemand(lambda: load_aligner(read, config))


def read_aligner(checkpoint: Checkpoint) -> Qwen3AsrCheckpoint:
    """A forced aligner's checkpoint, checked. Raises ModelError."""
    read = load_qwen3_asr(checkpoint)
    if read.kind != "aligner":
        raise ModelError(
            f"{checkpoint.name} is no forced aligner", remedy=f"Fetch it: `livecap pull {ALIGNER}`."
        )
    return read


def load_aligner(read: Qwen3AsrCheckpoint, config: ModelConfig) -> ForcedAligner:
    """The aligner, loaded."""
    device = choose_device(config.device)
    precisions = choose(config.precision, device)
    return ForcedAligner(
        read.tokenizer,
        mel=Mel(BINS, device=device),
        tower=_windowed(read, precisions, device, read.audio.window),
        decoder=_decoder(read, precisions, device, ALIGNED),
    )


class OnDevice(Mapping[str, Tensor]):
    """Tensors by name, moved to a device when they are asked for."""

    def __init__(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        self._tensors, self._device = tensors, device

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name].to(self._device)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors  # the inherited way would read the tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)
