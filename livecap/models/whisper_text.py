"""Whisper's tokens -> passages of words: timestamps parsed, words aligned in time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from livecap.alignment import token_rows
from livecap.engine.request import Memory
from livecap.engine.whisper_decoder import WhisperDecoder
from livecap.events import Scores, Word
from livecap.models.whisper_heard import doubled, heard_words
from livecap.models.whisper_times import Aligned, timed
from livecap.tokens import Tokenizer
from livecap.words import split_words
from livecap.work import Passage
from towers.whisper import SAMPLES_PER_ROW

Pcm = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The text between two timestamps."""

    start: int  # samples since the window's start
    stop: int
    tokens: tuple[int, ...]  # text only


@dataclass(frozen=True, slots=True)
class Parsed:
    """A window's tokens, taken apart."""

    stretches: tuple[Stretch, ...]
    consumed: int  # samples of the window that are done with; the next window starts there
    kept: int  # tokens that belong to those samples, timestamps included


def parse(tokenizer: Tokenizer, tokens: Sequence[int], samples: int) -> Parsed:
    """Sampled tokens of a window with that many samples of audio -> its stretches.

    A stretch that starts behind the audio is invented, and left out.

    The rules are openai-whisper's: a stretch stands between two timestamps; what follows the last
    pair of timestamps is heard again in the next window, unless the text simply ends with a
    single timestamp or has no pairs at all, when the whole window is done with.
    """
    begin = tokenizer.specials.timestamp_begin
    times = [min((token - begin) * SAMPLES_PER_ROW, samples) for token in tokens]
    pairs = [
        place + 1
        for place in range(len(tokens) - 1)
        if tokens[place] >= begin and tokens[place + 1] >= begin
    ]
    ends_single = len(tokens) >= 2 and tokens[-1] >= begin and tokens[-2] < begin
    if not pairs:
        text = tuple(token for token in tokens if token < begin)
        marks = [time for token, time in zip(tokens, times, strict=True) if token >= begin]
        start = marks[0] if marks and tokens[0] >= begin else 0
        # One timestamp only opens; two bound the text. Zero is no end.
        stop = marks[-1] if len(marks) > 1 and marks[-1] > start else samples
        return Parsed((Stretch(start, stop, text),) if text else (), samples, len(tokens))
    cuts = [0, *pairs, *([len(tokens)] if ends_single else [])]
    stretches: list[Stretch] = []
    for low, high in pairwise(cuts):
        text = tuple(token for token in tokens[low:high] if token < begin)
        start = times[low] if tokens[low] >= begin else 0
        stop = times[high - 1]
        if text and stop >= start and (start < samples or not stretches):
            stretches.append(Stretch(start, stop, text))
    consumed = samples if ends_single else times[pairs[-1] - 1]
    return Parsed(tuple(stretches), consumed, cuts[-1])


def untimed(
    tokenizer: Tokenizer, stretches: Sequence[Stretch], language: str | None, scores: Scores
) -> list[Passage]:
    """Stretches -> passages whose words have no times."""
    return [
        Passage(
            stretch.start,
            stretch.stop,
            tuple(Word(text) for text, _ in split_words(tokenizer, stretch.tokens, language)),
            replace(scores, tokens=stretch.tokens),
        )
        for stretch in stretches
    ]


@dataclass(frozen=True, slots=True)
class Aligner:
    """The teacher-forced pass that times words."""

    decoder: WhisperDecoder
    tokenizer: Tokenizer
    heads: tuple[tuple[int, int], ...]

    def passages(
        self,
        stretches: Sequence[Stretch],
        memory: Memory,
        *,
        start: Sequence[int],
        pcm: Pcm,
        language: str | None,
        scores: Scores,
    ) -> list[Passage]:
        """Stretches of one window -> passages whose words have times inside the window.

        `start` are the tokens of the prompt, without timestamps; `pcm` is the window [sample].
        """
        text = [token for stretch in stretches for token in stretch.tokens]
        if not text:
            return []
        path = self._path((), text, memory, fixed=0, start=start, samples=len(pcm))
        passages, at = [], 0
        for stretch in stretches:
            words = self._words(stretch.tokens, at, path, language)
            passages.append(timed(words, replace(scores, tokens=stretch.tokens), pcm))
            at += len(stretch.tokens)
        return passages

    def words_after(
        self,
        said: Sequence[int],
        tokens: Sequence[int],
        memory: Memory,
        *,
        fixed: int,
        start: Sequence[int],
        pcm: Pcm,
        language: str,
        scores: Scores,
    ) -> tuple[Passage, Sequence[Sequence[int]]] | None:
        """As `passages`, for the tokens that follow those said, spoken by sample `fixed`.

        Returns the passage and the tokens of each of its words, without what was said twice and
        heard once, and without words at the end for which no audio is left. None if none is left.
        """
        before = [piece for piece, _ in split_words(self.tokenizer, said, language)]
        while True:
            path = self._path(said, tokens, memory, fixed=fixed, start=start, samples=len(pcm))
            aligned = self._words(tokens, 0, path, language)
            words = [one.word for one in aligned]
            pieces = [ids for _, ids in split_words(self.tokenizer, tokens, language)]
            copy = doubled(before, words)
            if not copy:
                break
            tokens = [*chain(*pieces[: copy.start], *pieces[copy.stop :])]
        count = heard_words(before, words)
        scores = replace(scores, tokens=tuple(tokens))
        return (timed(aligned[:count], scores, pcm), pieces[:count]) if count else None

    def _path(
        self,
        said: Sequence[int],
        tokens: Sequence[int],
        memory: Memory,
        *,
        fixed: int,
        start: Sequence[int],
        samples: int,
    ) -> "_Path":
        """The teacher-forced pass over a window of so many samples."""
        everything = [*start, *said, *tokens, self.tokenizer.specials.eot]
        first = len(start) + len(said)
        attention, logits = self.decoder.align(
            everything, memory, self.heads, predict=slice(first - 1, -2)
        )
        rows = max(-(-samples // SAMPLES_PER_ROW), 1)
        after = min(fixed // SAMPLES_PER_ROW, rows - 1)
        # A token is heard by the row that predicts it, the one before its own; the end token's
        # row comes last and bounds the last word.
        heard = attention[:, len(start) - 1 : -1]
        starts, peaks = token_rows(heard, rows, skip=len(said), after=after)
        chosen = torch.tensor(tokens, device=logits.device)[:, None]
        chances = logits.softmax(-1).gather(1, chosen)[:, 0]
        bounds = [min(int(row) * SAMPLES_PER_ROW, samples) for row in starts]
        return _Path(bounds, [int(row) * SAMPLES_PER_ROW for row in peaks], chances.tolist())

    def _words(
        self, tokens: Sequence[int], at: int, path: "_Path", language: str | None
    ) -> list[Aligned]:
        """Tokens, the first of which is that one of the path -> their words."""
        words = []
        for piece, ids in split_words(self.tokenizer, tokens, language):
            stop = at + len(ids)
            mean = float(np.mean(path.probabilities[at:stop])) if ids else 0.0
            word = Word(piece, path.bounds[at], path.bounds[stop], mean)
            words.append(Aligned(word, path.peaks[at]))
            at = stop
        return words


@dataclass(frozen=True, slots=True)
class _Path:
    """Where tokens lie in a window."""

    bounds: list[int]  # sample at which each begins, and in the end where the last one ends
    peaks: list[int]  # sample at which each was heard most
    probabilities: list[float]
