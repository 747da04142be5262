"""Timestamps of decoded frames -> places on one timeline that only moves on, in 16 kHz samples."""

import math

from livecap.events import RATE, Gap

JITTER = RATE * 50 // 1000  # samples: timestamps off by less are rounding, not missing audio
_AFTER_DAMAGE = RATE * 5 // 1000  # samples: the same, behind packets that could not be decoded
_OVERLAPS = 10  # more than one part in so many of the audio: its timestamps are another clock's
_RESTART = RATE  # samples back in time that mean a new recording, not overlap or clock drift


class Timeline:
    """Where each frame belongs. Between jumps, the count of samples rules over the timestamps."""

    def __init__(self) -> None:
        self.position = 0.0  # where the next frame starts if it follows the last one
        self.gaps: list[Gap] = []  # in order
        self.damaged = False  # whether something could not be decoded since the last frame
        self._started = False
        self._offset = 0.0  # added to timestamps; grows when they start again
        self._overlaps = False  # frames lie where there is audio already
        self._left_out = 0.0  # samples of such frames

    def is_covered(self, time: float | None, seconds: float) -> bool:
        """Whether a frame of this length lies, by its time in samples, where audio is already.

        Recordings that were joined without decoding overlap by what encoders add at both ends:
        to take all of it would make times later with each of them. Where that is much of all, the
        timestamps are of no use, and nothing is left out.
        """
        if time is None or not self._started:
            return False
        behind, length = self.position - time - self._offset, seconds * RATE
        limit = JITTER if not self._overlaps else length / 2
        self._overlaps = max(limit, length / 2) <= behind <= _RESTART
        if self._left_out > RATE + self.position / _OVERLAPS:
            self._overlaps = False
        self._left_out += length if self._overlaps else 0.0
        return self._overlaps

    def index(self, time: float | None) -> int | None:
        """Time of a frame, in samples -> where it starts, or None if it follows the last one.

        The start of the first frame is negative if it begins before the timeline does.
        """
        if not self._started:
            self._started = True
            start = round(time or 0.0)
            if start > JITTER:
                self._skip_to(start)
            self.position = float(start)
            self.damaged = False
            return start
        if time is None:
            return None
        ahead = time + self._offset - self.position
        if ahead < -_RESTART:
            self._offset -= ahead
        jump = ahead > (_AFTER_DAMAGE if self.damaged else JITTER)
        start = round(time + self._offset)
        if jump:
            self._skip_to(start)
        self.damaged = False
        return start if jump else None

    def advance(self, seconds: float) -> None:
        """A frame of this length was placed."""
        self.position += seconds * RATE

    def settle(self) -> None:
        """Another format follows: the resampler puts out whole samples, the last one in full."""
        self.position = float(math.ceil(self.position - 1e-3))

    def restart(self) -> None:
        """Timestamps begin again at zero: a new recording follows in the same stream."""
        self._offset = self.position

    def close(self, end: float | None) -> None:
        """End of the stream: what was damaged at its end, up to time `end`, is a gap too."""
        if end is None:
            return
        stop = round(end + self._offset)
        if stop > self.position + (_AFTER_DAMAGE if self.damaged else _RESTART):
            self.damaged = True
            self._skip_to(stop)

    def _skip_to(self, start: int) -> None:
        reason = "damaged" if self.damaged else "no audio"
        self.gaps.append(Gap(max(0, round(self.position)), start, reason))
        self.position = float(start)
