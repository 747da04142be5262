"""A language that needs no model: audio whose words can be read off its samples, and who reads it.

A word is a burst, its number the amplitude: the first half positive, the second negative, of equal
length. So one that is not all there is seen not to be, and is misheard or missed.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from livecap.events import RATE, Caption, Event, Scores, Word
from livecap.live import Live
from livecap.live_config import LiveConfig
from livecap.segments import Pcm, Segment
from livecap.vad import FRAME
from livecap.work import Hypothesis, Passage, Work

WORDS = (" no", " that", " one", " is", " it", "界", " so", " Straße", " yes.", " done.", " is it?")
STEP = 1 / 64  # amplitude from one word to the next
SCORES = Scores((), 0.0, -0.1, 1.0, 0.0)
HEARABLE = RATE // 10  # samples: less of a word than that is missed
UNSURE = 1_000  # tokens from here on are those of what was misheard


@dataclass(frozen=True, slots=True)
class Spoken:
    """A word in audio. Times are samples."""

    text: str
    start: int
    end: int


def tokens_of(text: str) -> tuple[int, ...]:
    """One or two tokens a word."""
    if text not in WORDS:
        return (UNSURE + int(text.removeprefix(" hm")),)
    first = 2 * WORDS.index(text)
    return (first,) if first % 4 else (first, first + 1)


@dataclass(frozen=True, slots=True)
class Said:
    """A word to be spoken, for an even number of samples, and the silence after it."""

    word: int
    length: int
    silence: int


def speak(script: Iterable[Said], before: int = 0) -> Pcm:
    """A script, with that many samples of silence before it."""
    blocks = [np.zeros(before, np.float32)]
    for said in script:
        half = np.full(said.length // 2, (said.word + 1) * STEP, np.float32)
        blocks += [half, -half, np.zeros(said.silence, np.float32)]
    return np.concatenate(blocks)


def read(pcm: Pcm) -> list[Spoken]:
    """What is said in audio, as somebody hears it who knows nothing of what comes after."""
    values = np.rint(pcm / STEP).astype(int)
    bounds = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    words, at = list[Spoken](), 0
    while at < len(bounds) - 1 and len(values):
        start, stop = bounds[at], bounds[at + 1]
        value = int(values[start])
        at += 1
        if value <= 0:
            continue
        end = stop
        if at < len(bounds) - 1 and values[stop] == -value:
            end = bounds[at + 1]
        if end - stop == stop - start:
            words.append(Spoken(WORDS[value - 1], start, end))
        elif end - start >= HEARABLE:
            words.append(Spoken(f" hm{(end - start) // HEARABLE}", start, end))
    return words


def chances(pcm: Pcm) -> list[float]:
    """Speech probabilities of the whole frames in it: whether there is anything."""
    count = len(pcm) // FRAME
    peaks = np.abs(pcm[: count * FRAME].reshape(count, FRAME)).max(axis=1, initial=0.0)
    return [0.9 if peak else 0.0 for peak in peaks.tolist()]


class Kept:
    """What stands for the memory of a segment's beginning."""


@dataclass
class Reader:
    """Reads works. What it keeps from update to update is freed once and only once."""

    timed: Callable[[Work], bool] = lambda work: True
    reason: Callable[[Work], str | None] = lambda work: None  # not to believe what it reads
    careful: bool = False  # says no word that is not there whole
    language: str = "en"
    chance: float = 0.9  # of the language
    works: list[Work] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)  # and not freed

    def __call__(self, work: Work) -> Hypothesis:
        """What it makes of a piece of work."""
        update = work.update
        assert update is not None
        self.works.append(work)
        words = [word for word in read(work.segment.pcm) if word.text in WORDS or not self.careful]
        said, done = update.said, 0
        while said:
            ids = tokens_of(words[done].text) if done < len(words) else (-1,)
            assert said[: len(ids)] == ids, "what was said is not what is heard"
            said, done = said[len(ids) :], done + 1
        reason = self.reason(work)
        rest = [] if reason else words[done:]
        tokens = [tokens_of(word.text) for word in rest]
        timed = self.timed(work)
        return Hypothesis(
            work,
            (_passage(rest, timed=timed),) if rest else (),
            work.language or self.language,
            None if work.language else self.chance,
            reason,
            unsure=update.fixed if reason else None,
            tokens=tuple(token for ids in tokens for token in ids),
            counts=tuple(len(ids) for ids in tokens),
            kept=self._keep(update.kept, last=update.last),
        )

    def forget(self, kept: object) -> None:
        """Free what was kept. Fails if that has been done before."""
        assert isinstance(kept, Kept)
        self.kept.remove(kept)

    def _keep(self, before: object | None, *, last: bool) -> Kept | None:
        if before is not None:
            self.forget(before)
        if last:
            return None
        self.kept.append(Kept())
        return self.kept[-1]


def _passage(words: Sequence[Spoken], *, timed: bool) -> Passage:
    found = (Word(w.text, w.start, w.end) if timed else Word(w.text) for w in words)
    return Passage(words[0].start, words[-1].end, tuple(found), SCORES)


@dataclass
class Run:
    """A live stream, and what came of it."""

    live: Live
    reader: Reader
    events: list[Event] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0  # media time
    out: Work | None = None
    rest: Pcm = field(default_factory=lambda: np.zeros(0, np.float32))  # of a frame

    def feed(self, pcm: Pcm) -> None:
        """Audio goes in; its work is not done yet."""
        samples = np.concatenate([self.rest, pcm])
        self.rest = samples[len(samples) // FRAME * FRAME :]
        self.live.feed(pcm, chances(samples) if self.live.config.vad else ())
        self.end += len(pcm)

    def skip(self, gap: int) -> None:
        """The source has nothing for so many samples."""
        self.live.skip(self.end + gap)
        if gap:
            self.gaps.append((self.end, self.end + gap))
        self.end, self.rest = self.end + gap, self.rest[:0]

    def answer(self, turns: random.Random | None = None) -> None:
        """Do the work there is; with `turns`, as much of it as chance will have."""
        while self.out or self.take():
            if turns and turns.random() < 0.4:
                return
            assert self.out is not None
            hypothesis, self.out = self.reader(self.out), None
            self.live.accept(hypothesis)
            self.collect()

    def take(self) -> Work | None:
        """The next piece of work, which is out then."""
        self.out = self.live.work()
        self.collect()
        if self.out:
            assert self.out.update
            assert self.out.update.said == self.tokens(self.out.number)
        return self.out

    def collect(self) -> None:
        """Take what is new, and free what is released."""
        self.events += self.live.events()
        for kept in self.live.released():
            self.reader.forget(kept)

    def close(self) -> "Run":
        """The end: all that is left is done."""
        self.live.close()
        self.answer()
        assert self.live.is_done
        assert self.live.unheard == 0
        self.collect()
        self.events += self.live.finish()
        assert self.reader.kept == []
        return self

    @property
    def captions(self) -> list[Caption]:
        """All captions so far."""
        return [event for event in self.events if isinstance(event, Caption)]

    @property
    def words(self) -> list[str]:
        """All words that were said for good."""
        return [word.text for caption in self.captions for word in caption.words]

    def tokens(self, number: int) -> tuple[int, ...]:
        """Those of a segment's words that were said for good."""
        texts = [w.text for one in self.captions if one.segment == number for w in one.words]
        return tuple(token for text in texts for token in tokens_of(text))

    @property
    def segments(self) -> list[Segment]:
        """The audio of each segment as it was heard last."""
        return list({work.number: work.segment for work in self.reader.works}.values())


def played(
    parts: Sequence[tuple[Pcm, int]],
    config: LiveConfig,
    reader: Reader | None = None,
    *,
    sizes: Sequence[int] = (8000,),
    turns: random.Random | None = None,
) -> Run:
    """Feed audio in pieces, with a gap of so many samples after each part (-1: none); close."""
    run, turn = Run(Live(config), reader or Reader()), 0
    for pcm, gap in parts:
        at = 0
        while at < len(pcm):
            size, turn = sizes[turn % len(sizes)], turn + 1
            run.feed(pcm[at : at + size])
            at += size
            run.answer(turns)
        if gap >= 0:
            run.skip(gap)
            run.answer(turns)
    return run.close()
