"""The numbers of a caption style: how wide, how long, how fast."""

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from livecap.errors import ConfigError
from livecap.events import RATE

NARROWEST = 8  # columns; below, hardly a word fits on a line
WIDEST = 1_000  # columns
MOST_LINES = 4  # a third line covers the picture, a fourth is for pages and transcripts


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(f"{name} is {value}", remedy=f"It has to lie between {low} and {high}.")


@dataclass(frozen=True, slots=True)
class Layout:
    """One caption style. Widths are display columns: a wide East Asian character counts two.

    Raises ConfigError where no cue could satisfy the numbers.
    """

    max_line_width: int = 42  # columns
    max_lines: int = 2
    min_duration: int = RATE * 5 // 6  # samples
    max_duration: int = RATE * 7  # samples
    max_speed: int = 20  # columns a second; in Latin script, characters a second
    min_gap: int = RATE // 12  # samples between two cues: 2 frames at 24 a second, 83 ms
    close_gap: int = RATE // 2  # samples; a shorter gap is closed to min_gap
    hang_over: int = RATE * 3 // 2  # samples a cue may stay after its last word
    lead: int = RATE * 3 // 10  # samples a cue may start later than its first word
    # Who speaks at once has a line each in one cue, or cues that overlap.
    together: Literal["lines", "cues"] = "lines"

    def __post_init__(self) -> None:
        _within("max_line_width", self.max_line_width, NARROWEST, WIDEST)
        _within("max_lines", self.max_lines, 1, MOST_LINES)
        _within("max_speed", self.max_speed, 1, WIDEST)
        _within("min_duration", self.min_duration, RATE // 10, self.max_duration)
        _within("min_gap", self.min_gap, 0, self.lead)

    def with_limits(
        self, *, max_line_width: int | None = None, max_lines: int | None = None
    ) -> "Layout":
        """The same style with another width (columns) or number of lines.

        Raises ConfigError for a width below 8 or a number of lines outside 1 to 4.
        """
        return replace(
            self,
            max_line_width=self.max_line_width if max_line_width is None else max_line_width,
            max_lines=self.max_lines if max_lines is None else max_lines,
        )


# Where a source gives no figure, the field keeps Netflix's. A word of a words-per-minute figure
# counts five characters, the usual convention of the trade.
PRESETS = MappingProxyType(
    {
        # Netflix timed text, general and English: 42 x 2, 20 characters a second for adults,
        # 5/6 to 7 s, two frames between cues, gaps under half a second closed.
        "netflix": Layout(),
        # BBC subtitle guidelines: 37 columns of the fixed grid x 2, 160 to 180 words a minute,
        # at most 1.5 s hanging after speech. Shortest time: 1 s, ours.
        "bbc": Layout(max_line_width=37, max_speed=15, min_duration=RATE),
        # DCMP captioning key: 32 x 2; for adult culture titles at least 2 s and at most 225
        # words a minute. A lone short word has to hang over for its 2 s.
        # Captions stand below their speakers, so that two may stand at once.
        "dcmp": Layout(
            max_line_width=32,
            max_speed=18,
            min_duration=2 * RATE,
            hang_over=2 * RATE,
            together="cues",
        ),
        # CEA-608: 32 columns. Two of its rows, since what is sent as one caption is cut off by
        # some encoders after 52 characters (OBS Studio issue 5191). Shortest time: 1 s, ours.
        "live608": Layout(max_line_width=32, min_duration=RATE),
    }
)


def preset(name: str) -> Layout:
    """The style of that name. Raises ConfigError, listing the known, for any other."""
    if name not in PRESETS:
        raise ConfigError(
            f"no caption style is called {name!r}", remedy=f"Known are {', '.join(PRESETS)}."
        )
    return PRESETS[name]
