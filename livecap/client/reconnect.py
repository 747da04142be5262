"""Connections to `/v1/realtime`, one after another, until all audio has been captioned.

The event loop's side of a `stream.RemoteStream`, which others hold. What both use is guarded by
`news`.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition
from typing import TYPE_CHECKING

from livecap.client import errors
from livecap.client.errors import ServerError, Trouble
from livecap.client.options import RemoteServer
from livecap.client.relay import Relay
from livecap.output.push.backoff import Backoff

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

LARGEST = 16 << 20  # bytes of a message from the server
USED_UP = 0.9  # share of a session's time after which the next pause is used to begin another


@dataclass(frozen=True, slots=True)
class ReconnectTimeouts:
    """Times in seconds."""

    delays: Backoff = field(default_factory=Backoff)  # between two tries
    opening: float = 10.0  # until there is a connection
    greeting: float = 15.0  # until the server has accepted the session
    steady: float = 30.0  # a connection that lasts so long is a good one
    idle: float = 60.0  # without audio, after which the server is shown that somebody is there
    ending: float = 60.0  # in which nothing is won, once only the last words are awaited
    answer: float = 60.0  # until another server than livecap's has told something of those
    ping: float = 20.0  # between two
    pong: float = 60.0  # until one is answered
    closing: float = 2.0  # until the server has answered a goodbye


class ReconnectingClient:
    """Keeps a relay connected."""

    def __init__(
        self,
        server: RemoteServer,
        relay: Relay,
        news: Condition,
        patience: ReconnectTimeouts,
        tell: Callable[[str], None],
    ) -> None:
        """`tell` is given what users should know; it is called with `news` held."""
        self._server = server
        self._relay = relay
        self._news = news
        self._patience = patience
        self._tell = tell
        self._wake = asyncio.Event()  # there may be something to be sent
        self._opened: float | None = None  # when the session was accepted; seconds
        self._tries = 0  # connections in a row that came to nothing
        self._said = ""  # why, as it was told last
        self.model: str | None = None  # as the server calls it; None: it never was connected

    def stir(self) -> None:
        """There may be something to be sent. For the event loop alone."""
        self._wake.set()

    async def run(self) -> None:
        """Until all has been captioned. Raises ServerError if that can't be."""
        clock = asyncio.get_running_loop().time
        stuck: float | None = None  # since when only the last words are awaited, in vain
        while True:
            self._opened, before = None, self._relay.progress
            why = await self._connection()
            now = clock()
            with self._news:
                self._relay.lost()
                is_over, is_ending = self._relay.is_done, self._relay.is_finished
                self._news.notify_all()
            if is_over:
                return
            has_moved = self._relay.progress > before
            is_steady = self._opened is not None and now - self._opened > self._patience.steady
            self._tries = 1 if has_moved or is_steady else self._tries + 1
            self._check(why)
            stuck = (stuck or now) if is_ending and not has_moved else None
            if stuck is not None and now - stuck > self._patience.ending:
                self._give_up(why)
            await asyncio.sleep(self._delay(why))

    def _check(self, why: Trouble | None) -> None:
        """Raises ServerError where another connection would be of no use.

        What has worked once is tried until it works again.
        """
        if self._relay.hopeless is not None:
            message = f"{self._server.name} can't caption this: {self._relay.hopeless.rstrip('.')}"
            raise ServerError(message, remedy="Check the options, and what the server's log says")
        if why and self.model is None and not why.is_busy:
            raise why.error

    def _give_up(self, why: Trouble | None) -> None:
        """Raises ServerError: the last words can't be had."""
        payload = why.error_text if why else f"{self._server.name} is gone"
        with self._news:
            self._relay.give_up(payload)
            self._news.notify_all()
        raise ServerError(
            f"{payload}; what was said last is not captioned", remedy=why.remedy if why else ""
        )

    def _delay(self, why: Trouble | None) -> float:
        """Seconds until the next try. Says why, unless that was said already."""
        delay = self._patience.delays.of(self._tries, asked=why.wait if why else 0.0)
        is_usual = why is None or (why.is_usual and self._tries == 1)
        if why and not is_usual and why.error_text != self._said:
            self._said = why.error_text
            with self._news:
                note = "" if self.model is None else "; audio is kept"
                self._tell(f"{why.error_text}{note}; trying again, first in {delay:.1f} s")
        return delay

    async def _connection(self) -> Trouble | None:
        """One connection -> why it ended, None if that is not to be told."""
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidStatus, WebSocketException

        name, patience = self._server.name, self._patience
        try:
            socket = await connect(
                self._server.realtime,
                additional_headers=self._server.headers,
                ssl=self._server.secure,
                proxy=None,  # the server is one's own; what the system says is for the world
                compression=None,  # audio hardly shrinks
                open_timeout=patience.opening,
                ping_interval=patience.ping,
                ping_timeout=patience.pong,
                close_timeout=patience.closing,
                max_size=LARGEST,
            )
        except InvalidStatus as error:
            answer = error.response
            after = answer.headers.get("Retry-After")
            return errors.of_status(name, answer.status_code, after=after)
        except OSError as error:  # TLS and timeouts among them
            return errors.of_error(name, error)
        except (WebSocketException, ValueError):  # ValueError: sent on to where it can't go
            return errors.no_websocket(name)
        async with socket:
            return await self._converse(socket)

    async def _converse(self, socket: "ClientConnection") -> Trouble | None:
        with self._news:
            self._relay.begin()
        reading = asyncio.create_task(self._read(socket))
        writing = asyncio.create_task(self._write(socket))
        try:
            await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else None
        finally:
            for task in (reading, writing):
                task.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)

    async def _read(self, socket: "ClientConnection") -> Trouble | None:
        """Frames as they come, until the last one -> why it is that."""
        from websockets.exceptions import ConnectionClosed

        name = self._server.name
        while True:
            try:
                async with asyncio.timeout(None if self._opened else self._patience.greeting):
                    data = await socket.recv()
            except TimeoutError:
                return errors.silent(name)
            except ConnectionClosed as closed:
                return self._closed(closed.rcvd.code if closed.rcvd else None)
            with self._news:
                talk = self._relay.talk
                assert talk
                answers = self._relay.receive(data)
                if talk.state == "open" and self._opened is None:
                    self._begin(talk.model)
                for notice in talk.notices:
                    self._tell(f"{name} says: {notice}")
                talk.notices.clear()
                self._news.notify_all()
            if talk.refusal:
                return errors.of_refusal(name, *talk.refusal)
            if talk.broken is not None:
                return errors.broken(name, talk.broken)
            if self._relay.is_done:
                return None
            with suppress(ConnectionClosed):  # the next frame is the close, which says more
                for answer in answers:
                    await socket.send(answer)
            self._wake.set()

    def _begin(self, model: str) -> None:
        """The server has accepted the session."""
        self._opened = asyncio.get_running_loop().time()
        again = "" if self.model is None else " again"
        self.model = model
        if self._said:
            self._said = ""
            self._tell(f"connected to {self._server.name}{again}")

    def _closed(self, code: int | None) -> Trouble | None:
        with self._news:
            if code == 1000:
                self._relay.closed()
            self._news.notify_all()
            is_done = self._relay.is_done
        return None if is_done else errors.of_close(self._server.name, code)

    async def _write(self, socket: "ClientConnection") -> None:
        """Audio as it comes, until this connection is of no more use."""
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):  # whoever reads is told why
            while not self._is_used_up():
                self._wake.clear()
                with self._news:
                    messages = self._relay.outgoing()
                for message in messages:
                    await socket.send(message)
                if not messages and not await self._woken(socket):
                    break
            return
        await asyncio.Event().wait()  # until whoever reads has told

    async def _woken(self, socket: "ClientConnection") -> bool:
        """Waits for audio, or a frame; False if none comes although one has to."""
        talk, patience = self._relay.talk, self._patience
        assert talk
        is_ending = talk.state == "closing" and not talk.is_own
        try:
            async with asyncio.timeout(patience.answer if is_ending else patience.idle):
                await self._wake.wait()
        except TimeoutError:
            if is_ending:
                return False
            if talk.is_own and talk.state == "open":  # sessions in which nothing happens are ended
                with self._news:
                    message = talk.ask()
                await socket.send(message)
        return True

    def _is_used_up(self) -> bool:
        talk = self._relay.talk
        if self._opened is None or talk is None or not talk.length:
            return False
        lasted = asyncio.get_running_loop().time() - self._opened
        return lasted > USED_UP * talk.length and not talk.turns and talk.state == "open"
