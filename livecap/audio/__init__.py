"""Any container, codec, rate or channel count -> 16 kHz float32 PCM. Stage 1: audio in.

A file goes bytes -> packets -> frames (`media.py`, placed in time by `timeline.py`) -> one rate
(`resample.py`) -> one level and one channel (`mix.py`) -> `Block`s (`reader.py`). Microphones and
sockets, which have PCM already, use `Resampler` alone. Nothing here needs the whole file at once.
"""

from livecap.audio.formats import AudioTrack, RawFormat
from livecap.audio.reader import AudioBlock, AudioReader
from livecap.audio.resample import Converter, Resampler

__all__ = ["AudioBlock", "AudioReader", "AudioTrack", "Converter", "RawFormat", "Resampler"]
