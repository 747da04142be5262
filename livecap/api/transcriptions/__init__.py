"""`/v1/audio/transcriptions` and `/v1/audio/translations`: an upload -> its text, over HTTP."""

from livecap.api.transcriptions.endpoint import (
    ModelSource,
    ModelUse,
    Outcome,
    UploadAdmission,
    routes,
)
from livecap.api.transcriptions.limits import UploadLimits

__all__ = ["ModelSource", "ModelUse", "Outcome", "UploadAdmission", "UploadLimits", "routes"]
