"""What live streams cost, as measured -> how many of them the machine bears."""

import math
from dataclasses import dataclass

HALF_LIFE = 30.0  # seconds after which a measurement counts half
SHARE = 0.8  # of all time that may be spent on what can't be left out; the rest are updates
OFTEN = 0.25  # a second: how often someone who speaks pauses, at least


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
        self._streams = 0.0  # seconds of live streams, all together

    def pass_time(self, now: float, *, busy: float, works: int, urgent: int, streams: int) -> None:
        """Since the last call: seconds of computing, work begun, live streams that were open."""
        passed = max(now - self._now, 0.0)
        fade = math.exp2(-passed / HALF_LIFE)
        self._now = now
        self._time = self._time * fade + passed
        self._busy = self._busy * fade + busy
        self._works = self._works * fade + works
        self._urgent = self._urgent * fade + urgent
        self._streams = self._streams * fade + passed * streams

    @property
    def busy(self) -> float:
        """Share of the time that was spent computing."""
        return min(self._busy / self._time, 1.0) if self._time else 0.0

    @property
    def bears(self) -> int:
        """Live streams that have the time they need; at least one, as before anything is known."""
        if not self._works:
            return 1
        cost = self._busy / self._works
        often = max(self._urgent / self._streams if self._streams else 0.0, OFTEN)
        return max(int(SHARE / (cost * often)), 1) if cost else 1
