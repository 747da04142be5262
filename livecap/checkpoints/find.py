"""A model's name -> its folder on this machine. Nothing is fetched unless the caller asks."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from livecap.checkpoints.cache import (
    HUB_ID,
    hub_folder,
    hub_repositories,
    size_on_disk,
    store,
    store_folders,
)
from livecap.checkpoints.catalogue import DECODER, KNOWN, Known, find_known
from livecap.checkpoints.causal_tower import without_decoder
from livecap.checkpoints.embedded import NAME as EMBEDDED
from livecap.checkpoints.embedded import find_embedded, find_sprout
from livecap.checkpoints.inspect import inspect
from livecap.checkpoints.spec import Checkpoint
from livecap.errors import ModelError, ModelNotFound

State = Literal["default", "installed", "incomplete", "pullable"]
AUTO_FAMILY = "whisper"


@dataclass(frozen=True, slots=True)
class CatalogueRow:
    """A line of `livecap models`."""

    name: str
    where: str  # a folder, or the hub id to pull from
    size: int  # MB on disk, or about what a pull fetches
    parameters: int | None  # millions, where known
    languages: str | None  # "English", "99 languages", where known
    state: State  # "default": what 'auto' takes


def find(name: str) -> Checkpoint:
    """A name -> the checkpoint on this machine.

    `name` is 'auto' (the best published Whisper here, else the embedded tiny.en), a short name,
    a hub id or a folder. Raises ModelNotFound, CorruptModel (incomplete or damaged), and ModelError
    (unsupported).
    """
    return _best() if name == "auto" else _find(name)


def is_fetchable(name: str) -> bool:
    """Whether the hub may have a model of that name."""
    known = find_known(name)
    return bool(known.repositories) if known else _is_hub_id(name)


def catalogue() -> list[CatalogueRow]:
    """All models with a short name, best first, then whatever else is on this machine."""
    default = _default()
    rows = [_known_row(known, default) for known in KNOWN]
    return rows + [_row(checkpoint, default) for checkpoint in _unlisted()]


def installed() -> list[CatalogueRow]:
    """The models on this machine, complete ones alone."""
    return [row for row in catalogue() if row.state in ("default", "installed")]


def _best() -> Checkpoint:
    for known in KNOWN:
        found = _first(known) if known.family == AUTO_FAMILY else None
        if found:
            return found
    raise ModelNotFound(
        "There is no model on this machine",
        remedy="Run pip install 'livecap[tiny]' for the small English one, or fetch one: "
        "`livecap pull small`.",
    )


def _find(name: str) -> Checkpoint:
    known = find_known(name)
    if known:
        return _find_known(known)
    folder = Path(name).expanduser()
    if os.path.isdir(folder):  # unlike Path.is_dir, False for a name that no path can have
        return _open(folder.resolve(), name)
    if os.path.isfile(folder):
        raise ModelNotFound(f"{name} is no folder", remedy="Name the folder of the model.")
    if os.path.isdir(store() / name) and Path(name).name == name:
        return _open(store() / name, name)
    if _is_hub_id(name):
        cached = hub_folder(name)
        if cached:
            return _open(cached, name)
        raise ModelNotFound(
            f"{name} is neither a folder here nor in the hub's cache",
            remedy=f"Fetch it: `livecap pull {name}`.",
        )
    names = ", ".join(one.name for one in KNOWN)
    what = f"There is no folder {name}, and no model of that name"
    raise ModelNotFound(what, remedy=f"Name a folder, a hub id or one of: {names}.")


def _is_hub_id(name: str) -> bool:
    return HUB_ID.fullmatch(name) is not None


def _find_known(known: Known) -> Checkpoint:
    broken: ModelError | None = None
    for attempt in _candidates(known):
        if isinstance(attempt, Checkpoint):
            return attempt
        broken = broken or attempt
    if not known.repositories:
        what = f"{known.name} is not whole" if broken else f"{known.name} is missing"
        raise ModelNotFound(what, remedy="It comes with livecap: install that again.") from broken
    if broken:
        raise broken
    remedy = f"Fetch it: `livecap pull {known.name}` (about {known.download} MB)."
    raise ModelNotFound(f"The model {known.name} is not on this machine", remedy=remedy)


def _first(known: Known) -> Checkpoint | None:
    return next((one for one in _candidates(known) if isinstance(one, Checkpoint)), None)


def _candidates(known: Known) -> Iterator[Checkpoint | ModelError]:
    """The copies of a model on this machine, the broken ones as what is wrong with them."""
    for folder in _folders(known):
        try:
            yield _open(folder, known.name)
        except ModelError as error:
            yield error
    try:
        packaged = find_embedded() if known.name == EMBEDDED else find_sprout(known.name)
    except ModelError as error:
        yield error
    else:
        if packaged:
            yield packaged


def _folders(known: Known) -> list[Path]:
    """Where copies of a model lie, whole ones or not."""
    folders = [store() / known.name, *(hub_folder(one) for one in known.repositories)]
    return [folder for folder in folders if folder and folder.is_dir()]


def _open(folder: Path, name: str) -> Checkpoint:
    return with_decoder(inspect(folder, name))


def with_decoder(checkpoint: Checkpoint) -> Checkpoint:
    """A causal tower -> the same with the decoder that is on this machine; others as they are.

    Raises ModelNotFound if there is none.
    """
    if checkpoint.layout != "tower" or checkpoint.decoder:
        return checkpoint
    known = find_known(DECODER)
    assert known
    for folder in _folders(known):
        try:
            found = inspect(folder, DECODER)
        except ModelError:  # a broken copy is no decoder, but the next may be whole
            continue
        if found.layout == "huggingface":
            return replace(checkpoint, decoder=folder)
    raise without_decoder(checkpoint)


def _default() -> Checkpoint | None:
    try:
        return _best()
    except ModelNotFound:
        return None


def _known_row(known: Known, default: Checkpoint | None) -> CatalogueRow:
    copies = list(_candidates(known))
    found = next((one for one in copies if isinstance(one, Checkpoint)), None)
    where, size = (known.repositories or ("livecap",))[0], known.download
    state: State = "pullable" if known.repositories and not copies else "incomplete"
    if found:
        where, size = str(found.folder), _megabytes(found.folder)
        state = "default" if found == default else "installed"
    return CatalogueRow(known.name, where, size, known.parameters, known.languages, state)


def _row(checkpoint: Checkpoint, default: Checkpoint | None) -> CatalogueRow:
    state: State = "default" if checkpoint == default else "installed"
    where, size = str(checkpoint.folder), _megabytes(checkpoint.folder)
    return CatalogueRow(checkpoint.name, where, size, None, None, state)


def _unlisted() -> Iterator[Checkpoint]:
    """Usable models here that have no line in KNOWN."""
    folders = [(folder.name, folder) for folder in store_folders()]
    cached = ((name, hub_folder(name)) for name in hub_repositories())
    folders += [(name, folder) for name, folder in cached if folder]
    for name, folder in folders:
        if find_known(name):
            continue
        try:
            yield _open(folder, name)
        except ModelError:  # something else's model: the cache is shared
            continue


def _megabytes(folder: Path) -> int:
    return round(size_on_disk(folder) / 1e6)
