"""Fixed-size pages of keys and values, shared by all sequences of one decoder.

A table lists the pages of one sequence in order. Pages are promised when a sequence is admitted
and taken as it grows, so what was admitted can always go on; going back is giving pages back.
"""

import heapq
import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor


@dataclass(slots=True)
class Table:
    """The pages of one sequence."""

    pages: list[int] = field(default_factory=list)  # in order of position
    promised: int = 0  # pages it may still take


class Pages:
    """A pool for all layers of one attention.

    `keys` and `values` are [layer, page, head, slot, dim]. Invariant: free pages >= the promises
    of all tables together, so `grow` within a promise can't fail.
    """

    def __init__(
        self,
        *,
        layers: int,
        heads: int,
        dim: int,
        size: int,
        count: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        shape = (layers, count, heads, size, dim)
        self.keys, self.values = (_zeros(shape, dtype, device) for _ in range(2))
        self.size = size  # positions in a page
        self.count = count
        self._free = list(range(count))  # a heap: low pages first, so that the used ones lie close
        self._promised = 0

    @property
    def available(self) -> int:
        """Pages that can still be promised."""
        return len(self._free) - self._promised

    def needed(self, length: int) -> int:
        """Positions -> pages that hold them."""
        return -(-length // self.size)

    def admit(self, length: int) -> Table | None:
        """A table that may grow to `length` positions, or None if there is no room for it now."""
        table = Table()
        return table if self.extend(table, length) else None

    def extend(self, table: Table, length: int) -> bool:
        """Promise a table as many pages as `length` positions need; False if there is no room."""
        pages = self.needed(length) - len(table.pages) - table.promised
        if pages > self.available:
            return False
        table.promised += pages
        self._promised += pages
        return True

    def grow(self, table: Table, length: int) -> None:
        """Give the table pages for `length` positions. Within its promise this always works."""
        missing = self.needed(length) - len(table.pages)
        assert missing <= table.promised, "grows past what it was admitted for"
        for _ in range(missing):
            table.pages.append(heapq.heappop(self._free))
            table.promised -= 1
            self._promised -= 1

    def truncate(self, table: Table, length: int) -> None:
        """Keep only what the first `length` positions need; the rest stays promised."""
        while len(table.pages) > self.needed(length):
            heapq.heappush(self._free, table.pages.pop())
            table.promised += 1
            self._promised += 1

    def keep(self, table: Table, length: int) -> None:
        """Keep what the first `length` positions need, and give up the rest of the promise."""
        self.truncate(table, length)
        self._promised -= table.promised
        table.promised = 0

    def release(self, table: Table) -> None:
        """Give everything back. The table is empty after it."""
        self.keep(table, 0)

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store rows: slots [2, row] are pages and offsets; keys and values [row, head, dim]."""
        page, offset = slots
        self.keys[layer][page, :, offset] = keys.to(self.keys.dtype)
        self.values[layer][page, :, offset] = values.to(self.values.dtype)

    def slots(self, table: Table, start: int, stop: int) -> list[tuple[int, int]]:
        """Positions -> where they lie, as page and offset."""
        size, pages = self.size, table.pages
        return [(pages[at // size], at % size) for at in range(start, stop)]


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros that cost nothing until they are used.

    Unwritten slots must be no garbage: masked slots are multiplied by a weight of zero. numpy
    leaves it to the operating system to clear memory on first use; torch would touch all of it now.
    """
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    size = math.prod(shape) * dtype.itemsize
    return torch.from_numpy(np.zeros(size, np.uint8)).view(dtype).view(shape)
