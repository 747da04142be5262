"""A realtime session with all that it takes to run it, whatever brings its messages and audio."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from livecap.api.realtime import Connection, RealtimeSession, SessionLimits
from livecap.api.sessions.admission import Ticket
from livecap.api.sessions.inbox import MessageQueue
from livecap.api.sessions.session_metrics import Observer
from livecap.api.sessions.session_runner import Carrier, Mouth
from livecap.api.sessions.state import AppState
from livecap.api.viewers import Part

AHEAD = 30.0  # seconds of audio that may wait before further messages do
COMMITS = 16  # streams that may be under way for one client before the same happens
HELD = 0.1  # seconds after which that is looked at again, should nothing have been heard


class Carried:
    """One session. Its messages come by `inbox`, and its frames go to the mouth that is given."""

    def __init__(
        self, parts: AppState, connection: Connection, ticket: Ticket, mouth: Mouth
    ) -> None:
        config = parts.config
        self.inbox = MessageQueue()
        self._ticket = ticket
        self._hub = parts.hub
        self._is_lost = False
        self._length = config.session_length or None
        self._session = RealtimeSession(
            connection,
            parts.models,
            SessionLimits(
                min_commit_ms=config.min_commit_ms,
                max_session_s=config.session_length,
                idle_s=config.idle_timeout,
                strict=config.strict,
            ),
            now=time.time,
        )
        model = self._session.settings.transcription.model or parts.models.default
        part = Part.of_query(connection.query)
        self._speaker = parts.hub.open(self._session.id, model=model, part=part)
        key = self._hub.proof_of(self.captions_id)
        self._session.captions["captions"] = self.captions_id
        if key:
            self._session.captions["captions_key"] = key
        self.carrier = Carrier(
            self._session,
            parts.models,
            parts.live,
            mouth,
            Observer(parts.metrics, time.monotonic),
            self._speaker,
        )

    @property
    def captions_id(self) -> str:
        """By which its captions are found: the session's own, if it is the first of its talk."""
        return self._speaker.broadcast.id

    def lose(self) -> None:
        """The client has left without a word: what was said until then is still told."""
        self._is_lost = True
        self.carrier.expire("left")

    @property
    def dialect(self) -> str:
        """The one that was spoken."""
        return self._session.settings.dialect

    @contextmanager
    def running(self) -> Iterator[None]:
        """While this is entered; then nobody listens any more."""
        loop = asyncio.get_running_loop()
        cap = (
            loop.call_later(self._length, self.carrier.expire, "duration") if self._length else None
        )
        try:
            self.carrier.start()
            yield
        finally:
            if cap:
                cap.cancel()
            self.carrier.drop()
            self._hub.close(self._speaker, is_lost=self._is_lost or not self._session.is_closed)

    async def read(self) -> None:
        """Messages, as fast as their audio is heard. Until it is cancelled."""
        carrier = self.carrier
        while True:
            await carrier.receive(await self.inbox.next())
            self._ticket.model = self._session.settings.transcription.model
            while carrier.lag > AHEAD or self._session.pending > COMMITS:
                carrier.caught_up.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(HELD):
                        await carrier.caught_up.wait()
            await asyncio.sleep(0)  # one who sends without end is not alone here
