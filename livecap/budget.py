"""What live streams cost, as measured -> how many of them the machine bears."""

import math
from dataclasses import dataclass

HALF_LIFE = 30.0  # seconds after which a measurement counts half
SHARE = 0.7  # of all time that may be spent on what can't be left out; the rest are updates
OFTEN = 0.3  # a second of audio: how often someone who speaks pauses, as long as little is known
FEW = 10  # pieces of work that count as much as what one cost at the start
KNOWN = 60.0  # seconds of audio that make as much of a difference as that


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a service is."""

    busy: float  # share of the last time that was spent computing, 0 to 1
    lag: float  # seconds of audio that the stream furthest behind has not heard


class Budget:
    """Counts what is computed. All times are in seconds on the caller's clock.

    Updates may get rarer; what people wait for, the text after each pause, may not. So a stream
    needs as much time as these take, and the machine bears as many streams as have that time.
    """

    def __init__(self, now: float) -> None:
        self._now = now
        self._time = 0.0  # seconds looked at
        self._busy = 0.0  # of them spent computing
        self._works = 0.0  # pieces of work that this was spent on
        self._urgent = 0.0  # of them such that somebody waits for
        self._audio = 0.0  # seconds that came for live streams
        self._usual = 0.0  # seconds that a piece of work took when nothing else ran

    def remember(self) -> None:
        """What has been measured so far is what it usually costs: what else is measured is
        forgotten again, in time.
        """
        self._usual = self._busy / self._works if self._works else 0.0

    def begin(self, *, is_urgent: bool) -> None:
        """A piece of work."""
        self._works += 1
        self._urgent += is_urgent

    def pass_time(self, now: float, *, busy: float, audio: float) -> None:
        """Since the last call: seconds of computing, and of audio for live streams."""
        passed = max(now - self._now, 0.0)
        fade = math.exp2(-passed / HALF_LIFE)
        self._now = now
        self._time = self._time * fade + passed
        self._busy = self._busy * fade + busy
        self._works *= fade
        self._urgent *= fade
        self._audio = self._audio * fade + audio

    @property
    def busy(self) -> float:
        """Share of the time that was spent computing."""
        return min(self._busy / self._time, 1.0) if self._time else 0.0

    @property
    def bears(self) -> int:
        """Live streams that have the time they need; at least one, as before anything is known."""
        if not self._works and not self._usual:
            return 1
        few = FEW if self._usual else 0
        cost = (self._busy + self._usual * few) / (self._works + few)
        often = max((self._urgent + OFTEN * KNOWN) / (self._audio + KNOWN), OFTEN)
        return max(int(SHARE / (cost * often)), 1) if cost else 1
