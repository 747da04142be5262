"""Float samples of any level and channel count -> one channel (or all) within -1 to 1.

Everything here keeps state and works on single samples or on frames counted from the stream's
start, so that audio in chunks and whole gives the same result. `Level` comes before the
resampler, for float input alone; `Mixer` comes after it.
"""

import numpy as np
from numpy.typing import NDArray

FRAME = 512  # samples at 16 kHz: the frame of the VAD, so that holding one costs no delay
_MEMORY = float(np.exp(-FRAME / 16_000 / 0.4))  # a frame later, of what the powers were; 0.4 s
_DRIFT = float(np.exp(-FRAME / 16_000 / 0.3))  # the same of the offset, 0.3 s
_OFFSET = 0.02  # healthy audio stays below it: only what exceeds it is taken off
_SILENT = 1e-12  # power of a channel that is as good as absent
_GARBAGE = 2.0**32  # above even floats on the scale of 32-bit integers
_INVERTED, _UPRIGHT = -0.5, 0.0  # correlations at which a channel is flipped, and flipped back

Pcm = NDArray[np.float32]  # [channel, sample]
Array = NDArray[np.float64]


class Level:
    """Float PCM of any scale -> the same within -1 to 1, linear, without NaN or infinities.

    Input beyond 1 lowers the gain, from that sample on, to just fit; the gain never rises again,
    so pauses are not pumped up. A level counts when two of three neighbouring samples reach it:
    lone spikes are clipped instead. NaN becomes 0, infinity full scale.
    """

    def __init__(self) -> None:
        self._peak = 1.0  # the gain is its inverse
        self._last = np.zeros(2)  # largest magnitude, over channels, of the last two samples

    def feed(self, pcm: Pcm) -> Pcm:
        """[channel, sample] -> the same shape."""
        if not pcm.size:
            return pcm
        calm = self._peak == 1.0 and bool(pcm.max() <= 1.0 and pcm.min() >= -1.0)
        if not calm:  # NaN lands here as well, since it compares false
            pcm = np.nan_to_num(pcm, nan=0.0, posinf=1.0, neginf=-1.0)
            pcm[np.abs(pcm) > _GARBAGE] = 0.0
        size = np.concatenate([self._last, np.abs(pcm[:, -2:] if calm else pcm).max(axis=0)])
        self._last = size[-2:]
        if calm:
            return pcm
        reached = np.minimum(size[2:], np.maximum(size[1:-1], size[:-2]))
        peaks = np.maximum.accumulate(np.maximum(reached, self._peak))
        self._peak = float(peaks[-1])
        return np.clip(pcm / peaks, -1.0, 1.0).astype(np.float32)


class Mixer:
    """[channel, sample] at 16 kHz -> [row, sample]: one row, or all channels kept apart.

    The mix follows the powers and correlations of about the last 0.4 s. It adds all channels, a
    low-frequency one excepted, each with its sign, times one gain g <= 1:

    - a channel that is the inverse of the others (correlation below -0.5) is flipped first;
    - g makes the sum as loud as the loudest channel, plus what the others hold that it does not.

    So twin channels are averaged, a talker on one side or in the centre keeps the full level,
    and unlike channels (call sides, separate microphones) are added in full. A channel that is
    called low-frequency is believed to be one only while it holds nothing above some 250 Hz,
    as files often name a layout that their channels don't have. Gains move in a ramp over a
    frame. A constant offset above 0.02 is tracked and taken off; other mono audio, and the
    sound of a lone active channel, come out bit for bit.
    """

    def __init__(self, names: tuple[str, ...], *, split: bool) -> None:
        channels = len(names)
        self._split = split
        self._low = np.array([name.startswith("LFE") for name in names])
        self._held = np.zeros((channels, 0), np.float32)  # less than a frame
        self._drift = np.zeros(channels)  # mean of about the last 0.3 s
        self._offset = np.zeros(channels)  # taken off at the end of the last frame
        self._power = np.zeros((channels, channels))  # decayed sum of x_i * x_j
        self._slope = np.zeros(channels)  # decayed sum of the squared differences
        self._signs = np.ones(channels)
        self._gains: Array | None = None  # at the end of the last frame; None after silence

    def feed(self, pcm: Pcm) -> Pcm:
        """Takes any number of samples; gives whole frames, so it holds back up to 511."""
        pcm = np.concatenate([self._held, pcm], axis=1) if self._held.size else pcm
        whole = pcm.shape[1] - pcm.shape[1] % FRAME
        self._held = pcm[:, whole:].copy()
        if not whole:
            return self._empty()
        return self._mix(pcm[:, :whole].reshape(len(pcm), -1, FRAME).transpose(1, 0, 2))

    def flush(self) -> Pcm:
        """What was held back, as the last frame."""
        held, self._held = self._held, self._held[:, :0]
        return self._mix(held[None]) if held.size else self._empty()

    def _empty(self) -> Pcm:
        return np.zeros((len(self._held) if self._split else 1, 0), np.float32)

    def _mix(self, frames: Pcm) -> Pcm:  # [frame, channel, sample]
        frames = self._centre(frames)
        if self._split or frames.shape[1] == 1:
            rows = frames
        else:
            before, after = self._aim(frames)
            rows = (_ramp(before, after, frames.shape[2]) * frames).sum(axis=1, keepdims=True)
        out = rows.transpose(1, 0, 2).reshape(rows.shape[1], -1)
        return out.clip(-1.0, 1.0).astype(np.float32, copy=False)

    def _centre(self, frames: Pcm) -> Pcm:
        """Takes off what exceeds the tolerated offset, in a ramp."""
        means = frames.mean(axis=2, dtype=np.float64)
        offsets = np.zeros((len(frames) + 1, frames.shape[1]))
        offsets[0] = self._offset
        for number, mean in enumerate(means):
            self._drift = _DRIFT * self._drift + (1 - _DRIFT) * mean
            offsets[number + 1] = self._drift
        offsets[1:] -= offsets[1:].clip(-_OFFSET, _OFFSET)
        self._offset = offsets[-1]
        if not offsets.any():
            return frames
        return frames - _ramp(offsets[:-1], offsets[1:], frames.shape[2])

    def _aim(self, frames: Pcm) -> tuple[Array, Array]:
        """Gains at the start and at the end of each frame, [frame, channel]."""
        centred = frames - frames.mean(axis=2, keepdims=True)
        sums = np.matmul(centred, centred.transpose(0, 2, 1)).astype(np.float64)
        slopes = np.square(np.diff(centred, axis=2)).sum(axis=2, dtype=np.float64)
        powers = np.empty_like(sums)
        for number, (power, slope) in enumerate(zip(sums, slopes, strict=True)):
            self._power = _MEMORY * self._power + power
            self._slope = _MEMORY * self._slope + slope
            low = self._low & (self._slope < 0.01 * np.diagonal(self._power))  # 0.01: 255 Hz
            powers[number] = np.where(low[:, None] | low[None], 0.0, self._power)
        signs = self._turn(powers)
        after = signs * _gain(powers, signs)[:, None]
        after[np.diagonal(powers, axis1=1, axis2=2) <= 0] = 0.0  # a dropped or absent channel
        peaks = np.abs(np.matmul(after[:, None], frames)).max(axis=(1, 2))
        after /= np.maximum(peaks, 1.0)[:, None]  # several loud talkers at once
        return self._start(after, powers), after

    def _start(self, after: Array, powers: Array) -> Array:
        """Each frame starts with the gains of the frame before, unless that was silent."""
        before = np.empty_like(after)
        for number, gains in enumerate(after):
            before[number] = gains if self._gains is None else self._gains
            fresh = before[number] == 0.0  # absent so far: comes in at once, from silence
            before[number][fresh] = gains[fresh]
            self._gains = gains if powers[number].any() else None
        return before

    def _turn(self, powers: Array) -> Array:
        """Signs for each frame, [frame, channel]: each channel against the sum of those before."""
        upright = bool((self._signs > 0).all())
        if upright and not (_likeness(powers) < _INVERTED).any():
            return np.ones(powers.shape[:2])
        signs = np.empty(powers.shape[:2])
        for number, power in enumerate(powers):
            for channel in range(1, len(power)):
                others = self._signs[:channel]
                cross = others @ power[:channel, channel]
                scale = np.sqrt(
                    max(others @ power[:channel, :channel] @ others, 0.0) * power[channel, channel]
                )
                limit = _INVERTED if self._signs[channel] > 0 else _UPRIGHT
                if scale > _SILENT:
                    self._signs[channel] = 1.0 if cross >= limit * scale else -1.0
            signs[number] = self._signs
        return signs


def _ramp(before: Array, after: Array, samples: int) -> Pcm:
    """[frame, channel] at both ends -> [frame, channel, sample], which reaches `after`."""
    if np.array_equal(before, after):
        return np.broadcast_to(after[..., None], (*after.shape, samples)).astype(np.float32)
    steps = np.arange(1, samples + 1) / samples
    return (before[..., None] + (after - before)[..., None] * steps).astype(np.float32)


def _likeness(powers: Array) -> Array:
    """Correlation of each channel with the sum of those before it, [frame, channel]."""
    energies = np.diagonal(powers, axis1=1, axis2=2)
    cross = np.tril(powers, -1).sum(axis=2)
    sums = np.cumsum(energies + 2 * cross, axis=1)
    scale = np.sqrt(np.maximum(sums[:, :-1] * energies[:, 1:], 0.0))
    ratio: Array = np.divide(cross[:, 1:], scale, out=np.zeros_like(scale), where=scale > _SILENT)
    return ratio


def _gain(powers: Array, signs: Array) -> Array:
    """Gain a frame, at most 1, that makes the signed sum as loud as its distinct parts."""
    energies = np.diagonal(powers, axis1=1, axis2=2)
    loudest = energies.argmax(axis=1)
    frame = np.arange(len(powers))
    limit = energies[frame, loudest][:, None]
    shared = np.square(powers[frame, loudest])  # [frame, channel]
    known = np.divide(shared, limit, out=np.zeros_like(shared), where=limit > _SILENT)
    wanted = limit[:, 0] + (energies - known).sum(axis=1)  # the loudest one's own term is 0
    summed = np.einsum("ki,kij,kj->k", signs, powers, signs)
    ratio = np.divide(wanted, summed, out=np.ones_like(wanted), where=summed > _SILENT)
    gains: Array = np.sqrt(ratio.clip(0.0, 1.0))
    return gains
