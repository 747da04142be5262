"""16 kHz PCM -> log-mel frames. First stage of every tower.

Offline, `Mel.offline` is the feature extractor of transformers and openai-whisper: 25 ms Hann
windows every 10 ms, centred with reflected edges, Slaney mel bands, log10, floored 8 below the
clip's maximum. `Mel.stream` makes the same frames from audio in pieces: the logarithms are equal
to the offline ones, frame by frame, and the floor follows the largest value so far, so a frame
that has left never changes.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

RATE = 16_000  # samples per second
HOP = RATE // 100  # samples from frame to frame: 10 ms
WINDOW = RATE // 40  # samples in a frame: 25 ms
EDGE = WINDOW // 2  # samples a centred frame reaches to each side
FLOOR = 1e-10  # of the power, before the logarithm
RANGE = 8.0  # decades below the maximum that are kept


@dataclass(frozen=True, slots=True)
class MelState:
    """What a stream keeps between calls."""

    samples: Tensor  # [n]: the last ones, from EDGE before the next frame's centre on
    frames: int  # frames that have left
    maximum: float  # of all log10 powers so far; -inf before the first


class Mel:
    """The mel filter bank for `bins` bands (80 for Whisper, 128 for large-v3 and Qwen3-ASR)."""

    def __init__(self, bins: int, *, device: torch.device | None = None) -> None:
        self.bins = bins
        self.window = torch.hann_window(WINDOW, device=device)
        self.filters = filter_bank(bins).to(device)  # [bins, 201]

    def offline(self, pcm: Tensor, frames: int | None = None) -> Tensor:
        """One whole clip [samples] -> normalised frames [bins, samples // HOP].

        With `frames`, the clip counts as followed by zeros up to that many frames, as Whisper's
        extractor pads it to 3000; only the audio is computed.
        """
        if frames is None:
            return _normalise(self._log(_reflected(pcm))[:, : len(pcm) // HOP])
        silent = frames * HOP - len(pcm)
        assert silent >= 0, "the clip is longer than its frames"
        padded = torch.nn.functional.pad(pcm, (0, min(silent, WINDOW)))
        if silent <= WINDOW:
            return _normalise(self._log(_reflected(padded)))
        logs = self._log(torch.cat([_head(padded), padded]))
        out = logs.new_full((self.bins, frames), math.log10(FLOOR))
        out[:, : logs.shape[1]] = logs
        return _normalise(out)

    def open(self) -> MelState:
        """The state of a stream that has heard nothing."""
        return MelState(torch.zeros(0), 0, -math.inf)

    def stream(self, pcm: Tensor, state: MelState, *, final: bool) -> tuple[Tensor, MelState]:
        """The next samples [n] -> frames that are certain now [bins, m], and the state after.

        A frame is certain when all the samples under it are there; `final` reflects the end, as
        offline, and lets the rest out. The very first frame needs `EDGE + 1` samples to reflect.
        """
        samples = torch.cat([state.samples, pcm])
        if state.frames == 0 and len(samples) > EDGE:
            samples = torch.cat([_head(samples), samples])
        elif state.frames == 0:
            return self._last(samples, state) if final else self._wait(samples, state)
        logs = self._log(samples)
        if final:
            count = (len(samples) - EDGE) // HOP  # as offline: no frame for a part of a hop
            logs = self._log(torch.cat([samples, _tail(samples)]))[:, :count]
        if not logs.shape[1]:
            if state.frames == 0:
                samples = samples[EDGE:]  # reflected again when more is there
            return self._wait(samples, state)
        maximum = max(state.maximum, float(logs.max()))
        rest = samples[logs.shape[1] * HOP :]
        after = MelState(rest, state.frames + logs.shape[1], maximum)
        return _normalise(logs, maximum), after

    def _wait(self, samples: Tensor, state: MelState) -> tuple[Tensor, MelState]:
        return samples.new_zeros(self.bins, 0), MelState(samples, state.frames, state.maximum)

    def _last(self, samples: Tensor, state: MelState) -> tuple[Tensor, MelState]:
        """A stream that ends before its first frame was certain."""
        frames = self.offline(samples) if len(samples) >= HOP else None
        if frames is None:
            return self._wait(samples, state)
        return frames, MelState(samples[:0], frames.shape[1], state.maximum)

    def _log(self, samples: Tensor) -> Tensor:
        """Samples [n] -> log10 mel power of every frame that fits [bins, (n - WINDOW) // HOP + 1].

        The frame that would be centred on the sample after the last is left out, as everywhere.
        """
        count = max((len(samples) - WINDOW - 1) // HOP + 1, 0)
        if not count:
            return samples.new_zeros(self.bins, 0)
        framed = samples.unfold(0, WINDOW, HOP)[:count]
        spectrum = torch.fft.rfft(framed * self.window)
        power = spectrum.real.square() + spectrum.imag.square()  # [frames, 201]
        logs: Tensor = (self.filters @ power.T).clamp(min=FLOOR).log10()
        return logs


def filter_bank(bins: int) -> Tensor:
    """Number of bands -> triangles over 0 to 8 kHz [bins, WINDOW // 2 + 1].

    Slaney's scale (linear to 1 kHz, logarithmic above) and area normalisation, as in librosa and
    in the checkpoints' feature extractors.
    """
    edges = _hertz(torch.linspace(0, float(_mels(RATE / 2)), bins + 2, dtype=torch.float64))
    bands = torch.linspace(0, RATE / 2, WINDOW // 2 + 1, dtype=torch.float64)
    rising = (bands - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bands) / (edges[2:] - edges[1:-1])[:, None]
    area = 2 / (edges[2:] - edges[:-2])
    return (torch.minimum(rising, falling).clamp(min=0) * area[:, None]).float()


KNEE = 1000.0  # Hz: linear below, logarithmic above
PER_MEL = 200 / 3  # Hz per mel below the knee
LOG_STEP = math.log(6.4) / 27  # per mel above it


def _mels(hertz: float) -> float:
    return KNEE / PER_MEL + math.log(hertz / KNEE) / LOG_STEP


def _hertz(mels: Tensor) -> Tensor:
    knee = KNEE / PER_MEL
    return torch.where(mels < knee, mels * PER_MEL, KNEE * torch.exp((mels - knee) * LOG_STEP))


def _head(samples: Tensor) -> Tensor:
    """The reflection before the first sample [EDGE], zeros where the clip is too short."""
    mirrored = samples[1 : EDGE + 1].flip(0)
    return torch.nn.functional.pad(mirrored, (EDGE - len(mirrored), 0))


def _tail(samples: Tensor) -> Tensor:
    """The reflection after the last sample [EDGE]."""
    mirrored = samples[-EDGE - 1 : -1].flip(0)
    return torch.nn.functional.pad(mirrored, (0, EDGE - len(mirrored)))


def _reflected(pcm: Tensor) -> Tensor:
    return torch.cat([_head(pcm), pcm, _tail(pcm)])


def _normalise(logs: Tensor, maximum: float | None = None) -> Tensor:
    """log10 powers -> about -1 to 1, floored RANGE below the maximum (theirs, or the one given)."""
    if maximum is None:
        maximum = float(logs.max()) if logs.numel() else 0.0
    return logs.clamp(min=maximum - RANGE).add_(4.0).div_(4.0)
