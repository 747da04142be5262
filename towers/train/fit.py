"""Speech and text -> a model: the decoder's cross-entropy, and CTC on the tower's rows beside it.

CTC alone comes first: the tower learns in a few hundred steps what is said when, and only then the
decoder has something to read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from towers.train import lora
from towers.train.alignment import labels
from towers.train.batches import batches
from towers.train.features import Features
from towers.train.loop import Losses, Schedule, Trainer, Workers
from towers.train.manifest import Utterance
from towers.train.masks import masked
from towers.train.network import CtcHead, answer_loss, hear, tower_of, trained
from towers.train.vocabulary import TrainingVocabulary


@dataclass(frozen=True, slots=True)
class FitConfig:
    """How a model is trained."""

    steps: int = 4000
    rate: float = 1.5e-3
    warmup: int = 200
    frames: int = 12_800  # mel frames of a batch: 128 s
    ctc_steps: int = 800  # before the decoder is trained, too
    ctc: float = 0.3  # weight of that loss afterwards
    seed: int = 0
    every: int = 100  # steps between two savings
    dtype: torch.dtype = torch.float32  # of the tower's products
    masks: int = 2  # stretches of time, and of bands, that are hidden in each utterance
    lora: int = 0  # rank of additions to the decoder, instead of training all of it


def fit(
    model: Any,
    vocabulary: TrainingVocabulary,
    utterances: Sequence[Utterance],
    mels: Features,
    folder: Path,
    config: FitConfig,
    *,
    until: int | None = None,
) -> Iterator[dict[str, float]]:
    """Train, and tell how it goes. Goes on where an earlier run of the same folder ended."""
    workers = Workers.join()
    head = CtcHead(model.config.text_config.hidden_size)
    parameters = [*trained(model, tower=True, decoder=not config.lora), *head.parameters()]
    if config.lora:
        parameters += lora.add(model, config.lora)
    schedule = Schedule(config.steps, config.rate, config.warmup)
    trainer = Trainer({"model": model, "ctc": head}, parameters, schedule, folder, workers)
    trainer.resume()
    audio = model.config.audio_config
    texts = [vocabulary.encode(one.text) for one in utterances]
    answers = [vocabulary.answer(one.text, one.language) for one in utterances]
    embed = model.model.language_model.embed_tokens

    def losses(batch: Sequence[int], step: int) -> Losses:
        output = hear(
            tower_of(model),
            [masked(mels.mel(n), config.masks, seed=(config.seed, step, n)) for n in batch],
            kind="windowed",
            heads=audio.encoder_attention_heads,
            window=audio.n_window_infer // (2 * audio.n_window),
            dtype=config.dtype,
        )
        table = embed.weight[: vocabulary.count]
        targets = [labels(utterances[n], vocabulary, mels.length(n)) for n in batch]
        ctc = (
            head.aligned(table, output.rows, [one for one in targets if one is not None])
            if all(one is not None for one in targets)
            else head.loss(table, output.rows, [texts[n] for n in batch])
        )
        if step < config.ctc_steps:
            return {"loss": ctc, "ctc": ctc}
        answer = answer_loss(model, vocabulary, output.rows, [answers[n] for n in batch])
        return {"loss": answer + config.ctc * ctc, "ctc": ctc, "answer": answer}

    order = batches(
        [mels.length(n) for n in range(len(mels))],
        frames=config.frames,
        seed=config.seed,
        shortest_first=True,
    )
    model.train()
    yield from trainer.run(
        order, losses, until=min(until or config.steps, config.steps), every=config.every
    )
    model.eval()
