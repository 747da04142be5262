"""Live audio that a server captions, as those hold it who send audio and take events."""

import asyncio
import importlib.util
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

import numpy as np
from numpy.typing import NDArray

from livecap.audio.live_source import Notice
from livecap.client.options import RemoteServer
from livecap.client.reconnect import ReconnectingClient, ReconnectTimeouts
from livecap.client.relay import Relay
from livecap.client.wire import Wanted
from livecap.errors import ConfigError, EngineFault, LivecapError
from livecap.events import Event

LEAVING = 5.0  # seconds for a goodbye; a name that is being looked up may take longer
TICK = 0.1  # seconds between two looks at whether there is a connection


def open_stream(server: RemoteServer, wanted: Wanted, say: Callable[[str], None]) -> "RemoteStream":
    """A stream of a server that has accepted it. `say` is told what is being waited for.

    Raises ServerError if the server can't be reached or refuses, ConfigError without the package
    for it. A server that is busy is asked again.
    """
    if importlib.util.find_spec("websockets") is None:
        raise ConfigError(
            "Live captions from a server need the package websockets, which is not installed",
            remedy="Run: pip install 'livecap[mic]'",
        )
    stream = RemoteStream(server, wanted)
    with ExitStack() as stack:
        stack.callback(stream.close)
        while stream.model is None:
            stream.wait(TICK)
            for item in stream.take():
                if isinstance(item, Notice):
                    say(item.text)
        stack.pop_all()
    return stream


class RemoteStream:
    """A `captioner.Captioner`. From any thread."""

    is_behind = False  # servers don't say whether they leave out updates; `lag` tells
    speed = 0.0  # nor how fast they could be

    def __init__(
        self, server: RemoteServer, wanted: Wanted, patience: ReconnectTimeouts | None = None
    ) -> None:
        """Connects at once, in a thread of its own."""
        self._news = threading.Condition()  # guards all that follows
        self._relay = Relay(wanted)
        self._notices: list[Notice] = []
        self._error: LivecapError | None = None
        self._is_over = False  # the thread has ended
        self._loop = asyncio.new_event_loop()
        self._link = ReconnectingClient(
            server, self._relay, self._news, patience or ReconnectTimeouts(), self._tell
        )
        self._task: asyncio.Task[None] | None = None
        self._is_leaving = False  # nobody wants anything any more
        # A daemon: whoever leaves at once need not wait for a server.
        self._thread = threading.Thread(target=self._run, name="livecap-remote", daemon=True)
        self._thread.start()

    def send(
        self,
        start: int,
        pcm: NDArray[np.float32],
        reason: str = "the source has no audio here",
    ) -> None:
        """Audio [1, sample], as `handle.Handle.send` takes it."""
        with self._news:
            if not self._is_over:
                self._relay.hear(start, pcm[0], reason)
        self._call(self._link.stir)

    def finish(self) -> None:
        """No more audio comes. Everything sent is still captioned."""
        with self._news:
            self._relay.finish()
        self._call(self._link.stir)

    def take(self) -> Sequence[Event | Notice]:
        """What has happened since the last call. Raises what ended the stream before its end, once
        all that came before has been taken.
        """
        with self._news:
            found = [*self._notices, *self._relay.take()]
            self._notices.clear()
            if self._error and not found:
                raise self._error
        return found

    def wait(self, timeout: float) -> None:
        """Until something has happened, or so many seconds have passed."""
        with self._news:
            if not self._is_over:
                self._news.wait(timeout)

    def close(self) -> None:
        """Leave the server. Safe to call twice."""
        self._is_leaving = True
        self._call(self._leave)
        self._thread.join(LEAVING)

    @property
    def model(self) -> str | None:
        """What the server calls its model, once it has accepted a session."""
        with self._news:
            return self._link.model

    @property
    def is_done(self) -> bool:
        """Whether all audio has been captioned and all events have been taken."""
        with self._news:
            is_taken = not self._relay.has_events and not self._notices
            return self._is_over and is_taken and self._error is None

    @property
    def lag(self) -> float:
        """Seconds of audio that have come and are not heard yet, as far as the server tells."""
        with self._news:
            return self._relay.lag

    @property
    def language(self) -> str | None:
        """The one that was spoken last."""
        with self._news:
            return self._relay.language

    def _tell(self, text: str) -> None:
        self._notices.append(Notice(text))
        self._news.notify_all()

    # The thread

    def _call(self, what: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed: it is over
            self._loop.call_soon_threadsafe(what)

    def _leave(self) -> None:
        if self._task:
            self._task.cancel()

    def _run(self) -> None:
        error: LivecapError | None = EngineFault(  # what nobody expected must not look like the end
            "The connection to the server was given up", remedy="Please report what is above"
        )
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._stay())
            error = None
        except asyncio.CancelledError:
            error = None
        except LivecapError as found:
            error = found
        finally:
            with self._news:
                self._error = error
                self._is_over = True
                self._news.notify_all()

    async def _stay(self) -> None:
        self._task = asyncio.current_task()
        if not self._is_leaving:
            await self._link.run()
