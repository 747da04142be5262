"""16 kHz PCM -> speech probabilities -> where speech starts and stops.

The model is Silero VAD 6 with the weights that the package `silero-vad` ships. Each 32 ms frame is
seen with the 4 ms before it; only a small LSTM links frames. So everything but the LSTM runs over
all frames of all streams at once, and the result is that of frame-by-frame calls.
"""

import importlib.util
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils import rnn

from livecap.config import VadConfig
from livecap.errors import CorruptModel, ModelNotFound
from livecap.events import RATE

FRAME = 512  # samples: 32 ms, the only size that Silero was trained on at 16 kHz
CONTEXT = 64  # samples before the frame that the model sees too
HIDDEN = 128
WEIGHTS = "data/silero_vad.jit"  # the package's .safetensors hold another, older set


@dataclass(frozen=True, slots=True)
class VadState:
    """What one stream keeps between calls."""

    context: Tensor  # [CONTEXT]: the last samples of the last whole frame
    rest: Tensor  # [< FRAME]: samples of a frame that is not whole yet
    hidden: Tensor  # [HIDDEN]
    cell: Tensor  # [HIDDEN]

    def renewed(self, pcm: Tensor, frames: int) -> "VadState":
        """So many whole frames later, `pcm` having come: what follows them is still to be judged,
        and nothing is remembered of what came before.
        """
        samples = torch.cat([self.context, self.rest, pcm])
        start = frames * FRAME
        return VadState(
            samples[start : start + CONTEXT],
            samples[start + CONTEXT :],
            torch.zeros_like(self.hidden),
            torch.zeros_like(self.cell),
        )


class Silero:
    """The network. `open` makes a stream's state, `listen` moves streams on."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        def take(name: str) -> Tensor:
            return weights[f"_model.{name}"]

        self.basis = take("stft.forward_basis_buffer")[:, 0].T  # [256, 2 * 129]
        self.convolutions = [
            (take(f"encoder.{n}.reparam_conv.weight"), take(f"encoder.{n}.reparam_conv.bias"))
            for n in range(4)
        ]
        self.lstm = torch.nn.LSTM(HIDDEN, HIDDEN)
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        self.lstm.load_state_dict({f"{name}_l0": take(f"decoder.rnn.{name}") for name in names})
        self.out = (take("decoder.decoder.2.weight")[..., 0], take("decoder.decoder.2.bias"))

    def open(self) -> VadState:
        """The state of a stream that has heard nothing."""
        zeros = torch.zeros(HIDDEN)
        return VadState(torch.zeros(CONTEXT), torch.zeros(0), zeros, zeros)

    @torch.inference_mode()
    def listen(
        self, states: Sequence[VadState], pcm: Sequence[Tensor]
    ) -> list[tuple[Tensor, VadState]]:
        """For each stream its state and next samples [n] -> probabilities [frame], state after.

        n is arbitrary; a frame's probability comes with its last sample.
        """
        if not states:
            return []
        framed = [_frames(state, samples) for state, samples in zip(states, pcm, strict=True)]
        counts = [len(frames) for frames, _ in framed]
        features = torch.split_with_sizes(
            self._features(torch.cat([frames for frames, _ in framed])), counts
        )
        busy = [n for n, count in enumerate(counts) if count]
        results = [(torch.zeros(0), state) for state in states]
        if busy:
            outs = self._link([states[n] for n in busy], [features[n] for n in busy])
            for n, (probabilities, hidden, cell) in zip(busy, outs, strict=True):
                context = framed[n][0][-1, -CONTEXT:]
                results[n] = (probabilities, VadState(context, framed[n][1], hidden, cell))
        return [
            (out, VadState(state.context, rest, state.hidden, state.cell))
            for (out, state), (_, rest) in zip(results, framed, strict=True)
        ]

    def _features(self, frames: Tensor) -> Tensor:
        """Frames with context [frame, 576] -> [frame, HIDDEN]."""
        padded = F.pad(frames[:, None], (0, 64), mode="reflect")[:, 0]
        windows = padded.unfold(1, 256, 128).reshape(-1, 256)  # [frame * 4, 256]
        real, imaginary = (windows @ self.basis).view(len(frames), 4, 258).chunk(2, -1)
        x = (real.square() + imaginary.square()).sqrt().mT  # [frame, 129, 4]
        for (weight, bias), stride in zip(self.convolutions, (1, 2, 2, 1), strict=True):
            x = F.conv1d(x, weight, bias, stride=stride, padding=1).relu()
        return x[..., 0]

    def _link(
        self, states: Sequence[VadState], features: Sequence[Tensor]
    ) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Per stream its features [frame, HIDDEN] -> probabilities, hidden and cell state."""
        hidden = torch.stack([state.hidden for state in states])[None]
        cell = torch.stack([state.cell for state in states])[None]
        packed = rnn.pack_sequence(list(features), enforce_sorted=False)
        out, (hidden, cell) = self.lstm(packed, (hidden, cell))
        padded, lengths = rnn.pad_packed_sequence(out)  # [frame, stream, HIDDEN]
        chances = F.linear(padded.relu(), *self.out)[..., 0].sigmoid()
        return [
            (chances[:length, n], hidden[0, n], cell[0, n])
            for n, length in enumerate(lengths.tolist())
        ]


def load() -> Silero:
    """The network with the weights of the package `silero-vad`, which itself is not imported.

    (Importing it would set torch's number of threads to one for the whole process.)
    """
    spec = importlib.util.find_spec("silero_vad")
    if spec is None or not spec.submodule_search_locations:
        raise ModelNotFound(
            "The package silero-vad, which finds speech, is not installed",
            remedy="Run: pip install silero-vad — or go without it by --no-vad.",
        )
    file = Path(spec.submodule_search_locations[0]) / WEIGHTS
    try:
        with warnings.catch_warnings():
            # The package ships no other format with these weights; torch keeps reading it.
            warnings.filterwarnings("ignore", message=".*torch.jit.load", category=Warning)
            # torch.jit.load has no annotations
            weights = torch.jit.load(str(file)).state_dict()  # type: ignore[no-untyped-call]
        return Silero({name: tensor.detach() for name, tensor in weights.items()})
    except (RuntimeError, ValueError, KeyError) as error:
        raise CorruptModel(
            f"The voice activity weights in {file} can't be read ({str(error).splitlines()[0]})",
            remedy="Run: pip install --force-reinstall 'silero-vad>=6.2,<7'",
        ) from error


def _frames(state: VadState, pcm: Tensor) -> tuple[Tensor, Tensor]:
    """State and samples [n] -> whole frames with context [frame, CONTEXT + FRAME], the rest."""
    samples = torch.cat([state.context, state.rest, pcm])
    count = (len(samples) - CONTEXT) // FRAME
    stop = CONTEXT + count * FRAME
    if not count:
        return samples.new_zeros(0, CONTEXT + FRAME), samples[CONTEXT:]
    return samples[:stop].unfold(0, CONTEXT + FRAME, FRAME), samples[stop:]


@dataclass(frozen=True, slots=True)
class Edge:
    """Speech begins or ends here."""

    kind: Literal["start", "stop"]
    at: int  # samples since the gate opened, a frame's border
    known: int  # samples that had to be heard to be sure of it


class Gate:
    """Probabilities -> edges, with hysteresis: Silero's own offline rules, one frame at a time.

    Speech starts with a frame above the threshold. It stops with a frame below the lower threshold,
    unless one above the upper threshold comes within `min_silence`. A stretch shorter than
    `min_speech` is no speech.
    """

    def __init__(self, config: VadConfig, at: int = 0) -> None:
        """`at`: the number of the first sample, where it is not 0."""
        self.on = config.vad_threshold
        self.off = max(config.vad_threshold - 0.15, 0.01)
        self.min_speech = config.vad_min_speech * RATE // 1000
        self.min_silence = config.vad_min_silence * RATE // 1000
        # samples after an edge by which it is known: speech too short to count may go on after a
        # pause too short to end it
        self.lag = self.min_speech + self.min_silence + 2 * FRAME
        self.at = at  # samples up to the last frame
        self._start: int | None = None  # where the speech began that is going on
        self._said = False  # whether its start has been reported
        self._quiet: int | None = None  # since when it has been below the lower threshold

    @property
    def is_open(self) -> bool:
        """Whether speech is going on (or a pause too short to end it)."""
        return self._said

    @property
    def quiet(self) -> int | None:
        """Since when the speech that goes on has been quiet; None while it is loud or none."""
        return self._quiet if self._said else None

    def feed(self, probabilities: Iterable[float]) -> list[Edge]:
        """The next frames' probabilities -> the edges that are certain now."""
        edges: list[Edge] = []
        for probability in probabilities:
            self._frame(probability, edges)
        return edges

    def close(self) -> list[Edge]:
        """The stream ends: the speech that is going on stops here, if it was long enough."""
        stop = self.at if self._quiet is None else self._quiet
        if self._start is not None and not self._said and stop - self._start >= self.min_speech:
            self._said = True
            return [Edge("start", self._start, self.at), Edge("stop", stop, self.at)]
        return [Edge("stop", stop, self.at)] if self._said else []

    def _frame(self, probability: float, edges: list[Edge]) -> None:
        begin, self.at = self.at, self.at + FRAME
        if probability >= self.on:
            self._quiet = None
            if self._start is None:
                self._start = begin
        elif probability < self.off and self._start is not None and self._quiet is None:
            self._quiet = begin
        if self._start is None:
            return
        heard = (self.at if self._quiet is None else self._quiet) - self._start
        if not self._said and heard >= self.min_speech:
            self._said = True
            edges.append(Edge("start", self._start, self.at))
        if self._quiet is not None and self.at - self._quiet >= self.min_silence:
            if self._said:
                edges.append(Edge("stop", self._quiet, self.at))
            self._start, self._said, self._quiet = None, False, None
