"""Cross-attention scores -> when each token was spoken.

Source: openai-whisper, timing.py. Heads that follow the speech are normalised, smoothed and
averaged; the cheapest monotone path through (token, row) then gives every token its rows.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SMOOTH = 7  # rows in the median filter


def token_rows(
    scores: Tensor, rows: int, *, skip: int = 0, after: int = 0
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Scores before softmax [head, token, row] -> the row at which each token starts [token + 1],
    and the one in which it was heard most [token].

    Only the first `rows` rows hold the audio that was spoken. The last start is where the last
    token ends. Starts never decrease. Of the first `skip` tokens it is known that they were spoken
    before row `after`: they are left out.
    """
    matrix = attention_matrix(scores[:, :, :rows])[skip:, after:].cpu().double().numpy()
    tokens, at = path(-matrix)
    first = np.diff(tokens, prepend=-1) > 0  # where the path enters a token
    starts = np.append(at[first], at[-1] + 1)
    spans = zip(matrix, starts[:-1], np.maximum(starts[1:], starts[:-1] + 1), strict=True)
    peaks = np.array([start + row[start:stop].argmax() for row, start, stop in spans], np.intp)
    return starts + after, peaks + after


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
    return padded.unfold(-1, width, 1).median(-1).values


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
