"""What `livecap mic` was told to write -> where that goes. Nothing is opened here."""

import time
from collections.abc import Mapping
from pathlib import Path

from livecap.config import OutputConfig, Task
from livecap.cues import preset
from livecap.errors import ConfigError, OutputError
from livecap.sinks import Options, Source, format_of, is_complete, plan


def targets_of(output: OutputConfig, language: str | None) -> dict[str, Path | None]:
    """Where each format goes; nothing without -o."""
    if output.output is None:
        if output.format:
            raise ConfigError(
                f"-f {output.format} has no place to go", remedy="Name one, as in -o talk."
            )
        return {}
    if output.output == "-":
        raise ConfigError(
            "Captions go to standard output already", remedy="Leave out -o -, or name a file."
        )
    names = output.names if output.format else (format_of(output.output) or "srt",)
    source = Source(time.strftime("live-%Y%m%d-%H%M%S"))
    (found,) = plan([source], names, output=output.output, language=language)
    return found


def refuse_written(targets: Mapping[str, Path | None]) -> None:
    """What was said can't be heard again: not even a text that was cut off is written over."""
    for target in targets.values():
        if target and target.is_file() and target.stat().st_size:
            state = "exists" if is_complete(target) else "is left from a run that was cut off"
            raise OutputError(
                f"{target} {state}", remedy="Add --overwrite, or choose another name."
            )


def options_of(output: OutputConfig, language: str | None, task: Task) -> Options:
    """What the formats are told."""
    layout = preset(output.preset).with_limits(
        max_line_width=output.max_line_width, max_lines=output.max_lines
    )
    return Options(layout=layout, words=True, language=language, task=task)
