"""Small files of a checkpoint: JSON whose content is checked before it is believed."""

import json
from pathlib import Path
from typing import Any

from livecap.checkpoints.spec import damaged

MOST_JSON = 64 << 20  # bytes; a tokenizer.json takes 2 to 11 MB


def read_json(path: Path) -> Any:
    """A JSON file -> its value. Raises CorruptModel if it is missing, too large or no JSON."""
    try:
        if path.stat().st_size > MOST_JSON:
            raise damaged(path, f"is longer than {MOST_JSON >> 20} MB")
        return json.loads(path.read_bytes())
    except OSError as error:
        raise damaged(path, f"can't be read: {error.strerror}", incomplete=True) from error
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"is not valid JSON: {error}") from error


def read_object(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object -> that object. Raises CorruptModel."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise damaged(path, "holds no JSON object")
    return value


def read_objects(*paths: Path) -> dict[str, Any]:
    """Several JSON objects -> one; files that don't exist are skipped, later files win."""
    merged: dict[str, Any] = {}
    for path in paths:
        if path.exists():
            merged |= read_object(path)
    return merged


def integers(value: object, file: Path, key: str) -> list[int]:
    """A value that must be a list of integers -> it. Raises CorruptModel."""
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise damaged(file, f"should hold a list of integers under {key!r}")
    return value


def integer(facts: dict[str, Any], key: str, file: Path, default: int | None = None) -> int:
    """The integer under a key, or the default. Raises CorruptModel if there is neither."""
    value = facts.get(key, default)
    if type(value) is not int:
        raise damaged(file, f"should hold an integer under {key!r}")
    return value
