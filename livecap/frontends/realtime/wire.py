"""JSON of a client -> its event; events of ours -> frames, in the client's dialect."""

from typing import Any

import msgspec
from msgspec import UNSET, Struct

from livecap.frontends.realtime.actions import Action, Frame
from livecap.frontends.realtime.dialects import Dialect, shown
from livecap.frontends.realtime.refusal import Refusal, invalid, missing, new_id

LONGEST_ID = 512  # characters of a client's event_id (OpenAI Realtime API)


class Message(Struct):
    """A client event: any fields at all, of which these have a meaning. None is checked yet."""

    type: Any = UNSET
    event_id: Any = UNSET
    session: Any = UNSET
    model: Any = UNSET
    audio: Any = UNSET
    final: Any = UNSET
    item_id: Any = UNSET

    @property
    def id(self) -> str | None:
        """What an error has to name as its cause, if the client gave something usable."""
        usable = isinstance(self.event_id, str) and len(self.event_id) <= LONGEST_ID
        return self.event_id if usable else None

    def check(self) -> str:
        """The event's type. Raises Refusal for an event without, or with an unusable id."""
        if self.type is UNSET:
            raise Refusal("invalid_event", "The event has no type.")
        if not isinstance(self.type, str):
            raise Refusal("invalid_event", "The event's type is not a string.")
        if self.event_id not in (UNSET, None) and self.id is None:
            raise invalid("event_id", f"Expected a string of at most {LONGEST_ID} characters.")
        return self.type

    @property
    def item(self) -> str:
        """The item that the event is about. Raises Refusal."""
        if self.item_id is UNSET:
            raise missing("item_id")
        if not isinstance(self.item_id, str):
            raise invalid("item_id", "Expected a string.")
        return self.item_id


def decoded(text: str) -> Message:
    """JSON -> the event. Raises Refusal for what is no JSON object."""
    try:
        return msgspec.json.decode(text, type=Message)
    except msgspec.ValidationError as error:
        # No field is checked here, so it is not an object; or it holds a number beyond all bounds.
        if "out of range" in str(error):
            raise Refusal("invalid_json", "The message holds a number out of range.") from error
        raise Refusal("invalid_event", "The message is not a JSON object.") from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Refusal("invalid_json", "The message is not valid JSON.") from error


class Outbox:
    """What is to be done, in order, until someone takes it."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._actions: list[Action] = []

    def do(self, action: Action) -> None:
        """Anything but an event."""
        self._actions.append(action)

    def send(self, event: dict[str, object], *, coalesce: str | None = None) -> None:
        """A GA event without an id. What the client's dialect doesn't have is left out."""
        told = shown(self.dialect, event)
        if told is not None:
            self._actions.append(Frame({**told, "event_id": new_id("event")}, coalesce))

    def take(self) -> list[Action]:
        """All since the last call."""
        actions, self._actions = self._actions, []
        return actions
