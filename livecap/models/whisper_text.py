"""Whisper's tokens -> passages of words: timestamps parsed, words aligned in time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch

from livecap.alignment import token_rows
from livecap.engine.scheduler import Memory
from livecap.engine.whisper_decoder import WhisperDecoder
from livecap.events import Scores, Word
from livecap.tokens import Tokenizer
from livecap.words import split_words
from livecap.work import Passage
from towers.whisper import SAMPLES_PER_ROW

LONGEST = 7 * 16_000 // 10  # samples: no median word takes longer than 0.7 s
SENTENCE_END = ".。!！?？"


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
    stretches = []
    for low, high in pairwise(cuts):
        text = tuple(token for token in tokens[low:high] if token < begin)
        start = times[low] if tokens[low] >= begin else 0
        stop = times[high - 1]
        if text and stop >= start:
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
        samples: int,
        language: str | None,
        scores: Scores,
    ) -> list[Passage]:
        """Stretches of one window -> passages whose words have times inside the window.

        `start` are the tokens of the prompt, without timestamps; `samples` the audio's length.
        """
        text = [token for stretch in stretches for token in stretch.tokens]
        if not text:
            return []
        tokens = [*start, *text, self.tokenizer.specials.eot]
        attention, logits = self.decoder.align(tokens, memory, self.heads)
        rows = max(-(-samples // SAMPLES_PER_ROW), 1)
        starts = token_rows(attention[:, len(start) : -1], rows)  # [text token + 1]
        chances = logits[len(start) - 1 : -2].softmax(-1)
        chances = chances.gather(1, torch.tensor(text, device=chances.device)[:, None])[:, 0]
        probabilities: list[float] = chances.tolist()
        bounds = [min(int(row) * SAMPLES_PER_ROW, samples) for row in starts]
        passages, at = [], 0
        for stretch in stretches:
            words = []
            for piece, ids in split_words(self.tokenizer, stretch.tokens, language):
                stop = at + len(ids)
                mean = float(np.mean(probabilities[at:stop])) if ids else 0.0
                words.append(Word(piece, bounds[at], bounds[stop], mean))
                at = stop
            passages.append(_timed(words, replace(scores, tokens=stretch.tokens), samples))
        return passages


def _timed(words: list[Word], scores: Scores, samples: int) -> Passage:
    """Aligned words of one stretch -> its passage, with over-long words cut short.

    The path gives a pause to the word before it (or after it, at a sentence's start); a word
    longer than twice the median is trimmed on the side of the pause.
    """
    lengths = sorted(filter(None, ((word.end or 0) - (word.start or 0) for word in words)))
    median = min(lengths[len(lengths) // 2], LONGEST) if lengths else LONGEST
    trimmed: list[Word] = []
    for place, word in enumerate(words):
        assert word.start is not None
        assert word.end is not None
        start, end = word.start, word.end
        if end - start > 2 * median:
            opens = place == 0 or words[place - 1].text.rstrip()[-1:] in SENTENCE_END
            if opens and place + 1 < len(words):
                start = end - 2 * median
            else:
                end = start + 2 * median
        end = max(end, min(start + SAMPLES_PER_ROW, samples))  # every word takes some time
        trimmed.append(replace(word, start=start, end=end))
    first, last = trimmed[0].start, trimmed[-1].end
    assert first is not None
    assert last is not None
    return Passage(first, max(last, first + 1), tuple(trimmed), scores)
