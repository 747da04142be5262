"""A stop that loses nothing: whoever has something under way is told, and waited for."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

Hook = Callable[[], Coroutine[Any, Any, None]]  # finish what is under way; done when it returns

LOG = logging.getLogger("livecap.server")


class Drain:
    """Those who want to be told that the server stops. For the event loop alone."""

    def __init__(self) -> None:
        self._hooks: dict[object, Hook] = {}
        self.is_stopping = False  # nobody is let in any more
        self.then: Callable[[], None] = lambda: None  # called when all have finished

    @contextmanager
    def hook(self, finish: Hook) -> Iterator[None]:
        """While this is entered, a stop calls `finish` once and waits until it returns.

        If a stop has begun already, `finish` is called at once.
        """
        key = object()
        self._hooks[key] = finish
        late = asyncio.create_task(finish()) if self.is_stopping else None
        try:
            yield
        finally:
            del self._hooks[key]
            if late:
                late.cancel()

    async def run(self, timeout: float) -> int:
        """Tell all, and wait so many seconds at most -> how many had not finished by then."""
        self.is_stopping = True
        try:
            return await self._finish(timeout)
        finally:
            self.then()

    async def _finish(self, timeout: float) -> int:
        tasks = [asyncio.create_task(finish()) for finish in self._hooks.values()]
        if not tasks:
            return 0
        done, pending = await asyncio.wait(tasks, timeout=timeout)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in done:  # one that failed must not keep the others from being waited for
            error = task.exception()
            if error:
                LOG.error("a session could not be finished", exc_info=error)
        return len(pending)
