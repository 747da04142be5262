"""Cross-attention scores -> when each token was spoken.

Source: openai-whisper, timing.py. Heads that follow the speech are normalised, smoothed and
averaged; the cheapest monotone path through (token, row) then gives every token its rows.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SMOOTH = 7  # rows in the median filter


def token_rows(scores: Tensor, rows: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Scores before softmax [head, token, row] -> the row at which each token starts [token + 1],
    and the one that it attends to most [token].

    Only the first `rows` rows hold the audio that was spoken. The last start is where the last
    token ends. Starts never decrease.
    """
    matrix = attention_matrix(scores[:, :, :rows]).cpu().double().numpy()
    tokens, at = path(-matrix)
    first = np.diff(tokens, prepend=-1) > 0  # where the path enters a token
    starts = np.append(at[first], at[-1] + 1)
    spans = zip(matrix, starts[:-1], np.maximum(starts[1:], starts[:-1] + 1), strict=True)
    peaks = np.array([start + row[start:stop].argmax() for row, start, stop in spans], np.intp)
    return starts, peaks


def attention_matrix(scores: Tensor) -> Tensor:
    """Scores before softmax [head, token, row] -> smoothed mean attention [token, row]."""
    weights = scores.float().softmax(-1)
    deviation, mean = torch.std_mean(weights, dim=-2, keepdim=True, unbiased=False)
    return median_filter((weights - mean) / deviation.clamp(min=1e-12)).mean(0)


def median_filter(x: Tensor, width: int = SMOOTH) -> Tensor:
    """Median over `width` (odd) neighbours along the last axis, with reflected edges."""
    reach = width // 2
    if x.shape[-1] <= reach:  # too short to reflect
        return x
    padded = torch.nn.functional.pad(x, (reach, reach), mode="reflect")
    return _median([padded[..., at : at + x.shape[-1]] for at in range(width)])


def _median(values: list[Tensor]) -> Tensor:
    """The median of an odd number of tensors, place by place; many times as fast as sorting each.

    Of a little more than half of the values, neither the least nor the greatest can be it: they are
    dropped, and another value comes in.
    """
    low, rest = values[: len(values) // 2 + 2], values[len(values) // 2 + 2 :]
    while len(low) > 1:
        for at in range(len(low) - 1, 0, -1):  # the least comes to the front
            low[at - 1], low[at] = _ordered(low[at - 1], low[at])
        for at in range(1, len(low) - 1):  # the greatest to the end
            low[at], low[at + 1] = _ordered(low[at], low[at + 1])
        low, rest = low[1:-1] + rest[:1], rest[1:]
    return low[0]


def _ordered(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    return torch.minimum(one, other), torch.maximum(one, other)


def path(cost: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Cost [token, row] -> the cheapest path from corner to corner, as tokens and rows.

    Steps go to the next token, the next row, or both. Dynamic time warping (Sakoe and Chiba 1978),
    one token at a time: within it, a running minimum takes the place of a loop over rows.
    """
    tokens, rows = cost.shape
    total = np.full((tokens + 1, rows + 1), np.inf)
    total[0, 0] = 0.0
    for token in range(tokens):
        enter = np.minimum(total[token, :-1], total[token, 1:])  # from the token before
        along = np.cumsum(cost[token])
        before = np.concatenate([[0.0], along[:-1]])
        total[token + 1, 1:] = along + np.minimum.accumulate(enter - before)
    return _trace(total)


def _trace(total: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Accumulated costs [token + 1, row + 1] -> the path that led to the last corner."""
    token, row = total.shape[0] - 1, total.shape[1] - 1
    steps: list[tuple[int, int]] = []
    while token or row:
        steps.append((token - 1, row - 1))
        if not token:
            row -= 1
            continue
        if not row:
            token -= 1
            continue
        both, up, left = total[token - 1, row - 1], total[token - 1, row], total[token, row - 1]
        if both < up and both < left:
            token, row = token - 1, row - 1
        elif up < both and up < left:
            token -= 1
        else:
            row -= 1
    found = np.array(steps[::-1], dtype=np.intp).T
    return found[0], found[1]
