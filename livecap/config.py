"""All options, as frozen dataclasses that are checked once. The docstrings are the help texts."""

from dataclasses import dataclass
from typing import Literal

from livecap.errors import ConfigError

Task = Literal["transcribe", "translate"]
LongForm = Literal["parallel", "sequential"]
Precision = Literal["auto", "fp32", "bf16", "int8"]

LADDER = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # openai-whisper's temperatures, tried in turn


def _check(ok: bool, option: str, value: object, remedy: str) -> None:
    if not ok:
        raise ConfigError(f"{option} can't be {value}", remedy=remedy)


@dataclass(frozen=True, slots=True)
class VadConfig:
    """Voice activity detection."""

    threshold: float = 0.5  # probability from which a frame counts as speech
    min_speech_ms: int = 100
    min_silence_ms: int = 300  # a shorter pause belongs to the speech around it
    pad_ms: int = 300  # kept before and after speech

    def __post_init__(self) -> None:
        _check(0 < self.threshold < 1, "--vad-threshold", self.threshold, "Use 0.1 to 0.9.")
        for name in ("min_speech_ms", "min_silence_ms", "pad_ms"):
            value = {"min_speech_ms": self.min_speech_ms, "min_silence_ms": self.min_silence_ms,
                     "pad_ms": self.pad_ms}[name]  # fmt: skip
            _check(0 <= value <= 10_000, name, value, "Use 0 to 10000 milliseconds.")


@dataclass(frozen=True, slots=True)
class DecodeConfig:
    """How text is made of speech."""

    language: str | None = None  # ISO 639-1 code; None: detected
    task: Task = "transcribe"
    prompt: str = ""  # text that the recording seems to go on from
    hotwords: str = ""  # names and terms to expect
    temperatures: tuple[float, ...] = LADDER
    words: bool = False  # align words in time
    long_form: LongForm = "parallel"
    timestamps: bool = True  # let the model mark the times of its sentences

    def __post_init__(self) -> None:
        _check(bool(self.temperatures), "--temperature", "empty", "Use 0, or 0,0.2,0.4.")
        for value in self.temperatures:
            _check(0 <= value <= 2, "--temperature", value, "Use 0 to 2.")
