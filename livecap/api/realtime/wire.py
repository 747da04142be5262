"""JSON of a client -> its event; events of ours -> frames, in the client's dialect."""

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from livecap.api.realtime.actions import Action, Frame
from livecap.api.realtime.dialects import Dialect, shown
from livecap.api.realtime.errors import Refusal, invalid, missing, new_id
from livecap.api.realtime.sizes import CONTAINERS, DEEPEST, MOST, is_deep

APPEND = "input_audio_buffer.append"
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


class _Large(Struct):
    """What is read of a large message. All else in it is passed over, and nothing made of it."""

    type: str | UnsetType = UNSET
    event_id: str | UnsetType | None = UNSET
    audio: str | UnsetType = UNSET


def decoded(text: str) -> Message:
    """JSON -> the event. Raises Refusal for what is no JSON object, and for one that is larger or
    deeper than a client needs it.
    """
    if len(text) > MOST:
        return _append(text)
    if is_deep(text):
        message = (
            f"The message has more than {DEEPEST} objects and lists in each other, or more than "
            f"{CONTAINERS} in all."
        )
        raise Refusal("message_too_deep", message)
    try:
        return msgspec.json.decode(text, type=Message)
    except msgspec.ValidationError as error:
        # No field is checked here, so it is not an object; or it holds a number beyond all bounds.
        if "out of range" in str(error):
            raise Refusal("invalid_json", "The message holds a number out of range.") from error
        raise Refusal("invalid_event", "The message is not a JSON object.") from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Refusal("invalid_json", "The message is not valid JSON.") from error


def _append(text: str) -> Message:
    """A large message, which can only be audio."""
    try:
        # Looked through by a decoder, others would wait for a tenth of a second.
        is_plain = text.count("[") + text.count("{") <= CONTAINERS and APPEND in text
        found = msgspec.json.decode(text, type=_Large) if is_plain else _Large()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        found = _Large()
    if found.type != APPEND:
        message = f"Only {APPEND} can have more than {MOST} characters; this has {len(text)}."
        raise Refusal("message_too_large", message)
    return Message(type=found.type, event_id=found.event_id, audio=found.audio)


class ActionQueue:
    """What is to be done, in order, until someone takes it."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._actions: list[Action] = []

    def do(self, action: Action) -> None:
        """Anything but an event."""
        self._actions.append(action)

    def send(self, event: dict[str, object], *, coalesce: str | None = None) -> None:
        """A GA event without an id. What the client's dialect doesn't have is left out."""
        payload = shown(self.dialect, event)
        if payload is not None:
            self._actions.append(Frame({**payload, "event_id": new_id("event")}, coalesce))

    def take(self) -> list[Action]:
        """All since the last call."""
        actions, self._actions = self._actions, []
        return actions
