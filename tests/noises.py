"""Sounds without speech, and what a room or a cheap microphone does to speech. 16 kHz, [sample]."""

from typing import Any

import numpy as np
from media import Signal
from numpy.typing import NDArray

RATE = 16_000

Wave = NDArray[np.float64]


def at_level(signal: NDArray[Any], decibels: float) -> Signal:
    """The same at this RMS level, relative to full scale."""
    root = np.sqrt(np.mean(np.square(signal, dtype=np.float64)))
    scaled: Signal = (signal * 10 ** (decibels / 20) / root).astype(np.float32)
    return scaled


def shaped(
    seconds: float, slope: float = 0.0, *, low: int = 20, high: int = 8000, seed: int = 0
) -> Wave:
    """Noise of a band, its power falling as frequency to the `slope`: 0 white, 1 pink, 2 brown."""
    count = round(seconds * RATE)
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(count))
    hertz = np.fft.rfftfreq(count, 1 / RATE)
    spectrum *= (hertz >= low) * (hertz <= high) * np.maximum(hertz, low) ** (-slope / 2)
    noise = np.fft.irfft(spectrum, count)
    wave: Wave = noise / noise.std()
    return wave


def fan(seconds: float, seed: int = 0) -> Wave:
    """Air, and the blades' tone in it."""
    time = np.arange(round(seconds * RATE)) / RATE
    return shaped(seconds, 1, high=2000, seed=seed) + 0.3 * np.sin(2 * np.pi * 120 * time)


def keyboard(seconds: float, seed: int = 0) -> Wave:
    """Somebody types: two clicks a key, some five keys a second. Peak 1."""
    chance = np.random.default_rng(seed)
    wave = np.zeros(round((seconds + 1) * RATE))
    now = 0.2
    while now < seconds:
        for late, size, decay in ((0.0, 1.0, 0.006), (0.08, 0.4, 0.015)):
            time = np.arange(round(6 * decay * RATE)) / RATE
            click = size * chance.standard_normal(len(time)) * np.exp(-time / decay)
            first = round((now + late) * RATE)
            wave[first : first + len(click)] += click
        now += chance.uniform(0.09, 0.35)
    wave = wave[: round(seconds * RATE)]
    typed: Wave = wave / np.abs(wave).max()
    return typed


def breath(seconds: float, seed: int = 0) -> Wave:
    """Bursts of air of half a second to a second, every few seconds."""
    chance = np.random.default_rng(seed)
    envelope = np.zeros(round((seconds + 2) * RATE))
    now = 0.5
    while now < seconds - 1:
        burst = np.hanning(round(chance.uniform(0.4, 1.2) * RATE))
        first = round(now * RATE)
        envelope[first : first + len(burst)] = burst
        now += chance.uniform(1.5, 4.0)
    air = shaped(seconds, 1, low=200, high=5000, seed=seed + 1)
    return air * envelope[: len(air)]


def hum(seconds: float, hertz: float = 50.0) -> Wave:
    """Mains, with its harmonics."""
    time = np.arange(round(seconds * RATE)) / RATE
    waves = [np.sin(2 * np.pi * hertz * n * time + n) / n for n in range(1, 8)]
    return np.sum(waves, axis=0)  # type: ignore[no-any-return]


def dither(seconds: float, seed: int = 0) -> Signal:
    """What a converter of 16 bits gives when nothing is plugged in."""
    steps = np.random.default_rng(seed).integers(-1, 2, round(seconds * RATE))
    return (steps / 32768).astype(np.float32)


def music(seconds: float, seed: int = 0) -> Wave:
    """Plucked chords."""
    chance = np.random.default_rng(seed)
    wave = np.zeros(round((seconds + 2) * RATE))
    time = np.arange(round(1.2 * RATE)) / RATE
    now = 0.0
    while now < seconds:
        for step in chance.choice([0, 2, 4, 5, 7, 9, 11, 12, 16, 19], 3):
            hertz = 220 * 2 ** (step / 12)
            parts = [np.sin(2 * np.pi * hertz * n * time) / n**1.5 for n in range(1, 6)]
            first = round(now * RATE)
            wave[first : first + len(time)] += np.sum(parts, axis=0) * np.exp(-3 * time)
        now += float(chance.choice([0.25, 0.5]))
    return wave[: round(seconds * RATE)]


def song(seconds: float, seed: int = 0) -> Wave:
    """Held chords, a melody with vibrato over them, and drums: 120 beats a minute."""
    chance = np.random.default_rng(seed)
    beat, wave = 0.5, np.zeros(round((seconds + 3) * RATE))

    def put(at: float, sound: Wave) -> None:
        first = round(at * RATE)
        wave[first : first + len(sound)] += sound

    def note(hertz: float, length: float, gain: float, *, decay: float, vibrato: float) -> Wave:
        time = np.arange(round(length * RATE)) / RATE
        phase = 2 * np.pi * hertz * time + vibrato * np.sin(2 * np.pi * 5.5 * time)
        edges = np.minimum(time / 0.03, 1) * np.minimum((length - time) / 0.05, 1)
        parts = [np.sin(n * phase) / n**1.4 for n in range(1, 7)]
        played: Wave = gain * edges * np.exp(-decay * time) * np.sum(parts, axis=0)
        return played

    time = np.arange(round(0.15 * RATE)) / RATE
    for number in range(int(seconds / beat)):
        now = number * beat
        chord = ((0, 4, 7), (9, 12, 16), (5, 9, 12), (7, 11, 14))[number // 4 % 4]
        if number % 4 == 0:
            for step in chord:
                put(now, note(130.8 * 2 ** (step / 12), 4 * beat, 0.4, decay=0.3, vibrato=0))
        for half in (0, beat / 2):
            if chance.random() < 0.8:
                step = chord[chance.integers(3)] + chance.choice([0, 0, 2])
                length = beat / 2 * float(chance.choice([1, 2]))
                put(now + half, note(392 * 2 ** (step / 12), length, 0.7, decay=1, vibrato=0.3))
            hat = np.diff(chance.standard_normal(801)) * np.exp(-80 * time[:800])
            put(now + half, 0.3 * hat)
        kick = 2 * np.sin(2 * np.pi * (50 * time - np.exp(-30 * time))) * np.exp(-20 * time)
        snare = chance.standard_normal(len(time)) * np.exp(-25 * time)
        put(now, kick if number % 2 == 0 else snare)
    return wave[: round(seconds * RATE)]


def far_away(signal: Signal, *, echo: float = 0.4, seed: int = 0) -> Signal:
    """Speech from the other end of a room whose echo takes so many seconds to fall by 60 dB."""
    time = np.arange(round(echo * RATE)) / RATE
    room = np.random.default_rng(seed).standard_normal(len(time)) * np.exp(-6.9 * time / echo)
    room[0] = 3.0  # what comes straight
    count = len(signal) + len(room)
    wet = np.fft.irfft(np.fft.rfft(signal, count) * np.fft.rfft(room, count), count)
    return at_level(wet[: len(signal) + RATE // 4], -25)
