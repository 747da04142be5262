"""Which files livecap has written, and with which options: digests in the user's state folder.

A file that is not among them was made, or changed since, by somebody else. It is known by its
content, so that it may be moved; and no player meets a mark in it.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MAX_RECORD = 1 << 22  # bytes of the record: some 50,000 outputs; then the older half is dropped

Settings = Mapping[str, str]  # options that are not at their defaults: name -> value
Known = Mapping[str, tuple[Settings, ...]]  # digest of an output -> the options it was made with


def remember(path: Path, settings: Settings | None = None) -> None:
    """This file is as livecap has written it, with these options where they are known. Where that
    can't be kept, it counts as unknown.
    """
    with suppress(OSError, RuntimeError):  # RuntimeError: nobody's home folder is known
        made = "" if settings is None else f" {json.dumps(settings, separators=(',', ':'))}"
        line = f"{_digest(path)}{made}\n"
        record = _record()
        record.parent.mkdir(parents=True, exist_ok=True)
        if record.exists() and record.stat().st_size > MAX_RECORD:
            lines = record.read_text("ascii").splitlines(keepends=True)
            draft = record.with_name(f"{record.name}.{os.getpid()}")
            draft.write_text("".join(lines[len(lines) // 2 :]), "ascii")
            draft.replace(record)
        with record.open("a", encoding="ascii") as out:  # one write: others may append as well
            out.write(line)


def known() -> Known:
    """All that livecap has written on this machine."""
    found: dict[str, tuple[Settings, ...]] = {}
    try:
        for line in _record().read_text("ascii").splitlines():
            digest, _, made = line.partition(" ")
            found[digest] = (*found.get(digest, ()), *([json.loads(made)] if made else []))
    except (OSError, RuntimeError, ValueError):  # ValueError: no text, or a line that was cut off
        return found
    return found


def is_foreign(path: Path, known: Known) -> bool:
    """Whether there is something in a file that livecap did not write there."""
    try:
        return path.is_file() and path.stat().st_size > 0 and _digest(path) not in known
    except OSError:  # what can't be read is not ours
        return True


def made_with(path: Path, known: Known) -> tuple[Settings, ...]:
    """The options that outputs with this content were made with; nothing if that is not known."""
    try:
        return known.get(_digest(path), ())
    except OSError:
        return ()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _record() -> Path:
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/livecap/outputs").expanduser()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
        return Path(local).expanduser() / "livecap" / "outputs"
    state = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    return state / "livecap" / "outputs"
