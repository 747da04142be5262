"""What a realtime session asks of whoever carries it, in the order in which it is to be done."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.float32]
Delay = Literal["minimal", "low", "medium", "high", "xhigh"]


@dataclass(frozen=True, slots=True)
class Hearing:
    """How a stretch of audio is to be captioned: one live stream's configuration."""

    model: str  # the served name, not an alias
    language: str | None  # ISO 639-1 code; None: detect it
    languages: tuple[str, ...]  # codes to choose from; () for any
    prompt: str
    keywords: tuple[str, ...]
    turns: bool  # tell Voice and Settled
    threshold: float  # probability of speech, 0 to 1
    prefix_padding_ms: int  # kept before speech
    silence_ms: int  # quiet that ends a turn
    delay: Delay | None  # how long to hold text back; None: what suits the model
    words: bool  # give words their times


@dataclass(frozen=True, slots=True)
class Frame:
    """Send this JSON object. `coalesce`: an unsent frame with the same key may be replaced by it.

    Frames without that key must all be sent, in order.
    """

    event: dict[str, object]
    coalesce: str | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """Open a live stream under this number. What can't be opened has `ended` with the error."""

    hearing: int
    config: Hearing


@dataclass(frozen=True, slots=True, eq=False)
class Feed:
    """Audio for a stream. It follows the audio before without a gap."""

    hearing: int
    start: int  # samples at 16 kHz on the session's clock
    pcm: Pcm  # [1, sample]


@dataclass(frozen=True, slots=True)
class Finish:
    """No more audio comes for this stream; all of it is still to be captioned."""

    hearing: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Nobody wants what this stream would still say."""

    hearing: int


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection. It is the last action of a session, whose streams are then dropped."""

    code: int  # RFC 6455
    reason: str


Action = Frame | Open | Feed | Finish | Drop | Close
