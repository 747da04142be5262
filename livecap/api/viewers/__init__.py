"""Captions for readers: what one speaker's session says, as many follow it from other places.

A session's events go in (`broadcast.py`); lines come out as server-sent events, and as documents
(`routes.py`). Readers need a link, which the speaker gives out and takes back.
"""

from livecap.api.viewers.channel import Broadcast, Viewer
from livecap.api.viewers.publisher import Part, Speaker
from livecap.api.viewers.registry import Hub

__all__ = ["Broadcast", "Hub", "Part", "Speaker", "Viewer"]
