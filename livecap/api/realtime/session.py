"""One realtime session: a client's messages in, what to do about them out. No input or output.

    session = RealtimeSession(Connection(query), catalogue, Limits(), now=time.time)
    do(session.open())
    do(session.receive(message))         # one WebSocket or data channel message
    do(session.accept(hearing, events))   # of the live stream that `Open` asked for
    do(session.ended(hearing, None))     # after the last of them

`do` carries out the actions in order; see `actions`. No method raises, whatever comes in, and after
a `Close` all of them return nothing. Source: OpenAI Realtime API, transcription sessions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import UNSET

from livecap.api.realtime.actions import Action, Close
from livecap.api.realtime.audio_buffer import Listener
from livecap.api.realtime.configuration import Configuration
from livecap.api.realtime.connection import Catalogue, Connection, SessionLimits
from livecap.api.realtime.errors import (
    Refusal,
    error_event,
    farewell,
    invalid,
    missing,
    new_id,
)
from livecap.api.realtime.formats import Int16, audio_bytes
from livecap.api.realtime.items import Ledger
from livecap.api.realtime.settings import SessionSettings
from livecap.api.realtime.url import start
from livecap.api.realtime.wire import ActionQueue, Message, decoded
from livecap.errors import LivecapError
from livecap.events import Event

Expiry = Literal["idle", "duration", "shutdown", "left"]  # left: the client, and it said nothing

# Ends of the stream as SGLang-Omni's and Mistral's clients say them.
CLOSES = ("session.close", "transcription.done", "input_audio.end")
# What belongs to conversations, which this server doesn't hold.
CONVERSATION = (
    "conversation.item.create",
    "conversation.item.truncate",
    "response.create",
    "response.cancel",
    "output_audio_buffer.clear",
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How the session ends, once all that is awaited has been told."""

    close: Close
    refusal: Refusal | None = None  # told right before it


class RealtimeSession:
    """The protocol's state. To be called from one thread at a time."""

    def __init__(
        self,
        connection: Connection,
        catalogue: Catalogue,
        limits: SessionLimits,
        *,
        now: Callable[[], float],
    ) -> None:
        """`now`: Unix seconds."""
        self._connection = connection
        self._limits = limits
        self._begun = int(now())
        self._start = start(connection, catalogue, limits)
        settings = self._start.settings
        self._outbox = ActionQueue(settings.dialect)
        self._ledger = Ledger(self._outbox, limits.items, now)
        self._listener = Listener(settings, limits, self._outbox, self._ledger)
        self._configuration = Configuration(
            self._listener, self._ledger, self._outbox, catalogue, limits, begun=self._begun
        )
        self._is_fresh = True  # no configuration and no audio has come
        self._ending: Ending | None = None
        self.is_closed = False
        self.captions: dict[str, object] = {}  # by what readers find what is said
        self._handlers: dict[str, Callable[[Message], None]] = {
            "session.update": self._update,
            "transcription_session.update": self._update,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
            "conversation.item.retrieve": self._retrieve,
            "conversation.item.delete": self._delete,
            **dict.fromkeys(CLOSES, self._close),
            **dict.fromkeys(CONVERSATION, self._refuse),
        }

    @property
    def settings(self) -> SessionSettings:
        """As they take effect now."""
        return self._listener.settings

    @property
    def id(self) -> str:
        """Of the session: sess_ and 21 letters and digits."""
        return self._configuration.session_id

    @property
    def pending(self) -> int:
        """Live streams that are not over. A transport that reads on lets them grow in number."""
        return self._listener.pending

    def open(self) -> list[Action]:
        """The client has connected."""
        begun = self._start
        if begun.fatal:
            self._end(Close(4000, f"invalid_request_error.{begun.fatal.code}"), begun.fatal)
        elif begun.first == "session.created":
            # vLLM's clients read `id` and `created`, and are not known to be such yet.
            own = {"id": new_id("sess", "-"), "created": self._begun}
            self._outbox.send({"type": begun.first, "session": self._first_view(), **own})
        else:
            self._outbox.send({"type": begun.first, "session": self._first_view(beta=True)})
        for refusal in () if begun.fatal else begun.problems:
            self._outbox.send(error_event(refusal))
        return self._outbox.take()

    def _first_view(self, *, beta: bool = False) -> dict[str, object]:
        view = self._configuration.view(beta=beta)
        own = view["livecap"]
        assert isinstance(own, dict)
        return view | {"livecap": own | self.captions}

    def receive(self, data: str | bytes) -> list[Action]:
        """A message: text, or binary where that was negotiated."""
        if self._ending or self.is_closed:
            return []
        event_id = None
        try:
            if isinstance(data, bytes):
                self._binary(data)
            else:
                message = decoded(data)
                event_id = message.id
                self._act(message)
        except Refusal as refusal:
            self._outbox.send(error_event(refusal, event_id))
        return self._outbox.take()

    def sound(self, samples: Int16) -> list[Action]:
        """Audio of the media track, [sample], at the connection's `media_rate`."""
        if not self._ending and not self.is_closed:
            self._listener.sound(samples)
        return self._outbox.take()

    def pause(self) -> list[Action]:
        """The media track brings nothing, not even silence, so nobody hears that a turn is over."""
        if not self._ending and not self.is_closed:
            self._listener.pause()
        return self._outbox.take()

    def accept(self, hearing: int, events: Sequence[Event]) -> list[Action]:
        """What a live stream has told."""
        if not self.is_closed:
            self._listener.accept(hearing, events)
            self._wrap_up()
        return self._outbox.take()

    def ended(self, hearing: int, error: LivecapError | None) -> list[Action]:
        """A live stream is over, and all that it told has been passed on. `error`: why, if it broke
        off or could not be opened; an EngineFault ends the session.
        """
        if not self.is_closed:
            self._listener.ended(hearing, error)
            if self._listener.is_broken:
                refusal, close = farewell("internal_error")
                self._ending = Ending(close, refusal)
                self._listener.give_up()
            self._wrap_up()
        return self._outbox.take()

    def expire(self, reason: Expiry) -> list[Action]:
        """The session's time is over: what has been heard is still told, then comes the close.

        A transport that can't wait for it calls `give_up`.
        """
        if not self._ending and not self.is_closed:
            self._end(*self._expired(reason))
        return self._outbox.take()

    def give_up(self) -> list[Action]:
        """End now. Items whose text is awaited have failed."""
        if not self.is_closed:
            if self._ending is None:
                refusal, close = farewell("internal_error")
                self._ending = Ending(close, refusal)
            self._listener.give_up()
            self._wrap_up()
        return self._outbox.take()

    # Client events

    def _act(self, message: Message) -> None:
        kind = message.check()
        handler = self._handlers.get(kind)
        if handler is None:
            known = ", ".join(self._handlers)
            raise invalid("type", f"{kind[:100]!r} is no event. Supported are {known}.")
        handler(message)

    def _binary(self, data: bytes) -> None:
        if not self._connection.binary or self._connection.media_rate:
            message = "Binary messages are not supported. Send JSON, or connect with ?audio=binary."
            raise Refusal("invalid_event", message)
        self._take_audio(data)

    def _append(self, message: Message) -> None:
        if self._connection.media_rate:
            error_text = "Audio of this session comes over its media track, not in events."
            raise Refusal("not_supported", error_text, param="type")
        if message.audio is UNSET:
            raise missing("audio")
        self._take_audio(audio_bytes(message.audio))

    def _take_audio(self, raw: bytes) -> None:
        limit = self._limits.max_append_bytes
        if len(raw) > limit:
            message = f"{len(raw)} bytes of audio in one event; at most {limit} may come."
            raise invalid("audio", message)
        if raw:
            self._is_fresh = False
            self._listener.take(raw)

    def _update(self, message: Message) -> None:
        self._is_fresh = False
        self._configuration.update(message, is_pinned=self._start.is_pinned)

    def _commit(self, message: Message) -> None:
        if not isinstance(message.final, bool) and message.final not in (UNSET, None):
            raise invalid("final", "Expected true or false.")
        is_final = message.final is not UNSET
        # The first thing that vLLM's clients do, if they state no model. Others have said who they
        # are in the URL; for them a commit of nothing is just that.
        is_start = self._is_fresh and self._start.is_bare
        if (is_final or is_start) and not (self._start.is_pinned or self._listener.has_heard):
            self._configuration.speak("vllm")
        self._is_fresh = False
        if self.settings.dialect != "vllm":
            self._listener.commit(self._limits.min_commit_ms)
        elif message.final is True:
            self._listener.commit(None)

    def _clear(self, _: Message) -> None:
        self._listener.clear()
        self._outbox.send({"type": "input_audio_buffer.cleared"})

    def _retrieve(self, message: Message) -> None:
        item = self._ledger.find(message.item)
        self._outbox.send({"type": "conversation.item.retrieved", "item": item.shape()})

    def _delete(self, message: Message) -> None:
        self._ledger.delete(message.item)
        self._outbox.send({"type": "conversation.item.deleted", "item_id": message.item})

    def _close(self, _: Message) -> None:
        self._end(Close(1000, ""), None)

    def _refuse(self, message: Message) -> None:
        error_text = f"{message.type} belongs to conversations; this server transcribes."
        raise Refusal("not_supported", error_text, param="type")

    # The end

    def _expired(self, reason: Expiry) -> tuple[Close, Refusal | None]:
        if reason == "shutdown":
            return Close(1012, "The server restarts."), None
        if reason == "left":
            return Close(1000, ""), None
        if reason == "idle":
            message = f"No event has come for {self._limits.idle_s} seconds."
            return Close(1000, "session_idle_timeout"), Refusal("session_idle_timeout", message)
        minutes = self._limits.max_session_s / 60
        message = f"Your session hit the maximum duration of {minutes:g} minutes."
        return Close(1001, "session_expired"), Refusal("session_expired", message)

    def _end(self, close: Close, refusal: Refusal | None) -> None:
        self._ending = Ending(close, refusal)
        self._listener.finish()
        self._wrap_up()

    def _wrap_up(self) -> None:
        ending = self._ending
        if ending and self._listener.is_idle and not self.is_closed:
            if ending.refusal:
                self._outbox.send(error_event(ending.refusal))
            self._outbox.do(ending.close)
            self.is_closed = True
