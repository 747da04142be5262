"""The frames of one session -> all who listen to it."""

import asyncio

from livecap.api.realtime import Close, Frame
from livecap.api.sessions.outbox import FrameQueue

FIRST = ("session.created", "transcription_session.created")
LATER = ("session.updated", "transcription_session.updated")


class Fan:
    """For the event loop alone. One who reads too slowly is let go, and no other is held up."""

    def __init__(self) -> None:
        self._outboxes: list[FrameQueue] = []
        self._first: dict[str, object] = {}  # the session as it is
        self._last: Close | None = None
        self.over = asyncio.Event()  # the session is closed

    def join(self, outbox: FrameQueue) -> None:
        """One more, who first is told of the session as it is."""
        if self._first:
            outbox.put(Frame(self._first))
        if self._last:
            outbox.close(self._last)
        self._outboxes.append(outbox)

    def leave(self, outbox: FrameQueue) -> None:
        """One less."""
        if outbox in self._outboxes:
            self._outboxes.remove(outbox)

    def put(self, frame: Frame) -> None:
        """See `carrier.Mouth`."""
        if frame.event["type"] in FIRST:
            self._first = frame.event
        elif frame.event["type"] in LATER:
            self._first = {**self._first, "session": frame.event["session"]}
        for outbox in self._outboxes:
            outbox.put(frame)

    def close(self, last: Close) -> None:
        """See `carrier.Mouth`."""
        self._last = last
        for outbox in self._outboxes:
            outbox.close(last)
        self.over.set()
