"""Blocks of a source -> the streams of its channels: voice activity, gaps, and captions in order.

Voice activity of all channels of all sources is judged in one batch.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from livecap.events import RATE, Event, Gap, Language
from livecap.online.job import DecodeJob, Hypothesis
from livecap.online.stream import OnlineStream
from livecap.vad.endpointer import FRAME
from livecap.vad.silero import Silero, VadState

Rows = NDArray[np.float32]  # [channel, sample]
Block = tuple[int, Rows, str]  # media time of the first sample; audio; why there is a gap before it

# After music Silero is deaf to a word: what its LSTM remembers must not outlast its use. Measured
# with a minute of music before a word (benchmarks/README.md).
RESET_FRAMES = 8 * RATE // FRAME  # frames without speech after which its state is cleared
MAYBE_SPEECH = 0.3  # probability from which there may be speech
BATCH_SAMPLES = RATE  # of a stream that are judged together, where its state may be cleared
MAX_FILLED_GAP = RATE  # samples: a shorter gap is heard as silence, a longer one ends the segment


class MultichannelSource:
    """One source with one stream a channel."""

    def __init__(
        self, streams: Sequence[OnlineStream], silero: Silero | None, *, resets: bool = False
    ) -> None:
        """`resets`: the state of voice activity is cleared in long stretches without speech."""
        self.streams = streams
        self.silero = silero
        self._resets = resets
        self._silent_frames = [0] * len(streams)
        self._states = self._fresh()  # of voice activity, a channel each
        self._end = 0  # media time up to which audio has been pushed
        self._waiting: list[tuple[int, Event]] = []  # events of channels that are ahead, with time
        self._is_finished = False

    def _fresh(self) -> list[VadState]:
        return [self.silero.open() for _ in self.streams] if self.silero else []

    @property
    def decoded(self) -> int:
        """Samples that went to the model, all channels together."""
        return sum(stream.decoded for stream in self.streams)

    @property
    def total(self) -> int:
        """Samples that came in, all channels together."""
        return sum(stream.total for stream in self.streams)

    def push(self, start: int, rows: Rows, reason: str = "the source has no audio here") -> None:
        """Audio [channel, sample] that begins at media time `start`.

        `reason` says why there is a gap before it, if there is one.
        """
        push_all([(self, (start, rows, reason))])

    def finish(self) -> None:
        """No more audio comes."""
        for stream in self.streams:
            stream.finish()
        self._is_finished = True

    @property
    def has_job(self) -> bool:
        """Whether `poll` has something now."""
        return any(stream.has_job for stream in self.streams)

    def poll(self) -> tuple[int, DecodeJob] | None:
        """The next job, with its channel, or None for now."""
        ready = [n for n, stream in enumerate(self.streams) if stream.has_job]
        if not ready:
            return None
        channel = min(ready, key=lambda n: self.streams[n].next_start)
        job = self.streams[channel].poll()
        assert job is not None
        return channel, job

    def accept(self, channel: int, hypothesis: Hypothesis) -> list[Event]:
        """Take a result -> the events that can leave now, in order of time."""
        self.streams[channel].accept(hypothesis)
        return self.events()

    def events(self) -> list[Event]:
        """The events that can leave now, in order of time."""
        for stream in self.streams:
            self._hold(stream.events())
        safe = min(stream.final_until for stream in self.streams)
        is_single = len(self.streams) == 1  # its own events are in order; gaps are the source's
        ready = [
            (time, event)
            for time, event in self._waiting
            if time < safe or (is_single and not isinstance(event, Gap))
        ]
        self._waiting = [one for one in self._waiting if one not in ready]
        return [event for _, event in sorted(ready, key=lambda one: one[0])]

    @property
    def is_done(self) -> bool:
        """Whether all audio came and has been decoded."""
        return self._is_finished and all(stream.is_done for stream in self.streams)

    def close(self) -> list[Event]:
        """The events that are left after the last hypothesis."""
        for stream in self.streams:
            self._hold(stream.close())
        events = [event for _, event in sorted(self._waiting, key=lambda one: one[0])]
        self._waiting = []
        return events

    def _hold(self, events: Iterable[Event]) -> None:
        for event in events:
            self._waiting.append((0 if isinstance(event, Language) else event.start, event))

    # For `push_all`

    def fill_gap(self, start: int, rows: Rows, reason: str) -> Rows:
        """A block that is to be judged -> the same, with a short gap before it filled."""
        gap = start - self._end
        if gap > 0:
            self._hold([Gap(self._end, start, reason)])
        if gap > MAX_FILLED_GAP:
            for stream in self.streams:
                stream.skip(start)
            self._states = self._fresh()
        self._end = start + rows.shape[1]
        filled = gap if 0 < gap <= MAX_FILLED_GAP else 0
        return np.pad(rows, ((0, 0), (filled, 0))) if filled else rows

    @property
    def batch_samples(self) -> int | None:
        """Samples that are judged together; None: any number."""
        return BATCH_SAMPLES if self._resets and self.silero else None

    @property
    def states(self) -> Sequence[VadState]:
        """Of voice activity, a channel each; none without it."""
        return self._states

    def judged(self, rows: Rows, results: Sequence[tuple[torch.Tensor, VadState]]) -> None:
        """A placed block, and what voice activity detection says of it, a channel each."""
        for n, (stream, row) in enumerate(zip(self.streams, rows, strict=True)):
            if self.silero is None:
                stream.push(row, ())
                continue
            (found, after), before = results[n], self._states[n]
            self._states[n] = after
            probs = found.tolist()
            if self._resets:
                probs = self._resetting(self.silero, n, before, torch.from_numpy(row), probs)
            stream.push(row, probs)

    def _resetting(
        self, silero: Silero, channel: int, state: VadState, pcm: torch.Tensor, found: list[float]
    ) -> list[float]:
        """After each long time without speech the rest is judged anew, from a cleared state."""
        probs: list[float] = []
        while (count := self._until_reset(channel, found)) is not None:
            probs += found[:count]
            state, pcm = state.reset_after(count, pcm), pcm[:0]
            ((again, self._states[channel]),) = silero.probs([state], [pcm])
            found = again.tolist()
        return probs + found

    def _until_reset(self, channel: int, probs: Sequence[float]) -> int | None:
        """How many of these frames come before it; None if it is still to come after them."""
        for number, prob in enumerate(probs):
            silent = self._silent_frames[channel] + 1 if prob < MAYBE_SPEECH else 0
            self._silent_frames[channel] = silent % RESET_FRAMES
            if silent == RESET_FRAMES:
                return number + 1
        return None


def push_all(blocks: Sequence[tuple[MultichannelSource, Block]]) -> None:
    """Audio for several sources, each of them once: judged in one batch, which costs little more
    than the audio of one.
    """
    waiting = [(source, source.fill_gap(*block)) for source, block in blocks]
    while waiting:
        now = [(source, rows[:, : source.batch_samples]) for source, rows in waiting]
        waiting = [
            (source, rows[:, count:])
            for source, rows in waiting
            if (count := source.batch_samples) and rows.shape[1] > count
        ]
        judged = [(source, rows) for source, rows in now if source.silero]
        results: list[tuple[torch.Tensor, VadState]] = []
        if judged and judged[0][0].silero:
            results = judged[0][0].silero.probs(
                [state for source, _ in judged for state in source.states],
                [torch.from_numpy(row) for _, rows in judged for row in rows],
            )
        for source, rows in now:
            count = len(rows) if source.silero else 0
            source.judged(rows, results[:count])
            results = results[count:]
