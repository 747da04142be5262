"""What the user typed -> the files that are meant."""

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from livecap.errors import AudioError

STDIN = "-"
# In a folder, only what looks like media is taken; files named one by one are judged by their
# bytes.
MEDIA = frozenset(
    "3ga 3gp aac ac3 aif aiff aifc amr ape asf au avi caf dts eac3 flac flv gsm m2ts m4a m4b m4v "  # noqa: SIM905 - reads better than 60 quoted words
    "mka mkv mov mp2 mp3 mp4 mpeg mpg mts oga ogg ogv opus ra rf64 rm snd spx tta ts vob voc w64 "
    "wav weba webm wma wmv wv".split()
)


def expand(typed: Sequence[str]) -> list[str]:
    """Files, folders, patterns and '-' -> each file once, in the order typed, folders sorted.

    What names no file is kept, and reported when it is opened, so that the others are captioned
    all the same. Where there are no others, folders and patterns raise AudioError at once.
    """
    found: dict[str, str] = {}  # by where it is: one file may be named in several ways
    empty: dict[str, AudioError] = {}
    for text in typed:
        try:
            paths = list(_one(text))
        except AudioError as error:
            paths = [text]
            empty[text] = error
        for path in paths:
            found.setdefault(_place(path), path)
    if empty and set(found.values()) == empty.keys():
        raise next(iter(empty.values()))
    return list(found.values())


def _place(path: str) -> str:
    """The same for all names of one directory entry; two links to one file are two files."""
    if path == STDIN:
        return path
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _one(text: str) -> Iterator[str]:
    if text == STDIN or os.path.isfile(text):
        yield text
    elif os.path.isfile(text.rstrip(os.sep)):
        yield text.rstrip(os.sep)
    elif os.path.isdir(text):
        yield from _folder(text)
    elif glob.has_magic(text) and not os.path.lexists(text):
        matches = sorted(path for path in glob.glob(text, recursive=True) if os.path.isfile(path))
        if not matches:
            raise AudioError(f"No file matches {text!r}", remedy="Check the pattern.")
        yield from matches
    else:
        yield text


def _folder(text: str) -> list[str]:
    files = sorted(
        str(path)
        for path in Path(text).rglob("*")
        if path.suffix[1:].lower() in MEDIA and not path.name.startswith(".") and path.is_file()
    )
    if not files:
        raise AudioError(
            f"The folder {text!r} has no audio or video files in it",
            remedy="Name the files themselves if their names don't end like media.",
        )
    return files
