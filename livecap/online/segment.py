"""What is known of the segment that is open: its committed words, and the last hypothesis."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from livecap.events import Scores, Word
from livecap.online.job import Hypothesis, PrefixState
from livecap.online.policy import CommitPolicy, Pending, anchor
from livecap.online.transcript import Commit
from livecap.text.sentences import ends_sentence


@dataclass(slots=True)
class SegmentState:
    """One segment's state between updates. Samples are of the segment's audio."""

    number: int
    committed: tuple[Word, ...] = ()
    committed_tokens: tuple[int, ...] = ()  # of those words
    pending: tuple[Word, ...] = ()  # that follow those in the last hypothesis
    pending_counts: tuple[int, ...] = ()  # tokens of each
    previous: tuple[Word, ...] | None = None  # what followed them in the hypothesis before
    pending_tokens: tuple[int, ...] = ()  # of all of them
    hypothesis_tokens: tuple[int, ...] = ()  # of the last hypothesis, whole
    hypotheses: int = 0
    processed: int = 0  # samples that the last one is about
    committed_at: int = 0  # samples that had been processed when words were committed last
    endpointed: bool = False  # the last hypothesis was decoded with all care, after a pause
    tail_is_open: bool = False  # a tail was published that may still change
    language: str | None = None
    detected: Hypothesis | None = None  # the last one whose language was detected
    scores: Scores | None = None
    reason: str | None = None  # why the end of what was processed has no text
    untranscribed_from: int | None = None  # sample
    encoder_state: object | None = None
    conditioned: bool = False  # the last hypothesis went on from `committed_tokens`
    given_up: bool = False  # what followed its words made no text

    @property
    def is_timed(self) -> bool:
        """Whether all of its words have times."""
        words = (*self.committed, *self.pending)
        return bool(words) and all(word.end is not None for word in words)

    @property
    def committed_until(self) -> int:
        """The sample by which all that is committed had been spoken."""
        end = self.committed[-1].end if self.committed else None
        return self.committed_at if end is None else end

    @property
    def tail(self) -> str:
        """What may still change.

        A model that is not conditioned on its text mostly changes the last word, which the end of
        the audio may cut through: it is shown when more is known. That halves the erasure.
        """
        shown = self.pending if self.conditioned or self.endpointed else self.pending[:-1]
        return "".join(word.text for word in shown)

    @property
    def ends_sentence(self) -> bool:
        """Whether its text is that of whole sentences."""
        words = self.pending or self.committed
        return bool(words) and ends_sentence(words[-1].text)

    def prefix(self, *, endpointed: bool, final: bool) -> PrefixState:
        """What goes with the next job."""
        return PrefixState(
            endpointed,
            final,
            self.pending_tokens if self.conditioned else self.hypothesis_tokens,
            self.committed_tokens,
            self.committed_until,
            self.encoder_state,
        )

    def accept(self, hypothesis: Hypothesis) -> bool:
        """A new hypothesis. False if it tells nothing, and what was known before stays."""
        prefix = hypothesis.job.prefix
        assert prefix is not None
        assert prefix.committed == self.committed_tokens, "goes on from another text"
        self.processed = len(hypothesis.job.segment.pcm)
        self.encoder_state = hypothesis.encoder_state
        self.endpointed = prefix.endpointed
        self.reason = hypothesis.reason
        if hypothesis.language_probability is not None:
            self.detected = hypothesis
        if hypothesis.reason and not prefix.endpointed:
            return False
        words, counts = hypothesis.words, hypothesis.token_counts
        assert len(counts) == len(words)
        assert sum(counts) == len(hypothesis.tokens)
        self.conditioned = hypothesis.conditioned
        start = 0 if self.conditioned else anchor(self.committed, words)
        self.previous = self.pending if self.hypotheses else None
        self.pending, self.pending_counts = words[start:], counts[start:]
        self.pending_tokens = hypothesis.tokens[sum(counts[:start]) :]
        self.hypothesis_tokens = hypothesis.tokens
        self.hypotheses += 1
        self.language = hypothesis.language or self.language
        self.scores = hypothesis.spans[-1].scores if hypothesis.spans else None
        self.untranscribed_from = hypothesis.untranscribed_from
        return True

    def commit(self, policy: CommitPolicy) -> Commit:
        """Commit what the policy says."""
        pending = Pending(
            self.pending, self.processed, self.pending_counts, self.previous, self.hypotheses
        )
        return self._commit(policy.commit(pending), final=False)

    def flush(self) -> Commit:
        """Commit all that was decoded."""
        return self._commit(len(self.pending), final=True)

    def _commit(self, count: int, *, final: bool) -> Commit:
        start = self.committed_until
        words, self.pending = self.pending[:count], self.pending[count:]
        tokens = sum(self.pending_counts[:count])
        self.pending_counts = self.pending_counts[count:]
        self.committed_tokens += self.pending_tokens[:tokens]
        self.pending_tokens = self.pending_tokens[tokens:]
        self.committed += words
        if words:
            self.committed_at = self.processed
        self.tail_is_open = not final and bool(self.tail_is_open or words or self.pending)
        return Commit(words, self.tail, start, self.processed, final, self.language)

    def give_up(self, heard_by: Callable[[int], int]) -> int:
        """Nothing comes of it any more: keep its beginning, as it was decoded, and let what follows
        be decoded from there -> samples of the beginning, 0 if there are no words to keep.

        `heard_by`: samples in which its first so many words had been heard. Words that are pending
        belong to what follows, if the times of those before tell where that begins.
        """
        is_timed = self.is_timed
        if is_timed:
            self.pending, self.pending_counts = (), ()
        count = len(self.committed) + len(self.pending)
        if not count:
            return 0
        length = min(heard_by(count), self.committed_until) if is_timed else heard_by(count)
        self.processed = min(length, self.processed)
        self.committed_at = min(self.committed_at, self.processed)
        self.endpointed = self.given_up = True
        self.reason = self.untranscribed_from = None
        return self.processed

    def slid(self, length: int) -> "SegmentState | None":
        """The state after the first `length` samples have been cut off, where words are committed
        beyond them; None if there are none.
        """
        beyond = tuple(
            replace(word, start=max((word.start or 0) - length, 0), end=word.end - length)
            for word in self.committed
            if word.end is not None and word.end > length
        )
        if not beyond:
            return None
        assert self.encoder_state is None, "a family that keeps something is cut behind it"
        return SegmentState(
            self.number,
            committed=beyond,
            processed=max(self.processed - length, 0),
            committed_at=max(self.committed_at - length, 0),
            tail_is_open=self.tail_is_open,
            language=self.language,
            detected=self.detected,
        )
