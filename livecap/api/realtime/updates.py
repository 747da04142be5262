"""A client's session object -> new settings, all of it or nothing.

Only fields that are present change something; null clears; objects merge. Source: OpenAI Realtime
API, `session.update`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar, get_args

from msgspec import UNSET, Struct, UnsetType

from livecap.api.realtime import schema
from livecap.api.realtime.actions import Delay
from livecap.api.realtime.connection import Catalogue
from livecap.api.realtime.errors import Refusal, invalid
from livecap.api.realtime.formats import G711_RATE, PCM_RATES, Encoding
from livecap.api.realtime.settings import (
    INCLUDES,
    Eagerness,
    SessionSettings,
    TranscriptionSettings,
    TurnDetectionSettings,
    TurnKind,
)
from livecap.errors import ConfigError
from livecap.languages import language_code

Choice = TypeVar("Choice", bound=str)

ENCODINGS: dict[str, Encoding] = {
    "audio/pcm": "pcm",
    "audio/pcmu": "ulaw",
    "audio/pcma": "alaw",
    "pcm16": "pcm",
    "g711_ulaw": "ulaw",
    "g711_alaw": "alaw",
}
NOISES = ("near_field", "far_field")
ANY_LANGUAGE = ("", "auto")


@dataclass(frozen=True, slots=True)
class Paths:
    """Where a session object of one shape keeps its parts, dotted from the session."""

    format: str
    transcription: str
    noise_reduction: str
    turn_detection: str


NESTED = Paths(
    "audio.input.format",
    "audio.input.transcription",
    "audio.input.noise_reduction",
    "audio.input.turn_detection",
)
FLAT = Paths(
    "input_audio_format",
    "input_audio_transcription",
    "input_audio_noise_reduction",
    "turn_detection",
)

FEW = 12  # languages of a model that are listed in a message


def updated(
    settings: SessionSettings,
    body: object,
    catalogue: Catalogue,
    *,
    strict: bool,
    at: str = "session",
) -> SessionSettings:
    """Settings and a session object, nested or flat -> the settings after it.

    Raises Refusal, with the path from `at`, for the first field that can't be followed.
    """
    if not isinstance(body, Mapping):
        raise invalid(at or "session", "Expected an object.")
    is_flat = schema.is_flat(body)
    kind: type[Struct] = schema.Flat if is_flat else schema.Nested
    if strict:
        schema.refuse_unknown(body, kind, at)
    return _Update(settings, catalogue, strict, at, FLAT if is_flat else NESTED).apply(body)


def paths(body: Mapping[str, object]) -> Paths:
    """Where this session object keeps its parts."""
    return FLAT if schema.is_flat(body) else NESTED


class _Update:
    """One update under way. `settings` are replaced step by step; a Refusal leaves them alone."""

    def __init__(
        self, settings: SessionSettings, catalogue: Catalogue, strict: bool, at: str, where: Paths
    ) -> None:
        self.settings = settings
        self._catalogue = catalogue
        self._strict = strict
        self._at = at
        self._where = where
        self._ignored: list[str] = []

    def apply(self, body: Mapping[str, object]) -> SessionSettings:
        """The settings with all of it."""
        if self._where is FLAT:
            flat = schema.read(body, schema.Flat, self._at)
            wanted = schema.Input(
                flat.input_audio_format,
                flat.input_audio_transcription,
                flat.input_audio_noise_reduction,
                flat.turn_detection,
            )
            include = flat.include
            self._ignored += schema.unknown(body, schema.Flat)
            if not isinstance(flat.language, UnsetType):
                path = self._path("language")
                self._transcribe(replace(self._spoken, language=_language(flat.language, path)))
        else:
            nested = schema.read(body, schema.Nested, self._at)
            if nested.type not in (UNSET, None, "transcription", "realtime"):
                raise _no_choice(self._path("type"), nested.type, ("transcription",))
            wanted = (nested.audio or schema.Audio()).input or schema.Input()
            include = nested.include
            self._ignored += schema.unknown(body, schema.Nested)
        self._input(wanted)
        if not isinstance(include, UnsetType):
            self._include(include)
        self._check_language()
        return replace(self.settings, ignored=tuple(self._ignored[: schema.MOST_IGNORED]))

    @property
    def _spoken(self) -> TranscriptionSettings:
        return self.settings.transcription

    def _transcribe(self, transcription: TranscriptionSettings) -> None:
        self.settings = replace(self.settings, transcription=transcription)

    def _path(self, part: str) -> str:
        return f"{self._at}.{part}".lstrip(".")

    def _check_language(self) -> None:
        """Refuse what the model would fail at with each item."""
        spoken = self._spoken
        known = self._catalogue.languages(spoken.model)
        wanted = (spoken.language,) if spoken.language else spoken.languages
        if not known or not wanted or not set(known).isdisjoint(wanted):
            return
        field = "language" if spoken.language else "languages"
        message = f"{spoken.model} can't be told {' or '.join(map(repr, wanted))}. It knows "
        message += ", ".join(known) if len(known) <= FEW else f"{len(known)} others"
        raise invalid(self._path(f"{self._where.transcription}.{field}"), f"{message}.")

    def _input(self, wanted: schema.Input) -> None:
        if not isinstance(wanted.format, UnsetType):
            self._format(wanted.format)
        if wanted.transcription is None:
            self._transcribe(self.settings.initial)
        elif not isinstance(wanted.transcription, UnsetType):
            self._transcription(wanted.transcription)
        if isinstance(wanted.noise_reduction, schema.NoiseReduction):
            kind = wanted.noise_reduction.type
            if kind and kind not in NOISES:
                raise _no_choice(self._path(f"{self._where.noise_reduction}.type"), kind, NOISES)
            self._ignored.append(self._where.noise_reduction)  # there is none
        if not isinstance(wanted.turn_detection, UnsetType):
            self._turns(wanted.turn_detection)

    def _format(self, wanted: schema.AudioFormatFields | str | None) -> None:
        path = self._path(self._where.format)
        named = wanted if isinstance(wanted, str) else UNSET
        rate: int | UnsetType | None = UNSET
        if isinstance(wanted, schema.AudioFormatFields):
            named, rate = wanted.type or "audio/pcm", wanted.rate
            named = UNSET if wanted.type is UNSET else named
            path = f"{path}.type"
        elif wanted is None:
            named = "pcm16"
        before = self.settings
        encoding = before.encoding
        if not isinstance(named, UnsetType):
            if named not in ENCODINGS:
                raise _no_choice(path, named, tuple(ENCODINGS))
            encoding = ENCODINGS[named]
        stated = before.stated_rate if encoding == before.encoding and wanted is not None else None
        if not isinstance(rate, UnsetType):
            stated = rate
        self._check_rate(encoding, stated)
        self.settings = replace(before, encoding=encoding, stated_rate=stated)

    def _check_rate(self, encoding: Encoding, rate: int | None) -> None:
        rates = PCM_RATES if encoding == "pcm" else (G711_RATE,)
        if rate is not None and rate not in rates:
            path = self._path(f"{self._where.format}.rate")
            raise invalid(path, f"Supported values are {', '.join(map(str, rates))}.")

    def _transcription(self, wanted: schema.TranscriptionFields) -> None:
        path = self._path(self._where.transcription)
        found, start = self._spoken, self.settings.initial
        if wanted.model is None:
            found = replace(found, asked=start.asked, model=start.model)
        elif not isinstance(wanted.model, UnsetType):
            model = known_model(self._catalogue, wanted.model, f"{path}.model")
            found = replace(found, asked=wanted.model, model=model)
        if not isinstance(wanted.language, UnsetType):
            found = replace(found, language=_language(wanted.language, f"{path}.language"))
        if not isinstance(wanted.languages, UnsetType):
            codes = _languages(wanted.languages, f"{path}.languages")
            found = replace(found, languages=codes)
        if not isinstance(wanted.keywords, UnsetType):
            found = replace(found, keywords=tuple(filter(None, wanted.keywords or ())))
        if not isinstance(wanted.prompt, UnsetType):
            found = replace(found, prompt=wanted.prompt or "")
        if not isinstance(wanted.delay, UnsetType):
            delay = _chosen(wanted.delay, get_args(Delay), f"{path}.delay")
            found = replace(found, delay=delay)
        self._transcribe(found)

    def _turns(self, wanted: schema.TurnDetectionFields | str | None) -> None:
        path = self._path(self._where.turn_detection)
        if isinstance(wanted, str):
            wanted = schema.TurnDetectionFields(type=wanted)
        turns = None if wanted is None else self._detection(wanted, path)
        self.settings = replace(self.settings, stated_turns=turns, are_turns_stated=True)

    def _detection(
        self, wanted: schema.TurnDetectionFields, path: str
    ) -> TurnDetectionSettings | None:
        if wanted.type == "none":
            return None
        before = self.settings.turns or TurnDetectionSettings()
        kind = before.type
        if not isinstance(wanted.type, UnsetType):
            kind = _chosen(wanted.type, get_args(TurnKind), f"{path}.type") or "server_vad"
        found = before if kind == before.type else TurnDetectionSettings(type=kind)
        usual = TurnDetectionSettings(type=kind)
        if kind == "semantic_vad":
            if not isinstance(wanted.eagerness, UnsetType):
                eager = _chosen(wanted.eagerness, get_args(Eagerness), f"{path}.eagerness")
                found = replace(found, eagerness=eager or usual.eagerness)
            return found
        if wanted.idle_timeout_ms:
            self._ignored.append(f"{self._where.turn_detection}.idle_timeout_ms")
        return replace(
            found,
            threshold=_number(wanted.threshold, found.threshold, usual.threshold),
            prefix_padding_ms=round(
                _number(wanted.prefix_padding_ms, found.prefix_padding_ms, usual.prefix_padding_ms)
            ),
            silence_duration_ms=round(
                _number(
                    wanted.silence_duration_ms,
                    found.silence_duration_ms,
                    usual.silence_duration_ms,
                )
            ),
        )

    def _include(self, wanted: list[str] | None) -> None:
        others = [name for name in wanted or () if name not in INCLUDES]
        if others and self._strict:
            raise _no_choice(self._path("include"), others[0], INCLUDES)
        self._ignored += [f"include.{name}"[: schema.LONGEST_PATH] for name in others]
        included = None if wanted is None else tuple(name for name in INCLUDES if name in wanted)
        self.settings = replace(self.settings, include=included)


def known_model(catalogue: Catalogue, name: str, param: str) -> str:
    """A model's name or alias -> the served one. Raises Refusal."""
    model = catalogue.canonical(name)
    if model is None:
        message = f"The model {name!r} is not served here."
        raise Refusal("model_not_found", message, param=param)
    return model


def _language(named: str | None, param: str) -> str | None:
    if named is None or named.strip().lower() in ANY_LANGUAGE:
        return None
    try:
        return language_code(named)
    except ConfigError as error:
        raise invalid(param, f"{named!r} is no language that is known here.") from error


def _languages(named: list[str] | None, param: str) -> tuple[str, ...]:
    if named is None:
        return ()
    if not named:
        raise invalid(param, "Expected at least one language.")
    codes = [_language(name, param) for name in named]
    return tuple(dict.fromkeys(code for code in codes if code))


def _chosen(value: Choice | str | None, choices: tuple[Choice, ...], path: str) -> Choice | None:
    for choice in choices:
        if value == choice:
            return choice
    if value is None:
        return None
    raise _no_choice(path, value, choices)


def _no_choice(path: str, value: object, choices: tuple[str, ...]) -> Refusal:
    shown = str(value)[:100]
    return invalid(path, f"{shown!r} is not supported. Supported values are {', '.join(choices)}.")


def _number(wanted: float | UnsetType | None, before: float, usual: float) -> float:
    if isinstance(wanted, UnsetType):
        return before
    return usual if wanted is None else wanted
