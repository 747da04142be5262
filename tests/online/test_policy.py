"""Commit policies and the anchor: what is committed only grows, every word once, none skipped."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from live_models import SCORES

from livecap.events import RATE, Word
from livecap.online.job import DecodeJob, Hypothesis, TextSpan
from livecap.online.policy import (
    AlignAtt,
    AppendOnly,
    CommitPolicy,
    LocalAgreement,
    Pending,
    Rollback,
    anchor,
    plain,
)
from livecap.online.segment import SegmentState
from livecap.online.speech_buffer import Piece, Segment

POLICIES: tuple[CommitPolicy, ...] = (
    AppendOnly(),
    AppendOnly(hold_back=0),
    LocalAgreement(),
    Rollback(),
    Rollback(unfixed_updates=0, unfixed_tokens=0),
    AlignAtt(),
    AlignAtt(margin=0),
)
policies = pytest.mark.parametrize("policy", POLICIES, ids=str)
WORDS = st.sampled_from([" no", " No,", " that", " one", " one,", "界", " -", " é", " Straße"])
TEXTS = st.lists(WORDS, max_size=14)


def at_pace(texts: Sequence[str], samples: int, *, prob: float | None = None) -> tuple[Word, ...]:
    """Words at an even pace."""
    step = samples // max(len(texts), 1)
    return tuple(Word(text, n * step, (n + 1) * step, prob) for n, text in enumerate(texts))


@dataclass
class Run:
    """A segment, and what has been committed of it."""

    policy: CommitPolicy
    state: SegmentState = field(default_factory=lambda: SegmentState(0))
    commits: list[list[str]] = field(default_factory=list)
    tail: str = ""

    def see(
        self, texts: Sequence[str], samples: int, *, final: bool = False, prob: float | None = None
    ) -> list[str]:
        """The next hypothesis about the whole segment -> the words that it commits."""
        pcm = np.zeros(samples, np.float32)
        job = DecodeJob(
            0,
            Segment(pcm, (Piece(0, 0, samples),)),
            "en",
            prefix=self.state.prefix(endpointed=final, final=final),
        )
        words = at_pace(texts, samples, prob=prob)
        counts = tuple(1 + len(text) % 3 for text in texts)
        spans = (TextSpan(0, samples, words, SCORES),) if words else ()
        tokens = tuple(range(sum(counts)))
        assert self.state.accept(Hypothesis(job, spans, tokens=tokens, token_counts=counts))
        commit = self.state.flush() if final else self.state.commit(self.policy)
        self.commits.append([word.text for word in commit.words])
        self.tail = commit.tail
        return self.commits[-1]

    @property
    def text(self) -> list[str]:
        return [word for commit in self.commits for word in commit]


def follow(policy: CommitPolicy, texts: Sequence[Sequence[str]]) -> Run:
    """Hypotheses in turn, the last of which is final."""
    run = Run(policy)
    for number, words in enumerate(texts, 1):
        run.see(words, number * 2 * RATE, final=number == len(texts))
    return run


@policies
@given(texts=st.lists(TEXTS, min_size=1, max_size=8))
def test_committed_text_only_grows(policy: CommitPolicy, texts: list[list[str]]) -> None:
    run = follow(policy, texts)
    assert run.text == [word.text for word in run.state.committed]
    assert run.tail == ""


@policies
@given(text=st.lists(WORDS, max_size=30), cuts=st.lists(st.integers(0, 30), max_size=8))
@example(text=[" no", " no", " no", " no"], cuts=[1, 2, 3])
@example(text=[" that", " one,", " that", " one"], cuts=[2, 3])
def test_growing_hypotheses_are_committed_word_for_word(
    policy: CommitPolicy, text: list[str], cuts: list[int]
) -> None:
    """Real repetitions are kept, nothing is lost, nothing comes twice."""
    texts = [text[:cut] for cut in sorted(cuts)] + [text]
    run = Run(policy)
    for number, words in enumerate(texts, 1):
        run.see(words, number * 2 * RATE, final=number == len(texts))
        shown = "".join(run.text) + run.tail
        assert shown == "".join(words if len(run.text) == len(words) else words[:-1])
    assert run.text == text


@policies
@given(
    text=st.lists(WORDS, min_size=1, max_size=12),
    flicker=st.lists(st.tuples(st.integers(0, 12), TEXTS), max_size=6),
)
def test_the_end_commits_what_follows(
    policy: CommitPolicy, text: list[str], flicker: list[tuple[int, list[str]]]
) -> None:
    """Whatever tails came before: the last hypothesis from its anchor on is there."""
    texts = [text[:cut] + tail for cut, tail in flicker] + [text]
    run = follow(policy, texts)
    last = run.commits[-1]
    assert last == text[len(text) - len(last) :]


# -- the anchor ---------------------------------------------------------------------------------


def words(text: str, ends: Sequence[float] = ()) -> tuple[Word, ...]:
    """Words that end at these seconds; half a second each without."""
    found = []
    for n, one in enumerate(text.split()):
        end = round((ends[n] if ends else (n + 1) / 2) * RATE)
        found.append(Word(f" {one}", max(end - RATE // 4, 0), end))
    return tuple(found)


@pytest.mark.parametrize(
    ("committed", "hypothesis", "rest"),
    [
        ("", "and so", "and so"),
        ("and so", "and so my fellow", "my fellow"),
        ("And, so", "and so my", "my"),  # marks and case aside
        ("asked not", "ask not what", "what"),  # a word that turned out otherwise
        ("a no", "and so my fellow", "my fellow"),
        ("and so my", "and my fellow", "fellow"),  # one word less
        ("no no", "no no no", "no"),  # real repeats
        ("no no no", "no no", ""),
        ("one two one two", "one two one two one two", "one two"),
        ("and so", "", ""),
    ],
)
def test_what_follows_the_anchor(committed: str, hypothesis: str, rest: str) -> None:
    found = words(hypothesis)
    start = anchor(words(committed), found)
    assert "".join(word.text for word in found[start:]).strip() == rest


def test_of_equal_distances_the_nearest_in_time_counts() -> None:
    """Nothing of what is committed is in the hypothesis."""
    committed = words("thank you", [1.0, 1.5])
    assert anchor(committed, words("and so my", [0.4, 0.8, 2.0])) == 2
    assert anchor(committed, words("and so my", [1.6, 2.0, 2.4])) == 1
    one_more = words("and so my fellow", [0.5, 0.7, 1.5, 2.0])
    assert anchor(words("and my", [0.5, 1.5]), one_more) == 3
    untimed = tuple(Word(word.text) for word in words("and so my"))
    assert anchor(committed, untimed) == 2  # the longest, where there are no times


@given(text=TEXTS, more=TEXTS, changes=st.lists(st.tuples(st.integers(0, 13), WORDS), max_size=3))
def test_the_anchor_loses_and_repeats_nothing_at_the_seam(
    text: list[str], more: list[str], changes: list[tuple[int, str]]
) -> None:
    """However some words before it change: what is new follows, if the last one stands."""
    changed = list(text)
    for at, word in changes:
        if at < len(changed) - 1:
            changed[at] = word
    step = RATE // 2
    whole = at_pace([*changed, *more], step * max(len(changed) + len(more), 1))
    committed = at_pace(text, step * max(len(text), 1))
    start = anchor(committed, whole)
    distance = sum(plain(one) != plain(other) for one, other in zip(text, changed, strict=True))
    if distance == 0:
        assert start == len(text)
    assert abs(start - len(text)) <= 2 * distance


# -- the policies -------------------------------------------------------------------------------


def test_append_only_holds_the_last_words_back() -> None:
    text = [f" w{n}" for n in range(20)]
    run = follow(AppendOnly(), [text[:8], text[:12], text[:16], text])
    assert [len(one) for one in run.commits] == [0, 2, 4, 14]


def test_append_only_keeps_off_words_that_may_not_be_whole() -> None:
    found = words("a b c", [1, 2, 2.99])
    pending = Pending(found, 3 * RATE, previous=found)
    assert AppendOnly(hold_back=0).commit(pending) == 2


def test_local_agreement_takes_what_two_agree_on() -> None:
    run = follow(LocalAgreement(), [[" a", " b", " x"], [" a", " b", " c"], [" a", " b", " c"]])
    assert run.commits == [[], [" a", " b"], [" c"]]


def test_rollback_waits_and_keeps_tokens_back() -> None:
    found = words("a b c d")
    commits = [
        Rollback(unfixed_updates=2, unfixed_tokens=5).commit(
            Pending(found, RATE, (1, 2, 3, 2), hypotheses=number)
        )
        for number in (1, 2, 3)
    ]
    assert commits == [0, 0, 2]  # of eight tokens the last five may change


def aligned(*probs: float, ends: Sequence[float] = (0.5, 1, 2, 4)) -> tuple[Word, ...]:
    return tuple(
        Word(f" {name}", 0, round(end * RATE), prob)
        for name, end, prob in zip("abcd", ends, probs, strict=False)
    )


def test_align_att_commits_what_was_spoken_before_the_end() -> None:
    found = aligned(0.9, 0.9, ends=(1, 1.75))
    assert AlignAtt(hold_back=0).commit(Pending(found, 2 * RATE)) == 1
    assert AlignAtt(hold_back=0).commit(Pending(found, 3 * RATE)) == 2


@pytest.mark.parametrize(
    ("probs", "seconds", "count"),
    [
        ((0.9, 0.9, 0.9, 0.9), 3, 3),  # the last one ends after the margin
        ((0.1, 0.9, 0.9, 0.9), 1.9, 0),
        ((0.9, 0.1, 0.9, 0.9), 2.4, 1),
        ((0.1, 0.1, 0.9, 0.9), 3, 3),  # those that are old enough count all the same
        ((0.1, 0.1, 0.1, 0.9), 3, 2),
    ],
)
def test_an_improbable_word_waits_and_so_does_what_follows(
    probs: tuple[float, ...], seconds: float, count: int
) -> None:
    pending = Pending(aligned(*probs), round(seconds * RATE))
    assert AlignAtt(min_prob=0.5, max_age=3 * RATE // 2).commit(pending) == count


def test_what_two_hypotheses_agree_on_is_committed_though_it_is_improbable() -> None:
    found = aligned(0.1, 0.1, 0.1, 0.1)
    other = (*found[:2], Word(" x"), found[3])
    policy = AlignAtt(min_prob=0.5, max_age=100 * RATE)
    assert policy.commit(Pending(found, 5 * RATE, previous=found)) == 3  # one is held back
    assert policy.commit(Pending(found, 5 * RATE, previous=other)) == 2
    assert policy.commit(Pending(found, 5 * RATE)) == 0
