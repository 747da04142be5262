"""What live streams cost, as measured -> how many of them the machine can keep up with."""

import math
from dataclasses import dataclass

HALF_LIFE_S = 30.0  # after which a measurement counts half
URGENT_SHARE = 0.7  # of all time, for what can't be left out; the rest is for updates
ENDPOINTS_PER_S = 0.3  # how often someone who speaks pauses, as long as little is known
BASELINE_JOBS = 10  # jobs that count as much as what one cost at the start
BASELINE_AUDIO_S = 60.0  # audio that makes as much of a difference as ENDPOINTS_PER_S


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a service is."""

    busy: float  # share of the last time that was spent computing, 0 to 1
    lag: float  # seconds of audio that the stream furthest behind has not decoded


class Capacity:
    """Counts what is computed. All times are in seconds on the caller's clock.

    Updates may get rarer; what people wait for, the text after each pause, may not. So a stream
    needs as much time as these take, and the machine bears as many streams as have that time.
    """

    def __init__(self, now: float) -> None:
        self._now = now
        self._time = 0.0  # seconds looked at
        self._busy = 0.0  # of them spent computing
        self._jobs = 0.0  # that this was spent on
        self._urgent = 0.0  # of them such that somebody waits for
        self._audio = 0.0  # seconds that came for live streams
        self._job_s = 0.0  # seconds that a job took when nothing else ran

    def set_baseline(self) -> None:
        """What has been measured so far is what a job costs when nothing else runs."""
        self._job_s = self._busy / self._jobs if self._jobs else 0.0

    def count_job(self, *, is_urgent: bool) -> None:
        """A job has begun."""
        self._jobs += 1
        self._urgent += is_urgent

    def pass_time(self, now: float, *, busy: float, audio: float) -> None:
        """Since the last call: seconds of computing, and of audio for live streams."""
        passed = max(now - self._now, 0.0)
        fade = math.exp2(-passed / HALF_LIFE_S)
        self._now = now
        self._time = self._time * fade + passed
        self._busy = self._busy * fade + busy
        self._jobs *= fade
        self._urgent *= fade
        self._audio = self._audio * fade + audio

    @property
    def busy(self) -> float:
        """Share of the time that was spent computing."""
        return min(self._busy / self._time, 1.0) if self._time else 0.0

    @property
    def max_streams(self) -> int:
        """Live streams that have the time they need; at least one, as before anything is known."""
        if not self._jobs and not self._job_s:
            return 1
        few = BASELINE_JOBS if self._job_s else 0
        cost = (self._busy + self._job_s * few) / (self._jobs + few)
        rate = (self._urgent + ENDPOINTS_PER_S * BASELINE_AUDIO_S) / (
            self._audio + BASELINE_AUDIO_S
        )
        per_s = cost * max(rate, ENDPOINTS_PER_S)
        return max(int(URGENT_SHARE / per_s), 1) if per_s else 1
