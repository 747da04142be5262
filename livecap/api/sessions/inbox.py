"""A client's messages that have come and have not been read."""

import asyncio
from collections import deque

BACKLOG = 16 << 20  # bytes of messages that may wait before the client is held up
EACH = 100  # bytes that a message takes, whatever is in it


class MessageQueue:
    """In order. For the event loop alone."""

    def __init__(self) -> None:
        self._messages: deque[str | bytes] = deque()
        self._waiting = 0  # bytes of them
        self._news = asyncio.Event()  # there are some
        self._room = asyncio.Event()  # there are fewer than before

    @property
    def is_empty(self) -> bool:
        """Whether all have been read."""
        return not self._messages

    @property
    def is_full(self) -> bool:
        """Whether no more should come."""
        return self._waiting > BACKLOG

    def put(self, message: str | bytes) -> None:
        """One has come. It is taken in any case."""
        self._messages.append(message)
        self._waiting += len(message) + EACH
        self._news.set()

    async def next(self) -> str | bytes:
        """The oldest, when there is one."""
        while not self._messages:
            self._news.clear()
            await self._news.wait()
        message = self._messages.popleft()
        self._waiting -= len(message) + EACH
        self._room.set()
        return message

    async def room(self) -> None:
        """Wait until more may come."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()
