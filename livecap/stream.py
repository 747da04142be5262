"""Blocks of a source -> work, and hypotheses -> events: the channels of one source, in step.

Joins what `session.py` keeps apart: voice activity for all channels in one batch, gaps of the
source, and the order of captions between channels.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from livecap.events import RATE, Event, Gap, Language
from livecap.session import Stream
from livecap.vad import FRAME, Silero, VadState
from livecap.work import Hypothesis, Work

Rows = NDArray[np.float32]  # [channel, sample]

RENEWAL = 8 * RATE // FRAME  # frames without speech after which it is detected anew
EVERYTHING = 1 << 62  # samples
PIECE = RATE  # samples of a stream that are judged together where it may begin anew
VOICED = 0.3  # probability from which there may be speech
FILLED = RATE  # samples: a shorter gap is heard as silence, a longer one ends the segment


class SourceStream:
    """One source with one session a channel."""

    def __init__(
        self, sessions: Sequence[Stream], silero: Silero | None, *, renews: bool = False
    ) -> None:
        """`renews`: voice activity detection begins anew in long stretches without speech."""
        self.sessions = sessions  # one a channel
        self.silero = silero
        self._renews = renews
        self.piece = PIECE if renews and silero else EVERYTHING  # samples to be judged together
        self._quiet = [0] * len(sessions)  # frames without speech
        self.states = self._fresh()  # of voice activity detection, a channel each
        self._end = 0  # media time up to which audio has been fed
        self._held: list[tuple[int, Event]] = []  # events of channels that are ahead, with time
        self._closed = False

    def _fresh(self) -> list[VadState]:
        return [self.silero.open() for _ in self.sessions] if self.silero else []

    @property
    def heard(self) -> int:
        """Samples that went to the model, all channels together."""
        return sum(session.heard for session in self.sessions)

    @property
    def total(self) -> int:
        """Samples that came in, all channels together."""
        return sum(session.total for session in self.sessions)

    def feed(self, start: int, rows: Rows, reason: str = "the source has no audio here") -> None:
        """Audio [channel, sample] that begins at media time `start`.

        `reason` says why there is a gap before it, if there is one.
        """
        feed_together([(self, start, rows, reason)])

    def expect(self, start: int, rows: Rows, reason: str) -> Rows:
        """The same, but that it is still to be judged: what is to be, short gaps filled."""
        gap = start - self._end
        if gap > 0:
            self._hold([Gap(self._end, start, reason)])
        if gap > FILLED:
            for session in self.sessions:
                session.skip(start)
            self.states = self._fresh()
        self._end = start + rows.shape[1]
        filled = gap if 0 < gap <= FILLED else 0
        return np.pad(rows, ((0, 0), (filled, 0))) if filled else rows

    def judged(self, rows: Rows, results: Sequence[tuple[torch.Tensor, VadState]]) -> None:
        """What is expected, and what voice activity detection says of it, a channel each."""
        for n, (session, row) in enumerate(zip(self.sessions, rows, strict=True)):
            if self.silero is None:
                session.feed(row, ())
                continue
            (found, after), before = results[n], self.states[n]
            self.states[n] = after
            chances = found.tolist()
            if self._renews:
                chances = self._renewing(self.silero, n, before, torch.from_numpy(row), chances)
            session.feed(row, chances)

    def _renewing(
        self, silero: Silero, channel: int, state: VadState, pcm: torch.Tensor, found: list[float]
    ) -> list[float]:
        """After music, Silero is deaf to a word: what it remembers must not outlast its use. So
        after each time without speech the rest is judged anew, by a state that knows nothing.
        """
        chances: list[float] = []
        while (count := self._until_renewal(channel, found)) is not None:
            chances += found[:count]
            state, pcm = state.renewed(pcm, count), pcm[:0]
            ((again, self.states[channel]),) = silero.listen([state], [pcm])
            found = again.tolist()
        return chances + found

    def _until_renewal(self, channel: int, chances: Sequence[float]) -> int | None:
        """How many of these frames come before it; None if it is still to come after them."""
        for number, chance in enumerate(chances):
            self._quiet[channel] = self._quiet[channel] + 1 if chance < VOICED else 0
            if self._quiet[channel] >= RENEWAL:
                self._quiet[channel] = 0
                return number + 1
        return None

    def close(self) -> None:
        """No more audio comes."""
        for session in self.sessions:
            session.close()
        self._closed = True

    def work(self) -> tuple[int, Work] | None:
        """The next piece to recognise, with its channel, or None for now."""
        ready = [n for n, session in enumerate(self.sessions) if session.has_work]
        if not ready:
            return None
        channel = min(ready, key=lambda n: self.sessions[n].next_start)
        work = self.sessions[channel].work()
        assert work is not None
        return channel, work

    def events(self) -> list[Event]:
        """The events that can leave now, in order of time."""
        return self._release()

    def accept(self, channel: int, hypothesis: Hypothesis) -> list[Event]:
        """Take a result -> the events that can leave now, in order of time."""
        self.sessions[channel].accept(hypothesis)
        return self._release()

    @property
    def is_done(self) -> bool:
        """Whether all audio came and has been recognised."""
        return self._closed and all(session.is_done for session in self.sessions)

    def finish(self) -> list[Event]:
        """What is left to say after the last hypothesis."""
        for session in self.sessions:
            self._hold(session.finish())
        events = [event for _, event in sorted(self._held, key=lambda held: held[0])]
        self._held = []
        return events

    def _release(self) -> list[Event]:
        for session in self.sessions:
            self._hold(session.events())
        safe = min(session.settled for session in self.sessions)
        is_single = len(self.sessions) == 1  # its own events are in order; gaps are the source's
        ready = [
            (time, event)
            for time, event in self._held
            if time < safe or (is_single and not isinstance(event, Gap))
        ]
        self._held = [held for held in self._held if held not in ready]
        return [event for _, event in sorted(ready, key=lambda held: held[0])]

    def _hold(self, events: Iterable[Event]) -> None:
        for event in events:
            self._held.append((0 if isinstance(event, Language) else event.start, event))


def feed_together(blocks: Sequence[tuple[SourceStream, int, Rows, str]]) -> None:
    """Audio for several streams, each of them once: judged in one batch, which costs little more
    than the audio of one.
    """
    waiting = [
        (stream, stream.expect(start, rows, reason)) for stream, start, rows, reason in blocks
    ]
    while waiting:
        now = [(stream, rows[:, : stream.piece]) for stream, rows in waiting]
        rest = [(stream, rows[:, stream.piece :]) for stream, rows in waiting]
        waiting = [(stream, rows) for stream, rows in rest if rows.shape[1]]
        heard = [(stream, rows) for stream, rows in now if stream.silero]
        results: list[tuple[torch.Tensor, VadState]] = []
        if heard and heard[0][0].silero:
            results = heard[0][0].silero.listen(
                [state for stream, _ in heard for state in stream.states],
                [torch.from_numpy(row) for _, rows in heard for row in rows],
            )
        for stream, rows in now:
            count = len(rows) if stream.silero else 0
            stream.judged(rows, results[:count])
            results = results[count:]
