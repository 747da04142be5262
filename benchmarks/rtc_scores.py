"""A long call's captions -> how far their times are off, in each part of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from math import nan
from statistics import median
from typing import Any

from rtc_client import RATE, Samples

from livecap.commands.bench_measures import percentile, words

SLACK = 1.0  # seconds around a recording in which its words are looked for
BANDS = 4  # parts of the call that are told apart
NONE = [nan]  # where there is nothing to count
PROMISED = 200  # ms by which a time may be off
HEAD = (
    "| minutes | recordings | of them lost | words | found % | against the file: ms | 95 % | "
    "within 0.2 s % | against the word's median: ms | 95 % | within 0.2 s % | first words of cues: "
    "ms | 95 % | within 0.2 s % | final after the last word, p50 s | p95 | MB |\n"
    + "|---" * 17
    + "|\n"
)


@dataclass(frozen=True, slots=True)
class Clip:
    """A recording."""

    pcm: Samples  # 48 kHz
    words: tuple[tuple[str, float], ...]  # each with the second at which it begins

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return len(self.pcm) / RATE


@dataclass(frozen=True, slots=True)
class Saying:
    """A recording in the call."""

    clip: Clip
    start: float  # seconds


@dataclass(frozen=True, slots=True)
class Found:
    """A word of a caption that was known to come."""

    known: float  # seconds: when it was said
    told: float  # seconds: the time that it has in its caption
    is_cue: bool  # it is the first of its caption, whose time this is

    @property
    def off(self) -> float:
        """Seconds by which it is too late."""
        return self.told - self.known


def compared(plan: Sequence[Saying], lines: Sequence[dict[str, Any]]) -> list[list[Found]]:
    """For each recording of the call, its words that came."""
    said = [
        (" ".join(words(word["word"])), word["start"], number == 0)
        for line in lines
        for number, word in enumerate(line["words"])
        if word["start"] is not None
    ]
    found = []
    for one in plan:
        end = one.start + one.clip.seconds
        own = [word for word in said if one.start - SLACK <= word[1] < end + SLACK]
        matcher = SequenceMatcher(
            None, [text for text, _ in one.clip.words], [text for text, *_ in own], autojunk=False
        )
        found.append(
            [
                Found(one.start + one.clip.words[known + i][1], *own[told + i][1:])
                for known, told, count in matcher.get_matching_blocks()
                for i in range(count)
            ]
        )
    return found


def faults(row: dict[str, Any]) -> list[str]:
    """What is lost, said twice, or out of order; nothing, if all is well."""
    ids = [final["item_id"] for final in row["finals"]]
    spans = [(line["start_ms"], line["end_ms"]) for line in row["lines"]]
    told = " ".join(final["transcript"] for final in row["finals"]).split()
    shown = " ".join(line["text"] for line in row["lines"]).split()
    checks: dict[str, bool] = {
        "an item was completed twice": len(set(ids)) < len(ids),
        "numbers of lines are missing": [one["id"] for one in row["lines"]]
        != list(range(1, len(row["lines"]) + 1)),
        "lines overlap": any(b[0] < a[1] for a, b in pairwise(spans)),
        "readers and the speaker were told different words": told != shown,
    }
    return [*(name for name, is_so in checks.items() if is_so), *row["problems"]]


def table(plan: Sequence[Saying], row: dict[str, Any], seconds: float) -> str:
    """One line for each part of the call."""
    step, memory = seconds / BANDS, row["memory"]
    judged = list(zip(plan, compared(plan, row["lines"]), strict=True))
    usual = usually(judged)
    lines = []
    for band in range(BANDS):
        here = [one for one in judged if min(int(one[0].start // step), BANDS - 1) == band]
        known = sum(len(one.clip.words) for one, _ in here)
        own = [(one, word) for one, some in here for word in some]
        late = list(delays(here, row["finals"])) or NONE
        weight = memory[len(memory) * band // BANDS : len(memory) * (band + 1) // BANDS]
        moved = [1000 * (word.off - usual[place(one, word)]) for one, word in own]
        cues = [off for off, (_, word) in zip(moved, own, strict=True) if word.is_cue]
        lines.append(
            f"| {band * step / 60:.0f} to {(band + 1) * step / 60:.0f} | {len(here)} | "
            f"{sum(not some for _, some in here)} | {known} | {100 * len(own) / known:.1f} | "
            f"{shown([1000 * word.off for _, word in own])} | {shown(moved)} | {shown(cues)} | "
            f"{percentile(late, 0.5):.2f} | {percentile(late, 0.95):.2f} | "
            f"{median(weight or NONE):.0f} |"
        )
    return HEAD + "\n".join(lines)


def shown(off: Sequence[float]) -> str:
    """Three columns: the median, by how much 95 % of them are off at most, and the share within
    what is promised.
    """
    if not off:
        return " |  | "
    middle, near = median(off), sum(abs(one) <= PROMISED for one in off)
    far = [abs(one) for one in off]
    return f"{middle:+.0f} | {percentile(far, 0.95):.0f} | {100 * near / len(off):.1f}"


def place(one: Saying, word: Found) -> tuple[int, int]:
    """Which word of which recording it is."""
    return id(one.clip), round(1000 * (word.known - one.start))


def usually(judged: Iterable[tuple[Saying, Sequence[Found]]]) -> dict[tuple[int, int], float]:
    """By how many seconds each word of a recording is off, at the median of all times it is said.

    An alignment puts a word beside a pause elsewhere than another does, always alike.
    """
    every: dict[tuple[int, int], list[float]] = {}
    for one, some in judged:
        for word in some:
            every.setdefault(place(one, word), []).append(word.off)
    return {key: median(some) for key, some in every.items()}


def delays(
    here: Iterable[tuple[Saying, Sequence[Found]]], finals: Sequence[dict[str, Any]]
) -> Iterable[float]:
    """Seconds from a recording's end to the last final of its words."""
    for one, _ in here:
        end = one.start + one.clip.seconds
        own = [
            final["at"]
            for final in finals
            if any(one.start <= (word["start"] or 0.0) < end for word in final["words"])
        ]
        if own:
            yield max(own) - end


def drift(plan: Sequence[Saying], lines: Sequence[dict[str, Any]]) -> float:
    """Seconds by which the words of the last part of the call are later than those of the first,
    each against what is usual for it, at the median.
    """
    judged = list(zip(plan, compared(plan, lines), strict=True))
    usual = usually(judged)
    moved = [word.off - usual[place(one, word)] for one, some in judged for word in some]
    part = len(moved) // BANDS
    return median(moved[-part:]) - median(moved[:part])
