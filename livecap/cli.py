"""The commands. Flags come from the config dataclasses; heavy imports wait until needed."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Parameter

from livecap import __version__
from livecap.cli_live import Flat, bench, devices, mic
from livecap.cli_serve import from_file, serve
from livecap.client.options import ServerOptions
from livecap.commands.arguments import format_of, model_of, refuse_options
from livecap.config import DecodeConfig, ModelConfig, OutputConfig, VadConfig
from livecap.errors import ConfigError, LivecapError
from livecap.languages import language_of

FAILED, USAGE, STOPPED = 1, 2, 130  # exit statuses, as shells know them
SIGNALLED = 128  # and a signal's number is added

SHORT = {"-f": "--format", "-o": "--output", "-m": "--model", "-l": "--language", "-q": "--quiet"}

# What only counts if it is set before torch is loaded (measured in benchmarks/README.md).
ENVIRONMENT = {
    # Between two operations torch's threads wait actively, libgomp's default being so long that
    # another busy program makes everything several times slower. With half of this, a quiet
    # machine gets slower.
    "GOMP_SPINCOUNT": "2000",
    # oneDNN and torch's layer over it keep what they prepared for the last 1024 shapes each. Every
    # length of a text is a shape: within hours that comes to hundreds of megabytes, for no speed.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
    "LRU_CACHE_CAPACITY": "64",
}

app = App(
    name="livecap",
    help="Captions from speech, on your own machine.",
    version=__version__,
    default_parameter=Parameter(negative=""),
)


@app.command
def file(  # noqa: PLR0913 - its flags
    *paths: Annotated[str, Parameter(allow_leading_hyphen=True)],
    model: str = "auto",
    pull: bool = False,
    output: Annotated[OutputConfig, Flat] = OutputConfig(),  # noqa: B008 - frozen
    decode: Annotated[DecodeConfig, Flat] = DecodeConfig(),  # noqa: B008 - frozen
    no_vad: bool = False,
    vad: Annotated[VadConfig, Flat] = VadConfig(),  # noqa: B008 - frozen
    track: str | None = None,
    channels: Literal["mix", "split"] = "mix",
    raw: str | None = None,
    run: Annotated[ModelConfig, Flat] = ModelConfig(),  # noqa: B008 - frozen
    server: Annotated[ServerOptions, Flat] = ServerOptions(),  # noqa: B008 - frozen
) -> int:
    """Caption audio and video files.

    Parameters
    ----------
    paths
        Files, folders and patterns; - is standard input.
    model
        Short: -m. A name that `livecap models` lists, a hub id or a folder; auto: the best on this
        machine.
    pull
        Fetch the model first if it is not on this machine.
    no_vad
        Hear everything, instead of only what voice activity detection calls speech.
    track
        Which audio track: its number, from 0, or its language code.
    channels
        split: caption each channel apart, under its own label.
    raw
        What headerless PCM is, as in s16le:16000:1 (coding, rate, channels).
    """
    from livecap.audio import RawFormat
    from livecap.audio.prefetch import ReadConfig
    from livecap.commands.backend import start_of
    from livecap.commands.file_batch import BatchConfig, run_batch
    from livecap.commands.inputs import expand

    refuse_options(paths)
    if not paths:
        raise ConfigError("No file was named", remedy="Name files or folders, or - for a pipe.")
    decode = replace(decode, language=language_of(decode.language))
    found = expand(paths)
    config = BatchConfig(
        model=model,
        pull=pull,
        decode=decode,
        vad=None if no_vad else vad,
        run=run,
        read=ReadConfig(track, channels == "split", None if raw is None else RawFormat.parse(raw)),
        output=replace(output, format=format_of(output, list(found))),
        folders=found,
    )
    return run_batch(list(found), config, start_of(server, config))


app.command(mic)
app.command(bench)
app.command(devices)
app.command(serve, config=from_file)


@app.command
def models() -> int:
    """List the models that are here, and those that can be pulled."""
    from livecap.commands.models import show_models

    return show_models()


@app.command
def pull(*names: str) -> int:
    """Fetch models from the hub.

    Parameters
    ----------
    names
        Names that `livecap models` lists, or hub ids.
    """
    from livecap.checkpoints import pull as fetch

    if not names:
        raise ConfigError("No model was named", remedy="`livecap models` lists them.")
    for name in names:
        checkpoint = fetch(name, progress=lambda line: print(line, file=sys.stderr, flush=True))
        print(f"{checkpoint.name}\t{checkpoint.folder}")
    return 0


@app.command
def doctor(*, model: str = "auto") -> int:
    """Check this machine, and say what to do about each fault.

    Parameters
    ----------
    model
        The model to check.
    """
    from livecap.commands.doctor import examine

    return examine(model_of(model))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its status."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    _prepare_streams()
    typed = _spelt_out(sys.argv[1:] if arguments is None else arguments)
    with _terminated():
        status = _run(typed)
    sys.exit(status or 0)


@contextmanager
def _terminated() -> Iterator[None]:
    """SIGTERM ends the process with its own status at any moment: while a model is loaded, too.
    Commands that have something to finish take it over.
    """

    def leave(number: int, frame: FrameType | None) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\x1b[?25h")  # a bar may have hidden the cursor
            sys.stderr.flush()
        os._exit(SIGNALLED + number)  # nobody waits for what threads are in the middle of

    if threading.current_thread() is not threading.main_thread():
        yield  # others can't have signals
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(typed: Sequence[str]) -> int | None:
    """Run a command -> its exit status."""
    status: int | None
    try:
        status = app(typed, result_action="return_value", exit_on_error=False, print_error=False)
    except CycloptsError as error:
        status = _complain(f"{error} Try: livecap --help", USAGE)
    except LivecapError as error:
        status = _complain(str(error), USAGE if isinstance(error, ConfigError) else FAILED)
    except BrokenPipeError:
        # The reader has gone, as `head` does; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = FAILED
    except OSError as error:  # of standard output: all else is met where it happens
        sys.stdout = None
        status = _complain(f"standard output can't be written: {error}", FAILED)
    except KeyboardInterrupt:
        status = STOPPED
    return status


def _prepare_streams() -> None:
    """Closed standard streams: nothing to read, errors unseen, and output refused when it comes."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 - open to the end
    sys.stdout = sys.stdout or open(os.devnull)  # noqa: SIM115 - not writable, on purpose
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115 - open to the end


def _spelt_out(words: Sequence[str]) -> list[str]:
    """Short options in full, and the - of `-o -` as part of its option."""
    typed: list[str] = []
    for index, word in enumerate(words):
        if word == "--":
            return [*typed, *words[index:]]
        if word == "-" and typed and typed[-1] == "--output":
            typed[-1] = "--output=-"
        else:
            typed.append(SHORT.get(word, word))
    return typed


def _complain(text: str, status: int) -> int:
    from livecap.log import report

    report(f"livecap: {text}")
    return status
