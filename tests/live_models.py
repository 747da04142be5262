"""A language that needs no model: audio whose words can be read off its samples, and who reads it.

A word is a burst, its number the amplitude: the first half positive, the second negative, of equal
length. So one that is not all there is seen not to be, and is misheard or missed.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from livecap.config import VadConfig
from livecap.events import RATE, Caption, Event, Scores, Word
from livecap.online.config import StreamConfig
from livecap.online.job import DecodeJob, Hypothesis, TextSpan
from livecap.online.speech_buffer import Pcm, Segment, is_audible
from livecap.online.stream import OnlineStream
from livecap.vad.endpointer import FRAME

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


def probs(pcm: Pcm) -> list[float]:
    """Speech probabilities of the whole frames in it: whether there is anything."""
    count = len(pcm) // FRAME
    peaks = np.abs(pcm[: count * FRAME].reshape(count, FRAME)).max(axis=1, initial=0.0)
    return [0.9 if peak else 0.0 for peak in peaks.tolist()]


class Kept:
    """What stands for the memory of a segment's beginning."""


@dataclass
class Reader:
    """Reads works. What it keeps from update to update is freed once and only once."""

    timed: Callable[[DecodeJob], bool] = lambda job: True
    reason: Callable[[DecodeJob], str | None] = lambda job: None  # not to believe what it reads
    careful: bool = False  # says no word that is not there whole
    conditioned: bool = True  # goes on from the text that is committed
    language: str = "en"
    prob: float = 0.9  # of the language
    jobs: list[DecodeJob] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)  # and not freed

    def __call__(self, job: DecodeJob) -> Hypothesis:
        """What it makes of a job."""
        prefix = job.prefix
        assert prefix is not None
        self.jobs.append(job)
        words = [word for word in read(job.segment.pcm) if word.text in WORDS or not self.careful]
        said, done = prefix.committed if self.conditioned else (), 0
        while said:
            ids = tokens_of(words[done].text) if done < len(words) else (-1,)
            assert said[: len(ids)] == ids, "what was committed is not there"
            said, done = said[len(ids) :], done + 1
        reason = self.reason(job)
        rest = [] if reason else words[done:]
        tokens = [tokens_of(word.text) for word in rest]
        timed = self.timed(job)
        return Hypothesis(
            job,
            (_span(rest, timed=timed),) if rest else (),
            job.language or self.language,
            None if job.language else self.prob,
            reason,
            untranscribed_from=prefix.committed_until if reason else None,
            conditioned=self.conditioned,
            tokens=tuple(token for ids in tokens for token in ids),
            token_counts=tuple(len(ids) for ids in tokens),
            encoder_state=self._keep(prefix.encoder_state, final=prefix.final),
        )

    def free(self, kept: object) -> None:
        """Free what was kept. Fails if that has been done before."""
        assert isinstance(kept, Kept)
        self.kept.remove(kept)

    def _keep(self, before: object | None, *, final: bool) -> Kept | None:
        if before is not None:
            self.free(before)
        if final or not self.conditioned:
            return None
        self.kept.append(Kept())
        return self.kept[-1]


def _span(words: Sequence[Spoken], *, timed: bool) -> TextSpan:
    found = (Word(w.text, w.start, w.end) if timed else Word(w.text) for w in words)
    return TextSpan(words[0].start, words[-1].end, tuple(found), SCORES)


@dataclass
class Run:
    """A live stream, and what came of it."""

    stream: OnlineStream
    reader: Reader
    events: list[Event] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0  # media time
    out: DecodeJob | None = None
    rest: Pcm = field(default_factory=lambda: np.zeros(0, np.float32))  # of a frame
    segments: list[Segment] = field(default_factory=list)  # that have ended

    def __post_init__(self) -> None:
        decoding = self.stream._decoding
        end = decoding.end

        def record(segment: Segment, now: int, *, paused: bool) -> None:
            if decoding.processed or is_audible(segment.pcm):
                self.segments.append(segment)
            end(segment, now, paused=paused)

        decoding.end = record  # type: ignore[method-assign]

    def push(self, pcm: Pcm) -> None:
        """Audio goes in; its jobs are not done yet."""
        samples = np.concatenate([self.rest, pcm])
        self.rest = samples[len(samples) // FRAME * FRAME :]
        self.stream.push(pcm, probs(samples) if self.stream.config.vad else ())
        self.end += len(pcm)

    def skip(self, gap: int) -> None:
        """The source has nothing for so many samples."""
        self.stream.skip(self.end + gap)
        if gap:
            self.gaps.append((self.end, self.end + gap))
        self.end, self.rest = self.end + gap, self.rest[:0]

    def answer(self, turns: random.Random | None = None) -> None:
        """Do the jobs there are; with `turns`, as many of them as chance will have."""
        while self.out or self.poll():
            if turns and turns.random() < 0.4:
                return
            assert self.out is not None
            hypothesis, self.out = self.reader(self.out), None
            self.stream.accept(hypothesis)
            self.collect()

    def poll(self) -> DecodeJob | None:
        """The next job, which is under way then."""
        self.out = self.stream.poll()
        self.collect()
        if self.out and self.reader.conditioned:
            assert self.out.prefix
            assert self.out.prefix.committed == self.tokens(self.out.number)
        return self.out

    def collect(self) -> None:
        """Take what is new, and free what is no longer needed."""
        self.events += self.stream.events()
        for state in self.stream.freed():
            self.reader.free(state)

    def close(self) -> "Run":
        """The end: all that is left is done."""
        self.stream.finish()
        self.answer()
        assert self.stream.is_done
        assert self.stream.backlog == 0
        self.collect()
        self.events += self.stream.close()
        assert self.reader.kept == []
        return self

    @property
    def captions(self) -> list[Caption]:
        """All captions so far."""
        return [event for event in self.events if isinstance(event, Caption)]

    @property
    def words(self) -> list[str]:
        """All words that were committed."""
        return [word.text for caption in self.captions for word in caption.words]

    def tokens(self, number: int) -> tuple[int, ...]:
        """Those of a segment's words that were committed."""
        texts = [w.text for one in self.captions if one.segment == number for w in one.words]
        return tuple(token for text in texts for token in tokens_of(text))


def changed(
    config: StreamConfig, *, vad: VadConfig | Literal["same"] | None = "same", **changes: Any
) -> StreamConfig:
    """A stream's configuration with other fields, its updates' included."""
    assert config.updates is not None
    own = {name: value for name, value in changes.items() if hasattr(config, name)}
    others = {name: value for name, value in changes.items() if name not in own}
    if vad != "same":
        own["vad"] = vad
    return replace(config, **own, updates=replace(config.updates, **others))


def played(
    parts: Sequence[tuple[Pcm, int]],
    config: StreamConfig,
    reader: Reader | None = None,
    *,
    sizes: Sequence[int] = (8000,),
    turns: random.Random | None = None,
) -> Run:
    """Push audio in pieces, with a gap of so many samples after each part (-1: none); close."""
    run, turn = Run(OnlineStream(config), reader or Reader()), 0
    for pcm, gap in parts:
        at = 0
        while at < len(pcm):
            size, turn = sizes[turn % len(sizes)], turn + 1
            run.push(pcm[at : at + size])
            at += size
            run.answer(turns)
        if gap >= 0:
            run.skip(gap)
            run.answer(turns)
    return run.close()
