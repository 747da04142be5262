"""`/v1/audio/transcriptions` and `/v1/audio/translations`: an upload -> its text, over HTTP."""

from livecap.api.transcriptions.endpoint import Admission, Models, Outcome, Served, routes
from livecap.api.transcriptions.limits import Limits

__all__ = ["Admission", "Limits", "Models", "Outcome", "Served", "routes"]
