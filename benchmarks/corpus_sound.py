"""What the corpus' speech is heard with: levels, noise, music and rooms. Pure; all from a seed."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from livecap.events import RATE

Pcm = NDArray[np.float32]
Samples = NDArray[np.float64]
Generator = np.random.Generator
Make = Callable[[int, Generator], Pcm]  # so many samples of a noise

FRAME = RATE // 50  # samples
AUDIBLE = 0.01  # of the loudest frame (-40 dB): what is quieter is a pause
SCALE = (0, 2, 4, 7, 9)  # semitones: pentatonic
CHORDS = ((0, 4, 7), (9, 12, 16), (5, 9, 12), (7, 11, 14))  # semitones: I vi IV V
OVERTONES = 6
LOWEST = 110.0  # Hz


def power(pcm: Pcm) -> float:
    """Mean square of what is audible, pauses left out; 0 for silence."""
    count = len(pcm) // FRAME
    frames = np.square(pcm[: count * FRAME].astype(np.float64)).reshape(count, FRAME).mean(axis=1)
    loud = frames[frames > AUDIBLE**2 * frames.max(initial=0.0)]
    return float(loud.mean()) if len(loud) else 0.0


def levelled(pcm: Pcm, level: float) -> Pcm:
    """So loud: dBFS of what is audible."""
    own = power(pcm)
    gain = 10 ** (level / 20) / math.sqrt(own) if own else 1.0
    return (pcm * gain).astype(np.float32)


def mixed(speech: Pcm, noise: Pcm, snr: float) -> Pcm:
    """Speech over a noise that is so many dB quieter."""
    mean = float(np.square(noise, dtype=np.float64).mean())
    gain = math.sqrt(power(speech) / mean / 10 ** (snr / 10))
    return (speech + gain * noise).astype(np.float32)


def white(samples: int, generator: Generator) -> Pcm:
    """The same power at every frequency."""
    return generator.normal(0, 1, samples).astype(np.float32)


def pink(samples: int, generator: Generator) -> Pcm:
    """The same power in every octave above 20 Hz."""
    spectrum = np.fft.rfft(generator.normal(0, 1, samples))
    frequencies = np.fft.rfftfreq(samples, 1 / RATE)
    return np.fft.irfft(spectrum / np.sqrt(np.maximum(frequencies, 20.0)), samples).astype(
        np.float32
    )


def babble(samples: int, talkers: Sequence[Pcm], generator: Generator) -> Pcm:
    """All of them at once, each over and over from somewhere on, equally loud."""
    sum_ = np.zeros(samples, np.float32)
    for pcm in talkers:
        start = int(generator.integers(len(pcm)))
        sum_ += np.resize(np.roll(levelled(pcm, 0.0), -start), samples)
    return sum_


def reverberant(pcm: Pcm, rt60: float, direct: float, generator: Generator) -> Pcm:
    """In a room: the direct sound, and noise, so many dB weaker, that decays 60 dB in rt60 s."""
    times = np.arange(round(rt60 * RATE)) / RATE
    tail = generator.normal(0, 1, len(times)) * 10 ** (-3 * times / rt60)
    tail[: RATE // 400] = 0  # nothing comes back within 2.5 ms
    tail *= 10 ** (-direct / 20) / np.sqrt(np.square(tail).sum())
    tail[0] = 1.0
    length = len(pcm) + len(tail) - 1
    size = 1 << (length - 1).bit_length()
    found = np.fft.irfft(np.fft.rfft(pcm, size) * np.fft.rfft(tail, size), size)
    return found[:length].astype(np.float32)


def music(samples: int, generator: Generator) -> Pcm:
    """Chords, a bass, a melody and drums, in a tempo and key of their own."""
    beat = round(60 / generator.uniform(76, 128) * RATE)  # samples
    key = LOWEST * 2 ** (generator.integers(12) / 12)  # Hz
    found = np.zeros(samples + 8 * beat, np.float64)
    degree = 2
    for number, at in enumerate(range(0, samples, beat)):
        chord = CHORDS[number // 4 % len(CHORDS)]
        if number % 4 == 0:
            for tone in chord:
                _add(found, at, 0.25 * _tone(2 * key * _pitch(tone), 4 * beat, decay=1.2))
        if number % 2 == 0:
            _add(found, at, 0.5 * _tone(key / 2 * _pitch(chord[0]), 2 * beat, decay=0.6))
            _add(found, at, 0.9 * _kick())
        else:
            _add(found, at, 0.3 * _hiss(0.12, generator))
        for half in (0, beat // 2):
            _add(found, at + half, 0.12 * _hiss(0.03, generator))
            if generator.random() < 0.6:
                degree = int(np.clip(degree + generator.integers(-2, 3), 0, 2 * len(SCALE) - 1))
                step = SCALE[degree % len(SCALE)] + 12 * (degree // len(SCALE))
                _add(found, at + half, 0.3 * _tone(4 * key * _pitch(step), beat, decay=0.4))
    return found[:samples].astype(np.float32)


def _pitch(semitones: int) -> float:
    return float(2 ** (semitones / 12))


def _add(into: Samples, at: int, sound: Samples) -> None:
    into[at : at + len(sound)] += sound[: len(into) - at]


def _tone(frequency: float, samples: int, *, decay: float) -> Samples:
    """A plucked string, about: overtones that fade the sooner, the higher they are."""
    times = np.arange(samples) / RATE
    found = np.zeros(samples)
    for number in range(1, OVERTONES + 1):
        if number * frequency < RATE / 2:
            fade = np.exp(-times * number**0.5 / decay)
            found += np.sin(2 * np.pi * number * frequency * times) * fade / number
    return found * np.minimum(times / 0.005, 1.0)  # begins within 5 ms


def _kick() -> Samples:
    times = np.arange(RATE // 4) / RATE
    return np.asarray(
        np.sin(2 * np.pi * (50 * times + 2 * (1 - np.exp(-30 * times)))) * np.exp(-times / 0.08)
    )


def _hiss(seconds: float, generator: Generator) -> Samples:
    times = np.arange(round(3 * seconds * RATE)) / RATE
    noise = np.diff(generator.normal(0, 1, len(times)), prepend=0.0)  # high frequencies
    return np.asarray(noise * np.exp(-times / seconds))
