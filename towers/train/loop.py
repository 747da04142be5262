"""Steps of training: schedule, gradients over one process or several, and resuming.

Several processes are started by `torchrun`; each takes its share of every batch.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn

Losses = dict[str, Tensor]  # the scalar "loss", and parts of it to be written down

CLIP = 1.0  # of the gradient's norm
DECAY = 0.01
LATEST = "latest.pt"


@dataclass(frozen=True, slots=True)
class Schedule:
    """How fast is learnt: linear warm-up, then a cosine to a hundredth."""

    steps: int
    rate: float
    warmup: int = 200

    def at(self, step: int) -> float:
        """The learning rate of a step, from 0 on."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(self.steps - self.warmup, 1)
        return self.rate * (0.01 + 0.99 * (1 + math.cos(math.pi * min(done, 1.0))) / 2)


@dataclass(frozen=True, slots=True)
class Workers:
    """This process among those that train together."""

    rank: int
    count: int

    @classmethod
    def join(cls) -> "Workers":
        """As torchrun has set it up, or alone."""
        count = int(os.environ.get("WORLD_SIZE", "1"))
        if count > 1 and not distributed.is_initialized():
            distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        return cls(int(os.environ.get("RANK", "0")), count)

    def share(self, batch: Sequence[int]) -> Sequence[int]:
        """What of a batch is this process's; nobody's is empty unless there is too little."""
        return batch[self.rank :: self.count] or batch[-1:]

    def average(self, parameters: Sequence[nn.Parameter]) -> None:
        """The gradients of all processes."""
        if self.count == 1:
            return
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            distributed.all_reduce(parameter.grad)
            parameter.grad /= self.count


class OtherRun(ValueError):
    """A folder that holds another kind of run, or one of another model."""


class Trainer:
    """Trains some modules, by a function from a batch to losses."""

    def __init__(
        self,
        modules: dict[str, nn.Module],
        parameters: Sequence[nn.Parameter],
        schedule: Schedule,
        folder: Path,
        workers: Workers,
    ) -> None:
        self.modules = modules
        self.parameters = list(parameters)
        self.schedule = schedule
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.workers = workers
        self.step = 0
        self._optimizer = torch.optim.AdamW(
            self.parameters, lr=schedule.rate, betas=(0.9, 0.98), weight_decay=DECAY
        )

    def resume(self) -> bool:
        """Go on from what was saved last, if there is something. Raises OtherRun if it can't."""
        file = self.folder / LATEST
        if not file.exists():
            return False
        state: dict[str, Any] = torch.load(file, weights_only=True)
        try:
            for name, module in self.modules.items():
                module.load_state_dict(state[name])
            self._optimizer.load_state_dict(state["optimizer"])
        except (KeyError, RuntimeError, ValueError) as error:
            message = f"{self.folder} holds another run, which this one can't go on from: {error!r}"
            raise OtherRun(f"{message}. Name another folder.") from error
        self.step = int(state["step"])
        torch.set_rng_state(state["random"])
        return True

    def save(self) -> None:
        """What `resume` needs. Whole at every moment: it is renamed into place."""
        if self.workers.rank:
            return
        state: dict[str, Any] = {name: one.state_dict() for name, one in self.modules.items()}
        state |= {
            "optimizer": self._optimizer.state_dict(),
            "step": self.step,
            "random": torch.get_rng_state(),
        }
        torch.save(state, self.folder / f"{LATEST}.partial")
        (self.folder / f"{LATEST}.partial").replace(self.folder / LATEST)

    def run(
        self,
        batches: Iterator[list[int]],
        losses: Callable[[Sequence[int], int], Losses],
        *,
        until: int,
        every: int,
    ) -> Iterator[dict[str, float]]:
        """Steps up to `until`; after `every` of them their mean losses, which are also written down
        and saved. The batches that earlier runs have had are passed over.
        """
        for _ in range(self.step):
            next(batches)
        sums: dict[str, float] = {}
        begun, since = time.monotonic(), self.step
        while self.step < until:
            found = losses(self.workers.share(next(batches)), self.step)
            self._learn(found["loss"])
            self.step += 1
            for name, value in found.items():
                sums[name] = sums.get(name, 0.0) + float(value.detach())
            if self.step % every == 0 or self.step == until:
                count = self.step - since
                row = {"step": float(self.step)} | {n: v / count for n, v in sums.items()}
                row["seconds"] = (time.monotonic() - begun) / count
                self._write(row)
                self.save()
                yield row
                sums, begun, since = {}, time.monotonic(), self.step

    def _learn(self, loss: Tensor) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = self.schedule.at(self.step)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch's own stub has no types here
        self.workers.average(self.parameters)
        nn.utils.clip_grad_norm_(self.parameters, CLIP)
        self._optimizer.step()

    def _write(self, row: dict[str, float]) -> None:
        if self.workers.rank == 0:
            with (self.folder / "curve.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
