"""What is known of the segment that is open: words that are said for good, and the tail."""

from dataclasses import dataclass, field

from livecap.commit import CommitPolicy, Heard, Said, same_words
from livecap.events import RATE, Scores, Word
from livecap.transcript import Part
from livecap.work import Hypothesis, Update

SENTENCE_END = frozenset(".?!…。？！")
SPARSE = 3 * RATE  # samples, pauses included, in which someone who speaks says more than a word,
REPEATED = 3 * RATE // 2  # and in which more than one that has just been said is said again


@dataclass(slots=True)
class Opened:
    """One segment's state between updates. Samples are of the segment's audio."""

    number: int
    said: Said = field(default_factory=Said)
    tokens: tuple[int, ...] = ()  # of the words that are said
    counts: tuple[int, ...] = ()  # of those, for each word
    ends: tuple[int, ...] = ()  # of those words; () where that is unknown
    words: tuple[Word, ...] = ()  # that followed them last
    draft: tuple[int, ...] = ()  # their tokens
    draft_counts: tuple[int, ...] = ()
    heard: int = 0  # samples that have been heard
    published: int = 0  # samples that had been heard when the last words were said
    whole: bool = False  # it has been heard with all care since speech paused
    reason: str | None = None  # why the end of what was heard has no text
    lost: int | None = None  # from that sample on
    language: str | None = None
    scores: Scores | None = None
    detected: Hypothesis | None = None  # the last one whose language was detected
    is_told: bool = True  # the last caption said that it was final, or there was none
    kept: object | None = None
    paused: tuple[int, int] = 0, 0  # words and samples, when all that was heard was said last

    @property
    def fixed(self) -> int:
        """The sample by which all that is said for good had been spoken."""
        known = self.ends and len(self.ends) == len(self.said.published)
        return self.ends[-1] if known else self.published

    @property
    def is_timed(self) -> bool:
        """Whether all of its words have times."""
        said, tail = self.said.published, self.words
        timed = len(self.ends) == len(said) and len(_ends(tail)) == len(tail)
        return timed and bool(said or tail)

    @property
    def tail(self) -> str:
        """What may still change."""
        return "".join(word.text for word in self.words)

    @property
    def ends_sentence(self) -> bool:
        """Whether its text is that of whole sentences."""
        text = self.tail or "".join(self.said.published[-1:])
        return text.rstrip()[-1:] in SENTENCE_END

    @property
    def is_stuck(self) -> bool:
        """Whether next to nothing is made of what was heard since the last pause, or little and
        what had been said right before: a decoder that goes on from there may never hear anything
        else.
        """
        count, samples = self.paused
        words = (*self.said.published, *(word.text for word in self.words))
        new = words[count:]
        again = same_words(words[max(count - len(new), 0) : count], new)
        pace = REPEATED if again else SPARSE
        return bool(new) and len(new) * pace < self.heard - samples

    def update(self, *, whole: bool, last: bool) -> Update:
        """What goes with the next work."""
        return Update(whole, last, self.tokens, self.fixed, self.draft, self.kept)

    def take(self, hypothesis: Hypothesis) -> bool:
        """A new hypothesis. False if it tells nothing, and what was known before stays."""
        update = hypothesis.work.update
        assert update is not None
        assert update.said == self.tokens, "goes on from another text"
        self.heard = len(hypothesis.work.segment.pcm)
        self.kept = hypothesis.kept
        self.whole = update.whole
        if hypothesis.language_probability is not None:
            self.detected = hypothesis
        self.reason = hypothesis.reason
        if hypothesis.reason and not update.whole:
            return False
        self.words = tuple(word for passage in hypothesis.passages for word in passage.words)
        self.draft, self.draft_counts = hypothesis.tokens, hypothesis.counts
        assert len(self.draft_counts) == len(self.words)
        assert sum(self.draft_counts) == len(self.draft)
        self.language = hypothesis.language or self.language
        self.scores = hypothesis.passages[-1].scores if hypothesis.passages else None
        self.lost = hypothesis.unsure
        return True

    def decide(self, policy: CommitPolicy, *, final: bool) -> Part:
        """Say what the policy says; with `final`, all."""
        before = self.fixed
        decision = policy.decide(self.said, self._heard(), final=final)
        assert not decision.contradicts, "what is said leads the decoder"
        count = len(decision.commit)
        words, self.words = self.words[:count], self.words[count:]
        taken = sum(self.draft_counts[:count])
        self.tokens, self.draft = (*self.tokens, *self.draft[:taken]), self.draft[taken:]
        self.counts = (*self.counts, *self.draft_counts[:count])
        self.draft_counts = self.draft_counts[count:]
        self.said = decision.said
        if words:
            self.published = self.heard
            self.ends = (*self.ends, *_ends(words))
        if final:
            self.paused = len(self.said.published), self.heard
        self.is_told = final or (self.is_told and not words and not decision.tail)
        return Part(words, decision.tail, before, self.heard, final, self.language)

    def _heard(self) -> Heard:
        ends = _ends(self.words)
        known = len(self.ends) == len(self.said.published) and len(ends) == len(self.words)
        told, new = self.said.published, self.words
        chances = (1.0 if one.probability is None else one.probability for one in new)
        return Heard(
            (*told, *(word.text for word in new)),
            self.heard,
            (*self.counts, *self.draft_counts),
            (*self.ends, *ends) if known else (),
            (*(1.0 for _ in told), *chances),
        )


def _ends(words: tuple[Word, ...]) -> tuple[int, ...]:
    """Where each word ends; () if one has no time."""
    ends = tuple(word.end for word in words if word.end is not None)
    return ends if len(ends) == len(words) else ()
