"""What was typed after a command -> what is meant. Loads nothing heavy."""

import os
from collections.abc import Sequence

from livecap.config import OutputConfig
from livecap.errors import ConfigError


def model_of(name: str) -> str:
    """The model asked for; 'auto' leaves it to the environment first."""
    return os.environ.get("LIVECAP_MODEL") or name if name == "auto" else name


def language_of(name: str | None) -> str | None:
    """The code of a language that was named; None if it is to be detected."""
    from livecap.languages import language_code

    named = (name or "auto").strip().lower()
    return None if named == "auto" else language_code(named)


def check_formats(output: OutputConfig) -> OutputConfig:
    """The same, if all formats asked for are known."""
    from livecap.output import FORMATS

    for name in output.names if output.format else ():
        if name not in FORMATS:
            raise ConfigError(
                f"There is no format {name!r}", remedy=f"Known are: {', '.join(FORMATS)}."
            )
    return output


def refuse_options(paths: Sequence[str]) -> None:
    """Refuse what looks like an option but is none: it would be taken for a file."""
    for path in paths:
        if path.startswith("-") and path != "-" and not os.path.lexists(path):
            raise ConfigError(
                f"There is no option {path!r}",
                remedy="`livecap file --help` lists them; for a file of that name, write ./ first.",
            )


def format_of(output: OutputConfig, paths: Sequence[str]) -> str:
    """The formats: those asked for, else what fits the output."""
    from livecap.output import format_of as suffix_of

    if output.json_lines and (output.format or output.output):
        raise ConfigError(
            "--json-lines writes to standard output, not to files",
            remedy="Leave out --format and --output; or write -f jsonl for files of such lines.",
        )
    if output.format:
        return check_formats(output).format
    to_stdout = output.output == "-" or (output.output is None and list(paths) == ["-"])
    named = suffix_of(output.output) if output.output else None
    return named or ("txt" if to_stdout else "srt")
