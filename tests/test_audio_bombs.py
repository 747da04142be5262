"""Pictures in what is said to be audio: none is ever decoded, however few bytes it takes."""

import io
import itertools
import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path

import av
import numpy as np
import pytest
from media import Sound, mux, read, tone

from livecap.errors import NoAudioTrack

SIDE = 14_000  # pixels; as RGB, 588 MB
MOST = 300  # MB that a process may take beyond what it takes anyway
SOUND = Sound(tone(1.0, 44_100), 44_100, "libmp3lame")

# Opens the files that are named, and says how much memory that took at most.
WORK = """
import json, resource, sys
from pathlib import Path
from livecap.audio import AudioReader
from livecap.errors import NoAudioTrack

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

with AudioReader(Path(sys.argv[1])) as reader:
    list(reader)
before, heard = peak(), {}
for name in sys.argv[2:]:
    try:
        with AudioReader(Path(name)) as reader:
            heard[Path(name).name] = sum(block.pcm.shape[1] for block in reader)
    except NoAudioTrack:
        heard[Path(name).name] = 0
print(json.dumps({"taken": peak() - before, "heard": heard}))
"""


@cache
def png(side: int = SIDE, *, animated: bool = False) -> bytes:
    """A picture of nothing."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    pack, row = zlib.compressobj(9), bytes(1 + side * 3)
    data = b"".join(pack.compress(row) for _ in range(side)) + pack.flush()
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    if animated:
        head += chunk(b"acTL", struct.pack(">II", 2, 0))
        head += chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, side, side, 0, 0, 1, 10, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def gif() -> bytes:
    """Two pictures of 65535 x 65535, of which nearly nothing is there."""
    size = struct.pack("<HH", 65_535, 65_535)
    frame = b"!\xf9\x04\0\x0a\0\0\0," + bytes(4) + size + b"\0\x02\x02\x44\x01\0"
    return b"GIF89a" + size + b"\xf0\0\0" + bytes(6) + frame * 2 + b";"


def jpeg() -> bytes:
    """A small picture that says it is a large one."""
    codec = av.CodecContext.create("mjpeg", "w")
    codec.width, codec.height, codec.pix_fmt, codec.time_base = 16, 16, "yuvj420p", Fraction(1)
    data = bytes(codec.encode(av.VideoFrame(16, 16, "yuvj420p"))[0])
    at = data.index(b"\xff\xc0") + 5  # behind the marker, its length and the depth
    return data[:at] + struct.pack(">HH", 65_500, 65_500) + data[at + 4 :]


def with_track(form: str, codec: str, picture: bytes) -> bytes:
    """A second of sound, and a track with the picture."""
    file = io.BytesIO()
    with av.open(file, "w", format=form) as container:
        stream = container.add_stream(codec, rate=1)
        stream.width, stream.height = 16, 16
        stream.pix_fmt = "rgb24" if codec == "png" else "yuvj420p"
        sound = container.add_stream("aac", rate=44_100, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 44_100), np.float32), "fltp", "mono")
        frame.sample_rate, frame.pts, frame.time_base = 44_100, 0, Fraction(1, 44_100)
        for number in range(2):
            packet = av.Packet(picture)
            packet.stream, packet.time_base = stream, Fraction(1, 1)
            packet.pts = packet.dts = number
            packet.is_keyframe = True
            container.mux(packet)
        for packet in itertools.chain(sound.encode(frame), sound.encode(None)):
            container.mux(packet)
    return file.getvalue()


def with_cover() -> bytes:
    """An MP3 with the picture in its tag."""
    body = b"\0image/png\0\x03\0" + png()
    frame = b"APIC" + _sized(len(body)) + b"\0\0" + body
    return b"ID3\x04\0\0" + _sized(len(frame)) + frame + mux(SOUND, form="mp3")


def _sized(count: int) -> bytes:
    """As ID3 writes sizes."""
    return bytes(count >> shift & 127 for shift in (21, 14, 7, 0))


BOMBS: dict[str, Callable[[], bytes]] = {
    "a.png": png,
    "animated.png": lambda: png(animated=True),
    "a.gif": gif,
    "track.mp4": lambda: with_track("mp4", "png", png()),
    "track.mkv": lambda: with_track("matroska", "mjpeg", jpeg()),
    "cover.mp3": with_cover,
}


def test_no_picture_is_decoded(tmp_path: Path) -> None:
    plain = tmp_path / "plain.mp3"
    plain.write_bytes(mux(SOUND, form="mp3"))
    files = [tmp_path / name for name in BOMBS]
    for file in files:
        file.write_bytes(BOMBS[file.name]())
        assert file.stat().st_size < 4 << 20
    work = [sys.executable, "-c", WORK, str(plain), *map(str, files)]
    told = json.loads(subprocess.run(work, check=True, capture_output=True, text=True).stdout)
    assert told["taken"] < MOST
    heard = [name for name, samples in told["heard"].items() if samples >= 15_000]
    assert heard == ["track.mp4", "track.mkv", "cover.mp3"]


@pytest.mark.parametrize("name", ["a.png", "animated.png", "a.gif"])
def test_a_picture_has_no_audio_track(name: str) -> None:
    data = gif() if name == "a.gif" else png(64, animated=name != "a.png")
    with pytest.raises(NoAudioTrack):
        read(data)
