"""A realtime session and the live streams that hear for it: actions -> streams, events -> frames.

Whatever carries the session (a WebSocket, a data channel) gives it messages and sends its frames.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from livecap.api.realtime import (
    MOST_JSON,
    Action,
    Close,
    Drop,
    Feed,
    Finish,
    Frame,
    Hearing,
    Open,
    RealtimeSession,
    turned_away,
)
from livecap.api.realtime.formats import Int16
from livecap.api.realtime.session import Expiry
from livecap.api.sessions.model_pool import PooledModel
from livecap.api.sessions.session_metrics import Observer
from livecap.api.sessions.stream_options import heard_by
from livecap.api.viewers import Speaker
from livecap.config import LiveOptions
from livecap.errors import LivecapError
from livecap.events import RATE, Stalled
from livecap.runtime.handle import StreamHandle

LONG = MOST_JSON  # characters of a message that take some milliseconds to read: audio


class Pool(Protocol):
    """What is asked of the models that are served."""

    def loaded(self, name: str) -> PooledModel | None: ...
    async def get(self, name: str) -> PooledModel: ...


class Mouth(Protocol):
    """What takes the frames of a session."""

    def put(self, frame: Frame) -> None: ...
    def close(self, last: Close) -> None: ...


@dataclass(slots=True)
class _Ear:
    """One hearing: a live stream, or what waits until its model is loaded."""

    config: Hearing
    stream: StreamHandle | None = None
    waiting: list[Feed] = field(default_factory=list)
    is_finished: bool = False
    loading: asyncio.Task[None] | None = None


class Carrier:
    """Runs one session. For the event loop alone.

    `observer` is shown all that is sent, and `speaker` all that is heard.
    """

    def __init__(
        self,
        session: RealtimeSession,
        models: Pool,
        options: LiveOptions,
        outbox: Mouth,
        observer: Observer,
        speaker: Speaker,
    ) -> None:
        self._session = session
        self._models = models
        self._options = options
        self._outbox = outbox
        self._observer = observer
        self._speaker = speaker
        self._loop = asyncio.get_running_loop()
        self._ears: dict[int, _Ear] = {}
        self._failed: list[tuple[int, LivecapError]] = []
        self._is_noted = False  # a look at the streams is due already
        self._is_away = False  # the session is in a thread: nobody else may touch it
        self._late: list[Callable[[], Sequence[Action]]] = []  # what it is to be told then
        self._expiry: Expiry | None = None
        self.caught_up = asyncio.Event()  # something has been heard since it was cleared

    def start(self) -> None:
        """The first frames."""
        self._do(self._session.open())

    async def receive(self, data: str | bytes) -> None:
        """A message of the client. A long one is read in a thread: others need the loop."""
        if len(data) <= LONG:
            self._do(self._session.receive(data))
            return
        self._is_away = True
        try:
            actions = await asyncio.to_thread(self._session.receive, data)
        finally:
            self._is_away = False
        self._do(actions)
        while self._late:
            self._do(self._late.pop(0)())
        self._look()
        if self._expiry:
            self.expire(self._expiry)

    def sound(self, samples: Int16) -> None:
        """Audio of a media track, [sample]; see `RealtimeSession.sound`."""
        self._tell(partial(self._session.sound, samples))

    def pause(self) -> None:
        """The media track brings nothing; see `RealtimeSession.pause`."""
        self._tell(self._session.pause)

    def expire(self, reason: Expiry) -> None:
        """The session's time is over; see `RealtimeSession.expire`."""
        self._expiry = reason
        if not self._is_away:
            self._do(self._session.expire(reason))

    def give_up(self) -> None:
        """Something is wrong with us: say so, and close."""
        self._do(turned_away("internal_error"))

    def drop(self) -> None:
        """Nobody listens any more: all work for this session stops."""
        for number in list(self._ears):
            self._drop(number)

    @property
    def lag(self) -> float:
        """Seconds of audio that came and have not been heard."""
        return sum(
            ear.stream.lag if ear.stream else sum(f.pcm.shape[1] for f in ear.waiting) / RATE
            for ear in self._ears.values()
        )

    # Actions

    def _tell(self, act: Callable[[], Sequence[Action]]) -> None:
        if self._is_away:
            self._late.append(act)
        else:
            self._do(act())

    def _do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Frame():
                    self._observer(action)
                    self._outbox.put(action)
                case Open(hearing, config):
                    self._open(hearing, config)
                case Feed(hearing) if hearing in self._ears:
                    self._feed(self._ears[hearing], action)
                case Finish(hearing) if hearing in self._ears:
                    self._finish(self._ears[hearing])
                case Drop(hearing) if hearing in self._ears:
                    self._drop(hearing)
                case Close():
                    self._outbox.close(action)
                case Feed() | Finish() | Drop():
                    pass  # of a hearing that has failed
        while self._failed:  # after what was to be said before
            hearing, error = self._failed.pop(0)
            self._do(self._session.ended(hearing, error))

    def _open(self, number: int, config: Hearing) -> None:
        ear = self._ears[number] = _Ear(config)
        served = self._models.loaded(config.model)
        if served:
            self._listen(number, ear, served)
        else:
            ear.loading = asyncio.create_task(self._load(number, ear))

    async def _load(self, number: int, ear: _Ear) -> None:
        try:
            served = await self._models.get(ear.config.model)
        except LivecapError as error:
            self._fail(number, error)
        else:
            self._listen(number, ear, served)
        if not self._is_away:
            self._do(())

    def _listen(self, number: int, ear: _Ear, served: PooledModel) -> None:
        """Open the stream, and give it what has come meanwhile."""
        try:
            live, decode = heard_by(ear.config, served.loaded.model, self._options)
            ear.stream = served.service.open(live, decode, notify=self._note)
        except LivecapError as error:
            self._fail(number, error)
            return
        for feed in ear.waiting:
            ear.stream.push(feed.start, feed.pcm)
        ear.waiting.clear()
        if ear.is_finished:
            ear.stream.finish()

    def _fail(self, number: int, error: LivecapError) -> None:
        self._ears.pop(number, None)
        self._failed.append((number, error))

    def _feed(self, ear: _Ear, feed: Feed) -> None:
        self._observer.count_audio(feed.pcm.shape[1], ear.config.model)
        if ear.stream:
            ear.stream.push(feed.start, feed.pcm)
        else:
            ear.waiting.append(feed)

    def _finish(self, ear: _Ear) -> None:
        ear.is_finished = True
        if ear.stream:
            ear.stream.finish()

    def _drop(self, number: int) -> None:
        ear = self._ears.pop(number)
        if ear.loading:
            ear.loading.cancel()
        if ear.stream:
            ear.stream.cancel()

    # Events

    def _note(self) -> None:
        """From the service's thread: there are events."""
        if not self._is_noted:
            self._is_noted = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits for them
                self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        self._is_noted = False
        if self._is_away:
            return  # there will be another look
        self.caught_up.set()
        for number, ear in list(self._ears.items()):
            if ear.stream and number in self._ears:
                self._take(number, ear.stream, ear.config.model)

    def _take(self, number: int, stream: StreamHandle, model: str) -> None:
        try:
            events = stream.poll()
        except LivecapError as error:
            self._fail(number, error)
            self._do(())
            return
        for event in events:
            if isinstance(event, Stalled):
                self._observer.stalled(event, model)
        if events:
            self._speaker.take(number, events)
            self._do(self._session.accept(number, events))
        if stream.is_done and number in self._ears:
            del self._ears[number]
            self._speaker.finish(number)
            self._do(self._session.ended(number, None))
