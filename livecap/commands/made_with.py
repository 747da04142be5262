"""The options that an output was made with, as they are recorded and compared with a new run's."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from livecap.audio.prefetch import ReadConfig
from livecap.config import DecodeConfig, ModelConfig, OutputConfig, VadConfig
from livecap.output.provenance import Settings

CUES = frozenset({"srt", "vtt"})  # formats that the caption style shapes
PRIVATE = frozenset({"prompt", "hotwords"})  # texts: recorded as a digest
SHAPING = frozenset({"preset", "max_line_width", "max_lines"})
DECODED = frozenset({"precision", "max_segment", "attention_window"})  # of ModelConfig
DIGEST = 12  # hexadecimal digits


def settings_of(
    format: str,
    *,
    model: str,
    decode: DecodeConfig,
    vad: VadConfig | None,
    run: ModelConfig,
    read: ReadConfig,
    output: OutputConfig,
) -> Settings:
    """What shapes an output of this format, as far as it was chosen."""
    chosen = {} if model == "auto" else {"model": model}
    for config, usual, counted in (
        (decode, DecodeConfig(), None),
        (vad or VadConfig(), VadConfig(), None),
        (run, ModelConfig(), DECODED),
        (output, OutputConfig(), SHAPING if format in CUES else frozenset[str]()),
    ):
        defaults = asdict(usual)
        for name, value in asdict(config).items():
            if value != defaults[name] and (counted is None or name in counted):
                chosen[name.replace("_", "-")] = _recorded(name, value)
    if vad is None:
        chosen["no-vad"] = ""
    if read.track is not None:
        chosen["track"] = read.track
    if read.split:
        chosen["channels"] = "split"
    if read.raw is not None:
        chosen["raw"] = f"{read.raw.codec}:{read.raw.rate}:{read.raw.channels}"
    return chosen


def differences(made: Settings, wanted: Settings) -> str:
    """How an output was made otherwise than is wanted now; empty if it was not."""
    return ", ".join(_differences(made, wanted))


def _differences(made: Settings, wanted: Settings) -> Iterator[str]:
    for name in _names(made, wanted):
        if name in PRIVATE:
            yield f"with another --{name}" if name in made else f"without --{name}"
        elif name in made:
            yield f"with --{name} {made[name]}".rstrip()
        else:
            yield f"without --{name} {wanted[name]}".rstrip()


def _names(made: Settings, wanted: Settings) -> Iterable[str]:
    both = dict.fromkeys([*made, *wanted])
    return [name for name in both if made.get(name) != wanted.get(name)]


def _recorded(name: str, value: object) -> str:
    if name in PRIVATE:
        return hashlib.sha256(str(value).encode()).hexdigest()[:DIGEST]
    return "" if value is True else str(value)
