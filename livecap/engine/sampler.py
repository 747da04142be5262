"""Logits -> tokens, and the rules that forbid some."""

import math
from collections.abc import Sequence as Tokens
from dataclasses import dataclass

import torch
from torch import Tensor

from livecap.engine.request import Sequence


def choose(logits: Tensor, sequence: Sequence, likeliest: Tokens[int]) -> list[int]:
    """A sequence's rows of ruled logits [row, vocab] -> a token each.

    `likeliest` are the rows' greedy tokens, known from the whole batch.
    """
    if sequence.generator is None:
        return list(likeliest)
    weights = (logits / sequence.request.temperature).softmax(-1).cpu()
    picked: list[int] = torch.multinomial(weights, 1, generator=sequence.generator)[:, 0].tolist()
    return picked


@dataclass(frozen=True, slots=True)
class Suppress:
    """These ids never come."""

    ids: Tensor  # [id]

    def __call__(self, logits: Tensor, sampled: Tokens[int]) -> None:
        logits.index_fill_(-1, self.ids, -math.inf)


@dataclass(frozen=True, slots=True)
class SuppressFirst:
    """These ids don't come first."""

    ids: Tensor  # [id]

    def __call__(self, logits: Tensor, sampled: Tokens[int]) -> None:
        if not sampled:
            logits.index_fill_(-1, self.ids, -math.inf)


@dataclass(frozen=True, slots=True)
class Prefer:
    """A text that is known stays, unless another token is `factor` times as likely as its next."""

    text: tuple[int, ...]
    factor: float

    def __call__(self, logits: Tensor, sampled: Tokens[int]) -> None:
        count = len(sampled)
        if count < len(self.text) and tuple(sampled) == self.text[:count]:
            logits[self.text[count]] += math.log(self.factor)


@dataclass(frozen=True, slots=True)
class Only:
    """Nothing but these ids comes: for telling the language."""

    ids: Tensor  # [id]

    def __call__(self, logits: Tensor, sampled: Tokens[int]) -> None:
        allowed = logits[self.ids]
        logits.fill_(-math.inf)
        logits[self.ids] = allowed


@dataclass(frozen=True, slots=True)
class Timestamps:
    """Whisper's grammar of time: text stands between two timestamps, and time goes on.

    Ids from `begin` to `last` are timestamps, ids below `end_of_text` are text. The first token is
    a timestamp of at most `first` steps. Source: openai-whisper, ApplyTimestampRules.
    """

    begin: int
    last: int
    end_of_text: int
    no_timestamps: int
    first: int = 50  # of 20 ms: the first text starts within the first second

    def __call__(self, logits: Tensor, sampled: Tokens[int]) -> None:
        logits[self.no_timestamps] = -math.inf
        if not sampled:
            logits[: self.begin] = -math.inf
            logits[self.begin + self.first + 1 :] = -math.inf
            return
        is_time = sampled[-1] >= self.begin
        opened = len(sampled) < 2 or sampled[-2] >= self.begin
        if is_time and opened:
            logits[self.begin :] = -math.inf  # text must follow
        elif is_time:
            logits[: self.end_of_text] = -math.inf  # a pair must close, or the text end
        latest = next((token for token in reversed(sampled) if token >= self.begin), None)
        if latest is not None:
            # Directly after text the same time may open the next piece; else it must be later.
            first = latest if is_time and not opened else latest + 1
            logits[self.begin : first] = -math.inf
        # If all times together are likelier than the likeliest text, it is time for one of them.
        text = logits[: self.begin].max()
        if (logits[self.begin : self.last + 1] - text).exp_().sum() > 1:
            logits[: self.begin] = -math.inf
