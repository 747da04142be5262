"""The calls that are under way."""

import asyncio
import logging
import secrets
from collections.abc import Coroutine
from typing import Any, Protocol

from livecap.api.errors import ApiError
from livecap.api.sessions.outbox import FrameQueue

NO_CALL = "call_not_found"

LOG = logging.getLogger("livecap.server")


class OpenCall(Protocol):
    """What those ask of a call who know its id."""

    @property
    def tag(self) -> str:
        """Of its ICE session, which is never restarted."""

    @property
    def user(self) -> str:
        """The client's a=ice-ufrag, by which a restart is told from anything else."""

    @property
    def is_ingest(self) -> bool:
        """Whether it came by WHIP."""

    def join(self, outbox: FrameQueue) -> None:
        """Put the session as it is, and all frames from now on, there too."""

    def leave(self, outbox: FrameQueue) -> None:
        """No more."""

    async def take(self, message: str | bytes) -> None:
        """A client event that came another way."""

    def hang_up(self) -> None:
        """No more audio is taken; what was said is still told."""

    async def trickle(self, candidates: list[str]) -> None:
        """Further addresses of the client: the values of SDP's `a=candidate`."""


class Calls:
    """By their ids, which nobody can guess. For the event loop alone."""

    def __init__(self) -> None:
        self._calls: dict[str, OpenCall] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def find(self, id: str) -> OpenCall | None:
        """One that is under way, or tells its last."""
        return self._calls.get(id)

    def start(self, call: OpenCall, run: Coroutine[Any, Any, None]) -> str:
        """Run it -> its new id."""
        id = f"rtc_{secrets.token_hex(16)}"
        self._calls[id] = call
        task = asyncio.create_task(run)
        self._tasks.add(task)

        def over(task: asyncio.Task[None]) -> None:
            del self._calls[id]
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if error:
                LOG.error("a call broke off", exc_info=error)

        task.add_done_callback(over)
        return id


def no_call() -> ApiError:
    """404: there is none of that id."""
    return ApiError(404, "There is no such call (any more).", code=NO_CALL, param="call_id")
