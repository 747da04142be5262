"""Audio as clients send it -> samples at 16 kHz.

Sources: RFC 4648 for base64, ITU-T G.711 for the two companded formats, OpenAI Realtime API for
their names.
"""

import binascii
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from livecap.api.realtime.actions import Pcm
from livecap.api.realtime.errors import invalid
from livecap.audio.resample import Resampler
from livecap.events import RATE

Encoding = Literal["pcm", "ulaw", "alaw"]
Int16 = NDArray[np.int16]

PCM_RATES = (8_000, 16_000, 24_000, 48_000)  # Hz
G711_RATE = 8_000  # Hz, the only one
WHITE_SPACE = dict.fromkeys(b" \t\r\n")


def _expand_ulaw() -> Int16:
    """G.711 mu-law: all bits are inverted on the line; sign, 3 bits of exponent, 4 of mantissa."""
    code = np.arange(256) ^ 0xFF
    magnitude = ((((code & 15) << 3) + 0x84) << ((code >> 4) & 7)) - 0x84
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


def _expand_alaw() -> Int16:
    """G.711 A-law: every other bit is inverted on the line; the two lowest steps are linear."""
    code = np.arange(256) ^ 0x55
    exponent, mantissa = (code >> 4) & 7, code & 15
    steps = ((mantissa << 4) + 0x108) << np.maximum(exponent - 1, 0)
    magnitude = np.where(exponent == 0, (mantissa << 4) + 8, steps)
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


ULAW, ALAW = _expand_ulaw(), _expand_alaw()  # a byte -> its sample


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """What the bytes are. Mono; PCM is signed 16-bit, little-endian."""

    encoding: Encoding
    rate: int  # Hz

    @property
    def width(self) -> int:
        """Bytes of a sample."""
        return 2 if self.encoding == "pcm" else 1

    def samples(self, raw: bytes) -> Int16:
        """Whole samples as bytes -> [sample]."""
        if self.encoding == "pcm":
            return np.frombuffer(raw, "<i2").astype(np.int16, copy=False)
        table = ULAW if self.encoding == "ulaw" else ALAW
        expanded: Int16 = table[np.frombuffer(raw, np.uint8)]
        return expanded


def audio_bytes(text: object) -> bytes:
    """The `audio` field of an event -> bytes.

    Standard base64 with padding; white space in it does no harm. Raises Refusal for all else.
    """
    if not isinstance(text, str):
        raise invalid("audio", "Expected base64-encoded audio bytes.")
    try:
        return _decoded(text)
    except ValueError as error:
        wanted = "Expected base64-encoded audio bytes (standard alphabet, with padding)."
        raise invalid("audio", wanted) from error


def _decoded(text: str) -> bytes:
    try:
        raw = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        stripped = text.translate(WHITE_SPACE)
        if len(stripped) == len(text):
            raise
        text, raw = stripped, binascii.a2b_base64(stripped, strict_mode=True)
    if len(text) != (len(raw) + 2) // 3 * 4:  # strict mode lets AAAA= through
        raise ValueError("more padding than there may be")
    return raw


class Intake:
    """Samples of one format -> samples at 16 kHz, from the session time `start` on.

    What comes out doesn't depend on how the audio is cut into events.
    """

    def __init__(self, form: AudioFormat, start: int) -> None:
        self.form = form
        self.start = start  # samples at 16 kHz
        self._taken = 0  # samples, at the format's rate
        self._resampler = Resampler(form.rate)

    @property
    def position(self) -> float:
        """Samples at 16 kHz since the session began, of all that was fed."""
        return self.start + self._taken * RATE / self.form.rate

    def feed(self, samples: Int16) -> Pcm:
        """[sample] -> [1, sample], when ready: some 40 ms are held back."""
        self._taken += len(samples)
        return self._resampler.feed(samples)[None]

    def flush(self) -> Pcm:
        """What was held back, [1, sample]. Nothing can be fed after it."""
        return self._resampler.flush()[None]

    def room(self, until: int) -> int:
        """How many more samples come before the session time `until` is reached or passed."""
        return max(-((self.start - until) * self.form.rate // RATE) - self._taken, 0)
