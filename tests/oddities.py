"""Inputs as odd as people's: what each is, and what has to come of it.

Row numbers are those of the list of real-world oddities among the guarantees. What can't be made
here: singing (35); speech in GSM or wide-band AMR (11, 13), which nothing at hand encodes, so that
they come as silence; two languages in one file (38), since the embedded model knows English alone:
here it meets another one, and has to give text or say that it has none. The 25 MB of Opus and the
four hours (40) come small, with the same traits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from command import clip, jfk
from media import Signal
from noises import RATE, at_level, shaped

FOX = "the quick brown fox jumps over the lazy dog"


@dataclass(frozen=True)
class Says:
    """The text: these words and no others, but for case and punctuation."""

    words: str


@dataclass(frozen=True)
class Has:
    """The text: these words among others, in this order."""

    words: str


@dataclass(frozen=True)
class Fails:
    """An error of this code with its remedy, and this exit status."""

    code: str
    status: int = 1


Result = Says | Has | Fails
NOTHING = Says("")
ANYTHING = Has("")  # some text, or a word on why there is none


@dataclass(frozen=True)
class Case:
    """One odd input."""

    row: int  # of the list of oddities; 0: not in it
    make: Callable[[], bytes]
    result: Result = Says(FOX)
    name: str = "talk.wav"
    flags: tuple[str, ...] = ()
    starts: float | None = None  # seconds: where the first caption has to begin
    piped: bool = False  # through standard input
    said: str = ""  # what standard error has to mention
    pending: str = ""  # why it can't be right yet


# -- what is said ------------------------------------------------------------------------------


@cache
def fox() -> Signal:
    """One sentence of 2.9 s that fills its file, [sample] at 16 kHz."""
    return clip("quick_brown_fox")


@cache
def speech() -> Signal:
    """A real recording of 11 s, [sample] at 16 kHz."""
    return jfk()


@cache
def word() -> Signal:
    """'Country', as that recording ends with it."""
    return speech()[round(9.95 * RATE) :]


@cache
def fox_at(rate: int) -> Signal:
    """The sentence at another rate, without any sound beyond what both rates can hold."""
    pad = np.zeros(RATE // 10, np.float32)  # it is cyclic
    whole = np.concatenate([fox(), pad])
    count = round(len(whole) * rate / RATE)
    spectrum = np.fft.rfft(whole)
    other = np.zeros(count // 2 + 1, complex)
    shared = min(len(spectrum), len(other))
    other[:shared] = spectrum[:shared]
    signal = np.fft.irfft(other, count) * rate / RATE
    return signal[: round(len(fox()) * rate / RATE)].astype(np.float32)


# -- where it is said --------------------------------------------------------------------------


def quiet(seconds: float) -> Signal:
    """Digital silence."""
    return np.zeros(round(seconds * RATE), np.float32)


def between(before: float, signal: Signal, after: float = 0.0) -> Signal:
    """The signal with so many seconds of silence around it."""
    return np.concatenate([quiet(before), signal, quiet(after)])


def in_room(signal: Signal, decibels: float = -60.0) -> Signal:
    """The signal in a room that is never quite silent."""
    tone = at_level(shaped(len(signal) / RATE + 0.1, 1, seed=3), decibels)
    return signal + tone[: len(signal)]


def filling(samples: int) -> Signal:
    """So many samples: the recording at their start, the sentence at their very end."""
    signal = np.zeros(samples, np.float32)
    signal[: len(speech())] = speech()
    signal[-len(fox()) :] = fox()
    return signal
