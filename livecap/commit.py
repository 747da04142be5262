"""Hypotheses about growing audio -> words that are said for good, and those that may still change.

A policy sees, update by update, what the model makes of the open segment from its start on. It
decides how many of the words to publish. What is published never changes: every decision goes on
from it, or holds. A hypothesis that contradicts it is held back until one agrees again, or the
segment ends.

Sources: Macháček et al., Turning Whisper into Real-Time Transcription System (2023), for
LocalAgreement; Papi et al., AlignAtt (2023); the package qwen3-asr-causal for AppendOnly; the
package qwen-asr for Rollback. Their constants are the defaults; `AlignAtt.sure` is our own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Protocol

from livecap.events import RATE

OVERLAP = 8  # words of what is published that a contradicting last hypothesis is searched for


@dataclass(frozen=True, slots=True)
class Heard:
    """What the model made of a segment so far."""

    words: tuple[str, ...]  # as written, each with the white space before it
    samples: int  # audio that it heard, since the segment's start
    tokens: tuple[int, ...] = ()  # how many each word took; () where nobody counts them
    ends: tuple[int, ...] = ()  # sample at which each word ends; () where that is unknown
    chances: tuple[float, ...] = ()  # probability of each word; () where that is unknown


@dataclass(frozen=True, slots=True)
class Said:
    """What a policy keeps between the updates of a segment."""

    published: tuple[str, ...] = ()
    earlier: tuple[tuple[str, ...], ...] = ()  # hypotheses before, the latest last
    candidate: tuple[str, ...] = ()  # what would be published if it stays
    stays: int = 0  # for how many updates it has
    updates: int = 0
    samples: int = 0  # audio that the last of them heard


@dataclass(frozen=True, slots=True)
class Decision:
    """What comes of an update."""

    commit: tuple[str, ...]  # the next words, said for good
    tail: str  # what may still change; it replaces the last tail
    contradicts: bool  # the hypothesis is at odds with what is published
    said: Said


class CommitPolicy(Protocol):
    """When words are said for good."""

    def decide(self, said: Said, heard: Heard, *, final: bool) -> Decision:
        """An update's hypothesis -> what to publish. `final`: the segment ends, publish all."""


@dataclass(frozen=True, slots=True)
class AppendOnly:
    """What two hypotheses in a row begin with, but for the last words; for the causal tower."""

    hold_back: int = 6  # words
    stable_iterations: int = 1  # updates that a candidate must stay the same for
    margin: int = RATE // 4  # samples: a word that ends so near to the end may not be whole

    def decide(self, said: Said, heard: Heard, *, final: bool) -> Decision:
        """See `CommitPolicy`."""
        if not _extends(heard.words, said.published):
            return _settle(replace(said, candidate=(), stays=0), heard, 0, final=final)
        latest = said.earlier[-1] if said.earlier else ()
        agreed = _common(latest, heard.words) - self.hold_back
        count = max(min(agreed, _whole(heard, self.margin)), len(said.published))
        candidate = heard.words[:count]
        stays = said.stays + 1 if same_words(candidate, said.candidate) else 1
        said = replace(said, candidate=candidate, stays=stays)
        due = count if stays >= self.stable_iterations else 0
        return _settle(said, heard, due, final=final)


@dataclass(frozen=True, slots=True)
class LocalAgreement:
    """What the last n hypotheses all begin with; for models that hear the segment anew."""

    n: int = 2

    def decide(self, said: Said, heard: Heard, *, final: bool) -> Decision:
        """See `CommitPolicy`."""
        before = said.earlier[-(self.n - 1) :] if self.n > 1 else ()
        enough = len(before) == self.n - 1
        agreed = min((_common(one, heard.words) for one in before), default=len(heard.words))
        return _settle(said, heard, agreed if enough else 0, final=final, kept=self.n - 1)


@dataclass(frozen=True, slots=True)
class Rollback:
    """All but the last tokens, once there have been some updates; for Qwen3-ASR."""

    unfixed_updates: int = 2  # at the segment's start, in which nothing is published
    unfixed_tokens: int = 5  # at the end, which are decoded again

    def decide(self, said: Said, heard: Heard, *, final: bool) -> Decision:
        """See `CommitPolicy`. Needs `heard.tokens`."""
        assert len(heard.tokens) == len(heard.words), "tokens must be counted"
        left = sum(heard.tokens) - self.unfixed_tokens
        count = 0
        for tokens in heard.tokens:
            left -= tokens
            if left < 0:
                break
            count += 1
        due = count if said.updates >= self.unfixed_updates else 0
        return _settle(said, heard, due, final=final)


@dataclass(frozen=True, slots=True)
class AlignAtt:
    """Words heard well before the end of the audio; for Whisper's cross-attention.

    Little audio is easily misheard, and a decoder that is led by what is said never comes back from
    it: where the words that a segment would begin with are improbable together, only those are said
    that the hypothesis before has, too, or whose audio it had heard already.
    """

    margin: int = RATE // 2  # samples: 25 encoder rows
    hold_back: int = 1  # words at the end, which may go on
    sure: float = 0.6  # mean probability (geometric) from which first words are said at once

    def decide(self, said: Said, heard: Heard, *, final: bool) -> Decision:
        """See `CommitPolicy`. Needs `heard.ends`."""
        assert len(heard.ends) == len(heard.words), "words must be aligned"
        count = min(_whole(heard, self.margin), len(heard.words) - self.hold_back)
        if not said.published and _mean(heard.chances[: max(count, 0)]) < self.sure:
            again = _common(said.earlier[-1], heard.words) if said.earlier else 0
            before = _whole(replace(heard, samples=said.samples), self.margin)
            count = min(count, max(again, before))
        return _settle(said, heard, count, final=final)


def _settle(said: Said, heard: Heard, count: int, *, final: bool, kept: int = 1) -> Decision:
    """Publish the first `count` words, or all of a segment that ends; never less than before."""
    words, done = heard.words, len(said.published)
    contradicts = not _extends(words, said.published)
    if contradicts and final:
        done = _goes_on(words, said.published)
    count = len(words) if final else 0 if contradicts else max(count, done)
    commit = words[done:count]
    tail = "" if final else "".join(words[max(count, done) :])
    after = replace(
        said,
        published=(*said.published, *commit),
        earlier=(*said.earlier, words)[-kept:] if kept else (),
        updates=said.updates + 1,
        samples=heard.samples,
    )
    return Decision(commit, tail, contradicts, after)


def _whole(heard: Heard, margin: int) -> int:
    """How many of the words end before the margin at the end of the audio; all if unknown."""
    late = (n for n, end in enumerate(heard.ends) if end > heard.samples - margin)
    return next(late, len(heard.words))


def _mean(chances: Sequence[float]) -> float:
    """The geometric mean of probabilities, as the mean of their logarithms has it; 1 of none."""
    return prod(chances) ** (1 / len(chances)) if chances else 1.0


def _goes_on(words: Sequence[str], published: Sequence[str]) -> int:
    """Where a last hypothesis that contradicts what is published goes on from it.

    After the longest run of its last words that is found again, the one nearest to where it should
    be; without any, after as many words as there are. So nothing is said twice.
    """
    for length in range(min(OVERLAP, len(published)), 0, -1):
        wanted = published[-length:]
        found = [
            at + length
            for at in range(len(words) - length + 1)
            if same_words(words[at : at + length], wanted)
        ]
        if found:
            return min(found, key=lambda at: abs(at - len(published)))
    return min(len(published), len(words))


def _extends(words: Sequence[str], published: Sequence[str]) -> bool:
    """Whether a hypothesis begins with what is published, marks and case aside."""
    return same_words(words[: len(published)], published)


def _common(some: Sequence[str], others: Sequence[str]) -> int:
    """How many words both begin with, marks and case aside."""
    for place, (one, other) in enumerate(zip(some, others, strict=False)):
        if _plain(one) != _plain(other):
            return place
    return min(len(some), len(others))


def same_words(some: Sequence[str], others: Sequence[str]) -> bool:
    """Whether two texts are the same, marks and case aside."""
    return len(some) == len(others) == _common(some, others)


def _plain(word: str) -> str:
    """A word without case and marks; a mark that stands alone is itself."""
    kept = "".join(character for character in word.casefold() if character.isalnum())
    return kept or word.strip()
