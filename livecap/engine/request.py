"""What is asked of the engine, and how far it is. Pure data."""

import math
from collections.abc import Callable, Hashable
from collections.abc import Sequence as Tokens
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from livecap.engine.pages import Table

# How decoding finds back to an earlier text after a disagreement (prompt lookup). A wrong guess
# costs some rows of one pass, a missed one a pass for each token.
DRAFT_NGRAM = 2  # tokens that have to be the same, anywhere behind the disagreement
DRAFT_NEAR = 3  # tokens right behind it, of which one that is the same is enough
DRAFT_ROWS = 8  # tokens that are guessed at first; when they are right, all the rest is


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
class PrefixCache:
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
    prefix_cache: PrefixCache | None = None
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
    draft_start: int | None = 0  # in the earlier text: where it may go on; None: not known
    draft_rows: int | None = None  # of it that are verified next; None: all
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
        rows = room if self.draft_rows is None else min(room, self.draft_rows)
        return self.request.draft[self.draft_start : self.draft_start + max(rows, 0)]

    def follow_draft(self, verified: int) -> None:
        """So many tokens of the guess were right, and one more token was sampled behind them: find
        where the earlier text goes on from there.
        """
        text, last = self.request.draft, self.inputs[-1]
        failed = (self.draft_start or 0) + verified  # the first token that is not verified
        self.draft_rows = DRAFT_ROWS
        near = text[failed : failed + DRAFT_NEAR + 1]
        if self.draft_start is not None and last in near:
            self.draft_start = failed + near.index(last) + 1
            self.draft_rows = None if verified >= DRAFT_ROWS else DRAFT_ROWS
        elif self.draft_start is not None and verified:  # most likely one token for another
            self.draft_start = failed + 1
        else:
            self.draft_start = self._lookup()

    def _lookup(self) -> int | None:
        """Behind the last tokens, where they stand in the earlier text once."""
        text, last = self.request.draft, tuple(self.inputs[-DRAFT_NGRAM:])
        if len(self.inputs) - len(self.request.prompt) < DRAFT_NGRAM:
            return None
        stops = range(DRAFT_NGRAM, len(text))
        found = [stop for stop in stops if text[stop - DRAFT_NGRAM : stop] == last]
        return found[0] if len(found) == 1 else None
