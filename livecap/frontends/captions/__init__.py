"""Captions for readers: what one speaker's session says, as many follow it from other places.

A session's events go in (`broadcast.py`); lines come out as server-sent events, and as documents
(`routes.py`). Readers need a link, which the speaker gives out and takes back.
"""

from livecap.frontends.captions.broadcast import Broadcast, Reader
from livecap.frontends.captions.hub import Hub
from livecap.frontends.captions.speaker import Part, Speaker

__all__ = ["Broadcast", "Hub", "Part", "Reader", "Speaker"]
