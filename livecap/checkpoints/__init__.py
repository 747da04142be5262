"""Find, pull, verify and read model weights in every layout. Importing this loads no torch."""

from livecap.checkpoints.embedded import find_embedded
from livecap.checkpoints.find import CatalogueRow, catalogue, installed
from livecap.checkpoints.hub import pull
from livecap.checkpoints.load import load_qwen3_asr, load_whisper
from livecap.checkpoints.qwen3_asr_form import (
    Qwen3AsrCheckpoint,
    Qwen3AudioDims,
    Qwen3TextDims,
)
from livecap.checkpoints.resolve import resolve
from livecap.checkpoints.spec import (
    Checkpoint,
    GenerationFacts,
    WhisperCheckpoint,
    WhisperDims,
    whisper_shapes,
)

__all__ = [
    "CatalogueRow",
    "Checkpoint",
    "GenerationFacts",
    "Qwen3AsrCheckpoint",
    "Qwen3AudioDims",
    "Qwen3TextDims",
    "WhisperCheckpoint",
    "WhisperDims",
    "catalogue",
    "find_embedded",
    "installed",
    "load_qwen3_asr",
    "load_whisper",
    "pull",
    "resolve",
    "whisper_shapes",
]
