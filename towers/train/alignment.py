"""Times of words -> what each row of the windowed tower hears.

CTC has to find out by itself which row says what, and for hundreds of steps it says nothing at all.
Where the times of words are known, rows are told.
"""

import torch
from torch import Tensor

from towers.qwen3_windowed import CHUNK, CHUNK_ROWS, rows_of
from towers.train.manifest import Utterance
from towers.train.vocabulary import TrainingVocabulary

ROW = 0.08  # seconds
FRAMES = 100  # a second


def labels(one: Utterance, vocabulary: TrainingVocabulary, frames: int) -> Tensor | None:
    """The token of each row [row], or `vocabulary.count` for none; None without times of words.

    A token's last row says nothing, so that two of the same are two. What follows a word without a
    space, as a full stop does, is said right after it.
    """
    if one.text and not one.words:
        return None
    rows = rows_of(frames)
    numbers = torch.arange(rows)
    at = numbers // CHUNK_ROWS * (CHUNK / FRAMES) + numbers % CHUNK_ROWS * ROW + ROW / 2
    found = torch.full((rows,), vocabulary.count)
    for token, start, end in _spoken(one, vocabulary):
        frames_value = ((at >= start) & (at < end)).nonzero()[:, 0]
        if len(frames_value) > 1:
            frames_value = frames_value[:-1]
        found[frames_value] = token
    return found


def _spoken(one: Utterance, vocabulary: TrainingVocabulary) -> list[tuple[int, float, float]]:
    """Tokens with their starts and ends in seconds."""
    encoded = vocabulary.tokenizer.encode(one.text)
    spans = [(start, end) for start, end in encoded.offsets]
    found, at = list[tuple[int, float, float]](), 0
    for word, start, end in one.words:
        begins = one.text.find(word, at)
        if begins < 0:
            continue
        at = begins + len(word)
        inside = [n for n, (a, b) in enumerate(spans) if a < at and b > begins]
        step = (end - start) / max(len(inside), 1)
        found += [
            (encoded.ids[n], start + index * step, start + (index + 1) * step)
            for index, n in enumerate(inside)
        ]
        after = next((n for n, (a, _) in enumerate(spans) if a >= at), None)
        if after is not None and spans[after][0] == at and not one.text[at].isspace():
            found.append((encoded.ids[after], end, end + ROW))
    return found
