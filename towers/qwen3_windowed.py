"""Log-mel -> encoder rows, 13 a second: the windowed tower of Qwen3-ASR.

Mel is cut into chunks of 1 s from the stream's start. Each chunk passes the convolutions alone and
becomes 13 rows, whose positions start anew; rows attend to all rows of their window of (mostly) 8 s
and to no others. So finished chunks are convolved once and finished windows are encoded once; only
the open window is run again. Source: Qwen3-ASR technical report, and transformers' Qwen3-ASR,
whose results these are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from towers.layers import MakeLinear, attend
from towers.qwen3_layers import BINS, TowerLayers, sinusoids

CHUNK = 100  # mel frames in a chunk: 1 s
CHUNK_ROWS = 13  # rows of a whole chunk
WINDOW = 8  # chunks in an attention window of the published models


@dataclass(frozen=True, slots=True)
class AutState:
    """What a stream keeps between calls."""

    frames: Tensor  # [bins, < CHUNK]: mel of the chunk that is not whole yet
    chunks: Tensor  # [row, width]: convolved rows of the open window's whole chunks
    windows: int  # finished windows so far


@dataclass(frozen=True, slots=True)
class Rows:
    """What came of a stream's new audio."""

    stable: Tensor  # [row, output]: rows of windows that are finished now; they never change
    provisional: Tensor  # [row, output]: rows of the open window, replaced by the next call
    block_ids: tuple[int, ...]  # number of the window of each stable row


class WindowedTower:
    """The encoder with its projector. State in, state out; many streams in one packed pass.

    `tensors` are named as in `qwen.py`; `window` is in chunks.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        *,
        heads: int,
        make: MakeLinear,
        dtype: torch.dtype = torch.float32,
        window: int = WINDOW,
    ) -> None:
        self.parts = TowerLayers(tensors, heads=heads, make=make, dtype=dtype)
        self.window = window
        self.positions = sinusoids(
            0, CHUNK_ROWS, self.parts.width, self.parts.device
        )  # [13, width]

    def open(self) -> AutState:
        """The state of a stream that has heard nothing."""
        return AutState(torch.zeros(BINS, 0, device=self.parts.device), self._rows(), windows=0)

    @torch.inference_mode()
    def encode(
        self, states: Sequence[AutState], mels: Sequence[Tensor], *, final: bool
    ) -> list[tuple[Rows, AutState]]:
        """For each stream its state and new mel [bins, frame] -> rows, and the state after.

        With `final` the streams end: their open windows are finished as they are.
        """
        return self.forward(states, mels, final=final)

    def forward(
        self, states: Sequence[AutState], mels: Sequence[Tensor], *, final: bool
    ) -> list[tuple[Rows, AutState]]:
        """`encode`, for those who need gradients."""
        frames = [
            torch.cat([state.frames, mel], 1) for state, mel in zip(states, mels, strict=True)
        ]
        whole = [mel.shape[1] // CHUNK for mel in frames]
        convolved = self._convolve(frames)
        size = self.window * CHUNK_ROWS
        plans: list[tuple[Tensor, Tensor, int]] = []  # finished, open, of these certain rows
        for state, new, chunks in zip(states, convolved, whole, strict=True):
            rows = torch.cat([state.chunks, new])
            sure = len(state.chunks) + chunks * CHUNK_ROWS
            done = sure // size * size
            plans.append((rows[:done], rows[done:], sure - done))
        windows = [
            part for done, rest, _ in plans for part in (*_split(done, size), rest) if len(part)
        ]
        encoded = iter(self._attend(windows))
        results = []
        for state, mel, chunks, (finished, rest, sure) in zip(
            states, frames, whole, plans, strict=True
        ):
            stable = [next(encoded) for _ in range(len(finished) // size)]
            tail = next(encoded) if len(rest) else self._none()
            if final and len(tail):
                stable, tail = [*stable, tail], self._none()
            ids = [state.windows + n for n, part in enumerate(stable) for _ in range(len(part))]
            found = Rows(torch.cat([self._none(), *stable]), tail, tuple(ids))
            after = AutState(mel[:, chunks * CHUNK :], rest[:sure], state.windows + len(stable))
            results.append((found, after))
        return results

    def clip(self, mel: Tensor) -> Tensor:
        """The mel of a whole clip [bins, frame] -> its rows [row, output]."""
        ((rows, _),) = self.encode([self.open()], [mel], final=True)
        return rows.stable

    def _none(self) -> Tensor:
        return self.parts.project(self._rows())

    def _rows(self) -> Tensor:
        """No rows, before the projector."""
        return torch.zeros(0, self.parts.width, device=self.parts.device)

    def _convolve(self, mels: Sequence[Tensor]) -> list[Tensor]:
        """Mels [bins, frame] -> convolved rows [row, width] of each, its last chunk padded."""
        chunks = [F.pad(mel, (0, -mel.shape[1] % CHUNK)) for mel in mels]
        counts = [chunk.shape[1] // CHUNK for chunk in chunks]
        if not sum(counts):
            return [self._rows() for _ in mels]
        x = torch.cat([chunk.view(len(chunk), -1, CHUNK).transpose(0, 1) for chunk in chunks])
        rows = self.parts.stem(x) + self.positions
        return [
            part.flatten(0, 1)[: rows_of(mel.shape[1])]
            for part, mel in zip(torch.split_with_sizes(rows, counts), mels, strict=True)
        ]

    def _attend(self, windows: Sequence[Tensor]) -> list[Tensor]:
        """Windows of convolved rows [row, width] -> encoder output [row, output] of each."""
        if not windows:
            return []
        lengths = [len(window) for window in windows]
        x = torch.cat(list(windows))
        for layer in self.parts.layers:
            attended = []
            for window in torch.split_with_sizes(layer.project(x), lengths):
                query, key, value = window.permute(1, 2, 0, 3)[:, None]  # [1, head, row, dim]
                attended.append(attend(query, key, value)[0].transpose(0, 1).flatten(1))
            x = layer.merge(x, torch.cat(attended))
        return list(torch.split_with_sizes(self.parts.project(x), lengths))


def _split(rows: Tensor, size: int) -> list[Tensor]:
    """Rows, a multiple of `size` of them -> pieces of that size."""
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def rows_of(frames: int) -> int:
    """Mel frames of a clip -> its rows: 13 a whole chunk, and one for every started 8 frames."""
    return frames // CHUNK * CHUNK_ROWS + -(-(frames % CHUNK) // 8)
