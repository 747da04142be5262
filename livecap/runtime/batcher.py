"""Jobs in, hypotheses out: many at once, what their models ask for computed in batches."""

import math
import time
from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from livecap.config import DecodeConfig
from livecap.engine.engine import Engine
from livecap.engine.request import Request, Sequence
from livecap.models.protocol import DecodeSteps, EncodeRequest, EncoderOutput, Model, Step
from livecap.online.job import DecodeJob, Hypothesis

ENCODE_SLICE_S = 0.25  # of encoding between two decoder steps: nobody waits longer for the next one

Key = TypeVar("Key")  # whatever the caller knows a job by


@dataclass(slots=True, eq=False)
class _Running(Generic[Key]):
    """A job under way."""

    key: Key
    steps: DecodeSteps
    ahead: dict[Request, Sequence | None] = field(default_factory=dict)  # begun; None: not finished


class Batcher(Generic[Key]):
    """Drives a model.

    What is to be encoded and what is to be decoded goes by deadline, the earliest first, in two
    classes: live jobs have a deadline, files have none. Each step encodes for one time slice, then
    decodes one token for all that run.
    """

    def __init__(
        self,
        model: Model,
        config: DecodeConfig,
        *,
        max_jobs: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        model.check(config)
        self.model = model
        self.config = config
        self.max_jobs = max_jobs
        self.engine = Engine(model.decoder, most=max_jobs)
        self._clock = clock
        self._encoding: list[tuple[EncodeRequest, _Running[Key]]] = []
        self._decoding: dict[Request, _Running[Key]] = {}  # what they wait for
        self._ahead: dict[Request, _Running[Key]] = {}  # what was begun and nobody waits for yet
        self._done: list[tuple[Key, Hypothesis]] = []

    @property
    def capacity(self) -> int:
        """Jobs that can still be taken."""
        return self.max_jobs - len(self._encoding) - len(self._decoding)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return self.capacity == self.max_jobs and not self._done

    def submit(self, key: Key, job: DecodeJob, config: DecodeConfig | None = None) -> None:
        """Start on a job, by its own configuration if it has one."""
        assert self.capacity > 0, "more than there is capacity for"
        self._go_on(_Running(key, self.model.decode(job, config or self.config)), None)

    def step(self) -> list[tuple[Key, Hypothesis]]:
        """Encode for a time slice, decode one step for all -> what is finished."""
        self._encode()
        for sequence in self.engine.step():
            self._answer(sequence)
        done, self._done = self._done, []
        return done

    def cancel(self, is_unwanted: Callable[[Key], bool]) -> None:
        """Drop what is under way by those keys; its pages are free after that."""
        for index, (_, running) in reversed(list(enumerate(self._encoding))):
            if is_unwanted(running.key):
                del self._encoding[index]
                self._close(running)
        for request, running in list(self._decoding.items()):
            if is_unwanted(running.key):
                self.engine.drop(request)
                del self._decoding[request]
                self._close(running)
        self._done = [(key, done) for key, done in self._done if not is_unwanted(key)]

    def free(self, encoder_state: object) -> None:
        """Free what a hypothesis kept for an update that won't come."""
        self.model.free(encoder_state)

    def _encode(self) -> None:
        """What waits, the earliest deadline first; what has none, one at a time."""
        started = self._clock()
        while self._encoding:
            live = [request for request, _ in self._encoding if request.deadline < math.inf]
            outputs = self.model.encode(live or [self._encoding[0][0]])
            if not outputs:
                return  # no pages; some will be freed
            for output in outputs:
                _, running = self._encoding.pop(0)
                self._go_on(running, output)
            if self._clock() - started >= ENCODE_SLICE_S:
                return

    def _answer(self, sequence: Sequence) -> None:
        """One is finished: it is waited for, or was begun ahead."""
        running = self._decoding.pop(sequence.request, None)
        if running:
            self._go_on(running, sequence)
        elif running := self._ahead.get(sequence.request):
            running.ahead[sequence.request] = sequence

    def _go_on(self, running: _Running[Key], answer: EncoderOutput | Sequence | None) -> None:
        """Hand a job its answer and take its next request, or its result."""
        while True:
            try:
                step: Step = running.steps.send(answer)
            except StopIteration as end:
                self._drop_ahead(running)
                self._done.append((running.key, end.value))
                return
            answer = None
            if isinstance(step, EncodeRequest):
                self._encoding.append((step, running))
                self._encoding.sort(key=lambda waiting: waiting[0].deadline)  # stable
                return
            if isinstance(step, Request):
                answer = self._decode(running, step)
                if answer is None:
                    return
            else:
                self._begin(running, step.requests)

    def _decode(self, running: _Running[Key], request: Request) -> Sequence | None:
        """The answer if it was begun ahead and is there already; else it is under way from now."""
        is_begun = self._ahead.pop(request, None) is not None
        sequence = running.ahead.pop(request, None)
        if sequence is None:
            self._decoding[request] = running
            if not is_begun:
                self.engine.submit(request)
        return sequence

    def _begin(self, running: _Running[Key], requests: Items[Request]) -> None:
        for request in requests:
            running.ahead[request], self._ahead[request] = None, running
            self.engine.submit(request)

    def _close(self, running: _Running[Key]) -> None:
        running.steps.close()
        self._drop_ahead(running)

    def _drop_ahead(self, running: _Running[Key]) -> None:
        """Nobody will ask for what is left."""
        for request in running.ahead:
            self.engine.drop(request)
            del self._ahead[request]
        running.ahead.clear()
