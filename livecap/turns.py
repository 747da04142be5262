"""Speech probabilities and what has been captioned -> where turns begin, pause and are settled."""

from collections.abc import Iterable

from livecap.config import VadConfig
from livecap.events import RATE, Event, Settled, Voice
from livecap.vad import Gate


class Turns:
    """Judges the same frames as a live stream does, but as soon as they come.

    `pause` (samples) is the silence that ends a turn.
    """

    def __init__(self, vad: VadConfig, pause: int) -> None:
        self._vad = vad
        self._pause = pause
        self._pad = vad.vad_pad * RATE // 1000
        self._gate = Gate(vad)
        self._origin = 0  # media time of the gate's sample 0
        self._ended = 0  # media time of the last turn's end
        self._quiet: int | None = None  # since when it has been quiet, inside a turn
        self._speaks = False  # a turn is going on
        self._owed = False  # something has been said since all was settled

    def feed(self, chances: Iterable[float]) -> list[Event]:
        """The next frames' probabilities -> what is certain now."""
        found: list[Event] = []
        for chance in chances:
            for edge in self._gate.feed([chance]):
                if edge.kind == "stop":
                    self._quiet = edge.at
                elif self._speaks:
                    self._quiet = None
                else:
                    self._speaks = True
                    begin = max(self._origin + edge.at - self._pad, self._ended, self._origin)
                    found.append(Voice(begin, begins=True))
            if self._quiet is not None and self._gate.at - self._quiet >= self._pause:
                found += self._end()
        return found

    def skip(self, to: int) -> list[Event]:
        """The source goes on at media time `to`: a turn that is going on has ended before."""
        found = self._end() if self._speaks else []
        self._gate, self._origin = Gate(self._vad), to
        return found

    def speaking(self) -> None:
        """There is something that has not been captioned."""
        self._owed = True

    def settle(self, at: int, *, paused: bool) -> list[Event]:
        """All that was said up to media time `at` is captioned. Told once a pause."""
        if paused and not self._owed:
            return []
        self._owed = not paused
        return [Settled(at, paused)]

    def _end(self) -> list[Event]:
        self._speaks, self._quiet = False, None
        self._ended = self._origin + self._gate.at
        return [Voice(self._ended, begins=False)]
