"""Requests -> the batch of the next step: who runs, with which rows, on which pages."""

import math
from collections.abc import Callable
from collections.abc import Sequence as Tokens
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from livecap.engine.attention import Entry, Plan, plan
from livecap.engine.pages import Pages, Table


class Rule(Protocol):
    """Forbids tokens: edits a row of logits [vocab] in place, given what was sampled before it."""

    def __call__(self, logits: Tensor, sampled: Tokens[int]) -> None: ...


@dataclass(frozen=True, slots=True)
class Memory:
    """What a sequence's cross-attention reads: encoder rows, projected once into pages."""

    table: Table
    length: int  # rows


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One piece of decoding. Two requests are equal only if they are the same one."""

    prompt: tuple[int, ...]
    limit: int  # most positions, the prompt's included
    ends: frozenset[int]  # any of these ends it and is not part of the result
    rules: tuple[Rule, ...] = ()
    temperature: float = 0.0  # 0: the likeliest token; else sampled
    seed: int = 0  # of the sampling
    draft: tuple[int, ...] = ()  # guessed tokens, verified in the first step; greedy only
    memory: Memory | None = None
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
        """The guess to verify now: only the first step has one."""
        return () if self.cached else self.request.draft


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one forward pass, packed without padding."""

    sequences: tuple[Sequence, ...]
    tokens: Tensor  # [row]
    positions: Tensor  # [row]
    slots: Tensor  # [row]: where its keys and values go
    attention: Plan
    memory: Plan | None
    wanted: Tensor  # [wanted]: rows whose logits are needed, a sequence's own in order


class Scheduler:
    """Earliest deadline first; a sequence is admitted when all pages it can need are there."""

    def __init__(self, pages: Pages, *, most: int) -> None:
        self.pages = pages
        self.most = most  # sequences that run at once
        self.waiting: list[Request] = []
        self.running: list[Sequence] = []

    def submit(self, request: Request) -> None:
        """Queue a request. It must fit an empty pool."""
        assert self.pages.needed(request.limit) <= self.pages.count, "can never be admitted"
        assert len(request.prompt) + len(request.draft) < request.limit, "no room to decode"
        assert not (request.draft and request.temperature), "a draft is verified greedily"
        self.waiting.append(request)
        self.waiting.sort(key=lambda waiting: waiting.deadline)  # stable: equals stay in order

    def admit(self) -> None:
        """Move requests from waiting to running while there is room."""
        while self.waiting and len(self.running) < self.most:
            request = self.waiting[0]
            table = self.pages.admit(request.limit)
            if table is None:
                return
            self.waiting.pop(0)
            generator = None
            if request.temperature:
                generator = torch.Generator().manual_seed(request.seed)
            self.running.append(Sequence(request, list(request.prompt), table, generator))

    def batch(self, memory: Pages | None, device: torch.device) -> Batch:
        """All running sequences' new rows."""
        tokens: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        wanted: list[int] = []
        heard: list[Entry] = []
        entries: list[Entry] = []
        for sequence in self.running:
            assert sequence.cached <= len(sequence.inputs)
            new = [*sequence.inputs[sequence.cached :], *sequence.draft]
            start, stop = sequence.cached, sequence.cached + len(new)
            self.pages.grow(sequence.table, stop)
            watch = sequence.request.watch
            if watch and start <= watch[0] < len(sequence.inputs):
                wanted.append(len(tokens) + watch[0] - start)
            wanted.extend(range(len(tokens) + sequence.todo - 1, len(tokens) + len(new)))
            tokens += new
            positions += range(start, stop)
            slots += self.pages.slots(sequence.table, start, stop)
            entries.append(Entry(len(new), sequence.table.pages, stop, causal=True))
            source = sequence.request.memory
            if source:
                heard.append(Entry(len(new), source.table.pages, source.length, causal=False))
        return Batch(
            tuple(self.running),
            torch.tensor(tokens, device=device),
            torch.tensor(positions, device=device),
            torch.tensor(slots, device=device),
            plan(entries, size=self.pages.size, device=device),
            plan(heard, size=memory.size, device=device) if memory else None,
            torch.tensor(wanted, device=device),
        )

    def retire(self) -> list[Sequence]:
        """Take the finished sequences out and free their pages."""
        finished = [sequence for sequence in self.running if sequence.status != "running"]
        for sequence in finished:
            self.pages.release(sequence.table)
        self.running = [sequence for sequence in self.running if sequence.status == "running"]
        return finished

    def clear(self) -> None:
        """Drop everything and free its pages."""
        for sequence in self.running:
            self.pages.release(sequence.table)
        self.running, self.waiting = [], []
