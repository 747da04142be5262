"""What the user typed -> the files that are meant."""

import glob
import os
import re
from collections.abc import Iterator, Sequence

from livecap.errors import AudioError

STDIN = "-"
SEPARATORS = r"[\\/]" if os.name == "nt" else "/"
# Folders that network drives and systems keep beside one's own: previews, deleted files, copies.
SIDE_FOLDERS = frozenset(
    {
        "@eaDir", "#recycle", "#snapshot", "@Recycle", "@Recently-Snapshot", "@tmp",
        "$RECYCLE.BIN", "RECYCLER", "System Volume Information", "lost+found", "__MACOSX",
    }
)  # fmt: skip
# In a folder, only what looks like media is taken; files named one by one are judged by their
# bytes.
MEDIA = frozenset(
    "3ga 3gp aac ac3 aif aiff aifc amr ape asf au avi caf dts eac3 flac flv gsm m2ts m4a m4b m4v "  # noqa: SIM905 - reads better than 60 quoted words
    "mka mkv mov mp2 mp3 mp4 mpeg mpg mts oga ogg ogv opus ra rf64 rm snd spx tta ts vob voc w64 "
    "wav weba webm wma wmv wv".split()
)


def expand(typed: Sequence[str]) -> dict[str, str]:
    """Files, folders, patterns and '-' -> each file once, in the order typed, folders sorted; with
    the folder in which it lies below the one that was named, or where the pattern begins: '' for
    a file in that folder itself.

    What names no file is kept, and reported when it is opened, so that the others are captioned
    all the same. Where there are no others, folders and patterns raise AudioError at once.
    """
    found: dict[str, tuple[str, str]] = {}  # by where it is: one file may be named in several ways
    empty: dict[str, AudioError] = {}
    for text in typed:
        try:
            paths = list(_one(text))
        except AudioError as error:
            paths = [(text, "")]
            empty[text] = error
        for path, below in paths:
            found.setdefault(_place(path), (path, below))
    if empty and {path for path, _ in found.values()} == empty.keys():
        raise next(iter(empty.values()))
    return dict(found.values())


def _place(path: str) -> str:
    """The same for all names of one directory entry; two links to one file are two files."""
    if path == STDIN:
        return path
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _one(text: str) -> Iterator[tuple[str, str]]:
    """A file, and the folder in which it lies below what was named."""
    if text == STDIN or os.path.isfile(text):
        yield text, ""
    elif os.path.isfile(text.rstrip(os.sep)):
        yield text.rstrip(os.sep), ""
    elif os.path.isdir(text):
        yield from ((path, _below(path, text)) for path in _folder(text))
    elif glob.has_magic(text) and not os.path.lexists(text):
        root, *parts = _parts(text)
        matches = sorted({path for path in _matches(root, parts) if os.path.isfile(path)})
        if not matches:
            raise AudioError(f"No file matches {text!r}", remedy="Check the pattern.")
        top = _fixed(root, parts)
        yield from ((path, _below(path, top)) for path in matches)
    else:
        yield text, ""


def _below(path: str, top: str) -> str:
    """The folder of a file inside `top`; empty for `top` itself."""
    below = os.path.relpath(os.path.dirname(path) or os.curdir, top or os.curdir)
    return "" if below == os.curdir else below


def _fixed(root: str, parts: Sequence[str]) -> str:
    """The folder below which a pattern's names vary."""
    top = root
    for part in parts[:-1]:
        real_path = os.path.join(top, part)
        if glob.has_magic(part) and not os.path.lexists(real_path):
            break
        top = real_path
    return top


def _parts(pattern: str) -> list[str]:
    """A pattern -> the folder where it begins, and the names below it."""
    drive, rest = os.path.splitdrive(pattern)
    root = drive + (os.sep if os.path.isabs(pattern) else "")
    return [root, *(part for part in re.split(SEPARATORS, rest) if part)]


def _matches(base: str, parts: Sequence[str]) -> Iterator[str]:
    """What a pattern matches below a folder. A name that is there as it was written is that one,
    whatever its brackets could mean.
    """
    if not parts:
        yield base
        return
    head, *rest = parts
    literal = os.path.join(base, head)
    if not glob.has_magic(head) or os.path.lexists(literal):
        if os.path.lexists(literal):
            yield from _matches(literal, rest)
    elif head == "**":
        for folder, names in _walk(base or os.curdir):
            inside = base if folder == os.curdir else folder.removeprefix(os.curdir + os.sep)
            yield from _matches(inside, rest) if rest else (os.path.join(inside, n) for n in names)
    else:
        quoted = head.replace("[", "[[]")  # "[1080p] *" means those brackets, if they are there
        for name in glob.glob(quoted, root_dir=base or None) or glob.glob(
            head, root_dir=base or None
        ):
            if name not in SIDE_FOLDERS:
                yield from _matches(os.path.join(base, name), rest)


def _walk(top: str) -> Iterator[tuple[str, list[str]]]:
    """A folder and those below it, each once, with the names of their files; nothing that is
    hidden, and no folder that a system keeps for itself. Folders that are linked to come last:
    whatever is in there anyway has its own name, and a link to a folder around it is a circle.
    """
    seen = set[str]()
    waiting = [top]
    while waiting:
        for folder, folders, names in os.walk(waiting.pop(0)):
            real_path = os.path.realpath(folder)
            if real_path in seen:
                folders.clear()
                continue
            seen.add(real_path)
            folders[:] = sorted(name for name in folders if _is_shown(name))
            paths = [os.path.join(folder, name) for name in folders]
            waiting += [path for path in paths if os.path.islink(path) and not _is_circle(path)]
            yield folder, sorted(name for name in names if not name.startswith("."))


def _is_circle(link: str) -> bool:
    """Whether a link names a folder around itself."""
    around, target = os.path.realpath(os.path.dirname(link)), os.path.realpath(link)
    return os.path.join(around, "").startswith(os.path.join(target, ""))


def _is_shown(name: str) -> bool:
    return not name.startswith(".") and name not in SIDE_FOLDERS


def _folder(text: str) -> list[str]:
    found = (os.path.join(folder, name) for folder, names in _walk(text) for name in names)
    files = sorted(
        path
        for path in found
        if os.path.splitext(path)[1][1:].lower() in MEDIA and os.path.isfile(path)
    )
    if not files:
        raise AudioError(
            f"The folder {text!r} has no audio or video files in it",
            remedy="Name the files themselves if their names don't end like media.",
        )
    return files
