"""A client's session object, nested (GA) or flat (beta) -> its fields, each present or UNSET.

Sources: OpenAI Realtime API, `session.update` and the beta's `transcription_session.update`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from livecap.api.realtime.errors import Refusal, invalid

Kind = TypeVar("Kind", bound=Struct)
Milliseconds = Annotated[float, Meta(ge=0, le=10_000)]
Text = Annotated[str, Meta(max_length=32_768)]
Name = Annotated[str, Meta(max_length=256)]

PLACE = re.compile(r" - at `\$([^`]*)`$")  # how msgspec tells where an error is
MOST_IGNORED, LONGEST_PATH = 50, 200


class AudioFormatFields(Struct):
    """`audio.input.format`."""

    type: Name | UnsetType | None = UNSET
    rate: int | UnsetType | None = UNSET


class TranscriptionFields(Struct):
    """`audio.input.transcription`."""

    model: Name | UnsetType | None = UNSET
    language: Name | UnsetType | None = UNSET
    languages: Annotated[list[Name], Meta(max_length=200)] | UnsetType | None = UNSET
    keywords: Annotated[list[Name], Meta(max_length=1000)] | UnsetType | None = UNSET
    prompt: Text | UnsetType | None = UNSET
    delay: Name | UnsetType | None = UNSET


class NoiseReduction(Struct):
    """`audio.input.noise_reduction`: read, and not done."""

    type: Name | UnsetType | None = UNSET
    strength: Annotated[float, Meta(ge=0, le=1)] | UnsetType | None = UNSET


class TurnDetectionFields(Struct):
    """`audio.input.turn_detection`. The last three are about conversations."""

    type: Name | UnsetType | None = UNSET
    threshold: Annotated[float, Meta(ge=0, le=1)] | UnsetType | None = UNSET
    prefix_padding_ms: Milliseconds | UnsetType | None = UNSET
    silence_duration_ms: Milliseconds | UnsetType | None = UNSET
    eagerness: Name | UnsetType | None = UNSET
    idle_timeout_ms: float | UnsetType | None = UNSET
    create_response: bool | UnsetType | None = UNSET
    interrupt_response: bool | UnsetType | None = UNSET


class Input(Struct):
    """`audio.input`."""

    format: AudioFormatFields | Name | UnsetType | None = UNSET
    transcription: TranscriptionFields | UnsetType | None = UNSET
    noise_reduction: NoiseReduction | UnsetType | None = UNSET
    turn_detection: TurnDetectionFields | Name | UnsetType | None = UNSET


class Audio(Struct):
    """`audio`."""

    input: Input | UnsetType | None = UNSET


class Nested(Struct):
    """The GA session object. What a server adds to it may come back with it."""

    type: Name | UnsetType | None = UNSET
    audio: Audio | UnsetType | None = UNSET
    include: list[Name] | UnsetType | None = UNSET
    id: Any = UNSET
    object: Any = UNSET
    expires_at: Any = UNSET
    livecap: Any = UNSET


class Flat(Struct):
    """The beta's session object; `language` as SGLang-Omni's clients state it."""

    input_audio_format: Name | UnsetType | None = UNSET
    input_audio_transcription: TranscriptionFields | UnsetType | None = UNSET
    input_audio_noise_reduction: NoiseReduction | UnsetType | None = UNSET
    turn_detection: TurnDetectionFields | Name | UnsetType | None = UNSET
    language: Name | UnsetType | None = UNSET
    include: list[Name] | UnsetType | None = UNSET
    type: Any = UNSET
    modalities: Any = UNSET
    client_secret: Any = UNSET
    mstar: Any = UNSET
    id: Any = UNSET
    object: Any = UNSET
    expires_at: Any = UNSET
    livecap: Any = UNSET


FLAT_ONLY = frozenset(Flat.__struct_fields__) - frozenset(Nested.__struct_fields__)


def is_flat(body: Mapping[str, object]) -> bool:
    """Whether a session object has the beta's shape."""
    return "audio" not in body and not FLAT_ONLY.isdisjoint(body)


def read(body: object, kind: type[Kind], at: str) -> Kind:
    """A decoded JSON object -> its fields, all checked. Raises Refusal with the path from `at`."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        message = str(error)
        target_path = PLACE.search(message)
        path = (at + re.sub(r"\[[^]]*\]", "", target_path[1] if target_path else "")).lstrip(".")
        raise invalid(path, f"{PLACE.sub('', message)}.") from error


def unknown(body: Mapping[str, object], kind: type[Struct]) -> list[str]:
    """The dotted paths of fields that have no meaning here; at most 50."""
    found = []
    for path in _unknown(body, kind, ""):
        found.append(path[:LONGEST_PATH])
        if len(found) == MOST_IGNORED:
            break
    return found


def refuse_unknown(body: Mapping[str, object], kind: type[Struct], at: str) -> None:
    """For strict servers. Raises Refusal for the first such field."""
    for path in _unknown(body, kind, ""):
        param = f"{at}.{path}".lstrip(".")[:LONGEST_PATH]
        raise Refusal("unknown_parameter", f"{param} is not known here.", param=param)


def _unknown(body: Mapping[str, object], kind: type[Struct], at: str) -> Iterator[str]:
    known = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for key, value in body.items():
        if key not in known:
            yield f"{at}{key}"
        elif isinstance(value, Mapping):
            inner = [part for part in get_args(known[key]) if isinstance(part, type)]
            for part in inner:
                if issubclass(part, Struct):
                    yield from _unknown(value, part, f"{at}{key}.")
