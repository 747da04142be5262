"""A request and the model that is to follow it -> how the audio is cut up and decoded.

Whatever this model can't do is refused here, before any audio is decoded.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from livecap.api.errors import invalid, unsupported
from livecap.api.transcriptions.form import TranscriptionRequest
from livecap.config import DecodeConfig, VadConfig
from livecap.errors import ConfigError
from livecap.online.config import StreamConfig

if TYPE_CHECKING:
    from livecap.models.protocol import StreamingDefaults

LOG = logging.getLogger("livecap.server")
TIMED = frozenset({"srt", "vtt"})  # formats whose cues use the times of words


class PlannedModel(Protocol):
    """What has to be known of a model; see `livecap.models.protocol.Model`."""

    @property
    def name(self) -> str: ...
    @property
    def languages(self) -> tuple[str, ...]: ...
    @property
    def segment(self) -> int: ...
    @property
    def streaming(self) -> "StreamingDefaults": ...
    def check(self, config: DecodeConfig) -> None: ...
    def untimed(self, language: str | None) -> str | None: ...


@dataclass(frozen=True, slots=True)
class TranscriptionPlan:
    """How an upload is captioned."""

    session: StreamConfig
    decode: DecodeConfig

    @property
    def language(self) -> str | None:
        """The code of the language that is spoken, if it is known beforehand."""
        return self.session.language


def plan(asked: TranscriptionRequest, model: PlannedModel, *, has_vad: bool) -> TranscriptionPlan:
    """Raises ApiError: 400 with the field that this model can't follow."""
    from livecap.models.prompting import fitted  # loads torch, as a model that is served has

    if asked.vad and not has_vad:
        message = "This server runs without voice activity detection. Leave it out."
        raise unsupported("chunking_strategy", message)
    language = asked.language or _only(asked.languages, model)
    decode = DecodeConfig(language=language, task=asked.task)
    if not _follows(model, DecodeConfig(language=language)):
        known = ", ".join(model.languages)
        raise invalid("language", f"The model {model.name!r} has no {language!r}, only: {known}.")
    if not _follows(model, decode):
        raise unsupported("model", f"The model {model.name!r} can't translate.")
    decode = replace(decode, long_form=asked.long_form)
    if not _follows(model, decode):
        message = f"The model {model.name!r} has no {asked.long_form} long form."
        raise unsupported("long_form", message)
    if asked.words and (why := model.untimed(language)):
        message = f"The model {model.name!r} can't time words. {why}"
        raise unsupported("timestamp_granularities", message)
    decode = replace(
        decode,
        temperature=asked.temperature,
        words=asked.words or asked.response_format in TIMED,
        prompt=asked.prompt,
        hotwords=", ".join(asked.keywords),
    )
    try:
        model.check(decode)
    except ConfigError as error:  # all but the texts that lead the model have been looked at
        raise invalid("prompt", str(error)) from None
    only = model.languages[0] if len(model.languages) == 1 else None
    session = StreamConfig(
        vad=(asked.vad or VadConfig()) if has_vad else None,
        max_segment=model.segment,
        max_silence=model.streaming.max_silence,
        sequential=decode.long_form == "sequential",
        language=language or only,
    )
    return TranscriptionPlan(session, fitted(model, decode, LOG.warning, live=False))


def _only(candidates: Sequence[str], model: PlannedModel) -> str | None:
    """Detection can't be kept to some languages: they must come to one, or to all there are."""
    possible = [code for code in model.languages if code in candidates]
    if len(possible) == 1:
        return possible[0]
    if not candidates or len(possible) == len(model.languages):
        return None
    if not possible:
        known = ", ".join(model.languages)
        raise invalid("languages", f"The model {model.name!r} has none of these, only: {known}.")
    message = "Detection can't be limited to several languages. Give one, or none."
    raise unsupported("languages", message)


def _follows(model: PlannedModel, config: DecodeConfig) -> bool:
    try:
        model.check(config)
    except ConfigError:
        return False
    return True
