"""Which files livecap has written: digests of their contents, in the user's state folder.

A file that is not among them was made, or changed since, by somebody else. It is known by its
content, so that it may be moved; and no player meets a mark in it.
"""

import hashlib
import os
import sys
from contextlib import suppress
from pathlib import Path

MAX_RECORD = 1 << 22  # bytes of the record: some 60,000 outputs; then the older half is dropped


def remember(path: Path) -> None:
    """This file is as livecap has written it. Where that can't be kept, it counts as unknown."""
    with suppress(OSError, RuntimeError):  # RuntimeError: nobody's home folder is known
        line = _digest(path) + "\n"
        record = _record()
        record.parent.mkdir(parents=True, exist_ok=True)
        if record.exists() and record.stat().st_size > MAX_RECORD:
            lines = record.read_text("ascii").splitlines(keepends=True)
            draft = record.with_name(f"{record.name}.{os.getpid()}")
            draft.write_text("".join(lines[len(lines) // 2 :]), "ascii")
            draft.replace(record)
        with record.open("a", encoding="ascii") as out:  # one write: others may append as well
            out.write(line)


def known() -> frozenset[str]:
    """The digests of all that livecap has written on this machine."""
    try:
        return frozenset(_record().read_text("ascii").splitlines())
    except (OSError, RuntimeError, UnicodeDecodeError):
        return frozenset()


def is_foreign(path: Path, known: frozenset[str]) -> bool:
    """Whether there is something in a file that livecap did not write there."""
    try:
        return path.is_file() and path.stat().st_size > 0 and _digest(path) not in known
    except OSError:  # what can't be read is not ours
        return True


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
