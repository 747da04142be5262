"""A recording through the live path, in real time or on a virtual clock -> what happened when.

On the virtual clock computing takes as long as it really takes, and waiting nothing.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from livecap.audio import AudioReader
from livecap.audio.prefetch import Pump, ReadConfig
from livecap.commands.bench_measures import Captions, Stretches, joined
from livecap.commands.file import FileRun, Progress
from livecap.config import DecodeConfig, VadConfig
from livecap.errors import LivecapError
from livecap.events import RATE, Caption, Event, Word
from livecap.models.load import Loaded
from livecap.online.config import StreamConfig
from livecap.online.job import DecodeJob, Hypothesis
from livecap.online.speech_buffer import Pcm
from livecap.online.stream import OnlineStream
from livecap.runtime.batcher import Batcher
from livecap.runtime.service import Service
from livecap.runtime.source import MultichannelSource
from livecap.vad.endpointer import Edge, Endpointer
from livecap.vad.silero import Silero

PIECE = RATE // 5  # samples that come together on the virtual clock
PACED = RATE // 10  # and in real time
STAGGER = 1.0  # seconds from the start of one session to that of the next
AT_ONCE = 30 * RATE  # samples whose voice activity is judged together


@dataclass(frozen=True, slots=True)
class SessionRun:
    """What one session did. Moments are seconds since its audio began."""

    events: tuple[tuple[float, Event], ...]
    lags: tuple[float, ...]  # seconds of audio that had come and was not heard, again and again
    busy: float  # seconds of computing; in real time, of waiting for hypotheses
    works: int | None = None  # hypotheses; None where nobody counts them

    @property
    def captions(self) -> Captions:
        """With their moments."""
        return [(at, event) for at, event in self.events if isinstance(event, Caption)]

    @property
    def text(self) -> str:
        """All that was said for good."""
        return "".join(caption.text for _, caption in self.captions)


def read(path: str) -> Pcm:
    """A recording -> 16 kHz mono on its own timeline; what is missing is silence."""
    with AudioReader(Path(path)) as reader:
        blocks = list(reader)
    pcm = np.zeros(blocks[-1].end if blocks else 0, np.float32)
    for block in blocks:
        pcm[block.start : block.end] = block.pcm[0]
    return pcm


def replay(
    loaded: Loaded,
    silero: Silero,
    pcm: Pcm,
    config: StreamConfig,
    decode: DecodeConfig,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> SessionRun:
    """One session on the virtual clock, with the seconds that computing takes on the given one.

    What comes while the machine computes is pushed before it goes on.
    """
    stream = OnlineStream(config)
    source = MultichannelSource([stream], silero if config.vad else None, resets=True)
    batcher: Batcher[int] = Batcher(loaded.model, decode, max_jobs=1)
    events: list[tuple[float, Event]] = []
    lags: list[float] = []
    now = busy = 0.0  # seconds
    pushed = jobs = 0
    try:
        while not source.is_done:
            started = clock()
            come = pushed
            while come < len(pcm) and min(come + PIECE, len(pcm)) / RATE <= now:
                come = min(come + PIECE, len(pcm))
            if come > pushed:
                source.push(pushed, pcm[None, pushed:come])
                pushed = come
            if pushed == len(pcm):
                source.finish()
            lags.append(stream.backlog / RATE)
            found = source.poll()
            taken = clock() - started
            events += [(now + taken, event) for event in source.events()]
            if found:
                jobs += 1
                committed = source.accept(0, _decode(batcher, stream, found[1]))
                taken = clock() - started
                events += [(now + taken, event) for event in committed]
            now, busy = now + taken, busy + taken
            if not found and pushed < len(pcm):
                now = max(now, min(pushed + PIECE, len(pcm)) / RATE)
        events += [(now, event) for event in source.close()]
    finally:
        batcher.cancel(lambda key: True)
        for state in stream.cancel():
            batcher.free(state)
    return SessionRun(tuple(events), tuple(lags), busy, jobs)


def _decode(batcher: Batcher[int], stream: OnlineStream, job: DecodeJob) -> Hypothesis:
    for state in stream.freed():
        batcher.free(state)
    batcher.submit(0, replace(job, deadline=0.0))  # as somebody waits for it
    while not (done := batcher.step()):
        pass
    return done[0][1]


class _Listener:
    """A session in real time."""

    def __init__(
        self, service: Service, config: StreamConfig, begins: float, clock: Callable[[], float]
    ) -> None:
        self.begins = begins  # seconds on the clock
        self._clock = clock
        self.events: list[tuple[float, Event]] = []
        self.lags: list[float] = []
        self.failure: LivecapError | None = None
        self.is_over = threading.Event()
        self.stream = service.open(config, notify=self._note)

    def _note(self) -> None:
        """Something has happened. Called from the service's thread."""
        now = self._clock() - self.begins
        try:
            while events := self.stream.poll():
                self.events += [(now, event) for event in events]
        except LivecapError as error:
            self.failure = error
        if self.failure or self.stream.is_done:
            self.is_over.set()

    def send(self, pcm: Pcm, at: int) -> None:
        self.lags.append(self.stream.lag)
        self.stream.push(at, pcm[None, at : at + PACED])
        if at + PACED >= len(pcm):
            self.stream.finish()

    def end(self) -> SessionRun:
        self.is_over.wait()
        if self.failure:
            raise self.failure
        return SessionRun(tuple(self.events), tuple(self.lags), self.stream.busy)


def perform(
    loaded: Loaded,
    silero: Silero,
    pcm: Pcm,
    config: StreamConfig,
    decode: DecodeConfig,
    *,
    sessions: int = 1,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> list[SessionRun]:
    """Sessions in real time, each of the same recording; one starts after the other."""
    service = Service(loaded, silero, decode)
    try:
        begins = clock()
        listeners = [
            _Listener(service, config, begins + n * STAGGER, clock) for n in range(sessions)
        ]
        schedule = sorted(
            (one.begins + min(at + PACED, len(pcm)) / RATE, n, at)
            for n, one in enumerate(listeners)
            for at in range(0, len(pcm), PACED)
        )
        for due, n, at in schedule:  # once it has been spoken
            wait(max(due - clock(), 0.0))
            listeners[n].send(pcm, at)
        return [one.end() for one in listeners]
    finally:
        service.close()


def offline(
    loaded: Loaded, silero: Silero, path: str, decode: DecodeConfig, vad: VadConfig
) -> list[Word]:
    """What the same model makes of the whole file."""
    run = FileRun(
        loaded,
        silero,
        decode=decode,
        vad=vad,
        open_source=lambda name: Pump(name, ReadConfig()),
    )
    found: list[Word] = []
    for item in run.run([path]):
        if isinstance(item, Progress):
            if item.failure:
                raise item.failure
        elif isinstance(item[1], Caption):
            found += item[1].words
    return found


def stretches(silero: Silero, pcm: Pcm, vad: VadConfig, pause: int) -> Stretches:
    """Where someone speaks, with pauses shorter than that."""
    endpointer, state, edges = Endpointer(vad), silero.open(), list[Edge]()
    for at in range(0, len(pcm), AT_ONCE):
        piece = pcm[at : at + AT_ONCE]
        ((probs, state),) = silero.probs([state], [torch.from_numpy(piece)])
        edges += endpointer.push(probs.tolist(), at + len(piece))[0]
    edges += endpointer.finish(len(pcm))[0]
    starts = [edge.at for edge in edges if edge.kind == "start"]
    stops = [edge.at for edge in edges if edge.kind == "stop"]
    return joined(list(zip(starts, stops, strict=True)), pause)
