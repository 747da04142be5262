"""Commit policies: what is published only grows, every word once, and the end publishes all."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from livecap.commit import (
    AlignAtt,
    AppendOnly,
    CommitPolicy,
    Decision,
    Heard,
    LocalAgreement,
    Rollback,
    Said,
)
from livecap.events import RATE

POLICIES: tuple[CommitPolicy, ...] = (
    AppendOnly(),
    AppendOnly(hold_back=2, stable_iterations=2),
    AppendOnly(hold_back=0),
    LocalAgreement(),
    LocalAgreement(n=1),
    LocalAgreement(n=3),
    Rollback(),
    Rollback(unfixed_updates=0, unfixed_tokens=0),
    AlignAtt(),
    AlignAtt(margin=0),
)
policies = pytest.mark.parametrize("policy", POLICIES, ids=str)
WORDS = st.sampled_from([" no", " No,", " that", " one", " one,", "界", " -", " é", " Straße"])
TEXTS = st.lists(WORDS, max_size=14)


def heard(words: Sequence[str], samples: int) -> Heard:
    """Words at an even pace."""
    ends = tuple((n + 1) * samples // max(len(words), 1) for n in range(len(words)))
    counts = tuple(1 + len(word) % 3 for word in words)
    chances = tuple(len(word) % 4 / 4 for word in words)
    return Heard(tuple(words), samples, counts, ends, chances)


def follow(policy: CommitPolicy, texts: Sequence[Sequence[str]]) -> list[Decision]:
    """The decisions about hypotheses, the last of which is final."""
    said, decisions = Said(), list[Decision]()
    for number, words in enumerate(texts, 1):
        final = number == len(texts)
        decisions.append(policy.decide(said, heard(words, number * 2 * RATE), final=final))
        said = decisions[-1].said
    return decisions


@policies
@given(texts=st.lists(TEXTS, min_size=1, max_size=8))
def test_published_text_only_grows(policy: CommitPolicy, texts: list[list[str]]) -> None:
    shown = ""
    for decision in follow(policy, texts):
        shown += "".join(decision.commit)
        assert "".join(decision.said.published) == shown
    assert decision.tail == ""


@policies
@given(text=st.lists(WORDS, max_size=30), cuts=st.lists(st.integers(0, 30), max_size=8))
@example(text=[" no", " no", " no", " no"], cuts=[1, 2, 3])
@example(text=[" that", " one,", " that", " one"], cuts=[2, 3])
def test_growing_hypotheses_are_published_word_for_word(
    policy: CommitPolicy, text: list[str], cuts: list[int]
) -> None:
    """Real repetitions are kept, nothing is lost, nothing comes twice."""
    texts = [text[:cut] for cut in sorted(cuts)] + [text]
    decisions = follow(policy, texts)
    assert [word for one in decisions for word in one.commit] == text
    for decision, words in zip(decisions, texts, strict=True):
        assert "".join(decision.said.published) + decision.tail == "".join(words)
        assert not decision.contradicts


@policies
@given(
    text=st.lists(WORDS, min_size=1, max_size=12),
    flicker=st.lists(st.tuples(st.integers(0, 12), TEXTS), max_size=6),
)
def test_the_end_publishes_what_was_settled_on(
    policy: CommitPolicy, text: list[str], flicker: list[tuple[int, list[str]]]
) -> None:
    """Whatever tails came before, the whole text is there at the end unless it was contradicted."""
    texts = [text[:cut] + tail for cut, tail in flicker] + [text]
    decisions = follow(policy, texts)
    if not decisions[-1].contradicts:
        plain = [word.casefold().strip(" ,") for word in decisions[-1].said.published]
        assert plain == [word.casefold().strip(" ,") for word in text]


@policies
def test_marks_and_case_are_no_contradiction(policy: CommitPolicy) -> None:
    texts = [[" Yes", " we"], [" yes,", " we", " can"], [" Yes", " we", " can", " do"]]
    decisions = follow(policy, [*texts, [" yes,", " We", " can", " do", " it."]])
    assert not any(decision.contradicts for decision in decisions)
    assert len(decisions[-1].said.published) == 5


def test_append_only_holds_the_last_words_back() -> None:
    text = [f" w{n}" for n in range(20)]
    decisions = follow(AppendOnly(), [text[:8], text[:12], text[:16], text])
    assert [len(one.commit) for one in decisions] == [0, 2, 4, 14]
    assert decisions[1].tail == "".join(text[2:12])


def test_append_only_keeps_off_words_that_may_not_be_whole() -> None:
    words = (" a", " b", " c")
    ends = (RATE, 2 * RATE, 3 * RATE - 100)
    policy = AppendOnly(hold_back=0)
    first = policy.decide(Said(), Heard(words, 3 * RATE, ends=ends), final=False)
    again = policy.decide(first.said, Heard(words, 3 * RATE, ends=ends), final=False)
    assert again.commit == (" a", " b")


def test_local_agreement_takes_what_two_agree_on() -> None:
    decisions = follow(
        LocalAgreement(), [[" a", " b", " x"], [" a", " b", " c"], [" a", " b", " c"]]
    )
    assert [one.commit for one in decisions] == [(), (" a", " b"), (" c",)]


def test_rollback_waits_and_keeps_tokens_back() -> None:
    words = (" a", " b", " c", " d")
    policy, said = Rollback(unfixed_updates=2, unfixed_tokens=5), Said()
    commits = []
    for _ in range(3):
        decision = policy.decide(said, Heard(words, RATE, tokens=(1, 2, 3, 2)), final=False)
        said = decision.said
        commits.append(decision.commit)
    assert commits == [(), (), (" a", " b")]  # of eight tokens the last five may change


def test_align_att_publishes_what_was_heard_before_the_end() -> None:
    found = Heard((" a", " b"), 2 * RATE, ends=(RATE, 2 * RATE - RATE // 4))
    assert AlignAtt().decide(Said(), found, final=False).commit == (" a",)


ENDS = (RATE // 2, RATE, 2 * RATE, 4 * RATE)  # of four words


def test_a_segment_does_not_begin_with_what_is_improbable_until_it_is_heard_again() -> None:
    unsure = Heard((" a", " b", " c", " d"), 3 * RATE, ends=ENDS, chances=(0.1, 0.9, 0.8, 0.9))
    first = AlignAtt().decide(Said(), unsure, final=False)
    assert first.commit == ()
    assert first.tail == " a b c d"
    other = replace(unsure, words=(" a", " b", " x", " d"))
    again = AlignAtt().decide(first.said, other, final=False)
    assert again.commit == (" a", " b", " x")  # both agree in two; the audio of x was heard before
    later = replace(unsure, words=(" a", " b", " x", " y"), samples=5 * RATE, chances=(0.1,) * 4)
    assert AlignAtt(hold_back=0).decide(again.said, later, final=False).commit == (" y",)


def test_improbable_words_that_are_new_in_the_second_hypothesis_wait_too() -> None:
    policy = AlignAtt()
    unsure = Heard((" a", " b"), 3 * RATE, ends=(RATE, 5 * RATE // 2), chances=(0.2, 0.9))
    first = policy.decide(Said(), unsure, final=False)
    other = Heard((" o", " p", " d"), 4 * RATE, ends=(RATE, 3 * RATE, 4 * RATE), chances=(0.2,) * 3)
    assert policy.decide(first.said, other, final=False).commit == (" o",)
    assert policy.decide(first.said, other, final=True).commit == (" o", " p", " d")
    sure = replace(other, chances=(0.9,) * 3)
    assert policy.decide(first.said, sure, final=False).commit == (" o", " p")


def test_what_two_hypotheses_agree_in_is_said_though_it_is_improbable() -> None:
    ends = (RATE, 7 * RATE // 4, 4 * RATE)
    unsure = Heard((" a", " b"), 2 * RATE, ends=ends[:2], chances=(0.2, 0.2))
    first = AlignAtt().decide(Said(), unsure, final=False)
    assert first.commit == ()
    more = Heard((" a", " b", " c"), 4 * RATE, ends=ends, chances=(0.2,) * 3)
    assert AlignAtt().decide(first.said, more, final=False).commit == (" a", " b")
    other = replace(more, words=(" a", " x", " c"))
    assert AlignAtt().decide(first.said, other, final=False).commit == (" a",)


@pytest.mark.parametrize(
    ("chances", "count"), [((0.3, 0.9, 0.9, 0.1), 3), ((0.2, 0.9, 0.9, 0.9), 0), ((), 3)]
)
def test_first_words_are_judged_by_their_mean(chances: tuple[float, ...], count: int) -> None:
    """Of those that would be said: the mean of their logarithms, as of 0.62 or 0.54 each."""
    found = Heard((" a", " b", " c", " d"), 3 * RATE, ends=ENDS, chances=chances)
    assert len(AlignAtt().decide(Said(), found, final=False).commit) == count


def test_a_contradiction_is_held_back_and_then_gone_on_from() -> None:
    policy = LocalAgreement(n=1)
    first = policy.decide(Said(), Heard((" we", " shall", " see"), RATE), final=False)
    assert first.commit == (" we", " shall", " see")
    other = Heard((" well", " we", " shall", " see", " it"), 2 * RATE)
    held = policy.decide(first.said, other, final=False)
    assert held.contradicts
    assert held.commit == ()
    end = policy.decide(held.said, other, final=True)
    assert end.commit == (" it",)
