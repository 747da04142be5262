"""Requests in, finished sequences out: one packed forward pass a step, for all that run."""

import math
from collections.abc import Sequence as Items
from typing import Protocol

import torch
from torch import Tensor

from livecap.engine.batch import Batch
from livecap.engine.pages import Pages
from livecap.engine.request import Request, Sequence
from livecap.engine.sampler import choose
from livecap.engine.scheduler import Scheduler
from livecap.errors import CorruptModel

HALT_EVERY = 8  # tokens between two questions whether a sequence runs away


class Decoder(Protocol):
    """What the engine drives. It owns its page pools."""

    @property
    def pages(self) -> Pages:
        """For self-attention."""

    @property
    def memory(self) -> Pages | None:
        """For cross-attention, in encoder-decoder models."""

    @property
    def device(self) -> torch.device:
        """Where its tensors are."""

    def forward(self, batch: Batch) -> Tensor:
        """Store the rows' keys and values; return float32 logits [wanted, vocab]."""


class Engine:
    """Continuous batching over one decoder."""

    def __init__(self, decoder: Decoder, *, most: int) -> None:
        self.decoder = decoder
        self.scheduler = Scheduler(decoder.pages, most=most)

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self.scheduler.waiting and not self.scheduler.running

    def submit(self, request: Request) -> None:
        """Queue a request; it comes back, finished, from a later `step`."""
        self.scheduler.submit(request)

    def drop(self, request: Request) -> None:
        """Forget a request that waits or runs, and free its pages."""
        self.scheduler.drop(request)

    def clear(self) -> None:
        """Drop all that runs or waits, and free its pages."""
        self.scheduler.clear()

    @torch.inference_mode()
    def step(self) -> list[Sequence]:
        """Admit, forward, sample. Returns the sequences that this step finished."""
        self.scheduler.admit()
        if not self.scheduler.running:
            return []
        batch = self.scheduler.batch(self.decoder.memory, self.decoder.device)
        _sample(self.decoder.forward(batch), batch)
        for turn in batch.turns:
            self.decoder.pages.truncate(turn.sequence.table, turn.sequence.cached)
        return self.scheduler.retire()


def _sample(logits: Tensor, batch: Batch) -> None:
    """Logits [wanted, vocab] -> every sequence one step (or one verified draft) further."""
    rows = 0
    spans: list[tuple[Sequence, slice]] = []
    for turn in batch.turns:
        sequence, watch = turn.sequence, turn.sequence.request.watch
        if watch and turn.is_watched:
            sequence.watched = float(logits[rows].softmax(-1)[watch[1]])
            rows += 1
        if not turn.is_last:
            sequence.cached += turn.rows
            continue
        span = slice(rows, rows + 1 + len(sequence.draft))
        _rule(logits[span], sequence)
        spans.append((sequence, span))
        rows = span.stop
    if not spans:
        return
    normed = logits.log_softmax(-1)
    likeliest = normed.argmax(-1).tolist()
    for sequence, span in spans:
        tokens = choose(logits[span], sequence, likeliest[span])
        logprobs = normed[span].gather(1, torch.tensor(tokens, device=logits.device)[:, None])
        probs = logprobs[:, 0].tolist()
        _check(probs)
        _advance(sequence, tokens, probs)


def _rule(logits: Tensor, sequence: Sequence) -> None:
    """Apply the rules to the rows after the sequence's tokens and after each token of its draft."""
    sampled = sequence.sampled
    for row in range(len(logits)):
        before = [*sampled, *sequence.draft[:row]]
        for rule in sequence.request.rules:
            rule(logits[row], before)


def _check(logprobs: Items[float]) -> None:
    if any(math.isnan(logprob) for logprob in logprobs):
        raise CorruptModel(
            "The model's weights are damaged: what it computes are no numbers",
            remedy="Fetch the model again with `livecap pull`, or copy the folder again.",
        )


def _advance(sequence: Sequence, tokens: list[int], logprobs: list[float]) -> None:
    """Take what is certain: the draft as far as it agrees, and the one token after it.

    Row i's token follows draft[:i]; so the first that differs from the draft is still right.
    """
    draft, request = sequence.draft, sequence.request
    sequence.cached = len(sequence.inputs)
    for index, (token, logprob) in enumerate(zip(tokens, logprobs, strict=True)):
        sequence.logprobs.append(logprob)
        if token in request.ends:
            sequence.status = "end"
            return
        sequence.inputs.append(token)
        if len(sequence.inputs) >= request.limit:
            sequence.status = "limit"
            return
        sampled = len(sequence.inputs) - len(request.prompt)
        if request.halt and sampled % HALT_EVERY == 0 and request.halt(sequence.sampled):
            sequence.status = "halted"
            return
        if index == len(draft) or token != draft[index]:
            if request.draft:
                sequence.follow_draft(index)
            return
        sequence.cached += 1  # the draft's own row is that of this token
