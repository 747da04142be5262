"""A model's name -> its checkpoint: what is on this machine, or, if asked for, from the hub."""

from livecap.checkpoints.find import find, is_fetchable
from livecap.checkpoints.spec import Checkpoint
from livecap.errors import CorruptModel, ModelNotFound


def resolve(name: str, *, pull: bool = False) -> Checkpoint:
    """As `find`; with `pull`, what is missing or incomplete is fetched from the hub.

    Raises what `find` raises and, with `pull`, DownloadError.
    """
    try:
        return find(name)
    except (ModelNotFound, CorruptModel):
        if not pull or not is_fetchable(name):
            raise
    from livecap.checkpoints.hub import pull as fetch

    return fetch(name)
