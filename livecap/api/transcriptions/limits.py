"""How large, how long and how slow an upload may be."""

from dataclasses import dataclass

from livecap.events import RATE


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """What one request may take. Times in seconds, unless they say samples."""

    upload: int = 512 << 20  # bytes of the whole body
    duration: int = 4 * 3600 * RATE  # samples of decoded audio, gaps included; 0: any
    chunk: float = 30.0  # until the next bytes of a body have to come
    receiving: float = 900.0  # until a body has to be there
    ahead: int = 60 * RATE  # samples decoded before anyone takes them
    least: float = 120.0  # for the captioning of any upload
    factor: float = 2.5  # times its duration, for the captioning of a long one
    ping: float = 15.0  # without text, after which a stream of events shows that it goes on
    stalled: float = 60.0  # until a client has to take an event

    def budget(self, samples: int) -> float:
        """For the captioning of so much audio, from when all of the upload has come."""
        return max(self.least, self.factor * samples / RATE)
