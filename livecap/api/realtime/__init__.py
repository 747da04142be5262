"""OpenAI's `/v1/realtime` for transcription, as a state machine without input or output.

A transport makes a `RealtimeSession` for each connection, passes in messages and what live streams
tell, and carries out the actions that come back: frames to send, and streams to open, feed, finish
and drop. All rules of the protocol are in here: sessions, items, errors, formats and dialects.
"""

from livecap.api.realtime.actions import (
    Action,
    Close,
    Drop,
    Feed,
    Finish,
    Frame,
    Hearing,
    Open,
)
from livecap.api.realtime.connection import Catalogue, Connection, SessionLimits, asks_for_beta
from livecap.api.realtime.dialects import DIALECTS, Dialect
from livecap.api.realtime.errors import Refusal, error_event, new_id, turned_away
from livecap.api.realtime.session import RealtimeSession
from livecap.api.realtime.settings import SessionSettings
from livecap.api.realtime.sizes import MOST as MOST_JSON
from livecap.api.realtime.sizes import is_deep
from livecap.api.realtime.views import Views, check_session

__all__ = [
    "DIALECTS",
    "MOST_JSON",
    "Action",
    "Catalogue",
    "Close",
    "Connection",
    "Dialect",
    "Drop",
    "Feed",
    "Finish",
    "Frame",
    "Hearing",
    "Open",
    "RealtimeSession",
    "Refusal",
    "SessionLimits",
    "SessionSettings",
    "Views",
    "asks_for_beta",
    "check_session",
    "error_event",
    "is_deep",
    "new_id",
    "turned_away",
]
