"""A windowed tower -> a causal one: the same weights, trained on to be run block by block.

The student's rows are pulled to the teacher's at the same time, after each layer and at the end,
and the decoder, which is frozen, has to read the right text from them. The teacher has 13 rows a
second and the student 12.5: paired by their numbers they would drift apart by 40 ms a second.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from towers.causal import ROW_FRAMES
from towers.qwen3_windowed import CHUNK, CHUNK_ROWS
from towers.train.batches import batches
from towers.train.features import Features
from towers.train.loop import Losses, Schedule, Trainer, Workers
from towers.train.manifest import Utterance
from towers.train.masks import masked
from towers.train.network import answer_loss, hear, tower_of, trained
from towers.train.vocabulary import TrainingVocabulary

ANGLE = 0.5  # weight of the angle between two rows beside their distance


@dataclass(frozen=True, slots=True)
class DistillConfig:
    """How a causal tower is trained."""

    steps: int = 1500
    rate: float = 5e-4
    warmup: int = 100
    frames: int = 12_800  # mel frames of a batch
    layers: float = 0.5  # weight of the rows after each layer beside those at the end
    answer: float = 1.0  # weight of the decoder's cross-entropy
    seed: int = 0
    every: int = 100
    dtype: torch.dtype = torch.float32
    masks: int = 2


class Student(nn.Module):
    """A causal tower's parameters, which begin as the windowed one's."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._names = {name: name.replace(".", "/") for name in tensors}
        for name, index in self._names.items():
            self.register_parameter(index, nn.Parameter(tensors[name].detach().clone()))

    def tensors(self) -> dict[str, Tensor]:
        """By their official names."""
        found = dict(self.named_parameters())
        return {name: found[index] for name, index in self._names.items()}


def paired(rows: int) -> Tensor:
    """The student's rows -> the number of the teacher's row at the same time, [row]."""
    frames = torch.arange(rows) * ROW_FRAMES
    within = ((frames % CHUNK) / ROW_FRAMES).round().long().clamp(max=CHUNK_ROWS - 1)
    return frames // CHUNK * CHUNK_ROWS + within


def gap(student: Tensor, teacher: Tensor) -> Tensor:
    """How far rows [row, width] are from those they should be: a scalar."""
    scale = teacher.square().mean().clamp(min=1e-6)
    angle = 1 - F.cosine_similarity(student, teacher, dim=-1).mean()
    return F.mse_loss(student, teacher) / scale + ANGLE * angle


def distill(
    model: Any,
    student: Student,
    vocabulary: TrainingVocabulary,
    utterances: Sequence[Utterance],
    mels: Features,
    folder: Path,
    config: DistillConfig,
    *,
    until: int | None = None,
) -> Iterator[dict[str, float]]:
    """Train the student, and tell how it goes. Goes on where an earlier run ended."""
    workers = Workers.join()
    assert not list(trained(model, tower=False, decoder=False))
    schedule = Schedule(config.steps, config.rate, config.warmup)
    trainer = Trainer({"tower": student}, list(student.parameters()), schedule, folder, workers)
    trainer.resume()
    audio = model.config.audio_config
    answers = [vocabulary.answer(one.text, one.language) for one in utterances]
    window = audio.n_window_infer // (2 * audio.n_window)
    shape = {"heads": audio.encoder_attention_heads, "window": window}

    def losses(batch: Sequence[int], step: int) -> Losses:
        clips = [mels.mel(n) for n in batch]
        hidden = [
            masked(clip, config.masks, seed=(config.seed, step, n))
            for n, clip in zip(batch, clips, strict=True)
        ]
        with torch.no_grad():
            teacher = hear(tower_of(model), clips, kind="windowed", record=True, **shape)
        student_value = hear(
            student.tensors(), hidden, kind="causal", record=True, dtype=config.dtype, **shape
        )
        rows = [
            gap(one, other[paired(len(one))])
            for one, other in zip(student_value.rows, teacher.rows, strict=True)
        ]
        layers = [
            gap(one, other[paired(len(one))])
            for mine, theirs in zip(student_value.layers, teacher.layers, strict=True)
            for one, other in zip(mine, theirs, strict=True)
        ]
        found = {
            "rows": torch.stack(rows).mean(),
            "layers": torch.stack(layers).mean(),
            "answer": answer_loss(
                model, vocabulary, student_value.rows, [answers[n] for n in batch]
            ),
        }
        weighed = found["rows"] + config.layers * found["layers"]
        return {"loss": weighed + config.answer * found["answer"], **found}

    lengths = [mels.length(n) for n in range(len(mels))]
    order = batches(lengths, frames=config.frames, seed=config.seed)
    yield from trainer.run(
        order, losses, until=min(until or config.steps, config.steps), every=config.every
    )
