"""The stretch of a live stream between two gaps, judged one frame at a time."""

from collections import deque
from collections.abc import Iterable

from livecap.config import VadConfig
from livecap.events import RATE
from livecap.growing import Growing
from livecap.segments import Pcm
from livecap.vad import FRAME, Edge, Gate


class Epoch:
    """Audio between two gaps: fed at once, judged frame by frame.

    `vad` None: everything counts as speech. `origin` is the media time of its first sample.
    """

    def __init__(self, vad: VadConfig | None, origin: int) -> None:
        self.origin = origin  # media time of sample 0
        self.gate = Gate(vad) if vad else None
        self.fed = 0  # samples
        self.chances: deque[float] = deque()  # of frames that have not been judged yet
        self.is_closed = False  # no more audio comes
        self.is_judged = False  # and all has been judged
        self.speech = Growing(
            pad=vad.vad_pad * RATE // 1000 if vad else 0,
            tail=vad.vad_tail * RATE // 1000 if vad else 0,
            lag=self.gate.lag if self.gate else 0,
        )

    @property
    def stop(self) -> int:
        """Media time up to which audio has come."""
        return self.origin + self.fed

    def feed(self, pcm: Pcm, chances: Iterable[float]) -> None:
        """The next samples [n], and the probabilities of the frames that they made whole."""
        self.speech.feed(pcm)
        before, self.fed = self.fed, self.fed + len(pcm)
        if self.gate:
            self.chances.extend(chances)
        else:  # all of it is speech
            self.chances.extend([1.0] * (self.fed // FRAME - before // FRAME))

    def step(self) -> bool:
        """Judge the next frame; False if there is none."""
        if not self.chances:
            return False
        chance, begun = self.chances.popleft(), self.speech.now
        if self.gate:
            self.speech.advance(begun + FRAME, self.gate.feed([chance]), self.gate.quiet)
        else:
            self.speech.advance(begun + FRAME, [] if begun else [Edge("start", 0, 0)], None)
        return True

    def end(self) -> None:
        """Judge what is left after the last frame."""
        self.is_judged = True
        if self.gate:
            edges = self.gate.close()
        elif not self.fed:
            edges = []
        else:
            begun = [] if self.speech.now else [Edge("start", 0, 0)]
            edges = [*begun, Edge("stop", self.fed, self.fed)]
        self.speech.advance(self.fed, edges, None)
