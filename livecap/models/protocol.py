"""What a model family is to the rest of livecap."""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from livecap.config import DecodeConfig
from livecap.engine.engine import Decoder
from livecap.engine.request import Request
from livecap.online.job import DecodeJob, Hypothesis
from livecap.online.speech_buffer import Pcm

# What a tower makes of audio: rows that a prompt takes in, or keys and values for cross-attention,
# which whoever asked for them frees, or for audio that goes on the next `encoder_state`.
EncoderOutput = Any


@dataclass(frozen=True, slots=True, eq=False)
class EncodeRequest:
    """Encode this. The answer is what the family's decoder reads."""

    pcm: Pcm  # [sample], 16 kHz
    deadline: float = math.inf  # seconds on the caller's clock; the earliest is answered first
    encoder_state: object | None = None  # what the family knows of the audio before it, if any
    final: bool = True  # nothing follows it


@dataclass(frozen=True, slots=True, eq=False)
class Ahead:
    """Requests that will most likely be asked for, each at its time: they may be begun already.

    What is never asked for is dropped when the job ends. There is no answer.
    """

    requests: tuple[Request, ...]


Step = EncodeRequest | Request | Ahead

# A family's way from job to hypothesis, written straight on: it yields what it wants computed and
# is sent the answer (an EncoderOutput, or a finished Sequence for a Request). Whoever drives many
# of these at once batches what they ask for.
DecodeSteps = Generator[Step, Any, Hypothesis]


@dataclass(frozen=True, slots=True)
class StreamingDefaults:
    """What suits a family for live speech; see `online.config`. Lengths in samples."""

    policies: tuple[str, ...]  # names of commit policies that suit it, the default first
    interval: int
    first_update: int
    pause_update: int
    endpoint_silence: int
    min_sentence: int
    max_silence: int
    max_segment: int


class Model(Protocol):
    """A loaded model."""

    name: str
    languages: tuple[str, ...]  # ISO 639-1 codes it can be told; one for English-only models
    segment: int  # most samples in a job
    streaming: StreamingDefaults

    @property
    def decoder(self) -> Decoder:
        """What the engine drives."""

    def check(self, config: DecodeConfig) -> None:
        """Raise ConfigError for options that this model can't follow."""

    def untimed(self, language: str | None) -> str | None:
        """What to do so that words in that language (None: any) get times; None: they do."""

    def encode(self, requests: Sequence[EncodeRequest]) -> Sequence[EncoderOutput]:
        """Answer as many requests, from the first on, as there is room for."""

    def decode(self, job: DecodeJob, config: DecodeConfig) -> DecodeSteps:
        """The way from job to hypothesis."""

    def free(self, encoder_state: object) -> None:
        """Free what a hypothesis kept for the next update."""
