"""Settings -> the session object as clients see it, nested (GA) or flat (beta).

Source: OpenAI Realtime API, `session` of `session.updated`, and of the beta's
`transcription_session.updated`. `livecap` is ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from livecap.api.realtime.connection import Catalogue, SessionLimits
from livecap.api.realtime.errors import Refusal, new_id
from livecap.api.realtime.formats import Encoding
from livecap.api.realtime.settings import SessionSettings, TranscriptionSettings
from livecap.api.realtime.updates import updated

NAMES: dict[Encoding, str] = {"pcm": "audio/pcm", "ulaw": "audio/pcmu", "alaw": "audio/pcma"}
BETA_NAMES: dict[Encoding, str] = {"pcm": "pcm16", "ulaw": "g711_ulaw", "alaw": "g711_alaw"}
OBJECT = "realtime.transcription_session"


@dataclass(frozen=True, slots=True)
class Views:
    """One configuration in both shapes."""

    ga: dict[str, object]
    beta: dict[str, object]


def nested(settings: SessionSettings, session_id: str, expires_at: int | None) -> dict[str, object]:
    """The GA session object."""
    form: dict[str, object] = {"type": NAMES[settings.encoding]}
    if settings.encoding == "pcm":
        form["rate"] = settings.form.rate
    transcription = {
        "format": form,
        "transcription": _transcription(settings.transcription),
        "noise_reduction": None,
        "turn_detection": _turns(settings),
    }
    return {
        "type": "transcription",
        "id": session_id,
        "object": OBJECT,
        "expires_at": expires_at,
        "include": list(settings.include) if settings.include is not None else None,
        "audio": {"input": transcription},
        "livecap": _own(settings),
    }


def flat(settings: SessionSettings, session_id: str, expires_at: int | None) -> dict[str, object]:
    """The beta's session object."""
    return {
        "id": session_id,
        "object": OBJECT,
        "expires_at": expires_at,
        "modalities": ["text"],
        "input_audio_format": BETA_NAMES[settings.encoding],
        "input_audio_transcription": _transcription(settings.transcription),
        "turn_detection": _turns(settings),
        "input_audio_noise_reduction": None,
        "include": list(settings.include) if settings.include is not None else None,
        "client_secret": None,
        "livecap": _own(settings),
    }


def check_session(
    body: Mapping[str, object], catalogue: Catalogue, limits: SessionLimits, *, beta: bool
) -> Views:
    """A session object, nested or flat, that sessions are to begin with -> how it takes effect.

    For client secrets: `Connection.session` takes the same body. `beta` settles what is not
    stated. Raises Refusal, with paths from `session`, or from the body itself if `beta`.
    """
    model = catalogue.canonical(None)
    if model is None:
        raise Refusal("model_not_found", "No model is served here.", param="model")
    usual = TranscriptionSettings(model, model)
    settings = SessionSettings("openai-beta" if beta else "openai", usual, usual)
    at = "" if beta else "session"
    settings = updated(settings, body, catalogue, strict=limits.strict, at=at)
    session_id = new_id("sess")
    return Views(nested(settings, session_id, None), flat(settings, session_id, None))


def _transcription(wanted: TranscriptionSettings) -> dict[str, object]:
    payload: dict[str, object] = {
        "model": wanted.asked,
        "language": wanted.language,
        "prompt": wanted.prompt or None,
    }
    if wanted.languages:
        payload["languages"] = list(wanted.languages)
    if wanted.keywords:
        payload["keywords"] = list(wanted.keywords)
    if wanted.delay:
        payload["delay"] = wanted.delay
    return payload


def _turns(settings: SessionSettings) -> dict[str, object] | None:
    turns = settings.turns
    if turns is None:
        return None
    if turns.type == "semantic_vad":
        return {"type": turns.type, "eagerness": turns.eagerness}
    return {
        "type": turns.type,
        "threshold": turns.threshold,
        "prefix_padding_ms": turns.prefix_padding_ms,
        "silence_duration_ms": turns.silence_duration_ms,
    }


def _own(settings: SessionSettings) -> dict[str, object]:
    return {
        "dialect": settings.dialect,
        "sample_rate": settings.form.rate,
        "vad": settings.turns is not None,
        "ignored": list(settings.ignored),
    }
