"""RTP timestamps -> one clock without holes. What was lost is silence on it.

Source: RFC 3550 for timestamps, which count samples and wrap; RFC 7587: those of Opus are 48 kHz.
"""

import numpy as np

from livecap.api.realtime.formats import Int16

RATE = 48_000  # Hz: the clock of Opus in RTP, whatever is encoded
WRAP = 1 << 32
JUMP = 30 * RATE  # samples: further away than this is no loss but another start
BREAK = RATE  # samples of silence before another start, so that what was said is a turn's end
STALE = RATE  # samples that in one go came too late: the sender's clock was set back


class RtpTimeline:
    """The frames of one track, in the order in which they are decoded."""

    def __init__(self) -> None:
        self._next: int | None = None  # the timestamp that follows on what was placed
        self._late = 0  # samples that were left out since one was placed

    def position(self, timestamp: int, samples: Int16) -> Int16:
        """A frame, [sample] -> what comes next on the clock, [sample].

        That is silence first if something is missing, and nothing if it has been there before.
        """
        if self._next is None:
            return self._put(timestamp, samples, 0)
        ahead = (timestamp - self._next + WRAP // 2) % WRAP - WRAP // 2
        if abs(ahead) > JUMP or (ahead < 0 and self._late + len(samples) > STALE):
            return self._put(timestamp, samples, BREAK)
        if ahead < 0:
            self._late += min(-ahead, len(samples))
            samples = samples[-ahead:]
            return self._put(self._next, samples, 0) if len(samples) else samples
        return self._put(timestamp, samples, ahead)

    def _put(self, timestamp: int, samples: Int16, silence: int) -> Int16:
        self._next = timestamp + len(samples)
        self._late = 0
        return np.concatenate([np.zeros(silence, np.int16), samples])
