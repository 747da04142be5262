"""A language that survives telephone lines and resampling: a word is a tone. And who hears it.

That of `live_models` has to come sample by sample; this one may come as real clients send it.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from live_models import SCORES, Reader, Spoken
from numpy.typing import NDArray
from torch import Tensor

from livecap.events import RATE, Word
from livecap.online.job import DecodeJob, Hypothesis, TextSpan
from livecap.online.speech_buffer import Pcm
from livecap.vad.endpointer import FRAME
from livecap.vad.silero import Silero, VadState

WORDS = (" One", " two", " three,", " Straße", " 界", " it's", " «so»", " and", " done.", " why?")
LOWEST, STEP = 400, 250  # Hz: of the first word, and from one to the next
PEAK = 0.25
LOUD = 0.05  # of a piece: there is something
PIECE = RATE // 100  # samples
LENGTH, PAUSE = 240, 120  # ms of a word, and after it
SHORTEST = 6  # pieces: less of a word is not understood

Samples = NDArray[np.int16]


def say(words: Sequence[int], *, before: int = 400, after: int = 1000, rate: int = RATE) -> Samples:
    """Words by their numbers, with so many ms of silence around them, as a client has them."""
    time = np.arange(LENGTH * rate // 1000) / rate
    quiet = np.zeros(PAUSE * rate // 1000)
    parts = [np.zeros(before * rate // 1000)]
    for word in words:
        parts += [PEAK * np.sin(2 * np.pi * (LOWEST + STEP * word) * time), quiet]
    parts.append(np.zeros(after * rate // 1000))
    return np.rint(np.concatenate(parts) * 32767).astype(np.int16)


def text(words: Sequence[int]) -> str:
    """What is to come of them."""
    return "".join(WORDS[word] for word in words).strip()


def some(seed: int, count: int = 5) -> list[int]:
    """Words at random."""
    return random.Random(seed).choices(range(len(WORDS)), k=count)


def read(pcm: Pcm) -> list[Spoken]:
    """What is said in audio. Times are samples, a hundredth of a second exact."""
    count = len(pcm) // PIECE
    loud = np.sqrt(np.square(pcm[: count * PIECE].reshape(count, PIECE)).mean(axis=1)) > LOUD
    edges = np.flatnonzero(np.diff(loud.astype(int), prepend=0, append=0))
    found = []
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if last - first >= SHORTEST:
            start, end = first * PIECE, last * PIECE
            found.append(Spoken(WORDS[_word(pcm[start:end])], start, end))
    return found


def _word(pcm: Pcm) -> int:
    spectrum = np.abs(np.fft.rfft(pcm * np.hanning(len(pcm)), n=RATE // 10))
    hertz = int(spectrum.argmax()) * 10
    return min(max(round((hertz - LOWEST) / STEP), 0), len(WORDS) - 1)


class Ears(Silero):
    """Hears speech in all that is loud."""

    def __init__(self) -> None:
        pass

    def open(self) -> VadState:
        """Nothing is kept but the rest of a frame."""
        return VadState(*(torch.zeros(0) for _ in range(4)))

    def probs(
        self, states: Sequence[VadState], pcm: Sequence[Tensor]
    ) -> list[tuple[Tensor, VadState]]:
        """Frames are judged apart."""
        results = []
        for state, new in zip(states, pcm, strict=True):
            samples = torch.cat([state.rest, new])
            whole = len(samples) // FRAME * FRAME
            peaks = samples[:whole].reshape(-1, FRAME).abs().amax(1)
            results.append(((peaks > LOUD) * 0.9, replace(state, rest=samples[whole:])))
        return results


@dataclass
class Listener(Reader):
    """Understands tones, in live streams and in recordings."""

    def __call__(self, job: DecodeJob) -> Hypothesis:
        """What it makes of a job."""
        words, prefix = read(job.segment.pcm), job.prefix
        decoded = [WORDS.index(word.text) for word in words]
        done = prefix.committed if prefix else ()
        assert tuple(decoded[: len(done)]) == done, "what was committed is not there"
        rest = words[len(done) :]
        state = prefix and self._keep(prefix.encoder_state, final=prefix.final)
        return Hypothesis(
            job,
            (_span(rest),) if rest else (),
            job.language or self.language,
            None if job.language else self.prob,
            conditioned=True,
            tokens=tuple(decoded[len(done) :]),
            token_counts=(1,) * len(rest),
            encoder_state=state,
        )


def _span(words: Sequence[Spoken]) -> TextSpan:
    found = tuple(Word(word.text, word.start, word.end, 0.9) for word in words)
    return TextSpan(words[0].start, words[-1].end, found, SCORES)
