"""How a connection begins: its URL and headers -> the first settings and the first frame."""

from dataclasses import dataclass, replace
from typing import Literal

from livecap.api.realtime.connection import Catalogue, Connection, SessionLimits
from livecap.api.realtime.dialects import DIALECTS, Dialect
from livecap.api.realtime.errors import Refusal, invalid
from livecap.api.realtime.formats import PCM_RATES
from livecap.api.realtime.settings import SessionSettings, TranscriptionSettings
from livecap.api.realtime.updates import updated

# Together's way to state a format, after which the rate follows.
TOGETHER_PCM = "pcm_s16le_"

# What vLLM's clients never say in their URL.
KNOWN = frozenset(
    {"model", "intent", "language", "sample_rate", "input_audio_format", "turn_detection"}
)

First = Literal["session.created", "transcription_session.created"]


@dataclass(frozen=True, slots=True)
class SessionStart:
    """What holds before the client has said anything."""

    settings: SessionSettings
    first: First
    is_pinned: bool  # the dialect was chosen by name, and no event changes it
    is_bare: bool  # the URL says nothing, which OpenAI's clients never do
    problems: tuple[Refusal, ...]  # to be told after the first frame
    fatal: Refusal | None  # to be told instead of it


def start(connection: Connection, catalogue: Catalogue, limits: SessionLimits) -> SessionStart:
    """The facts of a connection -> how its session begins. Raises nothing."""
    query = connection.query
    problems: list[Refusal] = []
    named = query.get("dialect")
    pinned = next((known for known in DIALECTS if known == named), limits.dialect)
    if named is not None and named not in DIALECTS:
        problems.append(invalid("dialect", f"Supported values are {', '.join(DIALECTS)}."))
    dialect: Dialect = pinned or ("openai-beta" if connection.beta else "openai")

    model = catalogue.canonical(query.get("model") or None)
    fatal = None
    if model is None:
        message = f"The model {query.get('model', '')!r} is not served here."
        fatal = Refusal("invalid_model", message)
    asked = TranscriptionSettings(query.get("model") or model or "", model or "")
    settings = SessionSettings(dialect, asked, asked, media_rate=connection.media_rate)
    settings = _configured(settings, connection, catalogue, limits, problems)

    is_beta = dialect == "openai-beta" and query.get("intent") == "transcription"
    is_flat = is_beta or (pinned in ("openai-beta", "mstar"))
    return SessionStart(
        settings=settings,
        first="transcription_session.created" if is_flat else "session.created",
        is_pinned=pinned is not None,
        is_bare=not connection.beta and KNOWN.isdisjoint(query),
        problems=tuple(problems),
        fatal=fatal,
    )


def _configured(
    settings: SessionSettings,
    connection: Connection,
    catalogue: Catalogue,
    limits: SessionLimits,
    problems: list[Refusal],
) -> SessionSettings:
    """First what a client secret says, then what the URL does. Adds to `problems`."""
    query = connection.query
    values: list[tuple[str, object, bool]] = []
    if connection.session is not None:
        values.append(("", connection.session, limits.strict))
    if "language" in query:
        spoken = {"transcription": {"language": query["language"]}}
        values.append(("language", {"audio": {"input": spoken}}, False))
    if "turn_detection" in query:
        values.append(("turn_detection", {"turn_detection": query["turn_detection"]}, False))
    for param, body, strict in values:
        try:
            settings = updated(settings, body, catalogue, strict=strict)
        except Refusal as refusal:
            error = Refusal(refusal.code, refusal.message, param=param or refusal.param)
            problems.append(error)
    try:
        settings = replace(settings, usual_rate=_rate(connection))
    except Refusal as refusal:
        problems.append(refusal)
    return replace(settings, initial=settings.transcription)


def _rate(connection: Connection) -> int | None:
    """What the URL says of the sample rate, in Hz. Raises Refusal for one that is not known."""
    param, named = "sample_rate", connection.query.get("sample_rate")
    form = connection.query.get("input_audio_format", "")
    if named is None and form.startswith(TOGETHER_PCM):
        param, named = "input_audio_format", form.removeprefix(TOGETHER_PCM)
    if named is None:
        return None
    known = {str(rate): rate for rate in PCM_RATES}
    if named not in known:
        raise invalid(param, f"Supported rates are {', '.join(known)}.")
    return known[named]
