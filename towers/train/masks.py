"""Stretches of a mel that are hidden in training. Source: SpecAugment, Park et al. 2019."""

from random import Random

from torch import Tensor

WIDEST = 16  # bands
LONGEST = 30  # frames
PART = 0.15  # of an utterance, at most


def masked(mel: Tensor, count: int, *, seed: object) -> Tensor:
    """Mel [bin, frame] -> the same with `count` stretches of time and of bands at its mean."""
    random = Random(repr(seed))
    mel, mean = mel.clone(), float(mel.mean())
    bins, frames = mel.shape
    for _ in range(count):
        width = random.randint(0, WIDEST)
        low = random.randint(0, bins - width)
        mel[low : low + width] = mean
        length = random.randint(0, min(LONGEST, int(PART * frames)))
        start = random.randint(0, frames - length)
        mel[:, start : start + length] = mean
    return mel
