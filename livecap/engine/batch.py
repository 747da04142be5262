"""Sequences under way -> the rows of one forward pass, packed without padding."""

from collections.abc import Sequence as Items
from dataclasses import dataclass

import torch
from torch import Tensor

from livecap.engine.attention import AttentionPlan, Entry, plan
from livecap.engine.pages import Pages
from livecap.engine.request import Sequence


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """One sequence's part in a batch."""

    sequence: Sequence
    rows: int  # of its inputs that are computed; the draft's come on top
    is_last: bool  # all its inputs are computed then, so it gets a token
    is_watched: bool  # its first row of logits is the watched one

    @property
    def draft(self) -> tuple[int, ...]:
        """The guess that is verified with it."""
        return self.sequence.draft if self.is_last else ()


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one forward pass."""

    turns: tuple[BatchEntry, ...]
    tokens: Tensor  # [row]
    positions: Tensor  # [row]
    slots: Tensor  # [2, row]: page and offset where its keys and values go
    attention: AttentionPlan
    memory: AttentionPlan | None
    embedded: tuple[tuple[int, Tensor], ...]  # from that row on, these [n, width] for the tokens
    wanted: Tensor  # [wanted]: rows whose logits are needed, a sequence's own in order


def turn(sequence: Sequence, max_rows: int) -> BatchEntry:
    """A sequence's next part, of at most so many rows."""
    rows = min(sequence.todo, max_rows)
    watch = sequence.request.watch
    start = sequence.cached
    return BatchEntry(
        sequence,
        rows,
        is_last=rows == sequence.todo,
        is_watched=watch is not None and start <= watch[0] < start + rows,
    )


def pack(
    turns: Items[BatchEntry], pages: Pages, memory: Pages | None, device: torch.device
) -> Batch:
    """The turns of a step -> its batch. Their tables grow as they need."""
    tokens: list[int] = []
    positions: list[int] = []
    slots: list[tuple[int, int]] = []
    wanted: list[int] = []
    embedded: list[tuple[int, Tensor]] = []
    entries: list[Entry] = []
    cross_entries: list[Entry] = []
    for one in turns:
        sequence, first = one.sequence, len(tokens)
        assert sequence.cached <= len(sequence.inputs)
        start, end = sequence.cached, sequence.cached + one.rows
        new = [*sequence.inputs[start:end], *one.draft]
        stop = start + len(new)
        pages.grow(sequence.table, stop)
        watch = sequence.request.watch
        if watch and one.is_watched:
            wanted.append(first + watch[0] - start)
        if one.is_last:
            wanted.extend(range(first + one.rows - 1, first + len(new)))
        embedded += _embedded(sequence, start, end, first)
        tokens += new
        positions += range(start, stop)
        slots += pages.slots(sequence.table, start, stop)
        entries.append(Entry(len(new), sequence.table.pages, stop, causal=True))
        source = sequence.request.memory
        if source:
            cross_entries.append(Entry(len(new), source.table.pages, source.length, causal=False))
    return Batch(
        tuple(turns),
        torch.tensor(tokens, device=device),
        torch.tensor(positions, device=device),
        torch.tensor(slots, device=device).view(-1, 2).T,
        plan(entries, size=pages.size, device=device),
        plan(cross_entries, size=memory.size, device=device) if memory else None,
        tuple(embedded),
        torch.tensor(wanted, dtype=torch.long, device=device),
    )


def _embedded(sequence: Sequence, start: int, stop: int, row: int) -> list[tuple[int, Tensor]]:
    """The encoder's rows among the positions [start, stop), the first of which is that row."""
    source = sequence.request.embedded
    if source is None:
        return []
    low, high = max(start, source.start), min(stop, source.start + len(source.rows))
    if low >= high:
        return []
    return [(row + low - start, source.rows[low - source.start : high - source.start])]
