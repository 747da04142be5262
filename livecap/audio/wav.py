"""Head of a WAV stream in a pipe -> how to read what follows, without delay.

libav looks at 64 KiB of a WAV before it gives the first sample (it might be surround sound in
disguise), which is two seconds of a live microphone. Files, and all but plain PCM, are left to it.
"""

import struct
from dataclasses import dataclass

from livecap.audio.formats import RawFormat
from livecap.audio.io import Pipe

_MOST = 1 << 16  # bytes of head that are looked at
_EXTENSIBLE = 0xFFFE
_CODECS = {  # format tag, bits a sample
    (1, 8): "u8", (1, 16): "s16le", (1, 24): "s24le", (1, 32): "s32le",
    (3, 32): "f32le", (3, 64): "f64le", (6, 8): "alaw", (7, 8): "mulaw",
}  # fmt: skip
_SPEAKERS = ("FL", "FR", "FC", "LFE", "BL", "BR", "FLC", "FRC", "BC", "SL", "SR")
_UNKNOWN = 0x7FFFF000  # sizes from here on, and 0, mean a recording that goes on


@dataclass(frozen=True, slots=True)
class Riff:
    """What the head of a WAV says."""

    form: RawFormat
    names: tuple[str, ...]  # of the channels, 'NONE' where the head doesn't say
    size: int | None  # bytes of samples; None: as many as come


def take_head(pipe: Pipe) -> Riff | None:
    """Reads a WAV's head off the pipe; None, and nothing read, if it is anything else."""
    start = pipe.peek(12)
    if start[:4] != b"RIFF" or start[8:] != b"WAVE":
        return None
    index, form = 12, b""
    while index < _MOST:
        name, size = struct.unpack("<4sI", pipe.peek(index + 8)[index:].ljust(8, b"\0"))
        if name == b"data":
            riff = _parse(form, size)
            if riff is not None:
                pipe.read(index + 8)
            return riff
        if size > _MOST or not name.strip(b"\0"):
            return None
        if name == b"fmt ":
            form = pipe.peek(index + 8 + size)[index + 8 :]
        index += 8 + size + size % 2
    return None


def _parse(form: bytes, size: int) -> Riff | None:
    if len(form) < 16:
        return None
    tag, channels, rate, _, width, bits = struct.unpack("<HHIIHH", form[:16])
    mask = 0
    if tag == _EXTENSIBLE and len(form) >= 26:
        mask, tag = struct.unpack("<IH", form[20:26])
    codec = _CODECS.get((tag, bits))
    if codec is None or not 1 <= channels <= 64 or width != channels * bits // 8:
        return None
    names = tuple(name for bit, name in enumerate(_SPEAKERS) if mask >> bit & 1)
    if len(names) != channels:
        names = ("NONE",) * channels
    return Riff(RawFormat(codec, rate, channels), names, size if 0 < size < _UNKNOWN else None)
