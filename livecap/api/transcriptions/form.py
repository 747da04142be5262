"""Form fields -> a request that is sound in itself, whatever model is to follow it.

Sources: OpenAI's API reference for both endpoints; the extra fields are those of vLLM,
SGLang-Omni and M*. What can't be followed is refused by name; fields that nobody knows are
ignored, as they are there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from livecap.api.errors import invalid, unsupported
from livecap.api.transcriptions.fields import Fields, choices, number, shown
from livecap.config import LongForm, Task, VadConfig
from livecap.errors import ConfigError
from livecap.languages import language_of

Format = Literal["json", "text", "srt", "verbose_json", "vtt"]
FORMATS: tuple[Format, ...] = ("json", "text", "srt", "verbose_json", "vtt")
STREAMED: tuple[Format, ...] = ("json", "text")
GRANULARITIES = ("word", "segment")
MOST_CONTEXT = 16_384  # characters; no model takes as many
MOST_SEED = 1 << 64
LOWEST, HIGHEST = 0.001, 0.999  # thresholds that still tell speech from silence

UNFOLLOWED = "is not supported here. Leave it out."


@dataclass(frozen=True, slots=True)
class TranscriptionRequest:
    """What a client wants of its upload."""

    task: Task
    model: str | None = None  # as the client calls it; None: the server's own
    language: str | None = None  # code; None: it is detected
    languages: tuple[str, ...] = ()  # codes, if it can only be one of several
    prompt: str = ""
    keywords: tuple[str, ...] = ()
    response_format: Format = "json"
    temperature: float | None = None  # None: 0, and rising where the text is not believable
    words: bool = False  # verbose_json: the times of words
    segments: bool = True  # verbose_json: the segments
    stream: bool = False
    usage: bool = True  # whether the end of a stream tells it
    vad: VadConfig | None = None  # how pauses are found, if the client said so
    long_form: LongForm = "parallel"


def read(pairs: Sequence[tuple[str, str]], *, task: Task) -> TranscriptionRequest:
    """Field names and values in the order of the form -> the request.

    Raises ApiError: 400 with the field that is to blame. `include[]=logprobs` is accepted and
    has no effect: the models here give no log-probability of single tokens.
    """
    fields = Fields.of(pairs)
    form = _format(fields)
    stream = fields.truth("stream", default=False)
    if stream and form not in STREAMED:
        raise unsupported("response_format", f"{form!r} can't be streamed. {choices(STREAMED)}")
    _refuse(fields)
    language, languages = _languages(fields)
    granularities = _among(fields, "timestamp_granularities", GRANULARITIES)
    _among(fields, "include", ("logprobs",))
    verbose = form == "verbose_json"
    return TranscriptionRequest(
        task=_task(fields, task),
        model=fields.word("model"),
        language=language,
        languages=languages,
        prompt=(fields.text("prompt") or "").strip()[-MOST_CONTEXT:],
        keywords=_keywords(fields),
        response_format=form,
        temperature=fields.number("temperature", 0, 1) or None,
        words=verbose and "word" in granularities,
        segments=not granularities or "segment" in granularities,
        stream=stream,
        usage=fields.truth("stream_include_usage", default=True),
        vad=_chunking(fields),
        long_form=_long_form(fields),
    )


def _format(fields: Fields) -> Format:
    named = (fields.word("response_format") or "json").lower()
    if named == "diarized_json":
        message = "'diarized_json' is not supported: this server does not tell speakers apart."
        raise unsupported("response_format", f"{message} {choices(FORMATS)}")
    for known in FORMATS:
        if named == known:
            return known
    raise unsupported("response_format", f"Unsupported value: {shown(named)}. {choices(FORMATS)}")


def _task(fields: Fields, task: Task) -> Task:
    """M*'s field may turn a transcription into a translation, not the other way round."""
    named = (fields.word("task") or task).lower()
    if named in (task, "translate"):
        return "translate" if named == "translate" else "transcribe"
    known = choices(tuple(dict.fromkeys((task, "translate"))))
    raise invalid("task", f"Invalid value: {shown(named)}. {known}")


def _language(name: str, param: str) -> str | None:
    try:
        return language_of(name)
    except ConfigError:
        message = f"Language {shown(name)} is not supported. Give an ISO 639-1 code, as in 'en'."
        raise invalid(param, message) from None


def _languages(fields: Fields) -> tuple[str | None, tuple[str, ...]]:
    """The language, and those it may be where that is open."""
    named = fields.word("language")
    language = None if named is None else _language(named, "language")
    found = [_language(name, "languages") for name in fields.many("languages")]
    codes = tuple(dict.fromkeys(code for code in found if code))
    if language and codes and language not in codes:
        raise invalid("language", f"{language!r} is not among the languages {', '.join(codes)}.")
    if language or len(codes) == 1:
        return language or codes[0], ()
    return None, codes


def _keywords(fields: Fields) -> tuple[str, ...]:
    named = fields.many("keywords") + fields.many("hotwords")
    words = tuple(dict.fromkeys(named))
    if sum(map(len, words)) > MOST_CONTEXT:
        raise invalid("keywords", f"There are more than {MOST_CONTEXT} characters of keywords.")
    return words


def _among(fields: Fields, name: str, known: tuple[str, ...]) -> frozenset[str]:
    found = frozenset(value.lower() for value in fields.many(name))
    for value in sorted(found.difference(known)):
        raise invalid(name, f"Invalid value: {shown(value)}. {choices(known)}")
    return found


def _long_form(fields: Fields) -> LongForm:
    named = (fields.word("long_form") or "parallel").lower()
    if named == "parallel":
        return "parallel"
    if named == "sequential":
        return "sequential"
    known = choices(("parallel", "sequential"))
    raise invalid("long_form", f"Invalid value: {shown(named)}. {known}")


def _chunking(fields: Fields) -> VadConfig | None:
    """OpenAI's server_vad; 'auto' and nothing are the server's own settings."""
    name = "chunking_strategy"
    given = fields.object(name)
    if given is None or given == "auto":
        return None
    if given == "server_vad":
        return VadConfig()
    if isinstance(given, str):
        known = choices(("auto", "server_vad"))
        raise invalid(name, f"Invalid value: {shown(given)}. {known}")
    kind = given.get("type") or "server_vad"
    if kind != "server_vad":
        message = f"Unsupported type: {shown(kind)}. {choices(('server_vad',))}"
        raise unsupported(f"{name}.type", message)

    def number_value(key: str, default: float, high: float) -> float:
        value = given.get(key)
        return default if value in (None, "") else number(f"{name}.{key}", value, 0, high)

    usual = VadConfig()
    return VadConfig(
        vad_threshold=min(max(number_value("threshold", usual.vad_threshold, 1), LOWEST), HIGHEST),
        vad_pad=round(number_value("prefix_padding_ms", usual.vad_pad, 10_000)),
        vad_min_silence=round(number_value("silence_duration_ms", usual.vad_min_silence, 10_000)),
    )


def _refuse(fields: Fields) -> None:
    """What other servers offer under names that clients know, and this one can't follow."""
    for name in ("known_speaker_names", "known_speaker_references"):
        if fields.many(name):
            raise unsupported(name, f"'{name}': this server does not tell speakers apart.")
    for name in ("max_new_tokens", "max_completion_tokens"):
        if fields.number(name, 1, float("inf")) is not None:
            raise unsupported(name, f"'{name}' {UNFOLLOWED}")
    penalty = fields.number("repetition_penalty", 0, 2)
    if penalty is not None and penalty != 1:
        raise unsupported("repetition_penalty", f"'repetition_penalty' {UNFOLLOWED}")
    _refuse_seed(fields)


def _refuse_seed(fields: Fields) -> None:
    """A seed makes results repeatable. They are so without one; other samples can't be had."""
    seed = fields.number("seed", -MOST_SEED, MOST_SEED)
    if seed is not None and fields.number("temperature", 0, 1):
        message = "'seed' with a temperature: samples are always those of one fixed seed here."
        raise unsupported("seed", f"{message} Leave it out.")
