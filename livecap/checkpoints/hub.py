"""A model's name -> its files, fetched from the Hugging Face hub into the cache all tools share."""

import errno
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from livecap.checkpoints.cache import HUB_ID, hub_cache, hub_folder
from livecap.checkpoints.catalogue import KNOWN, find_known
from livecap.checkpoints.find import find, with_decoder
from livecap.checkpoints.inspect import inspect
from livecap.checkpoints.spec import Checkpoint
from livecap.errors import DownloadError, ModelError, ModelNotFound

# The first of these that a repository has is fetched, with the small files beside it; if it has
# none of them, its only safetensors file, which may be a tower alone.
WEIGHTS = (
    ("model.safetensors",),
    ("model.safetensors.index.json", "model-*.safetensors"),
    ("model.bin",),
    ("pytorch_model.bin",),
    ("pytorch_model.bin.index.json", "pytorch_model-*.bin"),
)
SMALL = (
    *("config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json"),
    *("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "added_tokens.json"),
    *("special_tokens_map.json", "normalizer.json", "vocabulary.txt", "vocabulary.json"),
    *("chat_template.json", "chat_template.jinja"),
)
MEANWHILE = "or copy the model's folder here and give its path, or use the embedded tiny.en"


def pull(
    name: str, *, progress: Callable[[str], None] | None = None, endpoint: str | None = None
) -> Checkpoint:
    """A short name or hub id -> the checkpoint, fetched as far as it isn't here yet.

    What was fetched before is not fetched again; an interrupted file goes on where it stopped.
    The hub's progress bar is on stderr; `progress` is told in a line what is fetched, and where
    to. `endpoint` is another hub's address. A model that can't do without another brings it along,
    unless that is here; what livecap itself brings is not fetched. Raises ModelNotFound for a name
    that can't be a hub id, and DownloadError for whatever keeps the files from coming.
    """
    known = find_known(name)
    if known and not known.repositories:
        return find(name)  # it came with livecap
    repository = known.repositories[0] if known and "/" not in name else name
    if not HUB_ID.fullmatch(repository):
        names = ", ".join(one.name for one in KNOWN if one.repositories)
        what = f"There is no model of the name {name} to fetch"
        raise ModelNotFound(what, remedy=f"Name a hub id (org/name) or one of: {names}.")
    wanted = _choose(repository, _ask(repository, endpoint))
    size = sum(wanted.values())
    _check_space(repository, size)
    if progress:
        progress(f"{repository}: {len(wanted)} files, {round(size / 1e6)} MB to fetch")
    folder = _fetch(repository, list(wanted), endpoint)
    if progress:
        progress(f"{repository}: in {folder}")
    found = inspect(folder, known.name if known and "/" not in name else name)
    if known and known.companion and not found.decoder and not _is_here(known.companion):
        pull(known.companion, progress=progress, endpoint=endpoint)
    return with_decoder(found)


def _is_here(name: str) -> bool:
    try:
        find(name)
    except ModelError:
        return False
    return True


def _choose(repository: str, files: Mapping[str, int]) -> dict[str, int]:
    """All files of a repository with the bytes that each has to fetch -> those that are needed."""
    alone = tuple(name for name in files if re.fullmatch(r"[^/]+\.safetensors", name))
    for patterns in (*WEIGHTS, alone) if len(alone) == 1 else WEIGHTS:
        if patterns[0] in files:
            wanted = (*patterns, *SMALL)
            return {
                name: size
                for name, size in files.items()
                if "/" not in name and any(PurePosixPath(name).match(one) for one in wanted)
            }
    raise ModelError(
        f"{repository} has no weights in a layout that can be read",
        remedy="Name a repository with model.safetensors, or a CTranslate2 one with model.bin.",
    )


def _ask(repository: str, endpoint: str | None) -> dict[str, int]:
    """A hub id -> its files, and how many bytes of each are still to be fetched."""
    import huggingface_hub
    from huggingface_hub.errors import HTTPError

    try:
        facts = huggingface_hub.HfApi(endpoint=endpoint).model_info(repository, files_metadata=True)
    except (HTTPError, OSError) as error:
        raise _explain(repository, error) from error
    here = hub_folder(repository, revision=facts.sha)
    return {
        file.rfilename: 0 if here and (here / file.rfilename).exists() else file.size or 0
        for file in facts.siblings
    }


def _fetch(repository: str, files: list[str], endpoint: str | None) -> Path:
    import huggingface_hub
    from huggingface_hub.errors import HTTPError, XetDownloadError

    try:
        folder = huggingface_hub.snapshot_download(
            repository, cache_dir=hub_cache(), endpoint=endpoint, allow_patterns=files
        )
    except (HTTPError, XetDownloadError, OSError, RuntimeError) as error:
        raise _explain(repository, error) from error
    return Path(folder)


def _check_space(repository: str, size: int) -> None:
    existing = next(
        folder_or_parent
        for folder_or_parent in (hub_cache(), *hub_cache().parents)
        if folder_or_parent.exists()
    )
    free = shutil.disk_usage(existing).free
    if free < size:
        raise _full(repository, f": {round(size / 1e6)} MB to fetch, {round(free / 1e6)} MB free")


def _full(repository: str, numbers: str = "") -> DownloadError:
    what = f"There is no room for {repository} on the disk of {hub_cache()}{numbers}"
    return DownloadError(what, remedy="Free some space, or set HF_HOME to a folder elsewhere.")


def _explain(repository: str, error: BaseException) -> DownloadError:
    """What the hub's library raised -> what went wrong, and what to do."""
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    causes = [error, error.__cause__, error.__context__]  # the library wraps what it met first
    for cause in causes:
        if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
            return _full(repository)
        if isinstance(cause, GatedRepoError):
            return DownloadError(
                f"{repository} is given only to those who accepted its terms",
                remedy="Accept them on the model's page, then log in: `hf auth login`.",
            )
        if isinstance(cause, RepositoryNotFoundError):
            return DownloadError(
                f"The hub has no model {repository}, or only shows it to its owner",
                remedy="Check the name; for a private model log in: `hf auth login`.",
            )
        if isinstance(cause, HfHubHTTPError) and cause.response is not None:
            status = cause.response.status_code
            login = "If the model is private, log in: `hf auth login`."
            return DownloadError(
                f"The hub refused {repository} with status {status}",
                remedy=login if status in (401, 403) else f"Try again later, {MEANWHILE}.",
            )
    return DownloadError(
        f"{repository} can't be fetched: the hub can't be reached",
        remedy=f"Check the connection and try again, {MEANWHILE}.",
    )
