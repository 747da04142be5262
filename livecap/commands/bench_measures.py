"""Captions with the moments when they came -> how late, how right and how restless they were. Pure.

Moments and delays are seconds since a session's audio began, positions are samples.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from unicodedata import category

import numpy as np

from livecap.captions.width import unspaced
from livecap.events import RATE, Caption, Word

Captions = Sequence[tuple[float, Caption]]  # with their moments
Stretches = Sequence[tuple[int, int]]  # where speech starts and ends
Answers = Callable[[Caption, int, int], bool]


@dataclass(frozen=True, slots=True)
class DelayPercentiles:
    """Seconds."""

    p50: float | None
    p95: float | None
    count: int
    missing: int  # those that could not be measured, and are left out


def percentile(values: Sequence[float], share: float) -> float:
    """The value that such a share of them doesn't exceed; between two of them if need be."""
    return float(np.percentile(np.asarray(values), 100 * share))


def delays(values: Iterable[float | None]) -> DelayPercentiles:
    """Median and 95th percentile of those that are known."""
    every = list(values)
    found = [value for value in every if value is not None]
    p50, p95 = (round(percentile(found, share), 3) if found else None for share in (0.5, 0.95))
    return DelayPercentiles(p50, p95, len(found), len(every) - len(found))


# Text


def written(text: str) -> list[str]:
    """Words as they stand there; where no spaces are written, characters."""
    return "".join(f" {c} " if unspaced(c) else c for c in text).split()


def words(text: str) -> list[str]:
    """Words without case and punctuation."""
    return written(
        "".join(
            c if c.isalnum() or category(c)[0] == "M" else "" if c in "'’" else " "
            for c in text.casefold()
        )
    )


def edits(reference: Sequence[str], found: Sequence[str]) -> int:
    """The least number of words to replace, insert and leave out."""
    indices = np.arange(len(found) + 1)
    row = indices
    for number, word in enumerate(reference, 1):
        differs = np.array([word != other for other in found], dtype=np.int64)
        best = np.concatenate([[number], np.minimum(row[1:] + 1, row[:-1] + differs)])
        row = np.minimum.accumulate(best - indices) + indices  # insertions, from left to right
    return int(row[-1])


def error_rate(reference: str, texts: Sequence[str]) -> float | None:
    """Word errors of all texts together; None without words to compare with."""
    right = words(reference)
    wrong = sum(edits(right, words(text)) for text in texts)
    return round(wrong / len(right) / len(texts), 4) if right else None


def erasure(sessions: Sequence[Captions]) -> float | None:
    """Words of tails that were taken back or changed, for each word that was said for good.

    Source: Arivazhagan et al., Re-translation versus Streaming (2020): normalised erasure.
    """
    taken = shown_value = 0
    for captions in sessions:
        tail: list[str] = []
        for _, caption in captions:
            new, after = written(caption.text), written(caption.tail)
            shown = [*new, *after]
            changed = (n for n, word in enumerate(tail) if shown[n : n + 1] != [word])
            taken += len(tail) - next(changed, len(tail))
            shown_value += len(new)
            tail = after
    return round(taken / shown_value, 4) if shown_value else None


# Delays


def matched(texts: Sequence[str], timed: Sequence[Word]) -> list[int | None]:
    """For each text of a word the end of the same word among those with times."""
    found: list[int | None] = [None] * len(texts)
    own = [" ".join(words(text)) for text in texts]
    others = [" ".join(words(word.text)) for word in timed]
    matcher = SequenceMatcher(None, own, others, autojunk=False)
    for at, there, count in matcher.get_matching_blocks():
        found[at : at + count] = [word.end for word in timed[there : there + count]]
    return found


def word_delays(captions: Captions, timed: Sequence[Word]) -> list[float | None]:
    """End of each word to its commit; one without times takes those of the same word in `timed`."""
    timed_words = [(moment, word) for moment, caption in captions for word in caption.words]
    others: list[int | None] = [None] * len(timed_words)
    if any(word.end is None for _, word in timed_words):
        others = matched([word.text for _, word in timed_words], timed)
    ends = [
        other if word.end is None else word.end
        for (_, word), other in zip(timed_words, others, strict=True)
    ]
    return [
        None if end is None else moment - end / RATE
        for (moment, _), end in zip(timed_words, ends, strict=True)
    ]


def joined(spans: Stretches, pause: int) -> list[tuple[int, int]]:
    """Stretches of speech with shorter pauses than that between them -> one."""
    found: list[tuple[int, int]] = []
    for start, stop in spans:
        if found and start - found[-1][1] < pause:
            found[-1] = found[-1][0], stop
        else:
            found.append((start, stop))
    return found


def first_delays(captions: Captions, stretches: Stretches) -> list[float | None]:
    """Start of each stretch to the first caption that heard some of it and has text or a tail."""
    moments = _answers(
        captions,
        stretches,
        lambda one, start, stop: (
            one.processed_until > start and bool((one.text + one.tail).strip())
        ),
    )
    return [
        None if moment is None else moment - start / RATE
        for moment, (start, _) in zip(moments, stretches, strict=True)
    ]


def final_delays(captions: Captions, stretches: Stretches) -> list[float | None]:
    """End of each stretch to the first caption that heard all of it and leaves nothing open."""
    moments = _answers(
        captions,
        stretches,
        lambda one, start, stop: one.processed_until >= stop and not one.tail.strip(),
    )
    return [
        None if moment is None else moment - stop / RATE
        for moment, (_, stop) in zip(moments, stretches, strict=True)
    ]


def _answers(captions: Captions, stretches: Stretches, is_answer: Answers) -> list[float | None]:
    """The moment of the first caption that answers to each stretch before the next is heard."""
    found: list[float | None] = []
    for number, (start, stop) in enumerate(stretches):
        after = stretches[number + 1][0] if number + 1 < len(stretches) else math.inf
        own = (
            at
            for at, one in captions
            if one.processed_until <= after and is_answer(one, start, stop)
        )
        found.append(next(own, None))
    return found
