"""The command `serve`. Heavy imports wait until needed."""

import importlib.util
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import App, ArgumentCollection
from cyclopts.config import Dict

from livecap.api.options import ServeConfig
from livecap.cli_live import Flat
from livecap.commands.arguments import model_of
from livecap.config import LiveOptions, ModelConfig, Precision
from livecap.errors import ConfigError

# What `pip install 'livecap[serve]'` brings.
PACKAGES = (
    "cryptography",
    "msgspec",
    "prometheus_client",
    "python_multipart",
    "starlette",
    "uvicorn",
    "websockets",
)


def serve(
    *,
    config: str | None = None,
    server: Annotated[ServeConfig, Flat] = ServeConfig(),  # noqa: B008 - frozen
    live: Annotated[LiveOptions, Flat] = LiveOptions(),  # noqa: B008 - frozen
    compute: str = "auto",
    precision: Precision = "auto",
    threads: int = 0,
    batch_size: int = 0,
    attention_window: int = 0,
) -> int:
    """Serve OpenAI's speech-to-text API: /v1/realtime and /v1/audio/transcriptions.

    Parameters
    ----------
    config
        A TOML file with these options, under the same names without the dashes before them, as in
        max-sessions = 8; what is typed counts more.
    compute
        Where the models run: auto, cpu, cuda or cuda:N.
    precision
        See `livecap file --help`.
    threads
        Of the CPU; 0: one a core.
    batch_size
        Stretches of speech decoded at once; 0: as many as memory and speed suggest.
    attention_window
        Seconds of audio that see each other in Qwen3-ASR's encoder: 2, 4 or 8; 0: as trained.
    """
    require(PACKAGES)
    from dataclasses import replace

    from livecap.api.server.serve import run_serve

    named = tuple(model_of(name) for name in server.model)
    run = ModelConfig(
        device=compute,
        precision=precision,
        threads=threads,
        batch_size=batch_size,
        attention_window=attention_window,
    )
    return run_serve(replace(server, model=named), live, run)


def require(packages: tuple[str, ...]) -> None:
    """Refuse to begin without what the server is made of."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"The server needs packages that are not installed: {', '.join(missing)}",
            remedy="Run: pip install 'livecap[serve]'",
        )


def from_file(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Options of the file that --config names, where they were not typed. For cyclopts."""
    by_name = {argument.name.removeprefix("--"): argument for argument in arguments}
    typed = by_name["config"].tokens
    if typed:
        known = sorted(name for name in by_name if name not in ("*", "config"))
        data = read(Path(typed[-1].value), known)
        for name, value in data.items():
            _check_text(name, by_name[name].hint, value)
        Dict(data, source=typed[-1].value, use_commands_as_keys=False)(app, commands, arguments)


def read(file: Path, known: list[str]) -> dict[str, object]:
    """A TOML file -> the options in it. Raises ConfigError for others than those that are known."""
    try:
        found = tomllib.loads(file.expanduser().read_text("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"--config {file} can't be read ({error.strerror})", remedy="Name a file of TOML."
        ) from error
    except ValueError as error:  # of TOML, or of UTF-8
        raise ConfigError(f"--config {file} is no TOML ({error})", remedy="Mend it.") from error
    options = _dashed(found)
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ConfigError(
            f"--config {file} has options that are not known: {', '.join(unknown)}",
            remedy=f"Known are: {', '.join(known)}.",
        )
    return options


def _check_text(name: str, hint: object, value: object) -> None:
    """Refuse what is no text where text is wanted: 7 would be taken for "7". Raises ConfigError
    without repeating it, since it may be a secret."""
    listed = hint == tuple[str, ...]
    if hint is not str and not listed:
        return  # cyclopts refuses what can't be a number or a choice
    every = value if listed and isinstance(value, list) else [value]
    if not all(isinstance(one, str) for one in every):
        raise ConfigError(
            f"--{name} has to be text in the file of --config", remedy=f'Write {name} = "…".'
        )


def _dashed(found: Mapping[str, object]) -> dict[str, object]:
    """Names as they are typed; max_sessions is what some are used to write in files."""
    return {name.replace("_", "-"): value for name, value in found.items()}
