"""Whisper's tokens -> spans of words: timestamps parsed, words aligned in time."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from livecap.engine.request import Memory
from livecap.events import Scores, Word
from livecap.models.whisper.alignment import token_rows
from livecap.models.whisper.decoder import WhisperDecoder
from livecap.models.whisper.hallucination import heard_words
from livecap.models.whisper.word_times import Aligned, timed
from livecap.online.job import TextSpan
from livecap.text.words import split_words
from livecap.tokens import Tokenizer
from towers.whisper import SAMPLES_PER_ROW

Pcm = NDArray[np.float32]

# Samples that a text reaches over a silence, from which some of it may have been said there: the
# model's timestamps are off by less.
MIN_SIDE = 8000


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
    token_count: int  # tokens that belong to those samples, timestamps included


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
        index + 1
        for index in range(len(tokens) - 1)
        if tokens[index] >= begin and tokens[index + 1] >= begin
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
) -> list[TextSpan]:
    """Stretches -> spans whose words have no times."""
    return [
        TextSpan(
            stretch.start,
            stretch.stop,
            tuple(Word(text) for text, _ in split_words(tokenizer, stretch.tokens, language)),
            replace(scores, tokens=stretch.tokens),
        )
        for stretch in stretches
    ]


def clamped(stretch: Stretch, cuts: Sequence[int]) -> Stretch:
    """A stretch that reaches only a little over a silence (at the samples `cuts`) ends there."""
    start, stop = stretch.start, stretch.stop
    for cut in cuts:
        if start < cut < start + MIN_SIDE and cut < stop:
            start = cut
        if stop - MIN_SIDE < cut < stop and cut > start:
            stop = cut
    return replace(stretch, start=start, stop=stop)


def split_span(
    tokenizer: Tokenizer, span: TextSpan, cuts: Sequence[int], language: str, *, timed: bool
) -> list[TextSpan]:
    """A span whose words have times -> one for each side of the samples `cuts` that has words.

    Without `timed` their words have no times any more.
    """
    ids = [ids for _, ids in split_words(tokenizer, span.scores.tokens, language)]
    sides: dict[int, list[tuple[Word, list[int]]]] = {}
    for word, tokens in zip(span.words, ids, strict=True):
        side = max(bisect_right(cuts, word.start or 0), max(sides, default=0))
        sides.setdefault(side, []).append((word, tokens))
    bounds = [0, *cuts, span.stop]
    found = []
    for side, members in sides.items():
        words = tuple(word for word, _ in members)
        start = max(words[0].start or 0, bounds[side])
        stop = max(min(words[-1].end or span.stop, bounds[side + 1]), start + 1)
        scores = replace(span.scores, tokens=tuple(chain(*(tokens for _, tokens in members))))
        plain = tuple(Word(word.text) for word in words)
        found.append(TextSpan(start, stop, words if timed else plain, scores))
    return found


@dataclass(frozen=True, slots=True)
class Aligner:
    """The teacher-forced pass that times words."""

    decoder: WhisperDecoder
    tokenizer: Tokenizer
    heads: tuple[tuple[int, int], ...]

    def spans(
        self,
        stretches: Sequence[Stretch],
        memory: Memory,
        *,
        start: Sequence[int],
        pcm: Pcm,
        language: str | None,
        scores: Scores,
    ) -> list[TextSpan]:
        """Stretches of one window -> spans whose words have times inside the window.

        `start` are the tokens of the prompt, without timestamps; `pcm` is the window [sample].
        """
        text = [token for stretch in stretches for token in stretch.tokens]
        if not text:
            return []
        path = self._path(text, memory, start=start, samples=len(pcm))
        spans, at = [], 0
        for stretch in stretches:
            words = self._words(stretch.tokens, at, path, language)
            spans.append(timed(words, replace(scores, tokens=stretch.tokens), pcm))
            at += len(stretch.tokens)
        return spans

    def spoken_words(
        self,
        tokens: Sequence[int],
        probs: Sequence[float],
        memory: Memory,
        *,
        start: Sequence[int],
        pcm: Pcm,
        language: str,
        scores: Scores,
    ) -> tuple[TextSpan, Sequence[Sequence[int]]] | None:
        """As `spans`, for tokens whose probabilities are known: one span, and each word's tokens.

        Words at the end for which no audio is left are dropped. None if none is left.
        """
        path = self._path(tokens, memory, start=start, samples=len(pcm), probs=probs)
        aligned = self._words(tokens, 0, path, language)
        pieces = [ids for _, ids in split_words(self.tokenizer, tokens, language)]
        count = heard_words([one.word for one in aligned])
        scores = replace(scores, tokens=tuple(tokens))
        return (timed(aligned[:count], scores, pcm), pieces[:count]) if count else None

    def _path(
        self,
        tokens: Sequence[int],
        memory: Memory,
        *,
        start: Sequence[int],
        samples: int,
        probs: Sequence[float] | None = None,
    ) -> "_Path":
        """The teacher-forced pass over a window of so many samples; without `probs`, it tells them
        too.
        """
        everything = [*start, *tokens, self.tokenizer.specials.eot]
        first = len(start)
        predict = slice(first - 1, -2) if probs is None else None
        attention, logits = self.decoder.align(everything, memory, self.heads, predict=predict)
        rows = max(-(-samples // SAMPLES_PER_ROW), 1)
        # A token is attended to by the row that predicts it, the one before its own; the end
        # token's row comes last and bounds the last word.
        starts, peaks = token_rows(attention[:, first - 1 : -1], rows)
        if logits is not None:
            chosen = torch.tensor(tokens, device=logits.device)[:, None]
            probs = logits.softmax(-1).gather(1, chosen)[:, 0].tolist()
        bounds = [min(int(row) * SAMPLES_PER_ROW, samples) for row in starts]
        return _Path(bounds, [int(row) * SAMPLES_PER_ROW for row in peaks], list(probs or ()))

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
