"""Format name and target -> a writer that keeps what it is given on disk from the first event."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Literal, Protocol

from livecap.captions import PRESETS, Layout, Unmet
from livecap.errors import ConfigError, OutputError
from livecap.events import Event
from livecap.output import verbose_json
from livecap.output.files import OutputFile, OutputStream
from livecap.output.lines import JsonLinesFormat, Text, Tsv
from livecap.output.subtitles import Srt, Vtt


class Writer(Protocol):
    """Where events go. What was written is on disk, and parses, after every call."""

    @property
    def unmet(self) -> Unmet:
        """Subtitles so far that don't keep their layout's rules."""

    def write(self, event: Event) -> None:
        """Takes an event in. Raises OutputError if it can't be kept anywhere."""

    def close(self, *, complete: bool = True) -> None:
        """Finishes the output; with `complete`, a later run may skip it.

        Raises OutputError, which says where the text is, if that is not where it was wanted.
        """


class TextFormat(Protocol):
    """Events -> text that is appended for good, and what would follow if nothing more came."""

    def head(self) -> str: ...
    def feed(self, event: Event) -> str: ...
    def draft(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Options:
    """What the formats can be told."""

    layout: Layout = PRESETS["netflix"]  # of srt and vtt cues
    words: bool = False  # json: the times of every word, where there are any
    marked: bool = False  # vtt: the same, inside the cues
    language: str | None = None  # json: the language, where it is known beforehand
    task: Literal["transcribe", "translate"] = "transcribe"  # json


LINES: MappingProxyType[str, Callable[[Options], TextFormat]] = MappingProxyType(
    {
        "txt": lambda options: Text(),
        "srt": lambda options: Srt(options.layout),
        "vtt": lambda options: Vtt(options.layout, words=options.marked),
        "jsonl": lambda options: JsonLinesFormat(),
        "tsv": lambda options: Tsv(),
    }
)
FORMATS = ("txt", "srt", "vtt", "json", "jsonl", "tsv")


def open_writer(
    format: str,
    target: Path | str | BinaryIO,
    *,
    options: Options | None = None,
    overwrite: bool = False,
) -> Writer:
    """A writer of one of FORMATS to a path or a binary stream.

    A path's folders are made, and a marker stands beside the file until `close`; pipes and
    devices are written like streams. Raises ConfigError for an unknown format, OutputError where
    the target can't be written or, without `overwrite`, is complete already.
    """
    if format not in FORMATS:
        raise ConfigError(
            f"no output format is called {format!r}", remedy=f"Known are {', '.join(FORMATS)}."
        )
    options = options or Options()
    if isinstance(target, Path | str):
        path = Path(target)
        if os.path.exists(path) and not (path.is_file() or path.is_dir()):
            return _flowing(format, _open_device(path), options)
        return _on_disk(format, OutputFile(path, overwrite=overwrite), options)
    return _flowing(format, OutputStream(target), options)


def format_of(path: Path | str) -> str | None:
    """The format that a file's suffix names, if it names one."""
    suffix = Path(path).suffix[1:].lower()
    return suffix if suffix in FORMATS else None


class FileWriter:
    """A format in a file: final text is appended, the draft stands behind it until replaced."""

    def __init__(self, format: TextFormat, file: OutputFile) -> None:
        self._format = format
        self._file = file
        self._final = 0  # bytes that never change again
        self._draft = b""  # what stands behind them
        self._append(format.head())

    @property
    def unmet(self) -> Unmet:
        """See `Writer`."""
        return _unmet(self._format)

    def write(self, event: Event) -> None:
        """Takes an event in. Raises OutputError if it can't be kept anywhere."""
        self._append(self._format.feed(event))

    def close(self, *, complete: bool = True) -> None:
        """The draft is final. Raises OutputError if the text is elsewhere than wanted."""
        self._file.close(complete=complete)

    def _append(self, text: str) -> None:
        final = text.encode("utf-8", "replace")
        draft = self._format.draft().encode("utf-8", "replace")
        data = final + draft
        if data == self._draft:
            self._final += len(final)
            self._draft = draft
            return
        if len(data) < len(self._draft):
            self._file.cut(self._final)  # before: a longer rest would not parse
        self._file.write(self._final, data)
        self._final += len(final)
        self._draft = draft


class StreamWriter:
    """A format on a stream: only what is final goes out, the rest when it is closed."""

    def __init__(self, format: TextFormat, stream: OutputStream) -> None:
        self._format = format
        self._stream = stream
        self._send(format.head())

    @property
    def unmet(self) -> Unmet:
        """See `Writer`."""
        return _unmet(self._format)

    def write(self, event: Event) -> None:
        """Takes an event in. Raises OutputError if it can't be kept anywhere."""
        self._send(self._format.feed(event))

    def close(self, *, complete: bool = True) -> None:
        """Sends the rest; the stream stays open unless it is our own."""
        self._send(self._format.draft())
        self._stream.close()

    def _send(self, text: str) -> None:
        if text:
            self._stream.write(text.encode("utf-8", "replace"))


def _unmet(format: TextFormat) -> Unmet:
    return format.unmet if isinstance(format, Srt | Vtt) else Unmet()


def _on_disk(format: str, file: OutputFile, options: Options) -> Writer:
    if format != "json":
        return FileWriter(LINES[format](options), file)
    return verbose_json.on_disk(
        file, task=options.task, language=options.language, words=options.words
    )


def _flowing(format: str, stream: OutputStream, options: Options) -> Writer:
    if format != "json":
        return StreamWriter(LINES[format](options), stream)
    return verbose_json.on_stream(
        stream, task=options.task, language=options.language, words=options.words
    )


def _open_device(path: Path) -> OutputStream:
    try:
        return OutputStream(open(path, "wb"), owned=True)
    except OSError as error:
        raise OutputError(
            f"{path} can't be written: {error.strerror}", remedy="Choose another place with -o."
        ) from error
