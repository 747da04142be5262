"""A folder -> what kind of checkpoint it is, and whether its files are all there."""

from pathlib import Path
from typing import Any

from livecap.checkpoints.causal_tower import SUBFOLDER, find_tower
from livecap.checkpoints.ctranslate2 import read_specification
from livecap.checkpoints.files import read_object, read_objects
from livecap.checkpoints.spec import Checkpoint, damaged
from livecap.errors import ModelError, ModelNotFound

FAMILIES = {"whisper": "whisper", "qwen3_asr": "qwen3-asr"}  # model_type in config.json -> family
SPECIFICATIONS = {"WhisperSpec": "whisper"}  # in a model.bin -> family
WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # the first that is there is read


def inspect(folder: Path, name: str) -> Checkpoint:
    """A model's folder and its name -> the checkpoint in it, its weights unread.

    Raises ModelNotFound if the folder holds no model at all, CorruptModel if a file of it is
    missing or can't be read, and ModelError for a model of another family.
    """
    unfinished = sorted(folder.glob("*.incomplete"))
    if unfinished:
        raise damaged(folder, f"still has {unfinished[0].name}", incomplete=True)
    config = read_objects(folder / "config.json")
    if (folder / "model.bin").is_file() and not weight_files(folder):
        specification = read_specification(folder / "model.bin")
        family = SPECIFICATIONS.get(specification)
        if family is None:
            raise _unsupported(folder, specification)
        return Checkpoint(name, folder, "ctranslate2", family)
    model_type = str(config.get("model_type", ""))
    if (not model_type or model_type.startswith("qwen3_asr")) and find_tower(folder):
        return _tower(folder, name)
    if not config and not weight_files(folder):
        _refuse_lone_weights(folder)
        raise ModelNotFound(
            f"There is no model in {folder}",
            remedy="A model's folder has config.json and model.safetensors, or model.bin, in it.",
        )
    _complete(folder, config)
    if model_type not in FAMILIES:
        raise _unsupported(folder, model_type)
    return Checkpoint(name, folder, "huggingface", FAMILIES[model_type])


def weight_files(folder: Path) -> list[Path]:
    """The files that hold a Hugging Face model's weights, there or not; [] if there are none.

    Raises CorruptModel for an index that can't be read.
    """
    for whole in WEIGHTS:
        index = folder / f"{whole}.index.json"
        if index.is_file():
            shards = read_object(index).get("weight_map")
            if not isinstance(shards, dict) or not shards:
                raise damaged(index, "holds no weight_map")
            names = sorted({str(shard) for shard in shards.values()})
            outside = [name for name in names if Path(name).name != name]
            if outside:
                raise damaged(index, f"names a file outside its folder: {outside[0]}")
            return [folder / name for name in names]
        if (folder / whole).is_file():
            return [folder / whole]
    return []


def _tower(folder: Path, name: str) -> Checkpoint:
    """The causal tower in a folder; its decoder too, if that lies in there."""
    inside = folder / SUBFOLDER
    decoder = inspect(inside, name).folder if inside.is_dir() else None
    return Checkpoint(name, folder, "tower", "qwen3-asr", decoder=decoder)


def _refuse_lone_weights(folder: Path) -> None:
    for file in sorted(folder.glob("*.safetensors")):
        what = "holds no tower of Qwen3-ASR, and there is no config.json beside it"
        raise damaged(file, what, incomplete=True)


def _complete(folder: Path, config: dict[str, Any]) -> None:
    files = weight_files(folder)
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise damaged(folder, f"lacks {', '.join(missing)}", incomplete=True)
    if not files:
        raise damaged(folder, "lacks its weights, model.safetensors", incomplete=True)
    if "model_type" not in config:
        raise damaged(folder, "lacks a config.json that names the model_type", incomplete=True)


def _unsupported(folder: Path, kind: str) -> ModelError:
    have = ", ".join(sorted({*FAMILIES.values(), *SPECIFICATIONS.values()}))
    what = f"{folder} holds a model of type {kind!r}, which can't be used here"
    return ModelError(what, remedy=f"Supported are: {have}.")
