"""model.bin -> tensors under CTranslate2's own names.

The file (version 6, little endian): u32 version, string specification, u32 revision, u32 count;
`count` variables, each a string name, u8 rank, u32 dimensions, u8 dtype, u32 bytes, raw data; u32
count of aliases, each a string name and a string target. A string is u16 length and that many
bytes, the last of them NUL. Source: ctranslate2/specs/model_spec.py, version 4.8.
"""

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from livecap.checkpoints.spec import damaged
from livecap.errors import ModelError

if TYPE_CHECKING:
    import torch

VERSION = 6
MOST_AXES = 8


@dataclass(frozen=True, slots=True)
class Container:
    """The content of a model.bin."""

    file: Path
    specification: str  # "WhisperSpec", "TransformerSpec", ...
    variables: "dict[str, torch.Tensor]"  # as stored
    aliases: dict[str, str]  # name -> name of a variable

    def __contains__(self, name: str) -> bool:
        return self.aliases.get(name, name) in self.variables

    def raw(self, name: str) -> "torch.Tensor":
        """The variable of this name or alias as stored. Raises CorruptModel if there is none."""
        tensor = self.variables.get(self.aliases.get(name, name))
        if tensor is None:
            raise damaged(self.file, f"lacks {name}", incomplete=True)
        return tensor

    def real(self, name: str) -> "torch.Tensor":
        """The variable of this name with its real values: quantised ones divided by their scale."""
        tensor = self.raw(name)
        if tensor.is_floating_point():
            return tensor
        # The converter aliases a tied weight but not its scale: look under the target's name too.
        names = (f"{name}_scale", f"{self.aliases.get(name, name)}_scale")
        scale = next((self.raw(one) for one in names if one in self), None)
        if scale is None or f"{name}_zero" in self:
            what = f"{self.file} stores {name} in a quantisation that can't be read"
            raise ModelError(what, remedy="Convert it with --quantization float16 or int8.")
        if scale.ndim and (scale.ndim > 1 or not tensor.ndim or len(scale) != len(tensor)):
            raise damaged(self.file, f"gives {name} scales of another shape")
        # int8: one scale a row, convolutions flattened to rows; int16: one scale for all
        return tensor.float() / scale.float().reshape(-1, *(1,) * (tensor.ndim - 1))

    def number(self, name: str) -> int:
        """A variable of rank 0 as an integer. Raises CorruptModel."""
        tensor = self.raw(name)
        if tensor.numel() != 1 or tensor.is_floating_point():
            raise damaged(self.file, f"should hold one integer as {name}")
        return int(tensor.item())


def read_container(file: Path) -> Container:
    """A model.bin -> its content, mapped, not read.

    Raises CorruptModel for a file whose lengths don't add up (no length is used before it is
    compared with the file's size) and ModelError for another version of the format.
    """
    cursor = _Cursor(file)
    specification = cursor.header()
    variables = dict(cursor.variable() for _ in range(cursor.number("<I")))
    aliases = {cursor.string(): cursor.string() for _ in range(cursor.number("<I"))}
    if cursor.at != len(cursor.data):
        raise damaged(file, f"goes on for {len(cursor.data) - cursor.at} bytes past its end")
    lost = sorted(set(aliases.values()) - variables.keys())
    if lost:
        raise damaged(file, f"lacks {lost[0]}, which it gives as an alias", incomplete=True)
    return Container(file, specification, variables, aliases)


def read_specification(file: Path) -> str:
    """A model.bin -> the name of its specification, from its first bytes alone.

    Raises CorruptModel for a file that can't be a model.bin, ModelError for another version of it.
    """
    return _Cursor(file).header()


class _Cursor:
    """A position in a mapped file; every step is checked against the file's size."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.at = 0  # <= len(self.data)
        try:
            with file.open("rb") as opened:
                # A private writable map: tensors over it are writable, the file never changes.
                self.data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
        except ValueError as error:  # an empty file can't be mapped
            raise damaged(file, "is empty") from error
        except OSError as error:
            raise damaged(file, f"can't be read: {error.strerror}", incomplete=True) from error

    def skip(self, count: int) -> int:
        """Go on by `count` bytes; the position before them comes back."""
        start, self.at = self.at, self.at + count
        if self.at > len(self.data):
            raise damaged(self.file, f"ends before byte {self.at}", incomplete=True)
        return start

    def number(self, kind: str) -> int:
        value: int = struct.unpack_from(kind, self.data, self.skip(struct.calcsize(kind)))[0]
        return value

    def string(self) -> str:
        length = self.number("<H")
        start = self.skip(length)
        raw = self.data[start : start + length]
        if not raw.endswith(b"\0"):
            raise damaged(self.file, f"has no name where one should be, at byte {start}")
        try:
            return raw[:-1].decode()
        except UnicodeDecodeError as error:
            raise damaged(self.file, f"has no name where one should be, at byte {start}") from error

    def header(self) -> str:
        version = self.number("<I")
        if version > 255:
            raise damaged(self.file, "doesn't begin like a CTranslate2 model")
        if version != VERSION:
            what = f"{self.file} is in version {version} of CTranslate2's format, not {VERSION}"
            raise ModelError(what, remedy="Convert the model again with a current converter.")
        specification = self.string()
        self.number("<I")  # the revision: which optional scalars are there
        return specification

    def variable(self) -> "tuple[str, torch.Tensor]":
        import torch

        dtypes = (
            *(torch.float32, torch.int8, torch.int16, torch.int32),
            *(torch.float16, torch.bfloat16),
        )
        name = self.string()
        shape = [self.number("<I") for _ in range(self.number("<B"))]
        kind, size = self.number("<B"), self.number("<I")
        if kind >= len(dtypes):
            raise damaged(self.file, f"stores {name} in an unknown type, {kind}")
        dtype, count = dtypes[kind], math.prod(shape)
        if not count or len(shape) > MOST_AXES or count * dtype.itemsize != size:
            raise damaged(self.file, f"gives {name} of shape {shape} {size} bytes")
        start = self.skip(size)
        if start % dtype.itemsize == 0:
            whole = torch.frombuffer(self.data, dtype=dtype, count=count, offset=start)
        else:  # names have odd lengths, and a tensor must be aligned
            raw = torch.frombuffer(self.data, dtype=torch.uint8, count=size, offset=start)
            whole = raw.clone().view(dtype)
        return name, whole.reshape(shape)
