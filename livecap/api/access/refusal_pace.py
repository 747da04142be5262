"""Refusals by address: who gets many of them waits for each, so that others have the machine."""

from collections import OrderedDict
from collections.abc import Callable

BURST = 100.0  # refusals that are told at once
RATE = 50.0  # a second, that go on to be
LONGEST = 0.5  # seconds that one may take
PARTIES = 10_000  # addresses that are remembered


class RefusalPace:
    """`now`: seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        # How many each has had, less what time has forgiven; and when that was looked at.
        self._had: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def refuse(self, party: str) -> float:
        """One more -> the seconds that it shall wait."""
        now = self._now()
        had, at = self._had.pop(party, (0.0, now))
        had = min(max(had - RATE * (now - at), 0.0) + 1, BURST + RATE * LONGEST)
        self._had[party] = had, now
        if len(self._had) > PARTIES:
            self._had.popitem(last=False)
        return max(had - BURST, 0.0) / RATE
