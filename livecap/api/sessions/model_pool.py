"""The models that are served: each loaded when it is first asked for, once, away from the loop."""

import asyncio
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from livecap.checkpoints import Checkpoint
from livecap.checkpoints.catalogue import find_known
from livecap.config import ModelConfig
from livecap.errors import ConfigError, EngineFault, LivecapError

if TYPE_CHECKING:
    from livecap.models.load import Loaded
    from livecap.runtime.service import Service
    from livecap.vad.silero import Silero

# Names of OpenAI's service, which clients send whatever is served: those that transcribe, as they
# are listed (its public model list, 2026), and whatever else begins the same, as in gpt-realtime.
HOSTED = (
    "whisper-1",
    "gpt-4o-transcribe",
    "gpt-4o-mini-transcribe",
    "gpt-4o-mini-transcribe-2025-12-15",
    "gpt-4o-transcribe-diarize",
    "gpt-transcribe",
    "gpt-live-transcribe",
    "gpt-realtime-whisper",
)
OF_OPENAI = re.compile(r"gpt-[a-z0-9.-]{1,80}")


@dataclass(frozen=True, slots=True, eq=False)
class PooledModel:
    """A model that is ready."""

    name: str
    loaded: "Loaded"
    silero: "Silero"
    service: "Service"


Load = Callable[[str], PooledModel]  # a canonical name -> the model, warm; slow, and in a thread


def load_served(name: str, checkpoint: Checkpoint, run: ModelConfig) -> PooledModel:
    """Read the weights, start the service and warm it up. Raises LivecapError."""
    from livecap.config import DecodeConfig
    from livecap.models.load import load_model
    from livecap.runtime.service import Service
    from livecap.vad.silero import load

    loaded = load_model(checkpoint, run)
    silero = load()
    service = Service(loaded, silero, DecodeConfig())
    service.warm_up()
    return PooledModel(name, loaded, silero, service)


def served_name(checkpoint: Checkpoint) -> str:
    """What clients call a model: its name, but of a folder only the last part."""
    folder = Path(checkpoint.name).expanduser()
    return checkpoint.folder.name if folder.is_dir() else checkpoint.name


class ModelPool:
    """The models by name. For the event loop alone, but for `close`."""

    def __init__(self, names: Sequence[str], load: Load, aliases: Mapping[str, str]) -> None:
        """`names`: canonical, the default first. `aliases`: further names -> one of those.

        Raises ConfigError for an alias of nothing.
        """
        assert names, "nothing to serve"
        self.names = tuple(dict.fromkeys(names))
        self._load = load
        self._one_at_a_time = threading.Lock()
        self._loading: dict[
            str, asyncio.Future[PooledModel]
        ] = {}  # under way or done, never failed
        self._aliases = dict.fromkeys(HOSTED, self.default)
        for alias, target in aliases.items():
            meant = self._spelt(target)
            if meant is None:
                raise ConfigError(
                    f"--alias {alias}={target}: no such model is served",
                    remedy=f"PooledModel are: {', '.join(self.names)}.",
                )
            self._aliases[alias] = meant

    @property
    def default(self) -> str:
        """The model of those who name none."""
        return self.names[0]

    @property
    def aliases(self) -> Mapping[str, str]:
        """Further names, and what they mean."""
        return self._aliases

    @property
    def is_ready(self) -> bool:
        """Whether the default model is warm."""
        return self.loaded(self.default) is not None

    @property
    def is_loading(self) -> bool:
        """Whether a thread is busy with a model."""
        return any(not future.done() for future in self._loading.values())

    def canonical(self, name: str | None) -> str | None:
        """What a client wrote -> the name of a model that is served, None if it is none.

        It is only looked up, and never becomes a path.
        """
        if not name:
            return self.default
        hosted = self.default if OF_OPENAI.fullmatch(name) else None
        return self._spelt(name) or self._aliases.get(name, hosted)

    def languages(self, model: str) -> tuple[str, ...]:
        """The codes that a served model can be told; none as long as it is not loaded."""
        served = self.loaded(model)
        return () if served is None else served.loaded.model.languages

    def loaded(self, name: str) -> PooledModel | None:
        """The model of a canonical name, if it is warm, and has not broken off."""
        future = self._loading.get(name)
        if future is None or not future.done() or future.cancelled():
            return None
        served = future.result()
        return None if served.service.failure else served

    async def get(self, name: str) -> PooledModel:
        """The model of a canonical name; the first who asks has it loaded, and all wait for that.

        Raises the LivecapError that kept it from loading. Who asks after that has it tried again.
        """
        self.begin(name)
        # One who gives up does not take the model away from the others who wait.
        return await asyncio.shield(self._loading[name])

    def begin(self, name: str) -> None:
        """Have it loaded, unless it is or that is under way."""
        assert name in self.names
        under_way = self._loading.get(name)
        if under_way is None or (under_way.done() and self.loaded(name) is None):
            self._loading[name] = self._begin(name)

    def close(self) -> None:
        """End the services. Blocks: to be called in a thread, when nobody asks any more."""
        for name in self.names:
            served = self.loaded(name)
            if served is not None:
                served.service.close()

    def _spelt(self, name: str) -> str | None:
        """A name that is served, also where it is written as a hub id or in another case."""
        if name in self.names:
            return name
        known = find_known(name)
        return known.name if known and known.name in self.names else None

    def _begin(self, name: str) -> asyncio.Future[PooledModel]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[PooledModel] = loop.create_future()

        def settle(outcome: PooledModel | LivecapError) -> None:
            if isinstance(outcome, PooledModel):
                future.set_result(outcome)
            else:
                del self._loading[name]
                future.set_exception(outcome)
                future.exception()  # that nobody waited any more is no fault

        def work() -> None:
            outcome: PooledModel | LivecapError = EngineFault(
                f"{name} could not be loaded", remedy="The server's log says why"
            )
            try:
                with self._one_at_a_time:  # two at once would take twice as long each
                    outcome = self._load(name)
            except LivecapError as error:
                outcome = error
            finally:  # what nobody expected must not look like a model that takes long
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(settle, outcome)

        # A daemon: a server that is stopped meanwhile need not wait for it.
        threading.Thread(target=work, name=f"livecap-load-{name}", daemon=True).start()
        return future
