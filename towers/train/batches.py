"""Which utterances make which step: of like length together, in an order that a seed fixes."""

from collections.abc import Iterator, Sequence
from random import Random

AT_ONCE = 50  # batches whose utterances are sorted by length together


def batches(
    lengths: Sequence[int], *, frames: int, seed: int, shortest_first: bool = False
) -> Iterator[list[int]]:
    """Numbers of utterances, of at most `frames` mel frames together, without end.

    Each epoch has all of them, in another order. Utterances longer than `frames` go alone.
    `shortest_first`: the first epoch goes from short to long, which is learnt sooner.
    """
    epoch = 0
    while True:
        random = Random(f"{seed} {epoch}")
        order = list(range(len(lengths)))
        random.shuffle(order)
        if shortest_first and epoch == 0:
            order.sort(key=lengths.__getitem__)
            yield from _cut(order, lengths, frames)
        else:
            average = max(sum(lengths) // len(lengths), 1)
            some = max(AT_ONCE * frames // average, 1)
            cut: list[list[int]] = []
            for at in range(0, len(order), some):
                part = sorted(order[at : at + some], key=lengths.__getitem__)
                cut += _cut(part, lengths, frames)
            random.shuffle(cut)
            yield from cut
        epoch += 1


def _cut(order: Sequence[int], lengths: Sequence[int], frames: int) -> Iterator[list[int]]:
    batch: list[int] = []
    taken = 0
    for number in order:
        if batch and taken + lengths[number] > frames:
            yield batch
            batch, taken = [], 0
        batch.append(number)
        taken += lengths[number]
    if batch:
        yield batch
