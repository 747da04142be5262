"""Aligned words of Whisper -> their times, by where it is loud and where it is quiet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from livecap.events import Scores, Word
from livecap.online.job import TextSpan
from livecap.text.sentences import ends_sentence
from towers.whisper import SAMPLES_PER_ROW

Pcm = NDArray[np.float32]

LONGEST = 7 * 16_000 // 10  # samples: no median word takes longer than 0.7 s
LOUD = 90  # percentile of a window's loudness that speech in it has
QUIET = 0.15  # of that: below is a pause
PAUSE = 8 * SAMPLES_PER_ROW  # samples, 0.16 s: so long a quiet end of a word is no part of it
SOUND = 4  # rows, 80 ms: what is loud for a shorter time, with pauses around it, is no word


@dataclass(frozen=True, slots=True)
class Aligned:
    """A word with the times that the path through the attention gives it."""

    word: Word
    peak: int  # sample at which its first token was heard most


def is_brief(word: Word) -> bool:
    """Whether no word can be said in that time."""
    assert word.start is not None
    assert word.end is not None
    return word.end - word.start <= SAMPLES_PER_ROW


def timed(aligned: Sequence[Aligned], scores: Scores, pcm: Pcm) -> TextSpan:
    """Aligned words of one stretch -> its span, without the pauses that words were given.

    The path gives a pause to the word before or after it, so a word loses its quiet ends where they
    are long, or where it takes more than twice the median itself; and the outermost words lose them
    in any case, which take what padding there is. If one that opens a sentence, or the stretch, has
    a pause inside, it is on the side where it was heard most; the other side is its neighbour's.
    openai-whisper cuts long words by their length alone.
    """
    words = [one.word for one in aligned]
    quiet = QUIET * float(np.percentile(_loudness(pcm), LOUD)) if len(pcm) >= SAMPLES_PER_ROW else 0
    lengths = sorted(filter(None, ((word.end or 0) - (word.start or 0) for word in words)))
    longest = 2 * (min(lengths[len(lengths) // 2], LONGEST) if lengths else LONGEST)
    trimmed: list[Word] = []
    for index, (word, peak) in enumerate((one.word, one.peak) for one in aligned):
        assert word.start is not None
        assert word.end is not None
        opens = index == 0 or ends_sentence(words[index - 1].text)
        opens = opens and index + 1 < len(words)
        start, end = _voiced(pcm, word.start, word.end, quiet, peak if opens else None)
        if word.end - word.start <= longest and index not in (0, len(words) - 1):
            start = start if start - word.start >= PAUSE else word.start
            end = end if word.end - end >= PAUSE else word.end
        if end - start > longest:
            start, end = (end - longest, end) if opens else (start, start + longest)
        end = max(end, min(start + SAMPLES_PER_ROW, len(pcm)))  # every word takes some time
        trimmed.append(replace(word, start=start, end=end))
    first, last = trimmed[0].start, trimmed[-1].end
    assert first is not None
    assert last is not None
    return TextSpan(first, max(last, first + 1), tuple(trimmed), scores)


def _voiced(pcm: Pcm, start: int, end: int, quiet: float, peak: int | None) -> tuple[int, int]:
    """Samples [start, end) -> the same without ends of that loudness or less.

    With `peak`, a sample, only the sound there or nearest to it, up to the pauses around it.
    """
    loud = np.flatnonzero(_loudness(pcm[start:end]) > quiet)
    if not len(loud):
        return start, end
    runs = np.split(loud, np.flatnonzero(np.diff(loud) * SAMPLES_PER_ROW > PAUSE) + 1)
    runs = [run for run in runs if len(run) >= SOUND] or runs
    if peak is not None:
        row = (peak - start) // SAMPLES_PER_ROW
        runs = [min(runs, key=lambda run: max(run[0] - row, row - run[-1], 0))]
    first, last = int(runs[0][0]), int(runs[-1][-1]) + 1
    return start + first * SAMPLES_PER_ROW, min(start + last * SAMPLES_PER_ROW, end)


def _loudness(pcm: Pcm) -> NDArray[np.float32]:
    """Samples -> root mean square of each whole row of 20 ms."""
    rows = pcm[: len(pcm) // SAMPLES_PER_ROW * SAMPLES_PER_ROW].reshape(-1, SAMPLES_PER_ROW)
    level: NDArray[np.float32] = np.sqrt(np.square(rows).mean(1))
    return level
