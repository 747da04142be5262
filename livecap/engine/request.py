"""What is asked of the engine, and how far it is. Pure data."""

import math
from collections.abc import Callable, Hashable
from collections.abc import Sequence as Tokens
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from livecap.engine.pages import Table

# Tokens by which decoding finds back to an earlier text after a disagreement. Prompt lookup uses 3
# or fewer; captions are short, and a wrong match costs some rows of one pass.
DRAFT_NGRAM = 2


class Rule(Protocol):
    """Forbids tokens: edits a row of logits [vocab] in place, given what was sampled before it."""

    def __call__(self, logits: Tensor, sampled: Tokens[int]) -> None: ...


@dataclass(frozen=True, slots=True)
class Memory:
    """What a sequence's cross-attention reads: encoder rows, projected once into pages."""

    table: Table
    length: int  # rows


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """What stands in a prompt instead of its tokens' embeddings: rows of an audio encoder."""

    start: int  # position of the first
    rows: Tensor  # [row, width]


@dataclass(slots=True, eq=False)
class Kept:
    """Keys and values that outlast a request: the beginning of its prompt.

    Whoever asks again and again about growing audio owns one, passes it with each request, one
    request at a time, and in the end gives its pages back (`Pages.release(kept.table)`).
    """

    table: Table = field(default_factory=Table)
    identity: tuple[Hashable, ...] = ()  # of what lies at each position


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One piece of decoding. Two requests are equal only if they are the same one."""

    prompt: tuple[int, ...]
    limit: int  # most positions, the prompt's included
    ends: frozenset[int]  # any of these ends it and is not part of the result
    rules: tuple[Rule, ...] = ()
    temperature: float = 0.0  # 0: the likeliest token; else sampled
    seed: int = 0  # of the sampling
    draft: tuple[int, ...] = ()  # an earlier text: verified wherever decoding meets it; greedy only
    memory: Memory | None = None
    embedded: Embedded | None = None
    kept: Kept | None = None
    # Names what lies at the first positions: those that `kept` has in common are not computed
    # again, and all of these are kept afterwards. It ends before the prompt does.
    identity: tuple[Hashable, ...] = ()
    watch: tuple[int, int] | None = None  # (position, token): report this token's probability there
    halt: Callable[[Tokens[int]], bool] | None = None  # stops a run-away; asked now and then
    deadline: float = math.inf  # seconds on the caller's clock; the earliest goes first


@dataclass(slots=True, eq=False)
class Sequence:
    """A request under way."""

    request: Request
    inputs: list[int]  # the prompt, then every token sampled so far
    table: Table
    generator: torch.Generator | None  # of the sampling; only where temperature > 0
    cached: int = 0  # positions whose keys and values are in the pages; <= len(inputs)
    logprobs: list[float] = field(default_factory=list)  # of each sampled token and of the end
    draft_start: int | None = 0  # from there on the earlier text may go on; None: not known
    draft_passed: int = 0  # tokens of it that lie behind
    watched: float | None = None  # the probability asked for by `watch`
    status: Literal["running", "end", "limit", "halted"] = "running"

    @property
    def sampled(self) -> list[int]:
        """What was decoded, without the end token."""
        return self.inputs[len(self.request.prompt) :]

    @property
    def todo(self) -> int:
        """Positions that the next step has to compute, drafts not counted."""
        return len(self.inputs) - self.cached

    @property
    def draft(self) -> tuple[int, ...]:
        """The guess to verify next."""
        if self.draft_start is None:
            return ()
        room = self.request.limit - len(self.inputs) - 1  # one is left for the token after it
        return self.request.draft[self.draft_start : self.draft_start + max(room, 0)]

    def meet_draft(self) -> None:
        """Look for the last sampled tokens in what is left of the earlier text.

        Where they stand in it again, it most likely goes on as it did (prompt lookup).
        """
        text, last = self.request.draft, tuple(self.inputs[-DRAFT_NGRAM:])
        self.draft_start = None
        if len(self.inputs) - len(self.request.prompt) < DRAFT_NGRAM:
            return
        for stop in range(self.draft_passed + DRAFT_NGRAM, len(text)):
            if text[stop - DRAFT_NGRAM : stop] == last:
                self.draft_start = self.draft_passed = stop
                return
