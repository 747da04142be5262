"""Keys that were tried and are wrong: who tries many is not listened to for a while.

Only different ones count, so a program that has an old key and goes on trying locks nobody out.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

MOST = 20  # wrong keys of one address
FEW = 5  # wrong keys after which each further answer takes its time
SLOW = 0.5  # seconds
FOR = 60.0  # seconds in which they are counted, and for which nothing more is tried after that
PARTIES = 10_000  # addresses that are remembered


@dataclass(slots=True)
class _Tries:
    until: float  # when they are forgotten
    digests: set[bytes] = field(default_factory=set)


class Guesses:
    """By address. `now`: seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._tries: OrderedDict[str, _Tries] = OrderedDict()  # the oldest first

    def locked(self, party: str) -> int:
        """Seconds until somebody may try again; 0: now."""
        found = self._tries.get(party)
        if found is None or len(found.digests) < MOST:
            return 0
        return max(int(found.until - self._now()) + 1, 0) if found.until > self._now() else 0

    def delay(self, party: str) -> float:
        """Seconds that somebody's next refusal may take."""
        found = self._tries.get(party)
        many = found is not None and found.until > self._now() and len(found.digests) >= FEW
        return SLOW if many else 0.0

    def wrong(self, party: str, digest: bytes) -> None:
        """A key that is none."""
        now = self._now()
        found = self._tries.get(party)
        if found is None or found.until <= now:
            self._tries.pop(party, None)
            found = self._tries[party] = _Tries(now + FOR)
        if len(found.digests) < MOST:
            found.digests.add(digest)
        if len(found.digests) >= MOST:
            found.until = now + FOR
        while len(self._tries) > PARTIES:
            self._tries.popitem(last=False)
