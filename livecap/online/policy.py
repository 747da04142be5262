"""Hypotheses about a segment that grows -> words that are committed, and a tail that may change.

Committed words never change. A model that is not conditioned on them may well come to another text;
so every new hypothesis is first anchored: the beginning of it that stands for what is committed is
passed over, whatever the differences in it, and the policy decides on the words that follow.

Sources: Macháček et al., Turning Whisper into Real-Time Transcription System (2023), for
LocalAgreement; Papi et al., AlignAtt (2023); the package qwen3-asr-causal for AppendOnly; the
package qwen-asr for Rollback. Their constants are the defaults; AlignAtt's `min_prob` and `max_age`
are measured (benchmarks/README.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import numpy as np

from livecap.events import RATE, Word


@dataclass(frozen=True, slots=True)
class Pending:
    """The words of the newest hypothesis that follow what is committed. Samples are a segment's."""

    words: tuple[Word, ...]
    processed: int  # samples that the hypothesis is about
    token_counts: tuple[int, ...] = ()  # how many each word takes; () where nobody counts them
    previous: tuple[Word, ...] | None = (
        None  # those of the hypothesis before; None: it is the first
    )
    hypotheses: int = 1  # of this segment, with this one


class CommitPolicy(Protocol):
    """When words are committed."""

    def commit(self, pending: Pending) -> int:
        """How many of the pending words to commit; the others are the tail."""


@dataclass(frozen=True, slots=True)
class AppendOnly:
    """What two hypotheses in a row begin with, but for the last words; for the causal tower."""

    hold_back: int = 6  # words
    margin: int = RATE // 4  # samples: a word that ends so near to the end may not be whole

    def commit(self, pending: Pending) -> int:
        """See `CommitPolicy`."""
        agreed = common_words(pending.previous or (), pending.words) - self.hold_back
        return max(min(agreed, ending_by(pending.words, pending.processed - self.margin)), 0)


@dataclass(frozen=True, slots=True)
class LocalAgreement:
    """What two hypotheses in a row begin with; for models that decode the segment anew."""

    def commit(self, pending: Pending) -> int:
        """See `CommitPolicy`."""
        return common_words(pending.previous or (), pending.words)


@dataclass(frozen=True, slots=True)
class Rollback:
    """All but the last tokens, once there have been some hypotheses; for Qwen3-ASR."""

    unfixed_updates: int = 2  # hypotheses at the segment's start of which nothing is committed
    unfixed_tokens: int = 5  # at the end, which are decoded again

    def commit(self, pending: Pending) -> int:
        """See `CommitPolicy`. Needs the counts of tokens."""
        assert len(pending.token_counts) == len(pending.words), "tokens must be counted"
        if pending.hypotheses <= self.unfixed_updates:
            return 0
        fixed = sum(pending.token_counts) - self.unfixed_tokens
        return sum(1 for end in accumulate(pending.token_counts) if end <= fixed)


@dataclass(frozen=True, slots=True)
class AlignAtt:
    """Words that were spoken well before the end of the audio; for Whisper's cross-attention.

    An improbable one, and what follows it, waits until the hypothesis before has it too, or until
    it is so old that more context no longer helps.
    """

    margin: int = 3 * RATE // 10  # samples: 15 encoder rows
    hold_back: int = 1  # words at the end, which may go on
    min_prob: float = 0.5
    max_age: int = 3 * RATE // 2  # samples

    def commit(self, pending: Pending) -> int:
        """See `CommitPolicy`. Needs times."""
        words, processed = pending.words, pending.processed
        agreed = common_words(pending.previous or (), words)
        old = ending_by(words, processed - self.max_age)
        sure = max(agreed, old)
        sure += leading(words[sure:], self.min_prob)
        limit = min(ending_by(words, processed - self.margin), len(words) - self.hold_back)
        return max(min(sure, limit), 0)


def anchor(committed: Sequence[Word], words: Sequence[Word]) -> int:
    """How many words of a hypothesis stand for those that are committed.

    It is the beginning of least edit distance, in words without case and marks; of several, the one
    that ends nearest to where the committed words end, or, without times, the longest.
    """
    if not committed:
        return 0
    texts = [plain(word.text) for word in words]
    indices = np.arange(len(words) + 1)
    row = indices  # edit distances of the committed words so far to each beginning
    for number, one in enumerate(committed, 1):
        text = plain(one.text)
        differs = np.array([text != other for other in texts], dtype=np.int64)
        best = np.concatenate([[number], np.minimum(row[1:] + 1, row[:-1] + differs)])
        row = np.minimum.accumulate(best - indices) + indices  # insertions, from left to right
    nearest = [int(index) for index in np.flatnonzero(row == row.min())]
    end = committed[-1].end
    if end is None or any(word.end is None for word in words):
        return nearest[-1]
    ends = [0, *(word.end or 0 for word in words)]
    return min(nearest, key=lambda index: abs(ends[index] - end))


def leading(words: Sequence[Word], min_prob: float) -> int:
    """How many words, from the first on, are as probable as that; one without counts as certain."""
    unsure = (
        n
        for n, one in enumerate(words)
        if (1.0 if (p := one.probability) is None else p) < min_prob
    )
    return next(unsure, len(words))


def ending_by(words: Sequence[Word], sample: int) -> int:
    """How many words, from the first on, end by that sample; all if one has no time."""
    late = (n for n, word in enumerate(words) if word.end is not None and word.end > sample)
    return next(late, len(words))


def common_words(some: Sequence[Word], others: Sequence[Word]) -> int:
    """How many words both begin with, marks and case aside."""
    for index, (one, other) in enumerate(zip(some, others, strict=False)):
        if plain(one.text) != plain(other.text):
            return index
    return min(len(some), len(others))


def plain(word: str) -> str:
    """A word without case and marks; a mark that stands alone is itself."""
    letters = "".join(character for character in word.casefold() if character.isalnum())
    return letters or word.strip()
