"""A model of transformers' class whose audio is heard by the runtime's own towers, with gradients.

So what is trained is what runs: `towers/qwen3_windowed.py` and `towers/causal.py` are built anew on
the parameters for each step.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from towers import causal, qwen3_windowed
from towers.layers import EncoderBlock, dense
from towers.qwen3_layers import TowerLayers
from towers.train.vocabulary import TrainingVocabulary

Kind = Literal["windowed", "causal"]

IGNORED = -100  # a label that counts for nothing
# The projector lies outside the tower in transformers, and inside it in the official layout.
PROJECTOR = {"linear_1": "proj1", "linear_2": "proj2"}


@dataclass(frozen=True, slots=True)
class TowerOutput:
    """What a tower made of a batch."""

    rows: list[Tensor]  # of each clip [row, hidden]
    layers: list[list[Tensor]]  # of each clip, after each layer [row, width]; empty if not recorded


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A block whose rows are written down."""

    block: EncoderBlock
    rows: list[Tensor]

    def project(self, x: Tensor) -> Tensor:
        """See `Block`."""
        return self.block.project(x)

    def merge(self, x: Tensor, attended: Tensor) -> Tensor:
        """See `Block`."""
        after = self.block.merge(x, attended)
        self.rows.append(after)
        return after


def tower_of(model: Any) -> dict[str, nn.Parameter]:
    """A model of transformers -> its tower's parameters, projector included, by official names."""
    found: dict[str, nn.Parameter] = dict(model.model.audio_tower.named_parameters())
    for name, parameter in model.model.multi_modal_projector.named_parameters():
        name_value, _, rest = name.partition(".")
        found[f"{PROJECTOR[name_value]}.{rest}"] = parameter
    return found


def hear(
    tensors: Mapping[str, Tensor],
    mels: Sequence[Tensor],
    *,
    kind: Kind,
    heads: int,
    window: int,
    dtype: torch.dtype = torch.float32,
    record: bool = False,
) -> TowerOutput:
    """Clips' mels [bins, frame] -> their rows, by one of the two towers. Gradients flow."""
    make = dense(dtype)
    tower: qwen3_windowed.WindowedTower | causal.CausalTower
    if kind == "windowed":
        tower = qwen3_windowed.WindowedTower(
            tensors, heads=heads, make=make, dtype=dtype, window=window
        )
    else:
        tower = causal.CausalTower(tensors, heads=heads, make=make, dtype=dtype)
    written: list[list[Tensor]] = _record(tower.parts) if record else []
    if isinstance(tower, qwen3_windowed.WindowedTower):
        rows = [
            found.stable
            for found, _ in tower.forward([tower.open() for _ in mels], mels, final=True)
        ]
        layers = [torch.split_with_sizes(one[0], [len(clip) for clip in rows]) for one in written]
        return TowerOutput(
            rows, [[layer[n] for layer in layers] for n in range(len(mels) if layers else 0)]
        )
    rows = [found for found, _ in tower.forward([tower.open() for _ in mels], mels, final=True)]
    return TowerOutput(rows, _by_clip(written, [len(clip) for clip in rows]))


def _record(parts: TowerLayers) -> list[list[Tensor]]:
    written: list[list[Tensor]] = [[] for _ in parts.layers]
    parts.layers = [_Recorded(b, w) for b, w in zip(parts.layers, written, strict=True)]  # type: ignore[misc]  # acts as one
    return written


def _by_clip(written: Sequence[Sequence[Tensor]], lengths: Sequence[int]) -> list[list[Tensor]]:
    """What was recorded of packed blocks, a pass after the other -> rows of each clip and layer."""
    if not written:
        return []
    found = [[[layer[0][:0]] for layer in written] for _ in lengths]
    for number, layer in enumerate(written):
        for step, packed in enumerate(layer):
            due = [n for n, length in enumerate(lengths) if length > step * causal.BLOCK_ROWS]
            counts = [min(lengths[n] - step * causal.BLOCK_ROWS, causal.BLOCK_ROWS) for n in due]
            for n, rows in zip(due, torch.split_with_sizes(packed, counts), strict=True):
                found[n][number].append(rows)
    return [[torch.cat(rows) for rows in clip] for clip in found]


def answer_loss(
    model: Any,
    vocabulary: TrainingVocabulary,
    rows: Sequence[Tensor],
    answers: Sequence[Sequence[int]],
) -> Tensor:
    """The decoder's cross-entropy on the answers, given the rows of the audio: a scalar."""
    embed = model.model.language_model.embed_tokens
    device = embed.weight.device
    head = embed(torch.tensor(vocabulary.head(), device=device))
    tail = embed(torch.tensor(vocabulary.tail(), device=device))
    written = [torch.tensor(answer, device=device) for answer in answers]
    inputs = [
        torch.cat([head, one.to(head.dtype), tail, embed(answer[:-1])])
        for one, answer in zip(rows, written, strict=True)
    ]
    hidden = model.model.language_model(
        inputs_embeds=nn.utils.rnn.pad_sequence(inputs, batch_first=True), use_cache=False
    ).last_hidden_state  # what is padded comes last, and the mask is causal: nothing sees it
    targets = [
        hidden[n, len(one) - len(answer) : len(one)]
        for n, (one, answer) in enumerate(zip(inputs, written, strict=True))
    ]
    return F.cross_entropy(model.lm_head(torch.cat(targets)).float(), torch.cat(written))


class CtcHead(nn.Module):
    """Rows -> log-probabilities of tokens and, last, of blank. Dropped after training.

    It reads the rows by the decoder's own embedding, so that what it teaches the tower to write is
    what the decoder knows how to read. Source of the loss: Graves et al. 2006.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.blank = nn.Parameter(torch.zeros(hidden))
        self.bias = nn.Parameter(torch.zeros(1))
        self.scale = nn.Parameter(torch.ones(1))

    def logits(self, embedding: Tensor, rows: Sequence[Tensor]) -> Tensor:
        """All rows, one clip after another -> [row, token + 1]."""
        packed = torch.cat(list(rows)).float()
        weights = torch.cat([embedding.float(), self.blank[None]])
        logits = self.scale * (packed @ weights.T)
        return torch.cat([logits[:, :-1], logits[:, -1:] + self.bias], 1)

    def aligned(
        self, embedding: Tensor, rows: Sequence[Tensor], labels: Sequence[Tensor]
    ) -> Tensor:
        """Cross-entropy where it is known what each row says: a scalar, in nats a row."""
        logits = self.logits(embedding, rows)
        return F.cross_entropy(logits, torch.cat(list(labels)).to(logits.device))

    def loss(
        self, embedding: Tensor, rows: Sequence[Tensor], texts: Sequence[Sequence[int]]
    ) -> Tensor:
        """`embedding` [token, hidden] of the text tokens; a scalar, in nats a token."""
        logits = self.logits(embedding, rows)
        lengths = [len(one) for one in rows]
        padded = nn.utils.rnn.pad_sequence(
            list(torch.split_with_sizes(logits.log_softmax(-1), lengths))
        )
        return F.ctc_loss(
            padded,
            torch.tensor([token for text in texts for token in text], device=logits.device),
            torch.tensor(lengths),
            torch.tensor([len(text) for text in texts]),
            blank=len(embedding),
            zero_infinity=True,
        )


def trained(model: Any, tower: bool, decoder: bool) -> Iterator[nn.Parameter]:
    """The parameters to be trained; all others are frozen."""
    for name, parameter in model.named_parameters():
        is_tower = name.startswith(("model.audio_tower.", "model.multi_modal_projector."))
        parameter.requires_grad_(tower if is_tower else decoder)
        if parameter.requires_grad:
            yield parameter
