"""What a session is set to, as the client stated it and as it takes effect."""

from dataclasses import dataclass
from typing import Literal

from livecap.api.realtime.actions import Delay, Hearing
from livecap.api.realtime.dialects import RATES, WITH_TURNS, Dialect
from livecap.api.realtime.formats import G711_RATE, AudioFormat, Encoding
from livecap.events import RATE

TurnKind = Literal["server_vad", "semantic_vad"]
Eagerness = Literal["low", "medium", "high", "auto"]

# Hosted models whose clients commit each turn themselves, and don't say that they do.
COMMITS_ITSELF = frozenset({"gpt-live-transcribe", "gpt-realtime-whisper"})

# Silence after which a turn ends whatever was said (OpenAI Realtime API, `semantic_vad`); ms.
LONGEST_WAIT: dict[Eagerness, int] = {"low": 8000, "medium": 4000, "auto": 4000, "high": 2000}

WITH_PARTIALS, WITH_WORDS = "livecap.partial", "livecap.words"
WITH_LOGPROBS = "item.input_audio_transcription.logprobs"
INCLUDES = (WITH_LOGPROBS, WITH_PARTIALS, WITH_WORDS)


@dataclass(frozen=True, slots=True)
class TurnDetectionSettings:
    """How the server finds out that somebody has finished speaking."""

    type: TurnKind = "server_vad"
    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    eagerness: Eagerness = "auto"  # semantic_vad alone

    @property
    def wait(self) -> int | None:
        """Samples of silence, beyond those that end a sentence's turn, that end any turn.

        None if there is no such difference.
        """
        if self.type == "server_vad":
            return None
        return (LONGEST_WAIT[self.eagerness] - self.silence_duration_ms) * RATE // 1000


@dataclass(frozen=True, slots=True)
class TranscriptionSettings:
    """By which model, and with what it is told."""

    asked: str  # the model as the client named it
    model: str  # the served one that this means
    language: str | None = None  # ISO 639-1
    languages: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    prompt: str = ""
    delay: Delay | None = None


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """One session's configuration. Updates replace it whole."""

    dialect: Dialect
    transcription: TranscriptionSettings
    initial: TranscriptionSettings  # what `transcription: null` goes back to
    encoding: Encoding = "pcm"
    stated_rate: int | None = None  # Hz, with the format
    usual_rate: int | None = None  # Hz, from the URL
    media_rate: int | None = None  # Hz: 16-bit audio of a media track, whatever was stated
    stated_turns: TurnDetectionSettings | None = None
    are_turns_stated: bool = False
    include: tuple[str, ...] | None = None
    ignored: tuple[str, ...] = ()  # fields of the last update that have no effect

    @property
    def form(self) -> AudioFormat:
        """What the client's audio is."""
        if self.media_rate:
            return AudioFormat("pcm", self.media_rate)
        if self.encoding != "pcm":
            return AudioFormat(self.encoding, G711_RATE)
        return AudioFormat("pcm", self.stated_rate or self.usual_rate or RATES[self.dialect])

    @property
    def turns(self) -> TurnDetectionSettings | None:
        """Turn detection as it takes effect; None: the client commits."""
        if self.are_turns_stated:
            return self.stated_turns
        if self.transcription.asked in COMMITS_ITSELF or self.dialect not in WITH_TURNS:
            return None
        return TurnDetectionSettings()

    @property
    def included(self) -> frozenset[str]:
        """Which extras the client wants."""
        partials = {WITH_PARTIALS} if self.dialect == "mstar" else set()
        return frozenset(self.include or ()) | partials

    @property
    def hearing(self) -> Hearing:
        """How the next stretch of audio is to be captioned."""
        spoken, turns = self.transcription, self.turns or TurnDetectionSettings()
        only = spoken.languages[0] if len(spoken.languages) == 1 else None
        return Hearing(
            model=spoken.model,
            language=spoken.language or only,
            languages=spoken.languages,
            prompt=spoken.prompt,
            keywords=spoken.keywords,
            turns=self.turns is not None,
            threshold=turns.threshold,
            prefix_padding_ms=turns.prefix_padding_ms,
            silence_ms=turns.silence_duration_ms,
            delay=spoken.delay,
            words=WITH_WORDS in self.included,
        )
