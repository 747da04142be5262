"""Synthesised speech for training: many voices, speeds, pitches, levels, noises, pauses, lengths.

Now and then nobody speaks.

Utterance n of a seed is the same however many are made. Training and held-out speech differ in
voices, and in sentences: no sentence of more than two words of the one is in the other.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Literal

import numpy as np

from towers.train.espeak import Espeak, EspeakVoice
from towers.train.manifest import RATE, Pcm, Utterance, write_audio, write_manifest
from towers.train.sentences import sentence

ACCENTS = ("en-us", "en", "en-gb-x-rp", "en-gb-scotland", "en-029", "en-us-nyc")
VARIANTS = (
    "m1", "m2", "m3", "m4", "m6", "m7", "f1", "f2", "f3", "f5", "adam", "Alicia", "Andrea", "Annie",
    "david", "Denis", "ed", "Gene", "Hugo", "john", "Lee", "linda", "Michael", "Mike", "paul",
    "rob", "steph", "victor",
)  # fmt: skip
UNHEARD = ("m5", "f4", "Alex", "belinda")  # variants of held-out speech
PAUSES = 0.1, 1.2  # seconds between two sentences
EDGES = 0.05, 0.6  # seconds of silence before and after
HELD_OUT = 8  # one sentence of so many is kept from training
QUIETEST, LOUDEST = -30.0, -3.0  # dB of full scale, the peak
NOISE = 8.0, 45.0  # dB by which speech is louder
SILENCE = -75.0, -20.0  # dB of full scale, where nobody speaks
LONGEST_SILENCE = 12.0  # seconds
HUM = 50.0, 400.0  # Hz

Split = Literal["train", "test"]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Seconds of the utterances, and in how many of them nobody speaks."""

    shortest: float = 1.0
    longest: float = 12.0
    silent: float = 0.05  # of all


def synthesise(
    folder: Path, *, seconds: float, split: Split, seed: int, lengths: Lengths = Lengths()
) -> list[Utterance]:
    """WAV files and `manifest.jsonl` in a new or empty folder, of at least so many seconds.

    Raises Unspoken if espeak-ng isn't there, and FileExistsError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} isn't empty. Name another, or remove it.")
    # What espeak-ng says depends a little on what it has said before, so it begins anew.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_made, folder, seconds, split, seed, lengths).result()


def _made(
    folder: Path, seconds: float, split: Split, seed: int, lengths: Lengths
) -> list[Utterance]:
    espeak = Espeak()
    made, done = list[Utterance](), 0.0
    while done < seconds:
        random = Random(f"{seed} {split} {len(made)}")
        if Random(f"{seed} {split} {len(made)} silent").random() < lengths.silent:
            pcm, spoken_words = silence(random, lengths), list[Said]()
        else:
            pcm, spoken_words = utterance(espeak, random, split, lengths)
        path = folder / f"{len(made):06}.wav"
        write_audio(path, pcm)
        text = " ".join(sentence for sentence, _ in spoken_words)
        words = tuple(word for _, words in spoken_words for word in words)
        made.append(Utterance(path, text, words=words))
        done += len(pcm) / RATE
    write_manifest(folder / "manifest.jsonl", made)
    return made


Said = tuple[str, tuple[tuple[str, float, float], ...]]  # a sentence, and its words with times


def utterance(
    espeak: Espeak, random: Random, split: Split, lengths: Lengths
) -> tuple[Pcm, list[Said]]:
    """One voice, one or more sentences."""
    voice = _voice(random, split)
    wanted = random.uniform(lengths.shortest, lengths.longest)
    pieces, spoken_words = [_silence(random, EDGES)], list[Said]()
    at = len(pieces[0])
    while True:
        text = next(one for one in _sentences(random) if _belongs(one, split))
        pcm, words = espeak.say(text, voice)
        if spoken_words and (at + len(pcm)) / RATE > wanted:
            break
        spoken_words.append((text, tuple((w, a + at / RATE, b + at / RATE) for w, a, b in words)))
        pieces += [pcm, _silence(random, PAUSES)]
        at += len(pcm) + len(pieces[-1])
        if at / RATE > wanted:
            break
    pieces[-1] = _silence(random, EDGES)
    return _recorded(np.concatenate(pieces), random), spoken_words


def silence(random: Random, lengths: Lengths) -> Pcm:
    """Nothing at all, a hum, or the noise of a room."""
    longest = max(min(lengths.longest, LONGEST_SILENCE), lengths.shortest)
    seconds = random.uniform(lengths.shortest, longest)
    times = np.arange(int(seconds * RATE)) / RATE
    kind = random.choice(("nothing", "hum", "noise", "noise"))
    if kind == "nothing":
        return np.zeros(len(times), np.float32)
    if kind == "hum":
        sound = np.sin(times * random.uniform(*HUM) * 2 * np.pi).astype(np.float32)
    else:
        generator = np.random.default_rng(random.getrandbits(32))
        sound = _noise(generator, random.uniform(0.0, 1.0), len(times))
    return sound * np.float32(10 ** (random.uniform(*SILENCE) / 20))


def _belongs(text: str, split: Split) -> bool:
    """Whether a sentence may be said there; those of one and two words are said everywhere."""
    is_held_out = sha256(text.encode()).digest()[0] % HELD_OUT == 0
    return len(text.split()) <= 2 or is_held_out == (split == "test")


def _sentences(random: Random) -> Iterator[str]:
    while True:
        yield sentence(random)


def _voice(random: Random, split: Split) -> EspeakVoice:
    variant = random.choice(UNHEARD if split == "test" else VARIANTS)
    name = f"{random.choice(ACCENTS)}+{variant}"
    return EspeakVoice(
        name, random.randint(120, 210), random.randint(25, 75), random.randint(20, 80)
    )


def _silence(random: Random, between: tuple[float, float]) -> Pcm:
    return np.zeros(int(random.uniform(*between) * RATE), np.float32)


def _recorded(pcm: Pcm, random: Random) -> Pcm:
    """As a microphone would hear it: at some level, in some noise."""
    generator = np.random.default_rng(random.getrandbits(32))
    level = 10 ** (random.uniform(QUIETEST, LOUDEST) / 20)
    clean = pcm * (level / max(float(np.abs(pcm).max()), 1e-6))
    loudness = float(np.sqrt(np.mean(clean[np.abs(clean) > level / 100] ** 2)))
    noise = _noise(generator, random.uniform(0.0, 1.0), len(pcm))
    recorded: Pcm = clean + noise * np.float32(loudness / 10 ** (random.uniform(*NOISE) / 20))
    return recorded


def _noise(generator: np.random.Generator, slope: float, samples: int) -> Pcm:
    """From white (0) to pink (1), of loudness 1."""
    spectrum = np.fft.rfft(generator.normal(size=samples))
    spectrum /= np.maximum(np.arange(len(spectrum)), 20.0) ** (slope / 2)
    noise: Pcm = np.fft.irfft(spectrum, samples).astype(np.float32)
    return noise / np.float32(np.sqrt(np.mean(noise**2)))
