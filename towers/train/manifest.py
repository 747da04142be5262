"""What there is to train on: a JSONL file, one utterance a line.

    {"audio": "0001.wav", "text": "seven red boats.", "words": [["seven", 0.31, 0.62], ...]}

`audio` is a path from the manifest's folder on, `words` is optional, with seconds from the start.
"""

import json
import wave
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.float32]  # [sample]

RATE = 16_000  # Hz


class BadManifest(ValueError):
    """A line that can't be used; the message says which, and why."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """Speech and what is said in it."""

    audio: Path
    text: str
    language: str = "English"  # as the model writes it
    words: tuple[tuple[str, float, float], ...] = ()  # start and end in seconds


def read_manifest(path: Path) -> list[Utterance]:
    """The utterances, in order. Raises BadManifest, and OSError for a file that isn't there."""
    found = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            words = tuple((str(w), float(a), float(b)) for w, a, b in row.get("words", ()))
            language = str(row.get("language", "English"))
            one = Utterance(path.parent / row["audio"], str(row["text"]), language, words)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadManifest(
                f"{path}, line {number}: {error}. A line is a JSON object with 'audio' and 'text'."
            ) from error
        found.append(one)
    if not found:
        raise BadManifest(f"{path} has no lines.")
    return found


def write_manifest(path: Path, utterances: Iterable[Utterance]) -> None:
    """Paths of audio are written from the manifest's folder on."""
    lines = []
    for one in utterances:
        row: dict[str, object] = {
            "audio": one.audio.relative_to(path.parent).as_posix(),
            "text": one.text,
            "language": one.language,
        }
        if one.words:
            row["words"] = [[w, round(a, 3), round(b, 3)] for w, a, b in one.words]
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    path.write_text("".join(lines), "utf-8")


def read_audio(path: Path) -> Pcm:
    """16 kHz mono, 16 bit. Raises BadManifest for anything else: `ffmpeg -i IN -ac 1 -ar 16000 OUT`
    makes it so.
    """
    try:
        with wave.open(str(path)) as file:
            shape = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            if shape != (1, 2, RATE):
                raise BadManifest(
                    f"{path} has {shape[0]} channels of {8 * shape[1]} bits at {shape[2]} Hz. "
                    f"Convert it: ffmpeg -i IN -ac 1 -ar {RATE} -sample_fmt s16 OUT.wav"
                )
            raw = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    except (wave.Error, EOFError) as error:
        raise BadManifest(f"{path} is no WAV file: {error}.") from error
    return raw.astype(np.float32) / np.float32(32768)


def write_audio(path: Path, pcm: Pcm) -> None:
    """16 kHz mono, 16 bit; what is beyond full scale is clipped."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((pcm.clip(-1, 32767 / 32768) * 32768).round().astype(np.int16).tobytes())
