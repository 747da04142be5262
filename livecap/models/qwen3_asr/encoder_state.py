"""Audio of a segment that grows -> encoder rows; what is finished is not encoded again."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from livecap.engine.request import PrefixCache
from livecap.models.protocol import EncodeRequest
from towers.mel import Mel, MelState
from towers.qwen3_windowed import Rows


class GrowingTower(Protocol):
    """What both towers come to for audio that grows."""

    def open(self) -> Any:
        """The state of a segment that has had no audio."""

    def encode(self, states: Sequence[Any], mels: Sequence[Tensor], *, final: bool) -> Any:
        """For each stream its state and new mel [bins, frame] -> its new rows, and the state after.

        The windowed tower tells rows that are finished from those that are not; the causal one has
        only the former.
        """


@dataclass(frozen=True, slots=True)
class EncoderState:
    """What has been made of a segment's audio so far."""

    samples: int  # that have been taken in
    mel: MelState
    tower: Any  # the tower's own state
    stable: Tensor  # [row, hidden]: rows that won't change
    provisional: Tensor  # [row, hidden]: rows of what is not finished
    names: tuple[Hashable, ...]  # of the stable rows: where names are equal, so are rows
    prefix_cache: PrefixCache = field(default_factory=PrefixCache)

    @property
    def rows(self) -> Tensor:
        """All rows so far [row, hidden]."""
        return torch.cat([self.stable, self.provisional])


def open_state(mel: Mel, tower: GrowingTower, like: Tensor) -> EncoderState:
    """A segment that has had no audio yet; its rows will be as wide as `like` [_, hidden]."""
    none = torch.zeros(0, like.shape[1], device=like.device)
    return EncoderState(0, mel.open(), tower.open(), none, none, ())


@torch.inference_mode()
def encode_more(
    mel: Mel, tower: GrowingTower, requests: Sequence[EncodeRequest]
) -> list[EncoderState]:
    """New audio of several segments -> what is known of each then, in one packed pass.

    Either all of them go on, or all of them end here.
    """
    before, frames, states = [], [], []
    final = requests[0].final
    for request in requests:
        assert isinstance(request.encoder_state, EncoderState)
        assert request.final == final
        pcm = torch.from_numpy(request.pcm).to(request.encoder_state.stable.device)
        new, state = mel.stream(pcm, request.encoder_state.mel, final=final)
        before.append(request.encoder_state)
        frames.append(new)
        states.append(state)
    encoded = tower.encode([one.tower for one in before], frames, final=final)
    return [
        _grown(old, len(request.pcm), state, rows, after, final=final)
        for old, request, state, (rows, after) in zip(
            before, requests, states, encoded, strict=True
        )
    ]


def _grown(
    old: EncoderState, new: int, mel: MelState, found: Rows | Tensor, tower: Any, *, final: bool
) -> EncoderState:
    rows = found if isinstance(found, Rows) else Rows(found, found[:0], ())
    samples, first = old.samples + new, len(old.names)
    # The end of a segment is another thing than the same rows would be if it went on.
    name = ("end", samples) if final else ("row",)
    names = tuple((*name, first + n) for n in range(len(rows.stable)))
    return EncoderState(
        samples,
        mel,
        tower,
        torch.cat([old.stable, rows.stable]),
        rows.provisional,
        (*old.names, *names),
        old.prefix_cache,
    )
