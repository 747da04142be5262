"""espeak-ng by its library: text -> speech with the times of its words.

Source: speak_lib.h of espeak-ng 1.51 (Debian: libespeak-ng1).
"""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from towers.train.manifest import RATE, Pcm

LIBRARY = "libespeak-ng.so.1"
SYNCHRONOUS = 2  # AUDIO_OUTPUT_SYNCHRONOUS: audio comes by the callback, before `espeak_Synth` ends
EXIT_NO = 0x8000  # espeakINITIALIZE_DONT_EXIT
UTF8 = 1
ENDS, WORD = 0, 1  # kinds of events
SPEED, PITCH, RANGE = 1, 3, 4  # parameters


class Unspoken(RuntimeError):
    """espeak-ng isn't there, or can't say it; the message says what to do."""


@dataclass(frozen=True, slots=True)
class EspeakVoice:
    """Who speaks, and how."""

    name: str  # as in en-us+f3
    speed: int  # words a minute, 80 to 450
    pitch: int  # 0 to 100
    range: int  # 0 to 100: monotone to lively


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("unique", ctypes.c_uint),
        ("place", ctypes.c_int),  # of the word in the text, in characters, from 1 on
        ("length", ctypes.c_int),  # of the word
        ("milliseconds", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    )


_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


class Espeak:
    """The library, which is one for the whole process: have only one of these."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            message = f"{LIBRARY} isn't there. On Debian: apt-get install espeak-ng"
            raise Unspoken(message) from error
        self.rate = int(self._library.espeak_Initialize(SYNCHRONOUS, 0, None, EXIT_NO))
        if self.rate <= 0:
            raise Unspoken("espeak-ng has no voices. On Debian: apt-get install espeak-ng-data")
        self._audio: list[Pcm] = []
        self._words: list[tuple[int, int, float]] = []  # place and length in the text, seconds
        self._heard = _CALLBACK(self._take)  # kept: the library calls it
        self._library.espeak_SetSynthCallback(self._heard)

    def say(
        self, text: str, voice: EspeakVoice
    ) -> tuple[Pcm, tuple[tuple[str, float, float], ...]]:
        """Text -> audio at 16 kHz, and its words with their starts and ends in seconds.

        A word ends where the next one starts. Raises Unspoken for a voice that isn't there.
        """
        if self._library.espeak_SetVoiceByName(voice.name.encode()):
            raise Unspoken(f"espeak-ng has no voice {voice.name}; see espeak-ng --voices=en")
        for number, value in ((SPEED, voice.speed), (PITCH, voice.pitch), (RANGE, voice.range)):
            self._library.espeak_SetParameter(number, value, 0)
        self._audio, self._words = [], []
        data = text.encode()
        if self._library.espeak_Synth(data, len(data) + 1, 0, 1, 0, UTF8, None, None):
            raise Unspoken(f"espeak-ng could not say {text!r}")
        pcm = resampled(np.concatenate([np.zeros(0, np.float32), *self._audio]), self.rate)
        starts = [at for _, _, at in self._words] + [len(pcm) / RATE]
        words = [text[index - 1 : index - 1 + length] for index, length, _ in self._words]
        return pcm, tuple(zip(words, starts[:-1], starts[1:], strict=True))

    def _take(
        self,
        samples: "ctypes._Pointer[ctypes.c_short]",
        count: int,
        events: "ctypes._Pointer[_Event]",
    ) -> int:
        if samples and count:
            piece = np.ctypeslib.as_array(samples, (count,)).astype(np.float32) / np.float32(32768)
            self._audio.append(piece)
        for event in _until_end(events):
            if event.type == WORD and event.length:
                self._words.append((event.place, event.length, event.milliseconds / 1000))
        return 0


def _until_end(events: "ctypes._Pointer[_Event]") -> Iterator[_Event]:
    at = 0
    while events[at].type != ENDS:
        yield events[at]
        at += 1


def resampled(pcm: Pcm, rate: int) -> Pcm:
    """Any rate -> 16 kHz: the spectrum of the whole, cut off."""
    if rate == RATE or not len(pcm):
        return pcm
    count = len(pcm) * RATE // rate
    spectrum = np.fft.rfft(pcm)[: count // 2 + 1]
    padded = np.zeros(count // 2 + 1, np.complex128)
    padded[: len(spectrum)] = spectrum
    return (np.fft.irfft(padded, count) * (count / len(pcm))).astype(np.float32)
