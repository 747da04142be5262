"""Work in, hypotheses out: many recognitions at once, their questions answered in batches."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from livecap.config import DecodeConfig
from livecap.engine.engine import Engine
from livecap.engine.request import Request, Sequence
from livecap.models.protocol import Ask, Heard, Listen, Model, Recognition
from livecap.work import Hypothesis, Work

PATIENCE = 2.5  # seconds; a batch of windows of a tiny model takes about two on two cores
HURRY = 0.25  # seconds of encoding for live streams before those that are encoded are decoded

Key = TypeVar("Key")  # whatever the caller knows a piece of work by


@dataclass(slots=True, eq=False)
class Job(Generic[Key]):
    """One recognition under way."""

    key: Key
    recognition: Recognition


class Recognizer(Generic[Key]):
    """Drives a model."""

    def __init__(
        self,
        model: Model,
        config: DecodeConfig,
        *,
        most: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        model.check(config)
        self.model = model
        self.config = config
        self.most = most  # pieces of work at once
        self.engine = Engine(model.decoder, most=most)
        self._listening: list[tuple[Listen, Job[Key]]] = []
        self._decoding: dict[Request, Job[Key]] = {}
        self._done: list[tuple[Key, Hypothesis]] = []
        self._clock = clock
        self._patience = PATIENCE  # seconds of encoding before the next decoding
        self._most_left = most  # still being decoded when encoding goes on

    @property
    def room(self) -> int:
        """Pieces of work that can still be taken."""
        return self.most - len(self._listening) - len(self._decoding)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return self.room == self.most and not self._done

    def submit(self, key: Key, work: Work, config: DecodeConfig | None = None) -> None:
        """Start on a piece of work, by its own configuration if it has one."""
        assert self.room > 0, "asked for more than there is room for"
        job = Job(key, self.model.recognise(work, config or self.config))
        self._go_on(job, None)

    def step(self, *, patience: float = math.inf) -> list[tuple[Key, Hypothesis]]:
        """Encode what waits, decode one step for all; return what is finished.

        `patience`: seconds of encoding at once, at most, where something may come meanwhile that
        can't wait.
        """
        self._hear(patience)
        for sequence in self.engine.step():
            self._go_on(self._decoding.pop(sequence.request), sequence)
        done, self._done = self._done, []
        return done

    def drop(self, key: Key) -> None:
        """Give up what is under way for a caller; its pages are free after that."""
        for place, (_, job) in reversed(list(enumerate(self._listening))):
            if job.key == key:
                del self._listening[place]
                job.recognition.close()
        for request, job in list(self._decoding.items()):
            if job.key == key:
                self.engine.drop(request)
                del self._decoding[request]
                job.recognition.close()
        self._done = [(other, done) for other, done in self._done if other != key]

    def forget(self, kept: object) -> None:
        """Free what a hypothesis kept for an update that won't come."""
        self.model.forget(kept)

    def _hear(self, most: float) -> None:
        """Encode what waits, but not so much that the first texts are long in coming.

        Decoding is fastest in large batches, and what is encoded first waits for the others. So
        the first batch gets PATIENCE seconds of encoding and each one after it twice as long; the
        next starts when half of it has been decoded. What somebody waits for comes first and at
        once, and gets HURRY seconds at a time.
        """
        is_live = bool(self._listening) and self._listening[0][0].deadline < math.inf
        if not self._listening or (len(self._decoding) > self._most_left and not is_live):
            return
        begun, patience = self._clock(), min(HURRY if is_live else self._patience, most)
        while self._listening and self._clock() - begun < patience:
            alike = [ask for ask, _ in self._listening if (ask.deadline < math.inf) == is_live]
            if not alike:
                break  # only recordings are left: they have their own turn
            heard = self.model.hear(alike if is_live else alike[:1])
            if not heard:
                break  # no room; some will be freed
            for answer in heard:
                _, job = self._listening.pop(0)
                self._go_on(job, answer)
        if self._listening:
            self._patience *= 1 if is_live else 2
            self._most_left = len(self._decoding) // 2
        else:
            self._most_left = self.most

    def abandon(self) -> None:
        """Drop everything under way; its pages are free after that."""
        self.engine.clear()
        for job in [*(job for _, job in self._listening), *self._decoding.values()]:
            job.recognition.close()
        self._listening, self._decoding = [], {}

    def _go_on(self, job: Job[Key], answer: Heard | Sequence | None) -> None:
        """Hand a recognition its answer and take its next question, or its result."""
        try:
            ask: Ask = job.recognition.send(answer)
        except StopIteration as end:
            self._done.append((job.key, end.value))
            return
        if isinstance(ask, Listen):
            self._listening.append((ask, job))
            self._listening.sort(key=lambda waiting: waiting[0].deadline)  # stable
        else:
            self._decoding[ask] = job
            self.engine.submit(ask)
