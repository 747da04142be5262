"""Work in, hypotheses out: many recognitions at once, their questions answered in batches."""

import math
import time
from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from livecap.config import DecodeConfig
from livecap.engine.engine import Engine
from livecap.engine.request import Request, Sequence
from livecap.models.protocol import Ask, Heard, Listen, Model, Recognition
from livecap.work import Hypothesis, Work

PATIENCE = 2.5  # seconds; a batch of windows of a tiny model takes about two on two cores
HURRY = 0.25  # seconds of encoding for live streams before those that are encoded are decoded
OVERDUE, HOPELESS = 3.0, 5.0  # seconds after a deadline between which the rest of a text goes first

Key = TypeVar("Key")  # whatever the caller knows a piece of work by


@dataclass(slots=True, eq=False)
class Job(Generic[Key]):
    """One recognition under way."""

    key: Key
    recognition: Recognition
    ahead: dict[Request, Sequence | None] = field(default_factory=dict)  # begun; None: not finished


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
        self._decoding: dict[Request, Job[Key]] = {}  # what they wait for
        self._ahead: dict[Request, Job[Key]] = {}  # what was begun and nobody waits for yet
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
            self._answer(sequence)
        done, self._done = self._done, []
        return done

    def drop(self, key: Key) -> None:
        """Give up what is under way for a caller; its pages are free after that."""
        for place, (_, job) in reversed(list(enumerate(self._listening))):
            if job.key == key:
                del self._listening[place]
                job.recognition.close()
                self._drop_ahead(job)
        for request, job in list(self._decoding.items()):
            if job.key == key:
                self.engine.drop(request)
                del self._decoding[request]
                job.recognition.close()
                self._drop_ahead(job)
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
        if self._is_overdue():
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

    def _is_overdue(self) -> bool:
        """Whether somebody has waited long for a text that is being decoded, as where it loops."""
        now = self._clock()
        return any(OVERDUE < now - request.deadline < HOPELESS for request in self._decoding)

    def abandon(self) -> None:
        """Drop everything under way; its pages are free after that."""
        self.engine.clear()
        for job in [*(job for _, job in self._listening), *self._decoding.values()]:
            job.recognition.close()
        self._listening, self._decoding, self._ahead = [], {}, {}

    def _answer(self, sequence: Sequence) -> None:
        """One is finished: it is waited for, or was begun ahead."""
        job = self._decoding.pop(sequence.request, None)
        if job:
            self._go_on(job, sequence)
        elif job := self._ahead.get(sequence.request):
            job.ahead[sequence.request] = sequence

    def _go_on(self, job: Job[Key], answer: Heard | Sequence | None) -> None:
        """Hand a recognition its answer and take its next question, or its result."""
        while True:
            try:
                ask: Ask = job.recognition.send(answer)
            except StopIteration as end:
                self._drop_ahead(job)
                self._done.append((job.key, end.value))
                return
            answer = None
            if isinstance(ask, Listen):
                self._listening.append((ask, job))
                self._listening.sort(key=lambda waiting: waiting[0].deadline)  # stable
                return
            if isinstance(ask, Request):
                answer = self._decode(job, ask)
                if answer is None:
                    return
            else:
                self._begin(job, ask.requests)

    def _decode(self, job: Job[Key], request: Request) -> Sequence | None:
        """The answer if it was begun ahead and is there already; else it is under way from now."""
        is_begun = self._ahead.pop(request, None) is not None
        sequence = job.ahead.pop(request, None)
        if sequence is None:
            self._decoding[request] = job
            if not is_begun:
                self.engine.submit(request)
        return sequence

    def _begin(self, job: Job[Key], requests: Items[Request]) -> None:
        for request in requests:
            job.ahead[request], self._ahead[request] = None, job
            self.engine.submit(request)

    def _drop_ahead(self, job: Job[Key]) -> None:
        """Nobody will ask for what is left."""
        for request in job.ahead:
            self.engine.drop(request)
            del self._ahead[request]
        job.ahead.clear()
