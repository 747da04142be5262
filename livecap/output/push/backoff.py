"""How long to wait before the next try: longer each time, and not as long as others do."""

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds. Half of each wait is chance, so that the clients of a server that restarts don't
    come back all at once.
    """

    first: float = 0.5
    max_s: float = 30.0
    random_value: Callable[[], float] = random.random  # 0 to 1

    def of(self, tries: int, *, asked: float = 0.0) -> float:
        """Seconds after so many tries that failed in a row, from 1; at least what was `asked`."""
        longest = min(self.first * 2.0 ** min(tries - 1, 30), self.max_s)
        return max(longest * (0.5 + 0.5 * self.random_value()), asked)
