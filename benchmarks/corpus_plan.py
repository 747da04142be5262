"""Who reads what in which recording of the corpus, with which pauses, and heard through what. Pure.

All that is drawn comes from one seed for each part, so a plan is the same on every machine that has
the same texts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, get_args

import numpy as np
from corpus_text import Texts
from corpus_voices import VOICES, Part, Voice

Kind = Literal["clean", "hesitant", "noisy", "music", "room", "dialogue", "talk"]
Noise = Literal["white", "pink", "babble", "music"]
Generator = np.random.Generator

KINDS: tuple[Kind, ...] = get_args(Kind)
LENGTHS = 50.0, 78.0  # seconds that a recording is planned for; it becomes 40 to 90
LEVELS = -23.0, -38.0  # dBFS of the speech: of a broadcast (EBU R 128), and of somebody far away
SEEDS: dict[Part, int] = {"tune": 1, "report": 2}
PARTS: dict[Part, float] = {"tune": 1 / 3, "report": 2 / 3}  # of all hours
FILLERS = "um", "uh"
# dB of speech over the loudest of a noise, with which file mode of tiny.en still hears most words
LOUDEST: dict[Noise, float] = {"white": 10.0, "pink": 5.0, "babble": 9.0}


@dataclass(frozen=True, slots=True)
class Habit:
    """How somebody of a kind speaks. Pauses are seconds, shares are of the gaps between words."""

    share: float  # of the part
    between: tuple[float, float]  # sentences
    hesitates: float
    pauses: tuple[float, float]
    fills: float  # hesitations with an "um" or "uh"


HABITS: dict[Kind, Habit] = {
    "clean": Habit(0.15, (0.3, 0.9), 0.0, (0.2, 0.3), 0.0),
    "hesitant": Habit(0.20, (0.4, 2.5), 0.13, (0.2, 3.0), 0.25),
    "noisy": Habit(0.17, (0.3, 1.0), 0.03, (0.2, 1.0), 0.0),
    "music": Habit(0.10, (0.3, 1.0), 0.03, (0.2, 1.0), 0.0),
    "room": Habit(0.13, (0.3, 1.0), 0.03, (0.2, 1.0), 0.0),
    "dialogue": Habit(0.12, (0.05, 0.4), 0.02, (0.2, 0.8), 0.1),
    "talk": Habit(0.13, (0.3, 1.5), 0.06, (0.2, 1.5), 0.3),
}


@dataclass(frozen=True, slots=True)
class Piece:
    """Words that are synthesised in one go."""

    voice: Voice
    text: str
    after: float  # seconds of pause


@dataclass(frozen=True, slots=True)
class Heard:
    """What the speech comes through."""

    level: float  # dBFS
    noise: Noise | None = None
    snr: float | None = None  # dB
    rt60: float | None = None  # seconds of reverberation
    direct: float | None = None  # dB of the direct sound over it


@dataclass(frozen=True, slots=True)
class Plan:
    """One recording."""

    name: str
    part: Part
    kind: Kind
    pieces: tuple[Piece, ...]
    reference: str
    hesitations: int
    speed: float  # of the voices, 1: their own
    heard: Heard
    seed: int


def plans(part: Part, texts: Texts, hours: float) -> list[Plan]:
    """All recordings of a part, kind by kind, of so many hours of the whole corpus."""
    generator = np.random.default_rng(SEEDS[part])
    reader = _Reader(part, texts, generator)
    seconds = 3600 * hours * PARTS[part]
    found: list[Plan] = []
    for kind in KINDS:
        left, number = seconds * HABITS[kind].share, 0
        while left > 0:
            length = float(generator.uniform(*LENGTHS))
            name = f"{part}-{kind}-{number:02d}"
            one, took = reader.recording(name, kind, length)
            found.append(replace(one, seed=1000 * SEEDS[part] + len(found)))
            left, number = left - took, number + 1
    return found


class _Reader:
    """Deals out a part's voices and texts; each text once."""

    def __init__(self, part: Part, texts: Texts, generator: Generator) -> None:
        self._part: Part = part
        self._generator = generator
        self._voices = [voice for voice in VOICES if voice.part == part]
        self._read = dict.fromkeys(self._voices, 0.0)  # seconds so far
        prose = [texts.prose[n] for n in generator.permutation(len(texts.prose))]
        turns = [texts.turns[n] for n in generator.permutation(len(texts.turns))]
        self._prose: Iterator[str] = chain.from_iterable(prose)
        self._talk: Iterator[str] = chain.from_iterable(texts.talk)
        self._turns: Iterator[str] = chain(chain.from_iterable(texts.film), turns)

    def recording(self, name: str, kind: Kind, length: float) -> tuple[Plan, float]:
        """About so many seconds of a kind, and how many they'll be."""
        voices = self._choose(2 if kind == "dialogue" else 1, length)
        speed = float(self._generator.uniform(0.92, 1.1))
        pieces, said, hesitations, took, turn = list[Piece](), list[str](), 0, 0.0, 0
        while took < length:
            sentence = self._next(kind)
            some = list(self._spoken(sentence, voices[turn % len(voices)], HABITS[kind]))
            said.append(" ".join(piece.text.removesuffix(",") for piece in some[:-1]))
            said[-1] = f"{said[-1]} {some[-1].text}".strip()
            hesitations += len(some) - 1
            took += sum(len(one.text) / one.voice.pace / speed + one.after for one in some)
            pieces, turn = pieces + some, turn + 1
        heard = self._heard(kind)
        plan = Plan(
            name, self._part, kind, tuple(pieces), " ".join(said), hesitations, speed, heard, 0
        )
        return plan, took

    def _choose(self, count: int, length: float) -> list[Voice]:
        """Those that have read least of their share; a dialogue's differ in who they are."""
        found: list[Voice] = []
        for _ in range(count):
            others = [v for v in self._voices if v.speaker not in {one.speaker for one in found}]
            found.append(min(others, key=lambda voice: self._read[voice] / voice.share))
            self._read[found[-1]] += length / count
        return found

    def _next(self, kind: Kind) -> str:
        own = {"talk": self._talk, "dialogue": self._turns}.get(kind, self._prose)
        for sentence in chain(own, self._prose):
            return sentence
        raise ValueError("there are not enough texts for so many hours")

    def _spoken(self, sentence: str, voice: Voice, habit: Habit) -> Iterator[Piece]:
        """A sentence, cut where the speaker hesitates.

        Never after one word, nor after an article: read alone, they sound like others.
        """
        words, start = sentence.split(), 0
        for at in range(2, len(words) - 1):
            is_cut = self._generator.random() < habit.hesitates
            if is_cut and at - start > 1 and words[at - 1].casefold() not in {"a", "an", "the"}:
                text = " ".join(words[start:at]).removesuffix(",")
                if self._generator.random() < habit.fills:
                    text += f", {FILLERS[self._generator.integers(len(FILLERS))]}"
                yield Piece(voice, f"{text},", self._pause(habit.pauses))
                start = at
        after = float(self._generator.uniform(*habit.between))
        yield Piece(voice, " ".join(words[start:]), after)

    def _pause(self, range_: tuple[float, float]) -> float:
        """Short ones are more frequent."""
        low, high = np.log(range_)
        return float(np.exp(self._generator.uniform(low, high)))

    def _heard(self, kind: Kind) -> Heard:
        generator = self._generator
        level = LEVELS[int(generator.random() < 0.3)]
        rt60 = float(generator.uniform(0.3, 0.8))
        match kind:
            case "noisy":
                noise = _one_of(("white", "pink", "babble"), generator)
                return Heard(level, noise, float(generator.uniform(LOUDEST[noise], 20)))
            case "music":
                return Heard(level, "music", float(generator.uniform(5, 15)))
            case "room":
                return Heard(level, rt60=rt60, direct=float(generator.uniform(-3, 6)))
            case "dialogue":
                noise = _one_of(("pink", "babble", "music"), generator)
                snr, direct = float(generator.uniform(10, 18)), float(generator.uniform(1, 7))
                return Heard(level, noise, snr, min(rt60, 0.6), direct)
            case "talk":
                return Heard(level, "pink", float(generator.uniform(20, 35)), 0.3, 8.0)
        return Heard(level)


def _one_of(noises: Sequence[Noise], generator: Generator) -> Noise:
    return noises[int(generator.integers(len(noises)))]
