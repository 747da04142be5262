"""What is to be sent to one client: in order, bounded, and never interleaved."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from livecap.api.realtime import Close, Frame
from livecap.output.lines import strict_json

MOST = 4000  # frames that wait; more than an hour's finals, so who lets them pile up reads nothing
TOO_SLOW = Close(1013, "the client reads too slowly")
PATIENCE = 10.0  # seconds that one frame may take to be sent


class FrameQueue:
    """Frames of one session. For the event loop alone.

    A frame that may be replaced (`coalesce`) takes the place of the one with the same key that
    waits; all others are sent. A frame is encoded as it leaves, so what was replaced costs nothing.
    """

    def __init__(self) -> None:
        self._frames: OrderedDict[object, Frame] = OrderedDict()
        self._news = asyncio.Event()
        self._last: Close | None = None
        self._number = 0
        self.is_over = False  # nothing more is taken

    def put(self, frame: Frame) -> None:
        """Send this. A client for whom too much waits already is let go."""
        if self.is_over:
            return
        if len(self._frames) >= MOST:
            self._frames.clear()
            self.close(TOO_SLOW)
            return
        self._number += 1
        key: object = frame.coalesce or self._number
        self._frames.pop(key, None)  # a newer partial goes behind what was said since
        self._frames[key] = frame
        self._news.set()

    def close(self, last: Close) -> None:
        """Send what waits, then close like this. Nothing more is taken."""
        if not self.is_over:
            self.is_over, self._last = True, last
            self._news.set()

    async def deliver(self, send: Callable[[str], Awaitable[None]]) -> Close:
        """Send frames as they come -> how the connection is to be closed.

        That is also for the client's sake, who doesn't take a frame in time.
        """
        while True:
            while self._frames:
                _, frame = self._frames.popitem(last=False)
                try:
                    async with asyncio.timeout(PATIENCE):
                        await send(strict_json(frame.event))
                except TimeoutError:
                    return TOO_SLOW
            if self._last:
                return self._last
            self._news.clear()
            await self._news.wait()
