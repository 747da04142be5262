"""What a model family is to the rest of livecap."""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from livecap.config import DecodeConfig
from livecap.engine.engine import Decoder
from livecap.engine.request import Request
from livecap.work import Hypothesis, Work

Pcm = NDArray[np.float32]


# What a tower makes of audio: rows that a prompt takes in, or a memory for cross-attention, which
# whoever asked for it frees, or for audio that goes on from a `hearing` the next one.
Heard = Any


@dataclass(frozen=True, slots=True, eq=False)
class Listen:
    """A question to the tower: encode this. The answer is what the family's decoder reads."""

    pcm: Pcm  # [sample], 16 kHz
    deadline: float = math.inf  # seconds on the caller's clock; the earliest is answered first
    hearing: object | None = None  # what the family knows of the audio before, if there is some
    whole: bool = True  # nothing follows it


@dataclass(frozen=True, slots=True, eq=False)
class Ahead:
    """Requests that will most likely be asked for, each at its time: they may be begun already.

    What is never asked for is dropped when the recognition ends. There is no answer.
    """

    requests: tuple[Request, ...]


Ask = Listen | Request | Ahead

# A family's way from work to hypothesis, written straight on: it yields what it wants computed and
# is sent the answer (a Heard for a Listen, a finished Sequence for a Request). Whoever drives many
# of these at once batches what they ask for.
Recognition = Generator[Ask, Any, Hypothesis]


@dataclass(frozen=True, slots=True)
class LiveTraits:
    """How a family likes to hear live speech; see `live.LiveConfig`. Lengths in samples."""

    policies: tuple[str, ...]  # names of commit policies that suit it, the default first
    interval: int
    lead: int
    pause: int
    sentence: int
    bridge: int
    most: int


class Model(Protocol):
    """A loaded model."""

    name: str
    languages: tuple[str, ...]  # ISO 639-1 codes it can be told; one for English-only models
    segment: int  # most samples in a piece of work
    live: LiveTraits

    @property
    def decoder(self) -> Decoder:
        """What the engine drives."""

    def check(self, config: DecodeConfig) -> None:
        """Raise ConfigError for options that this model can't follow."""

    def untimed(self, language: str | None) -> str | None:
        """What to do so that words in that language (None: any) get times; None: they do."""

    def hear(self, asked: Sequence[Listen]) -> Sequence[Heard]:
        """Answer as many questions, from the first on, as there is room for."""

    def recognise(self, work: Work, config: DecodeConfig) -> Recognition:
        """The way from work to hypothesis."""

    def forget(self, kept: object) -> None:
        """Free what a hypothesis kept for the next update."""
