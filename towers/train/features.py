"""Mel spectrograms, computed once and kept in one file that is mapped into memory.

`NAME.npy` is float16 [frame, bin] of all utterances after one another; `NAME.json` says where each
ends, and of what the file was made.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from towers.mel import Mel
from towers.qwen3_layers import BINS
from towers.train.manifest import RATE, Utterance, read_audio

SHORTEST = RATE // 2  # samples; shorter clips are filled up with silence, as the model hears them


@dataclass(frozen=True, slots=True)
class Features:
    """The mels of a manifest's utterances."""

    frames: NDArray[np.float16]  # [frame, bin], mapped
    ends: tuple[int, ...]  # frames

    def __len__(self) -> int:
        return len(self.ends)

    def length(self, number: int) -> int:
        """Frames of an utterance."""
        return self.ends[number] - (self.ends[number - 1] if number else 0)

    def mel(self, number: int) -> Tensor:
        """Float32 [bin, frame]."""
        start = self.ends[number - 1] if number else 0
        return torch.from_numpy(self.frames[start : self.ends[number]].astype(np.float32)).T


def features(utterances: Sequence[Utterance], cache: Path) -> Features:
    """Compute what is not in the cache's two files yet, and map them. Raises BadManifest."""
    made_of = _made_of(utterances)
    data, index = cache.with_suffix(".npy"), cache.with_suffix(".json")
    if index.exists():
        index_data = json.loads(index.read_text("utf-8"))
        if index_data["made_of"] == made_of:
            return _mapped(data, index_data["ends"])
    cache.parent.mkdir(parents=True, exist_ok=True)
    mel, ends, at = Mel(BINS), list[int](), 0
    with data.open("wb") as file:
        for one in utterances:
            pcm = read_audio(one.audio)
            pcm = np.pad(pcm, (0, max(SHORTEST - len(pcm), 0)))
            computed = mel.offline(torch.from_numpy(pcm)).T
            file.write(computed.to(torch.float16).contiguous().numpy().tobytes())
            at += len(computed)
            ends.append(at)
    index.write_text(json.dumps({"made_of": made_of, "ends": ends}), "utf-8")
    return _mapped(data, ends)


def _mapped(data: Path, ends: Sequence[int]) -> Features:
    return Features(np.memmap(data, np.float16, "r", shape=(ends[-1], BINS)), tuple(ends))


def _made_of(utterances: Sequence[Utterance]) -> str:
    """What changes when a file does."""
    digest = sha256()
    for one in utterances:
        stat = one.audio.stat()
        digest.update(f"{one.audio} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()
