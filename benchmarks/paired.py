"""Is one system's word error rate different from another's? Paired bootstrap by recording. Pure.

Source: Bisani and Ney, Bootstrap Estimates for Confidence Intervals in ASR Performance Evaluation
(2004). Words of one recording go wrong together, so recordings are drawn, not words.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95  # of confidence


@dataclass(frozen=True, slots=True)
class Difference:
    """The first's word error rate minus the second's, in points, and its 95 % interval."""

    points: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.points:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


def difference(
    first: Sequence[int], second: Sequence[int], words: Sequence[int], *, seed: int = 0
) -> Difference:
    """Word errors of two systems in each recording, and the words of its reference, above 0."""
    wrong = np.asarray(first) - np.asarray(second)  # [recording]
    spoken = np.asarray(words)
    assert wrong.shape == spoken.shape
    assert len(spoken)
    generator = np.random.default_rng(seed)
    drawn = generator.integers(len(spoken), size=(RESAMPLES, len(spoken)))
    rates = 100 * wrong[drawn].sum(axis=1) / spoken[drawn].sum(axis=1)  # [resample]
    low, high = np.percentile(rates, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return Difference(100 * float(wrong.sum()) / float(spoken.sum()), float(low), float(high))
