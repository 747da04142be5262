"""Log-mel of 30 s -> encoder rows, 20 ms each: Whisper's audio encoder.

Source: Radford et al., Robust Speech Recognition via Large-Scale Weak Supervision (2022), and the
checkpoints' own layout; positions are a stored table.
"""

from collections.abc import Mapping

from torch import Tensor
from torch.nn import functional as F

from towers.layers import EncoderBlock, MakeLinear, Weights, attend

FRAMES = 3000  # mel frames in a window: 30 s
ROWS = FRAMES // 2  # encoder rows in a window
SAMPLES_PER_ROW = 320  # 20 ms at 16 kHz


class WhisperTower:
    """The encoder. It has no streaming state: every row depends on the whole window."""

    def __init__(self, tensors: Mapping[str, Tensor], *, heads: int, make: MakeLinear) -> None:
        weights = Weights(tensors, "model.encoder.", make)
        # As linear maps over (channel, tap) the convolutions take part in `make`'s precision.
        self.convolutions = tuple(
            make(
                weights.tensor(f"{name}.weight").flatten(1),  # [width, channels * 3]
                weights.tensor(f"{name}.bias"),
            )
            for name in ("conv1", "conv2")
        )
        self.positions = weights.tensor("embed_positions.weight")  # [1500, width]
        names = {name.split(".")[3] for name in tensors if name.startswith("model.encoder.layers.")}
        self.layers = [
            EncoderBlock.load(weights.at(f"layers.{n}"), heads) for n in range(len(names))
        ]
        self.norm = weights.norm("layer_norm")

    def encode(self, mel: Tensor, rows: int | None = None) -> Tensor:
        """Normalised mel [batch, bins, frames] -> float32 rows [batch, frames // 2, width].

        With `rows`, only the first so many: all are heard, but the others need no last layer.
        """
        first, second = self.convolutions
        x = F.gelu(first(_taps(mel.mT, 1)))  # [batch, frame, width]
        x = F.gelu(second(_taps(x, 2))).float()
        x = x + self.positions[: x.shape[1]]
        for layer in self.layers:
            query, key, value = layer.project(x).permute(2, 0, 3, 1, 4)  # [batch, head, row, dim]
            if layer is self.layers[-1]:
                x, query = x[:, :rows], query[:, :, :rows]
            x = layer.merge(x, attend(query, key, value).transpose(1, 2).flatten(2))
        return self.norm(x)


def _taps(x: Tensor, stride: int) -> Tensor:
    """[batch, time, channel] -> what a padded kernel of 3 sees [batch, time', channel * 3]."""
    return F.pad(x, (0, 0, 1, 1)).unfold(1, 3, stride).flatten(2)
