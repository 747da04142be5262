"""16 kHz PCM -> speech probabilities.

The model is Silero VAD 6 with the weights that the package `silero-vad` ships. Each 32 ms frame is
seen with the 4 ms before it; only a small LSTM links frames. So everything but the LSTM runs over
all frames of all streams at once, and the result is that of frame-by-frame calls.
"""

import importlib.util
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils import rnn

from livecap.errors import CorruptModel, ModelNotFound
from livecap.vad.endpointer import FRAME

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

    def reset_after(self, frames: int, pcm: Tensor) -> "VadState":
        """The LSTM's state is cleared after so many whole frames of what waits and `pcm`.

        What follows those frames is still to be judged.
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
    """The network. `open` makes a stream's state, `probs` moves streams on."""

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
        """The state of a stream that has had no audio."""
        zeros = torch.zeros(HIDDEN)
        return VadState(torch.zeros(CONTEXT), torch.zeros(0), zeros, zeros)

    @torch.inference_mode()
    def probs(
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
            outs = self._lstm([states[n] for n in busy], [features[n] for n in busy])
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

    def _lstm(
        self, states: Sequence[VadState], features: Sequence[Tensor]
    ) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Per stream its features [frame, HIDDEN] -> probabilities, hidden and cell state."""
        hidden = torch.stack([state.hidden for state in states])[None]
        cell = torch.stack([state.cell for state in states])[None]
        packed = rnn.pack_sequence(list(features), enforce_sorted=False)
        out, (hidden, cell) = self.lstm(packed, (hidden, cell))
        padded, lengths = rnn.pad_packed_sequence(out)  # [frame, stream, HIDDEN]
        probs = F.linear(padded.relu(), *self.out)[..., 0].sigmoid()
        return [
            (probs[:length, n], hidden[0, n], cell[0, n])
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
