"""What a transport knows when a client has connected, and what the server allows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from livecap.api.realtime.dialects import Dialect

BETA_HEADER = "realtime=v1"  # of `OpenAI-Beta`
BETA_PROTOCOL = "openai-beta.realtime-v1"  # the same as a WebSocket subprotocol, for browsers


@dataclass(frozen=True, slots=True)
class Connection:
    """The facts of one connection. Unknown query parameters are left alone.

    Known are: model, intent, language, dialect, sample_rate, input_audio_format
    (pcm_s16le_16000), turn_detection (none, server_vad or semantic_vad).
    """

    query: Mapping[str, str] = field(default_factory=dict)
    beta: bool = False  # it asks for the beta protocol; see `asks_for_beta`
    binary: bool = False  # raw audio may come as binary messages
    media_rate: int | None = None  # Hz: audio comes over a media track, and events carry none
    session: Mapping[str, object] | None = None  # configuration that a client secret carries


class Catalogue(Protocol):
    """The models that are served."""

    def canonical(self, name: str | None) -> str | None:
        """A model's name or alias -> the served name; None: the default. None if unknown."""

    def languages(self, model: str) -> tuple[str, ...]:
        """The codes that a served model can be told; none as long as it is not loaded."""


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """How much one session may ask for, and how strictly it is read."""

    min_commit_ms: int = 100  # audio that a commit needs; 0: any at all
    max_buffer_s: int = 120  # without turn detection, audio after which is committed for the client
    max_stream_s: int = 3600  # the same in the vLLM dialect, where a commit ends everything
    max_append_bytes: int = 15 << 20  # of audio in one event (OpenAI Realtime API)
    max_session_s: int = 3600  # after which `expire("duration")` is called; 0: never
    idle_s: int = 300  # without an event, after which `expire("idle")` is called; 0: never
    items: int = 1000  # the last ones, that can be retrieved
    pending: int = 256  # commits whose text is awaited; more are refused
    strict: bool = False  # refuse session fields that are not known
    dialect: Dialect | None = None  # for all clients that don't choose one; None: find out


def asks_for_beta(header: str | None, subprotocols: Iterable[str]) -> bool:
    """The `OpenAI-Beta` header and the offered subprotocols -> whether the beta is asked for."""
    named = [part.strip() for part in (header or "").split(",")]
    return BETA_HEADER in named or BETA_PROTOCOL in subprotocols
