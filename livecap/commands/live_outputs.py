"""What `livecap mic` was told to write -> where that goes. Nothing is opened here."""

import time

from livecap.captions import preset
from livecap.commands.targets import Targets, replacing
from livecap.config import OutputConfig, Task
from livecap.errors import ConfigError, OutputError
from livecap.output import NamedInput, Options, format_of, is_complete, plan, provenance


def targets_of(output: OutputConfig, language: str | None) -> Targets:
    """Where each format goes; nothing without -o. `language` is that of the text, if known."""
    source = NamedInput(time.strftime("live-%Y%m%d-%H%M%S"))
    if output.output is None:
        if output.format:
            raise ConfigError(
                f"-f {output.format} has no place to go", remedy="Name one, as in -o talk."
            )
        return Targets(source, {})
    if output.output == "-":
        raise ConfigError(
            "Captions go to standard output already", remedy="Leave out -o -, or name a file."
        )
    names = output.names if output.format else (format_of(output.output) or "srt",)
    (found,) = plan([source], names, output=output.output, language=language)
    return Targets(source, found, todo=dict(found))


def refuse_written(targets: Targets) -> None:
    """What was said can't be heard again: not even a text that was cut off is written over."""
    for target in targets.todo.values():
        if target and target.is_file() and target.stat().st_size:
            state = "exists" if is_complete(target) else "is left from a run that was cut off"
            raise OutputError(
                f"{target} {state}", remedy="Add --overwrite, or choose another name."
            )


def replaced(targets: Targets) -> list[str]:
    """Whose work is written over, since that was asked for."""
    known = provenance.known()
    payload = [
        replacing(target)
        for target in targets.todo.values()
        if target and provenance.is_foreign(target, known)
    ]
    return [line for line in payload if line]


def options_of(output: OutputConfig, language: str | None, task: Task) -> Options:
    """What the formats are told."""
    layout = preset(output.preset).with_limits(
        max_line_width=output.max_line_width, max_lines=output.max_lines
    )
    return Options(layout=layout, words=True, language=language, task=task)
