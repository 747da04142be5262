"""Speech probabilities and what has been captioned -> where turns begin, pause and are settled."""

from collections.abc import Iterable

from livecap.config import VadConfig
from livecap.events import RATE, Event, Settled, Voice
from livecap.vad import Gate


class Turns:
    """Judges the same frames as a live stream does, but as soon as they come.

    `pause` (samples) is the silence that ends a turn. With `vad` None nothing is ever told.
    """

    def __init__(self, vad: VadConfig | None, pause: int) -> None:
        self._vad = vad
        self._pause = pause
        self._pad = vad.vad_pad * RATE // 1000 if vad else 0
        self._gate = Gate(vad) if vad else None
        self._origin = 0  # media time of the gate's sample 0
        self._ended = 0  # media time of the last turn's end
        self._quiet: int | None = None  # since when it has been quiet, inside a turn
        self._speaks = False  # a turn is going on
        self._owed = False  # something has been said since all was settled
        self._voices: list[Event] = []  # that have not been taken

    def take(self) -> list[Event]:
        """Where turns have begun and ended since the last call."""
        voices, self._voices = self._voices, []
        return voices

    def feed(self, chances: Iterable[float]) -> None:
        """The next frames' probabilities."""
        if self._gate:
            for chance in chances:
                self._frame(self._gate, chance)

    def skip(self, to: int) -> None:
        """The source goes on at media time `to`: a turn that is going on has ended before."""
        if self._gate and self._vad:
            if self._speaks:
                self._end(self._gate)
            self._gate, self._origin = Gate(self._vad), to

    def speaking(self) -> None:
        """There is something that has not been captioned."""
        self._owed = True

    def settle(self, at: int, *, paused: bool) -> list[Event]:
        """All that was said up to media time `at` is captioned. Told once a pause."""
        if self._gate is None or (paused and not self._owed):
            return []
        self._owed = not paused
        return [Settled(at, paused)]

    def _frame(self, gate: Gate, chance: float) -> None:
        for edge in gate.feed([chance]):
            if edge.kind == "stop":
                self._quiet = edge.at
            elif self._speaks:
                self._quiet = None
            else:
                self._speaks = True
                begin = max(self._origin + max(edge.at - self._pad, 0), self._ended)
                self._voices.append(Voice(begin, begins=True))
        if self._quiet is not None and gate.at - self._quiet >= self._pause:
            self._end(gate)

    def _end(self, gate: Gate) -> None:
        self._speaks, self._quiet = False, None
        self._ended = self._origin + gate.at
        self._voices.append(Voice(self._ended, begins=False))
