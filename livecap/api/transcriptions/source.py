"""An upload's file -> blocks of audio, within the limits; and what is said where that fails."""

import errno
import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import RawIOBase
from types import TracebackType
from typing import Any, BinaryIO

from livecap.api.errors import ApiError, fault, invalid
from livecap.api.transcriptions.limits import UploadLimits
from livecap.audio import AudioBlock, AudioReader, RawFormat
from livecap.errors import AudioError, ConfigError, LivecapError
from livecap.events import RATE

LOG = logging.getLogger("livecap.server")

SHORTEST = RATE // 10  # samples
PLAUSIBLE = 100  # bytes a second, below which a header promises more than the file can hold
UNKNOWN = "the source has no audio here"
PHONE = {"audio/pcmu": "mulaw", "audio/pcma": "alaw"}  # G.711 without a header, 8 kHz
CONTAINERS = (b"RIFF", b"OggS", b".snd")  # of G.711


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file to be captioned, and what is known of it."""

    file: BinaryIO
    size: int  # bytes
    kind: str = ""  # content type


class SourceDecoder:
    """A context: opens a source, and gives its blocks. Raises ApiError and AudioError.

    `stopped` makes it end soon, whatever is in the file.
    """

    def __init__(
        self, source: UploadedFile, limits: UploadLimits, stopped: threading.Event
    ) -> None:
        guarded = _Guarded(source.file, stopped)
        self._limits = limits
        self._reader = AudioReader(guarded, raw=_phone(source), name="the upload")
        self.promised = 0  # samples, by a header that can be believed
        self.duration = 0  # samples decoded so far, gaps included
        # A header is only believed where the file is large enough for it: many streams say 4 GB.
        promised = self._reader.duration or 0
        if source.size * RATE >= promised * PLAUSIBLE:
            self.promised = promised

    def __enter__(self) -> "SourceDecoder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reader.close()

    def blocks(self) -> Iterator[tuple[AudioBlock, str]]:
        """All audio, each block with the reason why there is none before it, if so.

        Raises ApiError (413) as soon as it is too long, by its header or in truth.
        """
        self._limit(self.promised)
        end = 0
        for block in self._reader:
            self._limit(block.end)
            self.duration = block.end
            yield block, self._reason(block) if block.start > end else UNKNOWN
            end = block.end

    @property
    def damage(self) -> str | None:
        """What could not be decoded, if there was something."""
        count = self._reader.damaged
        packets = "packet" if count == 1 else "packets"
        return f"{count} {packets} could not be decoded" if count else None

    def _limit(self, samples: int) -> None:
        limit = self._limits.duration
        if 0 < limit < samples:
            message = f"The audio is longer than {limit / RATE:g} seconds, the most taken here."
            raise ApiError(413, message, code="audio_too_long", param="file")

    def _reason(self, block: AudioBlock) -> str:
        gaps = reversed(self._reader.gaps)
        return next((gap.reason for gap in gaps if gap.end == block.start), UNKNOWN)


class _Guarded(RawIOBase):
    """A file that can't be read any more once nobody waits for it: no decoder is stuck in it."""

    def __init__(self, file: BinaryIO, stopped: threading.Event) -> None:
        self._file = file
        self._stopped = stopped

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._stopped.is_set():
            raise OSError(errno.ECANCELED, "nobody waits for it")
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def head(blocks: Iterator[tuple[AudioBlock, str]]) -> Sequence[tuple[AudioBlock, str]]:
    """Blocks until there is enough audio. Raises ApiError (400) where there never is."""
    found: list[tuple[AudioBlock, str]] = []
    samples = 0
    for block, reason in blocks:
        found.append((block, reason))
        samples += block.pcm.shape[1]
        if samples >= SHORTEST:
            return found
    # in the words of OpenAI's API
    message = "Audio file is too short. Minimum audio length is 0.1 seconds."
    raise invalid("file", message, code="audio_too_short")


def problem_of(error: LivecapError) -> ApiError:
    """What went wrong below -> what the client is told: its file is to blame, or we are.

    What is our fault may name folders of this machine: it is logged, and not told.
    """
    if isinstance(error, AudioError):
        text = str(error)
        return invalid("file", text[:1].upper() + text[1:])
    if isinstance(error, ConfigError):
        return ApiError(400, str(error), code="invalid_value")
    LOG.error("a request failed", exc_info=error, extra={"fields": {"code": error.code}})
    return fault()


def _phone(source: UploadedFile) -> RawFormat | None:
    """Telephone audio without a header, if that is what the client calls it and it has none."""
    codec = PHONE.get(source.kind.partition(";")[0].strip())
    if codec is None:
        return None
    first = source.file.read(4)
    source.file.seek(0)
    return None if first in CONTAINERS else RawFormat(codec, 8000, 1)
