"""Attention over paged keys and values. The one place to put a kernel of another device.

Rows of sequences that bring a single new position (decode steps) are done all together, page by
page, without gathering keys: their number of operations does not depend on how many they are.
Sequences with several new rows (prompts, drafts) are done one by one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

DENSE_SHARE = 2  # read a whole stretch of the pool if at least every second page in it is wanted


@dataclass(frozen=True, slots=True)
class Entry:
    """What one sequence's new rows attend to."""

    rows: int  # new rows of this sequence in the batch
    pages: list[int]
    length: int  # positions in those pages, the new rows' own included
    causal: bool  # new row i of n sees length - n + i + 1 positions; else all see all


@dataclass(frozen=True, slots=True)
class Singles:
    """The pages that the single rows of a batch read, flat."""

    rows: Tensor  # [single]: their place in the batch
    low: int  # the stretch of the pool that is read
    pages: Tensor | None  # [page] relative to low, or None for every page of the stretch
    stop: int
    owner: Tensor  # [page]: which of the singles reads it; the last + 1 for none
    reader: Tensor  # [page]: the same, but the last for none
    page_index: Tensor  # [page]: the how-manieth of its owner's pages it is
    bias: Tensor  # [page, 1, 1, slot]: 0, or -inf where the owner may not look
    max_pages: int  # pages of the one that has most
    is_even: bool  # all have as many, and they lie in the order of owner and place


@dataclass(frozen=True, slots=True)
class Several:
    """One sequence with several new rows."""

    start: int  # its rows in the batch
    stop: int
    pages: Tensor  # [page]
    length: int
    mask: Tensor | None  # [row, position]: what may be seen, None for all


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """How one batch attends, for every layer alike."""

    singles: Singles | None
    several: tuple[Several, ...]


def plan(entries: Sequence[Entry], *, size: int, device: torch.device) -> AttentionPlan:
    """Entries in batch order and the page size -> the plan of the batch."""
    singles: list[tuple[int, Entry]] = []
    several: list[Several] = []
    start = 0
    for entry in entries:
        if entry.rows == 1:
            singles.append((start, entry))
        elif entry.rows:
            several.append(_several(entry, start, device))
        start += entry.rows
    return AttentionPlan(_singles(singles, size, device) if singles else None, tuple(several))


def _several(entry: Entry, start: int, device: torch.device) -> Several:
    mask = None
    if entry.causal:
        before = entry.length - entry.rows
        mask = torch.ones(entry.rows, entry.length, dtype=torch.bool, device=device).tril(before)
    pages = torch.tensor(entry.pages, device=device)
    return Several(start, start + entry.rows, pages, entry.length, mask)


def _singles(singles: list[tuple[int, Entry]], size: int, device: torch.device) -> Singles:
    owners = [(page, owner, index)
              for owner, (_, entry) in enumerate(singles)
              for index, page in enumerate(entry.pages)]  # fmt: skip
    low = min(page for page, _, _ in owners)
    stop = max(page for page, _, _ in owners) + 1
    # Two sequences may read the same pages (one memory, two attempts): then a stretch is no list.
    is_stretch = stop - low <= DENSE_SHARE * len(owners) and len({p for p, _, _ in owners}) == len(
        owners
    )
    if is_stretch:
        filled = [(page, len(singles), 0) for page in range(low, stop)]
        for page, owner, position in owners:
            filled[page - low] = (page, owner, position)
        owners = filled
    flat = torch.tensor(owners, device=device)  # [page, 3]
    lengths = torch.tensor([entry.length for _, entry in singles] + [0], device=device)
    left = lengths[flat[:, 1]] - flat[:, 2] * size  # [page]: positions of the owner from here on
    hidden = torch.arange(size, device=device) >= left[:, None]  # [page, slot]
    bias = torch.zeros(hidden.shape, device=device).masked_fill_(hidden, -math.inf)
    return Singles(
        rows=torch.tensor([start for start, _ in singles], device=device),
        low=low,
        pages=None if is_stretch else flat[:, 0] - low,
        stop=stop,
        owner=flat[:, 1],
        reader=flat[:, 1].clamp(max=len(singles) - 1),
        page_index=flat[:, 2],
        bias=bias[:, None, None],
        max_pages=max(len(entry.pages) for _, entry in singles),
        is_even=_is_even(owners, singles),
    )


def _is_even(owners: list[tuple[int, int, int]], singles: list[tuple[int, Entry]]) -> bool:
    page_count = len(singles[0][1].pages)
    return [(owner, index) for _, owner, index in owners] == [
        (owner, index) for owner in range(len(singles)) for index in range(page_count)
    ]


def attend(query: Tensor, keys: Tensor, values: Tensor, plan: AttentionPlan) -> Tensor:
    """Query [row, head, dim], a layer's keys and values [page, kv head, slot, dim] -> as the query.

    Heads share keys in equal groups where there are fewer key heads (grouped-query attention).
    """
    if plan.singles and not plan.several and len(plan.singles.rows) == len(query):
        return _attend_singles(query, keys, values, plan.singles)
    out = torch.empty_like(query)
    if plan.singles:
        rows = plan.singles.rows
        out[rows] = _attend_singles(query[rows], keys, values, plan.singles)
    for one in plan.several:
        several = slice(one.start, one.stop)
        out[several] = _attend_several(query[several], keys, values, one)
    return out


def _attend_singles(query: Tensor, keys: Tensor, values: Tensor, plan: Singles) -> Tensor:
    """As `attend`, with one row a sequence: partial products page by page, one softmax over all."""
    singles, heads, dim = query.shape
    keys, values = keys[plan.low : plan.stop], values[plan.low : plan.stop]
    if plan.pages is not None:
        keys, values = keys[plan.pages], values[plan.pages]
    kv_heads, size = keys.shape[1:3]
    group = heads // kv_heads
    grouped = (query * (1 / math.sqrt(dim))).view(singles, kv_heads, group, dim)
    if plan.is_even:
        return _attend_even(grouped, keys, values, plan).reshape(singles, heads, dim)
    scores = (grouped[plan.reader] @ keys.mT).float() + plan.bias  # [page, kv head, group, slot]
    # The owner after the last collects the pages of a stretch that nobody wants.
    table = scores.new_full((singles + 1, plan.max_pages, kv_heads, group, size), -math.inf)
    table[plan.owner, plan.page_index] = scores
    flat = table[:singles].permute(0, 2, 3, 1, 4).flatten(3)  # [single, kv head, group, position]
    weights = flat.softmax(-1).view(singles, kv_heads, group, plan.max_pages, size)
    weights = weights.permute(0, 3, 1, 2, 4)
    shares = (
        weights[plan.reader, plan.page_index].to(values.dtype) @ values
    )  # [page, kv head, group, dim]
    out: Tensor = shares.new_zeros((singles + 1, kv_heads, group, dim), dtype=torch.float32)
    out.index_add_(0, plan.owner, shares.float())
    return out[:singles].reshape(singles, heads, dim).to(query.dtype)


def _attend_even(grouped: Tensor, keys: Tensor, values: Tensor, plan: Singles) -> Tensor:
    """As `_attend_singles`, without its tables: a third of the operations.

    Grouped queries [single, kv head, group, dim] -> the same.
    """
    singles, kv_heads, group, dim = grouped.shape
    size, max_pages = keys.shape[2], plan.max_pages
    wide = grouped[:, None].expand(-1, max_pages, -1, -1, -1).flatten(0, 1)  # [page, ...]
    scores = wide @ keys.mT + plan.bias  # float32 [page, kv head, group, slot]
    flat = scores.view(singles, max_pages, kv_heads, group, size).permute(0, 2, 3, 1, 4).flatten(3)
    weights = flat.softmax(-1).to(values.dtype).view(singles, kv_heads, group, max_pages, size)
    shares = weights.permute(0, 3, 1, 2, 4).flatten(0, 1) @ values  # [page, kv head, group, dim]
    out = shares.view(singles, max_pages, kv_heads, group, dim).sum(1, dtype=torch.float32)
    return out.to(grouped.dtype)


BLOCK = (
    1 << 22
)  # scores of a head that are there at once; those of a whole prompt of 28 s are fewer


def _attend_several(query: Tensor, keys: Tensor, values: Tensor, plan: Several) -> Tensor:
    """As `attend`, for the rows of one sequence."""
    gathered = (
        side[plan.pages].transpose(0, 1).flatten(1, 2)[:, : plan.length] for side in (keys, values)
    )
    key, value = gathered  # [kv head, position, dim]
    if query.device.type == "cpu" and query.dtype == torch.bfloat16:
        rows = max(BLOCK // plan.length, 1)
        return torch.cat([
            _products(part, key, value, None if plan.mask is None else plan.mask[at : at + rows])
            for at, part in zip(range(0, len(query), rows), torch.split(query, rows), strict=True)
        ])  # fmt: skip
    attended = F.scaled_dot_product_attention(
        query.transpose(0, 1)[None],
        key[None],
        value[None],
        attn_mask=plan.mask,
        enable_gqa=key.shape[0] != query.shape[1],
    )
    return attended[0].transpose(0, 1)


def _products(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """As `attend`, dense, kv head by kv head with plain products, as `towers.layers.attend` does.

    Query [row, head, dim], keys and values [kv head, position, dim], mask [row, position].
    """
    rows, heads, dim = query.shape
    shared = len(keys)
    grouped = (query * (1 / math.sqrt(dim))).view(rows, shared, -1, dim).permute(1, 2, 0, 3)
    bias = None
    if mask is not None:
        bias = torch.zeros(mask.shape, dtype=query.dtype).masked_fill_(~mask, -math.inf)
    out = query.new_empty(shared, heads // shared, rows, dim)
    for n in range(shared):
        scores = (grouped[n].flatten(0, 1) @ keys[n].T).view(-1, rows, keys.shape[1])
        if bias is not None:
            scores += bias
        out[n] = scores.softmax(-1) @ values[n]
    return out.permute(2, 0, 1, 3).reshape(rows, heads, dim)
