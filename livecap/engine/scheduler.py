"""Requests -> the batch of the next step: who runs, with which rows, on which pages."""

from itertools import takewhile

import torch

from livecap.engine.batch import Batch, BatchEntry, pack, turn
from livecap.engine.pages import Pages, Table
from livecap.engine.request import Request, Sequence

PREFILL = 1024  # rows of prompts in a step, so that a long one neither fills memory nor blocks


class Scheduler:
    """Earliest deadline first; a sequence is admitted when all pages it can need are there.

    What is kept between requests takes pages too: keep so little that the largest request fits
    beside it.
    """

    def __init__(self, pages: Pages, *, most: int) -> None:
        self.pages = pages
        self.max_sequences = most  # sequences that run at once
        self.waiting: list[Request] = []
        self.running: list[Sequence] = []

    def submit(self, request: Request) -> None:
        """Queue a request. It must fit an empty pool."""
        assert self.pages.needed(request.limit) <= self.pages.count, "can never be admitted"
        assert len(request.prompt) + len(request.draft) < request.limit, "no room to decode"
        assert not (request.draft and request.temperature), "a draft is verified greedily"
        assert len(request.identity) < len(request.prompt), "nothing is left to compute"
        self.waiting.append(request)
        self.waiting.sort(key=lambda waiting: waiting.deadline)  # stable: equals stay in order

    def admit(self) -> None:
        """Move requests from waiting to running while there is room."""
        while self.waiting and len(self.running) < self.max_sequences:
            request = self.waiting[0]
            table, cached = self._table(request)
            if not self.pages.extend(table, request.limit):
                return
            self.waiting.pop(0)
            generator = None
            if request.temperature:
                generator = torch.Generator().manual_seed(request.seed)
            self.running.append(Sequence(request, list(request.prompt), table, generator, cached))

    def _table(self, request: Request) -> tuple[Table, int]:
        """The table that a request starts from, and the positions in it that are right."""
        cache = request.prefix_cache
        if cache is None:
            return Table(), 0
        pairs = zip(cache.identity, request.identity, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        cache.identity = cache.identity[:same]
        self.pages.keep(cache.table, same)
        return cache.table, same

    def batch(self, memory: Pages | None, device: torch.device) -> Batch:
        """The running sequences' new rows: all single ones, and as much of prompts as fits."""
        turns: list[BatchEntry] = []
        left = PREFILL
        for sequence in self.running:
            if sequence.logprobs:  # a token at a time: always
                turns.append(turn(sequence, 1))
            elif left > 0:
                turns.append(turn(sequence, left))
                left -= turns[-1].rows
        return pack(turns, self.pages, memory, device)

    def retire(self) -> list[Sequence]:
        """Take the finished sequences out and free their pages."""
        finished = [sequence for sequence in self.running if sequence.status != "running"]
        for sequence in finished:
            self._leave(sequence)
        self.running = [sequence for sequence in self.running if sequence.status == "running"]
        return finished

    def drop(self, request: Request) -> None:
        """Take out one request and free its pages."""
        self.waiting = [waiting for waiting in self.waiting if waiting is not request]
        for sequence in self.running:
            if sequence.request is request:
                self._leave(sequence)
        self.running = [sequence for sequence in self.running if sequence.request is not request]

    def clear(self) -> None:
        """Drop everything and free its pages."""
        for sequence in self.running:
            self._leave(sequence)
        self.running, self.waiting = [], []

    def _leave(self, sequence: Sequence) -> None:
        cache = sequence.request.prefix_cache
        if cache is None:
            self.pages.release(sequence.table)
            return
        cache.identity = sequence.request.identity[: sequence.cached]
        self.pages.keep(sequence.table, len(cache.identity))
