"""Find, pull, verify and read model weights in every layout. Importing this loads no torch."""

from livecap.checkpoints.embedded import find_embedded
from livecap.checkpoints.find import Row, catalogue, installed, resolve
from livecap.checkpoints.form import (
    Checkpoint,
    GenerationFacts,
    WhisperCheckpoint,
    WhisperDims,
    whisper_shapes,
)
from livecap.checkpoints.hub import pull
from livecap.checkpoints.load import load_whisper

__all__ = [
    "Checkpoint",
    "GenerationFacts",
    "Row",
    "WhisperCheckpoint",
    "WhisperDims",
    "catalogue",
    "find_embedded",
    "installed",
    "load_whisper",
    "pull",
    "resolve",
    "whisper_shapes",
]
