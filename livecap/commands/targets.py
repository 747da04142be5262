"""Where a run's captions go, which of them are to be written, and why the others are not."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from livecap.commands.made_with import differences
from livecap.config import OutputConfig
from livecap.languages import NAMES
from livecap.output import NamedInput, copies, is_complete, plan, provenance, relabelled

OTHERS = "was not written by livecap, or has been changed since"


@dataclass(slots=True)
class Targets:
    """One input's outputs."""

    source: NamedInput
    planned: Mapping[str, Path | None]  # by format, before a language is detected; None: stdout
    settings: Mapping[str, provenance.Settings] = field(default_factory=dict)  # by format
    todo: dict[str, Path | None] = field(default_factory=dict)  # those still to be written
    renewed: set[Path] = field(default_factory=set)  # of these, what is replaced though complete
    notes: list[str] = field(default_factory=list)  # what is skipped or done again, and why
    skipped: list[str] = field(default_factory=list)  # of the notes, how those end that skip ours
    warnings: list[str] = field(default_factory=list)  # whose work is replaced


def targets_of(
    sources: Sequence[NamedInput],
    output: OutputConfig,
    language: str | None,
    settings: Mapping[str, provenance.Settings] = MappingProxyType({}),
) -> dict[str, Targets]:
    """For each input, by its path, what is to be written. Raises ConfigError, see `sinks.plan`.

    `language` is the code of the text's language, if that is known before it is recognised;
    `settings` the options that each format is made with.
    """
    if output.json_lines:
        return {source.path: Targets(source, {}) for source in sources}
    planned = plan(sources, output.names, output=output.output, language=language)
    written = provenance.known()
    found: dict[str, Targets] = {}
    for source, outputs in zip(sources, planned, strict=True):
        found[source.path] = targets = Targets(source, outputs, settings)
        for name, target in outputs.items():
            path = None if target is None else _in_place(targets, name, output, language, written)
            if path is None:
                targets.todo[name] = target
            else:
                _judge(targets, name, path, output, written)
        if outputs and not targets.todo and len(targets.notes) == len(outputs) > 1:
            targets.notes = _summed(targets)
    return found


def settle(
    targets: Targets, output: OutputConfig, language: str | None
) -> tuple[list[Path], list[str]]:
    """Complete outputs take their final names and are known from now on -> the names; warnings.

    `language` is the code of the one that was detected. What stands under a final name and was not
    written by livecap is only replaced with --overwrite.
    """
    names, warnings = list[Path](), list[str]()
    final = targets.planned
    if language and output.output and targets.planned:
        final = relabelled(targets.source, targets.planned, output.output, language)
    for name, target in targets.todo.items():
        if target is None:
            continue
        path, wanted = target, final[name]
        if wanted is not None and wanted != target:
            path = _moved(target, wanted, warnings, overwrite=output.overwrite)
        if path.is_file():  # and no device
            provenance.remember(path, targets.settings.get(name))
        names.append(path)
    return names, warnings


def _in_place(
    targets: Targets, name: str, output: OutputConfig, language: str | None, known: provenance.Known
) -> Path | None:
    """The complete output that an earlier run, or somebody else, has left for this format."""
    target = targets.planned[name]
    assert target is not None
    if is_complete(target):
        return target
    if language is None and output.output is not None:
        # Under the code of whatever language was detected; others' translations don't count.
        for code in NAMES:
            path = relabelled(targets.source, targets.planned, output.output, code)[name]
            if path == target:
                return None
            if path and is_complete(path) and not provenance.is_foreign(path, known):
                return path
    return None


def _judge(
    targets: Targets, name: str, target_path: Path, output: OutputConfig, known: provenance.Known
) -> None:
    """Whether a format is made although there is a complete output of it."""
    path, target = targets.source.path, targets.planned[name]
    assert target is not None
    foreign = provenance.is_foreign(target_path, known)
    newer = _is_newer(path, target_path)
    if output.overwrite:
        if foreign and (warning := replacing(target_path)):
            targets.warnings.append(warning)
    elif foreign:
        later = f", though {path} is newer" if newer else ""
        targets.notes.append(
            f"{path}: {target_path} {OTHERS}; it is left as it is{later}; --overwrite replaces it"
        )
        return
    elif newer:
        targets.notes.append(f"{path} is newer than {target_path}; it is captioned again")
    else:
        made = _made_otherwise(target_path, targets.settings.get(name), known)
        redo = "; --overwrite does it again" + (" as asked now" if made else "")
        targets.notes.append(f"{path}: captioned already in {target_path}{made}{redo}")
        targets.skipped.append(made + redo)
        return
    targets.todo[name] = target
    targets.renewed.add(target)


def _made_otherwise(path: Path, wanted: provenance.Settings | None, known: provenance.Known) -> str:
    """What is said of an output that was made with other options; empty if it was not."""
    made = provenance.made_with(path, known)
    if wanted is None or not made or wanted in made:
        return ""
    return f", but {differences(made[-1], wanted)}"


def _summed(targets: Targets) -> list[str]:
    """One line where all formats are skipped for the same reason."""
    path = targets.source.path
    if len(targets.skipped) == len(targets.notes) and len(set(targets.skipped)) == 1:
        return [f"{path}: captioned already{targets.skipped[0]}"]
    return targets.notes


def _is_newer(path: str, target_path: Path) -> bool:
    """Whether a source has been written to since an output was."""
    return os.path.isfile(path) and os.stat(path).st_mtime_ns > target_path.stat().st_mtime_ns


def _moved(target: Path, wanted: Path, warnings: list[str], *, overwrite: bool) -> Path:
    """An output under its final name, or where it is if that is taken."""
    foreign = provenance.is_foreign(wanted, provenance.known())
    if foreign and not overwrite:
        warnings.append(f"{wanted} {OTHERS}; the captions are in {target}")
        return target
    warning = replacing(wanted) if foreign else ""
    try:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        copies.refuse_media(wanted)
        copy = copies.put_aside(wanted)
        os.replace(target, wanted)
        if copy is not None:
            copies.drop_same(copy, wanted)
    except OSError as error:
        warnings.append(f"{wanted} can't be written ({error.strerror}); they are in {target}")
        return target
    if warning:
        warnings.append(warning)
    return wanted


def replacing(path: Path) -> str:
    """What the user is told of somebody's text that --overwrite replaces; empty for what is none,
    which is refused when it is opened.
    """
    if copies.is_media(path):
        return ""
    copy = copies.copy_name(path)
    stored = f", and kept as {copy}" if copy else ""
    return f"{path} {OTHERS}; it is replaced, as --overwrite says{stored}"


def signature(path: str) -> tuple[int, int] | None:
    """Bytes and time of change of a file; None for what has no end of its own, or is gone."""
    if not os.path.isfile(path):
        return None
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns
