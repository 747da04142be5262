"""Audio of a segment that grows -> encoder rows; what is finished is not encoded again."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from livecap.engine.request import Kept
from livecap.models.protocol import Listen
from towers.aut import Rows
from towers.mel import Mel, MelState


class GrowingTower(Protocol):
    """What both towers come to for audio that grows."""

    def open(self) -> Any:
        """The state of a segment that has heard nothing."""

    def encode(self, states: Sequence[Any], mels: Sequence[Tensor], *, final: bool) -> Any:
        """For each stream its state and new mel [bins, frame] -> its new rows, and the state after.

        The windowed tower tells rows that are finished from those that are not; the causal one has
        only the former.
        """


@dataclass(frozen=True, slots=True)
class Hearing:
    """What has been made of a segment's audio so far."""

    samples: int  # that have been taken in
    mel: MelState
    tower: Any  # the tower's own state
    stable: Tensor  # [row, hidden]: rows that won't change
    provisional: Tensor  # [row, hidden]: rows of what is not finished
    names: tuple[Hashable, ...]  # of the stable rows: where names are equal, so are rows
    kept: Kept = field(default_factory=Kept)

    @property
    def rows(self) -> Tensor:
        """All rows so far [row, hidden]."""
        return torch.cat([self.stable, self.provisional])


def open_hearing(mel: Mel, tower: GrowingTower, like: Tensor) -> Hearing:
    """A segment that has not been heard yet; its rows will be as wide as `like` [_, hidden]."""
    none = torch.zeros(0, like.shape[1], device=like.device)
    return Hearing(0, mel.open(), tower.open(), none, none, ())


@torch.inference_mode()
def hear(mel: Mel, tower: GrowingTower, asked: Sequence[Listen]) -> list[Hearing]:
    """New audio of several segments -> what is known of each then, in one packed pass.

    Either all of them go on, or all of them end here.
    """
    before, frames, states = [], [], []
    final = asked[0].whole
    for ask in asked:
        assert isinstance(ask.hearing, Hearing)
        assert ask.whole == final
        pcm = torch.from_numpy(ask.pcm).to(ask.hearing.stable.device)
        new, state = mel.stream(pcm, ask.hearing.mel, final=final)
        before.append(ask.hearing)
        frames.append(new)
        states.append(state)
    encoded = tower.encode([one.tower for one in before], frames, final=final)
    return [
        _grown(old, len(ask.pcm), state, rows, after, final=final)
        for old, ask, state, (rows, after) in zip(before, asked, states, encoded, strict=True)
    ]


def _grown(
    old: Hearing, new: int, mel: MelState, found: Rows | Tensor, tower: Any, *, final: bool
) -> Hearing:
    rows = found if isinstance(found, Rows) else Rows(found, found[:0], ())
    samples, first = old.samples + new, len(old.names)
    # The end of a segment is another thing than the same rows would be if it went on.
    name = ("end", samples) if final else ("row",)
    names = tuple((*name, first + n) for n in range(len(rows.stable)))
    return Hearing(
        samples,
        mel,
        tower,
        torch.cat([old.stable, rows.stable]),
        rows.provisional,
        (*old.names, *names),
        old.kept,
    )
