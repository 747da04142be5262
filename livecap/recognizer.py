"""Work in, hypotheses out: many recognitions at once, their questions answered in batches."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from livecap.config import DecodeConfig
from livecap.engine.engine import Engine
from livecap.engine.scheduler import Memory, Request, Sequence
from livecap.models.protocol import Ask, Listen, Model, Recognition
from livecap.work import Hypothesis, Work

Key = TypeVar("Key")  # whatever the caller knows a piece of work by


@dataclass(slots=True, eq=False)
class Job(Generic[Key]):
    """One recognition under way."""

    key: Key
    recognition: Recognition


class Recognizer(Generic[Key]):
    """Drives a model."""

    def __init__(self, model: Model, config: DecodeConfig, *, most: int) -> None:
        model.check(config)
        self.model = model
        self.config = config
        self.most = most  # pieces of work at once
        self.engine = Engine(model.decoder, most=most)
        self._listening: list[tuple[Listen, Job[Key]]] = []
        self._decoding: dict[Request, Job[Key]] = {}
        self._done: list[tuple[Key, Hypothesis]] = []

    @property
    def room(self) -> int:
        """Pieces of work that can still be taken."""
        return self.most - len(self._listening) - len(self._decoding)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return self.room == self.most and not self._done

    def submit(self, key: Key, work: Work) -> None:
        """Start on a piece of work."""
        assert self.room > 0, "asked for more than there is room for"
        job = Job(key, self.model.recognise(work, self.config))
        self._go_on(job, None)

    def step(self) -> list[tuple[Key, Hypothesis]]:
        """Encode what waits, decode one step for all; return what is finished."""
        if self._listening:
            memories = self.model.hear([ask for ask, _ in self._listening])
            answered, self._listening = (
                self._listening[: len(memories)],
                self._listening[len(memories) :],
            )
            for memory, (_, job) in zip(memories, answered, strict=True):
                self._go_on(job, memory)
        for sequence in self.engine.step():
            self._go_on(self._decoding.pop(sequence.request), sequence)
        done, self._done = self._done, []
        return done

    def abandon(self) -> None:
        """Drop everything under way; its pages are free after that."""
        self.engine.clear()
        for job in [*(job for _, job in self._listening), *self._decoding.values()]:
            job.recognition.close()
        self._listening, self._decoding = [], {}

    def _go_on(self, job: Job[Key], answer: Memory | Sequence | None) -> None:
        """Hand a recognition its answer and take its next question, or its result."""
        try:
            ask: Ask = job.recognition.send(answer)
        except StopIteration as end:
            self._done.append((job.key, end.value))
            return
        if isinstance(ask, Listen):
            self._listening.append((ask, job))
        else:
            self._decoding[ask] = job
            self.engine.submit(ask)
