"""Log-mel -> encoder rows, 12.5 a second: the append-only streaming tower of Qwen3-ASR 0.6B.

The official tower's weights, trained on for another way to run: every 80 ms of mel is convolved
alone and becomes one row, positions count up from the segment's start, and blocks of 1.92 s attend
to themselves and to the keys and values kept of the last 15.6 s. Nothing is ever encoded twice, so
a second of audio costs the same however long the segment is. A new segment needs a new state:
positions far beyond those of training ruin the rows. Source: the package qwen3-asr-causal and the
card of qfuxa/qwen3-asr-0.6b-streaming.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from towers.layers import MakeLinear
from towers.qwen3_layers import BINS, TowerLayers, sinusoids

ROW_FRAMES = 8  # mel frames of a row: 80 ms
BLOCK_ROWS = 24  # rows of a block: 1.92 s
LEFT = 195  # rows that a row sees, itself included: 13 * 15, as 15 s are counted in training


@dataclass(frozen=True, slots=True)
class CausalState:
    """What a stream keeps between calls, since the segment's start."""

    frames: Tensor  # [bins, < BLOCK_ROWS * ROW_FRAMES]: mel of the block that is not whole yet
    keys: Tensor  # [layer, head, <= LEFT, dim]
    values: Tensor  # [layer, head, <= LEFT, dim]
    rows: int  # rows that have left: the next one's position


class CausalTower:
    """The encoder with its projector. State in, state out; every row is final at once."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        *,
        heads: int,
        make: MakeLinear,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.parts = TowerLayers(tensors, heads=heads, make=make, dtype=dtype)

    def open(self) -> CausalState:
        """The state of a segment that has heard nothing."""
        dim = self.parts.width // self.parts.heads
        device = self.parts.device
        empty = torch.zeros(len(self.parts.layers), self.parts.heads, 0, dim, device=device)
        return CausalState(torch.zeros(BINS, 0, device=device), empty, empty, 0)

    @torch.inference_mode()
    def encode(
        self, states: Sequence[CausalState], mels: Sequence[Tensor], *, final: bool
    ) -> list[tuple[Tensor, CausalState]]:
        """For each stream its state and new mel [bins, frame] -> rows [row, output], state after.

        Whole blocks leave. With `final` the segment ends: what is left leaves as a short block,
        but for less than 80 ms, which makes no row.
        """
        return self.forward(states, mels, final=final)

    def forward(
        self, states: Sequence[CausalState], mels: Sequence[Tensor], *, final: bool
    ) -> list[tuple[Tensor, CausalState]]:
        """`encode`, for those who need gradients."""
        now = [
            CausalState(torch.cat([state.frames, mel], 1), state.keys, state.values, state.rows)
            for state, mel in zip(states, mels, strict=True)
        ]
        found: list[list[Tensor]] = [[self._none()] for _ in now]
        while due := [n for n, state in enumerate(now) if _due(state, final=final)]:
            counts = [_due(now[n], final=final) for n in due]
            outs = self._blocks([now[n] for n in due], counts)
            for n, (rows, state) in zip(due, outs, strict=True):
                found[n].append(rows)
                now[n] = state
        return [(torch.cat(rows), state) for rows, state in zip(found, now, strict=True)]

    def clip(self, mel: Tensor) -> Tensor:
        """The mel of a whole segment [bins, frame] -> its rows [row, output]."""
        ((rows, _),) = self.encode([self.open()], [mel], final=True)
        return rows

    def _none(self) -> Tensor:
        return self.parts.project(torch.zeros(0, self.parts.width, device=self.parts.device))

    def _blocks(
        self, states: Sequence[CausalState], counts: Sequence[int]
    ) -> list[tuple[Tensor, CausalState]]:
        """One block of each stream, of so many rows, in one packed pass."""
        due = zip(states, counts, strict=True)
        mel = torch.cat([state.frames[:, : count * ROW_FRAMES] for state, count in due], 1)
        chunks = mel.view(len(mel), -1, ROW_FRAMES).transpose(0, 1)  # [row, bins, ROW_FRAMES]
        blocks = [
            sinusoids(state.rows, state.rows + count, self.parts.width, self.parts.device)
            for state, count in zip(states, counts, strict=True)
        ]
        x = self.parts.stem(chunks)[:, 0] + torch.cat(blocks)
        keys: list[list[Tensor]] = [[] for _ in states]
        values: list[list[Tensor]] = [[] for _ in states]
        for number, layer in enumerate(self.parts.layers):
            attended = []
            for n, block in enumerate(torch.split_with_sizes(layer.project(x), list(counts))):
                query, key, value = block.permute(1, 2, 0, 3)  # [head, row, dim] each
                key = torch.cat([states[n].keys[number].to(key.dtype), key], 1)
                value = torch.cat([states[n].values[number].to(value.dtype), value], 1)
                attended.append(_attend(query, key, value))
                keys[n].append(key[:, -LEFT:])
                values[n].append(value[:, -LEFT:])
            x = layer.merge(x, torch.cat(attended))
        rows = torch.split_with_sizes(self.parts.project(x), list(counts))
        return [
            (
                rows[n],
                CausalState(
                    state.frames[:, counts[n] * ROW_FRAMES :],
                    torch.stack(keys[n]),
                    torch.stack(values[n]),
                    state.rows + counts[n],
                ),
            )
            for n, state in enumerate(states)
        ]


def _due(state: CausalState, *, final: bool) -> int:
    """Rows of the next block that can be encoded, 0 for none."""
    rows = state.frames.shape[1] // ROW_FRAMES
    return BLOCK_ROWS if rows >= BLOCK_ROWS else rows if final else 0


def _attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """A block's queries [head, row, dim], kept and own keys [head, seen, dim] -> [row, width].

    All see the whole block, and back to LEFT - 1 rows before themselves. Scores are float32.
    """
    rows, seen = query.shape[1], key.shape[1]
    positions = torch.arange(seen, device=key.device)
    own = positions[seen - rows :, None]  # where each query's own key lies
    hidden = positions < own - (LEFT - 1)  # [row, seen]
    scores = (query.float() @ key.float().mT) * (1 / math.sqrt(query.shape[-1]))
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
    return (weights.to(value.dtype) @ value).transpose(0, 1).flatten(1)
