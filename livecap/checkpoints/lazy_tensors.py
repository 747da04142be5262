"""Tensors of safetensors files by name, each read when it is asked for."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from livecap.checkpoints.spec import Shapes, damaged
from livecap.errors import ModelError

if TYPE_CHECKING:
    import torch

FLOATS = ("F32", "F16", "BF16")  # the types that weights come in
MOST_HEADER = 16 << 20  # bytes; the header of a thousand tensors takes 100 KB


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a tensor lies."""

    file: Path
    name: str  # in the file
    shape: tuple[int, ...]


class Lazy(Mapping[str, "torch.Tensor"]):
    """Tensors by name, in the types they are stored in.

    Each look-up reads that one tensor anew and nothing is kept: who converts one after another
    never holds more than one. Treat what comes as read-only. Raises CorruptModel for a file that
    can't be read any more.
    """

    def __init__(self, stored: Mapping[str, Stored]) -> None:
        self._stored = stored

    @property
    def shapes(self) -> Shapes:
        """The shape of each; nothing is read for it."""
        return shapes_of(self._stored)

    def __getitem__(self, name: str) -> "torch.Tensor":
        from safetensors import SafetensorError, safe_open

        at = self._stored[name]
        try:
            with safe_open(at.file, framework="pt") as opened:
                tensor: torch.Tensor = opened.get_tensor(at.name)
                return tensor
        except (SafetensorError, OSError) as error:
            raise damaged(at.file, f"can't be read any more: {error}") from error

    def __contains__(self, name: object) -> bool:
        return name in self._stored

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


def shapes_of(stored: Mapping[str, Stored]) -> Shapes:
    """Tensors by name -> the shape of each."""
    return {name: one.shape for name, one in stored.items()}


def stored_in(file: Path) -> dict[str, Stored]:
    """A safetensors file -> where its tensors lie, from its header alone.

    Raises CorruptModel for a file that is cut short or is none, ModelError for quantised weights.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118 - no dict
            types = {name: str(one.get_dtype()) for name, one in slices.items()}
            shapes = {name: tuple(one.get_shape()) for name, one in slices.items()}
    except SafetensorError as error:
        raise damaged(file, f"is no safetensors file: {error}") from error
    except OSError as error:
        raise damaged(file, f"can't be read: {error.strerror or error}", incomplete=True) from error
    for name, kind in types.items():
        if kind not in FLOATS:
            what = f"{file} stores {name} as {kind}, which can't be read"
            raise ModelError(what, remedy="Name a model stored in float32, float16 or bfloat16.")
    return {name: Stored(file, name, shape) for name, shape in shapes.items()}


def header_names(file: Path) -> frozenset[str]:
    """A file -> the names in its safetensors header, none if it has no such header.

    To tell what a file may be: nothing else of it is checked, and no library is loaded.
    """
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(length)) if length <= MOST_HEADER else None
    except (OSError, ValueError, RecursionError):
        return frozenset()
    return frozenset(header) if isinstance(header, dict) else frozenset()
