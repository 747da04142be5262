"""Inputs, formats and -o -> where every output goes. No two go to one place, none onto an input."""

import hashlib
import itertools
import os
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from livecap.errors import ConfigError
from livecap.output.files import MARKER
from livecap.output.writers import FORMATS, format_of

STDIN = "-"
STDOUT = "-"
FIELDS = ("stem", "ext", "lang", "name", "track")
UNDETERMINED = "und"  # ISO 639-2: outputs are opened before a language can be detected
SUFFIX = re.compile(r"(?<=.)\.[A-Za-z0-9]{1,8}$", re.DOTALL)  # of a media file, not of a sentence
LONGEST = 255  # bytes of a file name on the common file systems
LONGEST_EXT = max(FORMATS, key=len)
JOINABLE = frozenset({"txt", "jsonl"})  # several of them in a row are still one of them


@dataclass(frozen=True, slots=True)
class NamedInput:
    """One thing to caption."""

    path: str  # '-' for standard input
    track: int | None = None  # of its audio tracks, where one was asked for
    folder: str = ""  # in which it lies below the folder that was named

    @property
    def name(self) -> str:
        """The file's name; 'stdin' for standard input."""
        return "stdin" if self.path == STDIN else os.path.basename(self.path) or "_"

    @property
    def stem(self) -> str:
        """The name without its last suffix: 'talk.v2' of 'talk.v2.mp3'."""
        return SUFFIX.sub("", self.name)


def plan(
    sources: Sequence[NamedInput],
    formats: Sequence[str],
    *,
    output: str | None = None,
    language: str | None = None,
) -> list[dict[str, Path | None]]:
    """For each source, the path of each format's output; None is standard output.

    `output` is what -o says: None (beside the input; standard output for standard input), '-'
    (standard output), a folder that exists or ends in '/' (in which the tree of a named folder is
    made anew), a template with {stem}, {ext}, {lang},
    {name} or {track}, or one file's name. {lang} is `language`, the forced one, or 'und' until one
    is detected: see `relabelled`. Outputs that would coincide take the
    input's full name ('talk.mp3.srt'), then its track, then a number. Names too long for the
    file system are cut and end in a hash.

    Raises ConfigError, with what to write instead, where `output` can't serve.
    """
    if output == STDOUT:
        return [_to_stdout(sources, formats) for _ in sources]
    if output is not None and "{" in output:
        _check_template(output, formats)
        return _distinct(sources, formats, Template(output, language or UNDETERMINED))
    if output is None or output.endswith(("/", os.sep)) or os.path.isdir(output):
        plain = Beside(output)
        streamed = [output is None and source.path == STDIN for source in sources]
        if any(streamed) and (len(formats) > 1 or len(sources) > 1):
            raise ConfigError(
                "standard input with other inputs or several formats has no place to go",
                remedy="Name a folder, as in -o out/.",
            )
        if any(streamed):
            return [dict.fromkeys(formats)]
        return _distinct(sources, formats, plain)
    return [_one_file(sources, formats, output)]


def relabelled(
    source: NamedInput, planned: Mapping[str, Path | None], output: str | None, language: str
) -> dict[str, Path | None]:
    """Outputs that were planned without a language -> the same under the code of one.

    They are as planned unless `output` is a template with {lang}.
    """
    if output is None or output == STDOUT or "lang" not in _fields(output):
        return dict(planned)
    formats = tuple(planned)
    for level in itertools.count():
        base = _base(source, level)
        if _outputs(source, formats, Template(output, UNDETERMINED), base) == planned:
            return _outputs(source, formats, Template(output, language), base)
    raise AssertionError("not planned from this template")


@dataclass(frozen=True, slots=True)
class Beside:
    """Outputs in a folder, as the inputs lie in the one that was named; or beside the inputs."""

    folder: str | None

    def path(self, source: NamedInput, base: str, ext: str) -> Path:
        """Where an output with this base name goes."""
        if self.folder is not None:
            return Path(self.folder, source.folder, f"{base}.{ext}")
        return Path("" if source.path == STDIN else os.path.dirname(source.path), f"{base}.{ext}")


@dataclass(frozen=True, slots=True)
class Template:
    """Outputs named by a pattern."""

    pattern: str
    language: str

    def path(self, source: NamedInput, base: str, ext: str) -> Path:
        """Where an output goes; `base` stands for {stem}."""
        track = str(source.track or 0)
        values = {"stem": base, "ext": ext, "lang": self.language, "track": track}
        return Path(self.pattern.format(**values, name=source.name))


def _distinct(
    sources: Sequence[NamedInput], formats: Sequence[str], target: Beside | Template
) -> list[dict[str, Path | None]]:
    """The plainest names under which no output meets another one or an input."""
    taken = {_key(Path(source.path)) for source in sources if source.path != STDIN}
    left = list(range(len(sources)))
    found: dict[int, dict[str, Path | None]] = {}
    for level in range(3 + len(sources)):
        ready = {i: _outputs(sources[i], formats, target, _base(sources[i], level)) for i in left}
        counts = Counter(key for paths in ready.values() for key in _keys(paths))
        for index, paths in ready.items():
            numbered = level > 1  # then the first of those that are left may have it
            keys = _keys(paths)
            if taken.isdisjoint(keys) and (numbered or all(counts[key] == 1 for key in keys)):
                found[index] = paths
                taken |= keys
        left = [index for index in left if index not in found]
    if left:
        path = next(iter(_outputs(sources[left[0]], formats, target, "talk").values()))
        raise ConfigError(
            f"{path} would be written twice, or over an input",
            remedy="Put {stem} and {ext} into the name.",
        )
    return [found[index] for index in range(len(sources))]


def _base(source: NamedInput, level: int) -> str:
    """The base name of a source's outputs: plainer at lower levels."""
    if level == 0:
        return source.stem
    if level == 1 or (level == 2 and source.track is None):
        return source.name
    track = "" if source.track is None else f".track{source.track}"
    return source.name + track + (f"-{level - 1}" if level > 2 else "")


def _outputs(
    source: NamedInput, formats: Sequence[str], target: Beside | Template, base: str
) -> dict[str, Path | None]:
    return {ext: _fitting(target, source, base, ext) for ext in formats}


def _fitting(target: Beside | Template, source: NamedInput, base: str, ext: str) -> Path:
    """The path, its name cut until the marker beside it fits the file system too."""
    path = target.path(source, base if base.strip(".") else "_", ext)
    head = path.name.removesuffix(f".{ext}")
    room = LONGEST - len(MARKER) - len(LONGEST_EXT) - 1  # the same for all formats of a source
    if len(os.fsencode(head)) <= room:
        return path
    sign = "-" + hashlib.sha256(os.fsencode(head)).hexdigest()[:8]
    cut = head
    while len(os.fsencode(cut)) > room - len(sign):
        cut = cut[:-1]
    return path.with_name(cut + sign + path.name[len(head) :])


def _one_file(
    sources: Sequence[NamedInput], formats: Sequence[str], output: str
) -> dict[str, Path | None]:
    """A file's name as given, or with each format's suffix."""
    path, named = Path(output), format_of(output)
    ending = _ending(path.name)
    if not path.name:
        raise ConfigError("-o names nothing", remedy="Name a file, or a folder as in -o out/.")
    is_device = path.exists() and not path.is_file()
    if not is_device:
        _check_ending(ending, output)
    if len(sources) > 1:
        raise ConfigError(
            f"{len(sources)} inputs can't all be written to {output}",
            remedy=f"Write -o {output}/ for a folder, or -o '{output}.{{stem}}.{{ext}}'.",
        )
    found: dict[str, Path | None]
    if len(formats) > 1:
        base = path.with_suffix("") if named else path
        found = {ext: base.with_name(f"{base.name}.{ext}") for ext in formats}
    elif named not in (None, *formats):
        raise ConfigError(
            f"{output} is named as {named} but {formats[0]} was asked for",
            remedy=f"Write -f {named}, or another name after -o.",
        )
    else:
        bare = not ending and not is_device
        found = {formats[0]: path.with_name(f"{path.name}.{formats[0]}") if bare else path}
    if any(source.path != STDIN and _key(Path(source.path)) in _keys(found) for source in sources):
        raise ConfigError(f"{output} is the input", remedy="Choose another name after -o.")
    return found


def _to_stdout(sources: Sequence[NamedInput], formats: Sequence[str]) -> dict[str, Path | None]:
    if len(formats) > 1 or (len(sources) > 1 and not JOINABLE.issuperset(formats)):
        raise ConfigError(
            "standard output holds one format, and several inputs only as txt or jsonl",
            remedy="Name a folder, as in -o out/.",
        )
    return dict.fromkeys(formats)


def _ending(name: str) -> str:
    found = SUFFIX.search(name)
    return found[0] if found else ""


def _check_ending(ending: str, output: str) -> None:
    """Refuse a name that ends like media, or like captions that are not written."""
    if ending and format_of(f"_{ending}") is None:
        raise ConfigError(
            f"{output} ends in {ending}, which is no format that is written",
            remedy=f"Known are {', '.join(f'.{known}' for known in FORMATS)}.",
        )


def _check_template(pattern: str, formats: Sequence[str]) -> None:
    fields = list(_fields(pattern))
    for field in fields:
        if field not in FIELDS:
            raise ConfigError(
                f"the name {pattern} has a field {{{field}}}",
                remedy=f"Known are {', '.join(f'{{{known}}}' for known in FIELDS)}.",
            )
    if len(formats) > 1 and "ext" not in fields:
        raise ConfigError(
            f"the name {pattern} is the same for {' and '.join(formats)}",
            remedy="Put {ext} into it.",
        )
    if not pattern.endswith("{ext}"):
        _check_ending(_ending(pattern), pattern)
        if format_of(pattern) not in formats:
            raise ConfigError(
                f"the name {pattern} does not end in {formats[0]}", remedy="Put .{ext} behind it."
            )


def _fields(pattern: str) -> Iterator[str]:
    """What stands in braces, whole; ConfigError for braces that don't match."""
    try:
        for _, field, form, conversion in string.Formatter().parse(pattern):
            if field is not None:
                yield (
                    field + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
                )
    except ValueError as error:
        raise ConfigError(
            f"the name {pattern} can't be read: {error}", remedy="Write {{ for a brace."
        ) from error


def _keys(paths: dict[str, Path | None]) -> set[str]:
    return {_key(path) for path in paths.values() if path is not None}


def _key(path: Path) -> str:
    """What two paths share if some file system takes them for one."""
    return unicodedata.normalize("NFC", os.path.realpath(path)).casefold()
