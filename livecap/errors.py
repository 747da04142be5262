"""Every error a user can meet, each with a remedy.

LivecapError
├── ConfigError        an option has a value that can't work
├── AudioError         the input can't be read as audio
│   ├── EmptyAudio         no bytes, or a header with no samples
│   ├── NotAudio           the bytes are no media that can be decoded
│   └── NoAudioTrack       media without the audio track that was asked for
├── ModelError         a checkpoint can't be used
│   ├── ModelNotFound      nothing by that name on this machine
│   ├── CorruptModel       a file is damaged, incomplete or not the one expected
│   └── DownloadError      the hub can't be reached or refuses
├── EngineFault        the computing thread of live streams has ended
├── ServerError        a server that captions for us can't, or can't be reached (frontends/remote)
└── OutputError        a result can't be written
"""

from typing import ClassVar


class LivecapError(Exception):
    """What went wrong in one sentence, and in `remedy` what to do about it."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.args[0]}. {self.remedy}".rstrip(".") + "."


class ConfigError(LivecapError):
    """An option has a value that can't work."""

    code = "bad_option"


class AudioError(LivecapError):
    """The input can't be read as audio."""

    code = "bad_audio"


class EmptyAudio(AudioError):
    """No bytes at all, or a header that is followed by no samples."""

    code = "empty_audio"


class NotAudio(AudioError):
    """The bytes are no media that can be decoded."""

    code = "not_audio"


class NoAudioTrack(AudioError):
    """Media without the audio track that was asked for."""

    code = "no_audio_track"


class ModelError(LivecapError):
    """A checkpoint can't be used."""

    code = "bad_model"


class ModelNotFound(ModelError):
    """Nothing by that name on this machine."""

    code = "model_not_found"


class CorruptModel(ModelError):
    """A checkpoint file is damaged, incomplete or not the one expected."""

    code = "corrupt_model"


class DownloadError(ModelError):
    """The model hub can't be reached, or it refuses."""

    code = "download_failed"


class EngineFault(LivecapError):
    """The thread that computes for all live streams has ended."""

    code = "engine_fault"


class OutputError(LivecapError):
    """A result can't be written."""

    code = "bad_output"
