"""Synthetic media for tests: signals, WAV bytes of every kind, containers, and awkward streams."""

import io
import itertools
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from livecap.audio import AudioBlock, AudioReader

Signal = NDArray[np.float32]  # [sample], or [channel, sample]


def tone(seconds: float, rate: int = 16_000, *, hertz: float = 440.0, peak: float = 0.5) -> Signal:
    """A sine, [sample]."""
    time = np.arange(round(seconds * rate)) / rate
    wave: Signal = (peak * np.sin(2 * np.pi * hertz * time)).astype(np.float32)
    return wave


def babble(seconds: float, rate: int = 16_000, *, seed: int = 0, rms: float = 0.1) -> Signal:
    """Noise with the slope and the syllables of speech but no words, [sample]."""
    count = round(seconds * rate)
    noise = np.fft.rfft(np.random.default_rng(seed).standard_normal(count))
    hertz = np.fft.rfftfreq(count, 1 / rate)
    noise *= (hertz > 100) * (hertz < 3400) / np.maximum(hertz, 300) ** 0.5
    syllables = 0.55 + 0.45 * np.sin(2 * np.pi * (4 * np.arange(count) / rate + seed / 7))
    signal = np.fft.irfft(noise, count) * syllables
    scaled: Signal = (signal * rms / np.sqrt(np.mean(signal**2))).astype(np.float32)
    return scaled


def said_by_espeak(text: str, folder: Path) -> Signal:
    """Speech at 140 words a minute and 16 kHz, [sample], without the silence around it."""
    program = shutil.which("espeak-ng")
    if not program:
        pytest.skip("espeak-ng is missing")
    wav = folder / "said.wav"
    subprocess.run([program, "-v", "en-us", "-s", "140", "-w", wav, text], check=True)
    with AudioReader(wav) as reader:
        pcm = np.concatenate([block.pcm[0] for block in reader])
    (loud,) = np.nonzero(np.abs(pcm) > 1e-3)
    return pcm[loud[0] : loud[-1] + 1]


def decibels(signal: NDArray[Any]) -> float:
    """RMS level relative to full scale."""
    return float(10 * np.log10(np.mean(np.square(signal, dtype=np.float64)) + 1e-20))


_PACK: dict[str, tuple[int, int]] = {  # WAV: format tag, bits
    "u8": (1, 8), "s16": (1, 16), "s24": (1, 24), "s32": (1, 32), "f32": (3, 32), "f64": (3, 64),
}  # fmt: skip


def pack(signal: Signal, kind: str = "s16") -> bytes:
    """[channel, sample] or [sample], full scale 1 -> interleaved PCM bytes, little endian."""
    flat = np.atleast_2d(signal).T.reshape(-1)
    if kind.startswith("f"):
        return flat.astype(f"<f{int(kind[1:]) // 8}").tobytes()
    if kind == "u8":
        return (np.clip(np.round(flat * 128), -128, 127) + 128).astype(np.uint8).tobytes()
    bits = int(kind[1:])
    top = 2.0 ** (bits - 1)
    whole = np.clip(np.round(flat.astype(np.float64) * top), -top, top - 1).astype("<i4")
    if bits == 24:
        return whole.view(np.uint8).reshape(-1, 4)[:, :3].tobytes()
    return whole.astype(f"<i{bits // 8}").tobytes()


def chunk(name: bytes, body: bytes) -> bytes:
    """A RIFF chunk with its pad byte."""
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def wav(
    signal: Signal,
    rate: int = 16_000,
    kind: str = "s16",
    *,
    size: int | None = None,
    before: bytes = b"",
    after: bytes = b"",
    mask: int | None = None,
) -> bytes:
    """WAV with a forged data size, chunks around the data, or an extensible header (`mask`)."""
    tag, bits = _PACK[kind]
    channels = len(np.atleast_2d(signal))
    data = pack(signal, kind)
    width = channels * bits // 8
    form = struct.pack("<HHIIHH", tag, channels, rate, rate * width, width, bits)
    if mask is not None:
        guid = struct.pack("<H", tag) + bytes.fromhex("000000001000800000aa00389b71")
        form = struct.pack("<H", 0xFFFE) + form[2:] + struct.pack("<HHI", 22, bits, mask) + guid
    length = len(data) if size is None else size
    body = b"WAVE" + chunk(b"fmt ", form) + before + b"data" + struct.pack("<I", length) + data
    body += b"\0" * (len(data) % 2 if after else 0) + after
    riff = len(body) if size is None else size
    return b"RIFF" + struct.pack("<I", riff) + body


@dataclass
class Sound:
    """One audio track for `mux`."""

    signal: Signal
    rate: int = 48_000
    codec: str = "pcm_s16le"
    start: float = 0.0  # seconds
    gaps: dict[int, float] = field(default_factory=dict)  # sample -> seconds that are missing there
    language: str | None = None
    title: str | None = None
    layout: str | None = None
    bits: int | None = None  # per second


def mux(
    *sounds: Sound, form: str, video: bool = False, options: dict[str, str] | None = None
) -> bytes:
    """Tracks, and perhaps a second of pictures, in a container of FFmpeg's format `form`."""
    # a real file, since an index that is moved to the front needs one
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "media"
        _fill(path, sounds, form=form, video=video, options=options or {})
        return path.read_bytes()


def _fill(
    path: Path, sounds: tuple[Sound, ...], *, form: str, video: bool, options: dict[str, str]
) -> None:
    with av.open(str(path), "w", format=form, options=options) as container:
        picture = container.add_stream("mpeg4", rate=5) if video else None
        if picture is not None:
            picture.width, picture.height, picture.pix_fmt = 64, 48, "yuv420p"
        streams = [_add(container, sound) for sound in sounds]
        if picture is not None:
            _film(container, picture)
        for sound, stream in zip(sounds, streams, strict=True):
            _write(container, stream, sound)


def _add(container: Any, sound: Sound) -> Any:
    channels = len(np.atleast_2d(sound.signal))
    layout = sound.layout or {1: "mono", 2: "stereo"}.get(channels, f"{channels}c")
    stream = container.add_stream(sound.codec, rate=sound.rate, layout=layout)
    if sound.bits:
        stream.bit_rate = sound.bits
    for key, value in (("language", sound.language), ("title", sound.title)):
        if value:
            stream.metadata[key] = value
    return stream


def _film(container: Any, stream: Any) -> None:
    for number in range(5):
        frame = av.VideoFrame(64, 48, "yuv420p")
        frame.pts, frame.time_base = number, Fraction(1, 5)
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))


def _write(container: Any, stream: Any, sound: Sound) -> None:
    signal = np.atleast_2d(sound.signal)
    layout = stream.layout.name
    size = stream.codec_context.frame_size or 1024
    convert = av.AudioResampler(format=stream.format, layout=layout)
    late = round(sound.start * sound.rate)
    for first in range(0, signal.shape[1], size):
        late += round(sound.gaps.get(first, 0.0) * sound.rate)
        packed = np.ascontiguousarray(signal[:, first : first + size].T).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(packed, "flt", layout)
        frame.sample_rate, frame.time_base = sound.rate, Fraction(1, sound.rate)
        for ready in convert.resample(frame):
            ready.pts = first + late
            container.mux(stream.encode(ready))
    container.mux(stream.encode(None))


class Drip(io.RawIOBase):
    """A pipe: can't be sought, gives at most `most` bytes a read, and may break at the end."""

    def __init__(self, data: bytes, *, most: int = 5000, error: OSError | None = None) -> None:
        self._data = io.BytesIO(data)
        self._most = most
        self._error = error
        self.taken = 0  # bytes read so far

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._data.read(min(len(buffer), self._most))
        if not data and self._error:
            raise self._error
        buffer[: len(data)] = data
        self.taken += len(data)
        return len(data)


def read(data: bytes, *, split: bool = False, track: int | str | None = None) -> list[AudioBlock]:
    """All blocks of a file."""
    with AudioReader(io.BytesIO(data), split=split, track=track) as reader:
        return list(reader)


def joined(blocks: list[AudioBlock]) -> NDArray[np.float32]:
    """[row, sample] of all blocks, whatever lies between them."""
    return np.concatenate([block.pcm for block in blocks], axis=1)


def heard(data: bytes) -> NDArray[np.float32]:
    """Mono, [sample], of a file that has no gaps."""
    blocks = read(data)
    for one, other in itertools.pairwise(blocks):
        assert one.end == other.start
    return np.asarray(joined(blocks)[0])
