"""Where model folders lie on this machine, without importing any hub library."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


def hub_cache() -> Path:
    """The cache that all programs share which fetch from the Hugging Face hub."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if value := os.environ.get(variable):
            return Path(os.path.expandvars(value)).expanduser()
    if value := os.environ.get("HF_HOME"):
        return Path(os.path.expandvars(value)).expanduser() / "hub"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "huggingface/hub"


def store() -> Path:
    """livecap's own folder of models, for those that a user puts there by hand."""
    if value := os.environ.get("LIVECAP_HOME"):
        return Path(value).expanduser() / "models"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/livecap/models").expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser() / "livecap"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "livecap/models"


def hub_folder(repository: str, *, revision: str | None = None) -> Path | None:
    """A hub id -> the folder of a cached revision, None if that isn't cached.

    By default the revision that the main branch had when it was last fetched, else the newest.
    """
    root = hub_cache() / f"models--{repository.replace('/', '--')}"
    if revision is not None:
        folder = root / "snapshots" / revision
        return folder if folder.is_dir() else None
    try:
        main = (root / "refs" / "main").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        main = ""
    if re.fullmatch(r"\w+", main) and (root / "snapshots" / main).is_dir():
        return root / "snapshots" / main
    snapshots = [folder for folder in root.glob("snapshots/*") if folder.is_dir()]
    return max(snapshots, key=lambda folder: folder.stat().st_mtime, default=None)


def hub_repositories() -> Iterator[str]:
    """The hub ids of all models of which something is cached."""
    for root in sorted(hub_cache().glob("models--*--*")):
        yield root.name.removeprefix("models--").replace("--", "/", 1)


def store_folders() -> Iterator[Path]:
    """The model folders in livecap's own store."""
    yield from sorted(folder for folder in store().glob("*") if folder.is_dir())


def size_on_disk(folder: Path) -> int:
    """Bytes of the files in a folder, links followed; 0 for what isn't there."""
    return sum(file.stat().st_size for file in folder.glob("*") if file.is_file())
