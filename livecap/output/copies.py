"""What an output replaces: kept beside it until its owner removes it, refused if it is no text."""

import codecs
import errno
import filecmp
import itertools
import os
from contextlib import suppress
from pathlib import Path

from livecap.output import provenance

OLD_COPY = ".oldcopy"  # behind the name of what was replaced; as long as `files.MARKER`
HEAD_BYTES = 4096  # in which a file that is no text shows it
UTF_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # those of UTF-32 begin the same
NO_TEXT = frozenset(range(32)) - frozenset(
    b"\t\n\v\f\r\x1a\x1b"
)  # in no text of one byte a character


def copy_name(path: Path) -> Path | None:
    """Where the file at `path` would be kept if it was replaced; None if nothing is lost with it.

    That is one name, unless somebody else's text (a corrected subtitle, say) is kept there
    already: then the next that is numbered.
    """
    if not path.is_file() or not path.stat().st_size:
        return None
    known = provenance.known()
    for number in itertools.count(1):
        index = path.with_name(path.name + OLD_COPY + (str(number) if number > 1 else ""))
        if not os.path.lexists(index) or filecmp.cmp(index, path, shallow=False):
            return index
        if not provenance.is_foreign(index, known):
            return index
    raise AssertionError("the numbers have come to an end")


def put_aside(path: Path) -> Path | None:
    """Moves the file at `path` to its `copy_name` -> that. Raises OSError where it can't."""
    index = copy_name(path)
    if index is not None:
        os.replace(path, index)
    return index


def drop_same(copy: Path, path: Path) -> None:
    """Takes away a copy that has nothing that is not in the file that replaced its original."""
    with suppress(OSError):  # then it stays
        if filecmp.cmp(copy, path, shallow=False):
            copy.unlink()


def is_media(path: Path) -> bool:
    """Whether a file is no text, whatever its name. Raises OSError where it can't be read."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    return bool(NO_TEXT.intersection(head)) and not head.startswith(UTF_MARKS)


def refuse_media(path: Path) -> None:
    """Raises OSError for a recording: that is never written over."""
    if is_media(path):
        raise FileExistsError(errno.EEXIST, "what is there is no text, and is not written over")
