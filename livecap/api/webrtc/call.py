"""One call: a peer's audio and messages -> a realtime session, and its frames back.

However the call ends, what was said until then is still captioned and told to all who listen.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Protocol

import numpy as np

from livecap.api.realtime import Connection
from livecap.api.realtime.formats import Int16
from livecap.api.sessions.admission import Ticket
from livecap.api.sessions.outbox import FrameQueue
from livecap.api.sessions.session import AHEAD, Carried
from livecap.api.sessions.state import AppState
from livecap.api.webrtc.fan_out import Fan
from livecap.api.webrtc.timeline import RtpTimeline

HOPELESS = 300.0  # seconds of audio that have not been heard, after which the call is given up
QUIET = 2.0  # seconds without any audio after which a turn is over
GOODBYE = 5.0  # seconds for what still has to be sent


class Peer(Protocol):
    """What is asked of a WebRTC connection that has been answered."""

    on_message: Callable[[str | bytes], None]  # called for each that comes by the data channel
    user: str  # the client's a=ice-ufrag
    has_channel: bool  # there is to be a data channel
    opened: asyncio.Event  # it is open
    gone: asyncio.Event  # nothing comes any more

    def frames(self) -> AsyncIterator[tuple[int, Int16]]:
        """Audio at 48 kHz as it is decoded: RTP timestamps and [sample]. Ends with the track."""

    async def send(self, text: str) -> None:
        """One message, when there is room for it. Raises ConnectionError when nobody is there."""

    async def finish(self) -> None:
        """Wait until all that was sent has arrived, and close the data channel."""

    async def trickle(self, candidates: list[str]) -> None:
        """Further addresses of the client. Raises ValueError, TooMany."""

    async def close(self) -> None:
        """Free everything."""


class Call:
    """For the event loop alone. See `registry.OpenCall` for what others may do."""

    def __init__(
        self,
        parts: AppState,
        connection: Connection,
        ticket: Ticket,
        peer: Peer,
        *,
        is_ingest: bool,
    ) -> None:
        self.tag = secrets.token_hex(8)
        self.is_ingest = is_ingest
        self._parts = parts
        self._ticket = ticket
        self._peer = peer
        self._fan = Fan()
        self._outbox = FrameQueue()
        if peer.has_channel:
            self._fan.join(self._outbox)
        self._carried = Carried(parts, connection, ticket, self._fan)
        self._timeline = RtpTimeline()
        self._idle = parts.config.idle_timeout
        self._stirred = time.monotonic()  # when something came last
        self._heard = asyncio.Event()  # audio has come
        self._closed = asyncio.Event()
        peer.on_message = self._put

    @property
    def captions_id(self) -> str:
        """By which its captions are found."""
        return self._carried.captions_id

    def join(self, outbox: FrameQueue) -> None:
        """See `OpenCall`."""
        self._fan.join(outbox)

    def leave(self, outbox: FrameQueue) -> None:
        """See `OpenCall`."""
        self._fan.leave(outbox)

    async def take(self, message: str | bytes) -> None:
        """See `OpenCall`."""
        self._stirred = time.monotonic()
        self._carried.inbox.put(message)
        await self._carried.inbox.room()

    def hang_up(self) -> None:
        """See `OpenCall`. An encoder expects no word, so its connection ends at once."""
        if self.is_ingest:
            self._peer.gone.set()
        self._carried.carrier.expire("left")

    @property
    def user(self) -> str:
        """See `OpenCall`."""
        return self._peer.user

    async def trickle(self, candidates: list[str]) -> None:
        """See `OpenCall`. Raises ValueError."""
        await self._peer.trickle(candidates)

    async def run(self) -> None:
        """Until all is told and everything is freed."""
        parts, carried = self._parts, self._carried
        try:
            with (
                self._ticket,
                parts.metrics.session("webrtc", time.monotonic) as counted,
                parts.drain.hook(self._finish),
            ):
                try:
                    with carried.running():
                        await self._talk()
                finally:
                    counted.dialect = carried.dialect
        finally:
            await self._peer.close()
            self._closed.set()

    async def _finish(self) -> None:
        """The server stops: what was said is still told."""
        self._carried.carrier.expire("shutdown")
        await self._closed.wait()

    async def _talk(self) -> None:
        carried, writer = self._carried, asyncio.create_task(self._write())
        try:
            async with asyncio.TaskGroup() as group:
                work = (self._hear(), self._pause(), carried.read(), self._watch(), self._miss())
                tasks = [group.create_task(one) for one in work]
                await self._fan.over.wait()
                for task in tasks:
                    task.cancel()
        finally:
            if not self._fan.over.is_set():
                carried.carrier.give_up()
            if self._peer.opened.is_set():
                await asyncio.wait({writer}, timeout=GOODBYE)
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _hear(self) -> None:
        """Audio, always as fast as it comes: none waits here, so no delay stays."""
        carrier = self._carried.carrier
        async for timestamp, samples in self._peer.frames():
            self._stirred = time.monotonic()
            self._heard.set()
            placed = self._timeline.position(timestamp, samples)
            lag = carrier.lag
            if lag > HOPELESS:
                carrier.give_up()
                return
            if len(placed):  # what can't be heard in time is not heard, but keeps its place
                carrier.sound(np.zeros_like(placed) if lag > AHEAD else placed)
        self._carried.lose()

    async def _pause(self) -> None:
        """End the turn of one whose audio stays away: a network that is gone brings no silence.

        None is made up for it. What was only late is heard where it belongs, and the rest is
        silence once the next packet tells how long it lasted.
        """
        while True:
            await self._heard.wait()
            self._heard.clear()
            await asyncio.sleep(QUIET)
            if not self._heard.is_set():
                self._carried.carrier.pause()

    async def _watch(self) -> None:
        """End a call in which nothing happens."""
        while self._idle:
            left = self._stirred + self._idle - time.monotonic()
            if left <= 0:
                self._carried.carrier.expire("idle")
                return
            await asyncio.sleep(left)

    async def _miss(self) -> None:
        """Notice that the peer is gone."""
        await self._peer.gone.wait()
        self._carried.lose()
        await self._peer.close()

    async def _write(self) -> None:
        """Frames, as they come; then the end. Only here anything is sent to the peer."""
        await self._peer.opened.wait()
        with suppress(ConnectionError):
            await self._outbox.deliver(self._peer.send)
            await self._peer.finish()
        self._peer.gone.set()

    def _put(self, message: str | bytes) -> None:
        """From the data channel, whose sender can't be held up."""
        self._stirred = time.monotonic()
        self._carried.inbox.put(message)
        if self._carried.inbox.is_full:
            self._peer.gone.set()
