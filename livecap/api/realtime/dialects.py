"""Four ways to speak the protocol: which one a client speaks, and how an event reads in each.

The session itself speaks OpenAI's GA dialect. A dialect changes only how a configuration is read,
which defaults hold, and what events are called. Sources: OpenAI Realtime API (GA, and the beta
that it replaced); vLLM's and M*'s realtime servers.
"""

from collections.abc import Mapping
from typing import Literal, get_args

Dialect = Literal["openai", "openai-beta", "vllm", "mstar"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)

RATES: dict[Dialect, int] = {
    "openai": 24_000,
    "openai-beta": 24_000,
    "vllm": 16_000,
    "mstar": 16_000,
}
WITH_TURNS = frozenset[Dialect]({"openai", "openai-beta"})  # server VAD, unless stated otherwise

TRANSCRIPTION = "conversation.item.input_audio_transcription"
PARTIAL = "livecap.transcription.partial"
STALLED = "livecap.transcription.stalled"

# What has no counterpart in vLLM's protocol.
NOT_IN_VLLM = frozenset(
    {
        "session.updated",
        "transcription_session.updated",
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        PARTIAL,
        STALLED,
    }
)


def implied(current: Dialect, kind: str, session: object, *, names_model: bool) -> Dialect:
    """A configuration event -> the dialect it is in; the current one where it would be the same.

    `session` is its session object, if it has one; `names_model` whether it has a top-level
    `model`.
    """
    if kind == "transcription_session.update":
        is_mstar = isinstance(session, Mapping) and "mstar" in session
        return "mstar" if is_mstar or current == "mstar" else "openai-beta"
    if session is None:
        return "vllm" if names_model else current
    return "openai" if current == "vllm" else current


def shown(dialect: Dialect, event: dict[str, object]) -> dict[str, object] | None:
    """A GA event without its id -> the same in a dialect; None if that has no such event."""
    if dialect == "openai":
        return event
    if dialect == "vllm":
        return _for_vllm(event)
    kind = event["type"]
    if kind == "conversation.item.added":
        return {**event, "type": "conversation.item.created"}
    if kind == "conversation.item.done" or (kind == STALLED and dialect == "mstar"):
        return None
    if kind == PARTIAL and dialect == "mstar":
        return {
            "type": "mstar.transcription.partial",
            "item_id": event["item_id"],
            "text": event["text"],
            "chunk_id": event["seq"],
            "audio_seconds": _seconds(event["audio_ms"]),
            "created": event["created"],
        }
    return event


def _seconds(milliseconds: object) -> float:
    assert isinstance(milliseconds, int)
    return milliseconds / 1000


def _for_vllm(event: dict[str, object]) -> dict[str, object] | None:
    kind = event["type"]
    if kind in NOT_IN_VLLM:
        return None
    if kind == f"{TRANSCRIPTION}.delta":
        return {"type": "transcription.delta", "delta": event["delta"]}
    if kind == f"{TRANSCRIPTION}.completed":
        # The tokens are not counted, and the length of the audio is.
        counts = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        usage = event["usage"]
        assert isinstance(usage, dict)
        return {"type": "transcription.done", "text": event["transcript"], "usage": counts | usage}
    if kind in ("error", f"{TRANSCRIPTION}.failed"):
        error = event["error"]
        assert isinstance(error, dict)
        return {"type": "error", "error": error["message"], "code": error["code"]}
    return event
