"""What is wrong with a client's event, and the errors that end a connection before it begins.

Source: OpenAI Realtime API, the `error` event; close codes as its hosted service uses them.
"""

import secrets
from typing import Literal

from livecap.api.realtime.actions import Action, Close, Frame

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
LONGEST = 400  # characters of a message, in which the client's own words may stand

ErrorKind = Literal["invalid_request_error", "rate_limit_error", "server_error"]
Reason = Literal["invalid_api_key", "rate_limit_exceeded", "internal_error"]


class Refusal(Exception):
    """A client's event or configuration can't be followed. It becomes an error event.

    `param` names the field, dotted from the event ('session.audio.input.format.rate').
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        kind: ErrorKind = "invalid_request_error",
    ) -> None:
        message = message if len(message) <= LONGEST else message[:LONGEST] + "..."
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.kind = kind


def invalid(param: str, message: str) -> Refusal:
    """A field with a value that can't be used."""
    return Refusal("invalid_value", f"{param}: {message}", param=param)


def missing(param: str) -> Refusal:
    """A field that has to be there."""
    return Refusal("missing_required_parameter", f"{param} is missing.", param=param)


def new_id(kind: str, mark: str = "_") -> str:
    """A fresh id, as in item_ and 21 random letters and digits (125 bits)."""
    number = int.from_bytes(secrets.token_bytes(16), "big")
    letters = []
    for _ in range(21):
        number, letter = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[letter])
    return f"{kind}{mark}{''.join(letters)}"


def error_event(refusal: Refusal, event_id: str | None = None) -> dict[str, object]:
    """The `error` event. `event_id` is that of the client's event, if it had one."""
    return {
        "type": "error",
        "error": {
            "type": refusal.kind,
            "code": refusal.code,
            "message": refusal.message,
            "param": refusal.param,
            "event_id": event_id,
        },
    }


def farewell(reason: Reason) -> tuple[Refusal, Close]:
    """The error and the close for a connection that gets no session, or can't go on.

    A refused key closes with 3000, too many sessions with 1013, a fault of ours with 1011.
    """
    if reason == "invalid_api_key":
        refusal = Refusal(reason, "The API key is missing or not valid here.")
        return refusal, Close(3000, "invalid_request_error.invalid_api_key")
    if reason == "rate_limit_exceeded":
        message = "This server has as many live sessions as it can serve. Try again later."
        refusal = Refusal(reason, message, kind="rate_limit_error")
        return refusal, Close(1013, "rate_limit_error.rate_limit_exceeded")
    message = "The server can't go on with this session. Its log says why."
    return Refusal(reason, message, kind="server_error"), Close(1011, "server_error.internal_error")


def turned_away(reason: Reason) -> list[Action]:
    """What to do with a connection that gets no session."""
    refusal, close = farewell(reason)
    return [Frame({**error_event(refusal), "event_id": new_id("event")}), close]
