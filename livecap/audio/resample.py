"""PCM of any type, rate and channel count, in chunks -> 16 kHz float32. State carries over."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from livecap.audio.formats import HIGHEST_RATE, LOWEST_RATE, MOST_CHANNELS
from livecap.audio.mix import Level, Mixer, Pcm
from livecap.errors import AudioError
from livecap.events import RATE

_GROUP = 8  # channels in one filter graph: more have no layout that FFmpeg knows by count


class Converter:
    """PCM chunks -> [row, sample] at 16 kHz: one row, or with `split` one a channel.

    The result doesn't depend on how the audio is cut into chunks, and after `flush` it is
    ceil(samples * 16000 / rate) long. `names` are FFmpeg's names of the channels ('FL', 'LFE');
    without them all channels are equal. How channels become one: `mix.Mixer`. 16 kHz passes
    without a resampler. Raises AudioError for a rate or a channel count that no recording has.
    """

    def __init__(
        self, rate: int, channels: int, *, names: tuple[str, ...] = (), split: bool = False
    ) -> None:
        check(rate, channels)
        assert len(names) in (0, channels), "one name a channel"
        self._channels = channels
        self._level = Level()
        self._filters = [
            _Filter(rate, min(_GROUP, channels - first)) for first in range(0, channels, _GROUP)
        ]
        self._direct = rate == RATE
        self._mixer = Mixer(names or ("NONE",) * channels, split=split)

    def feed(self, pcm: NDArray[Any]) -> Pcm:
        """[channel, sample], or interleaved [sample * channel] -> [row, sample], when ready.

        Integers are full scale at the limits of their type (uint8: 128 is zero); floats at 1,
        or, once they exceed it, at their largest value so far (`mix.Level`).
        """
        if pcm.ndim == 1:
            assert pcm.size % self._channels == 0, "cut inside a sample"
            pcm = pcm.reshape(-1, self._channels).T
        assert pcm.shape[0] == self._channels, "not the channels it was made for"
        samples = floats(pcm)
        if pcm.dtype.kind == "f":
            samples = self._level.feed(samples)
        return self._mixer.feed(samples if self._direct else self._filter(samples, last=False))

    def flush(self) -> Pcm:
        """The rest that was held back, [row, sample]. Nothing can be fed after it."""
        if self._direct:
            return self._mixer.flush()
        empty = np.zeros((self._channels, 0), np.float32)
        rest = self._mixer.feed(self._filter(empty, last=True))
        return np.concatenate([rest, self._mixer.flush()], axis=1)

    def _filter(self, pcm: Pcm, *, last: bool) -> Pcm:
        parts = [
            one.feed(pcm[number * _GROUP : (number + 1) * _GROUP], last=last)
            for number, one in enumerate(self._filters)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


class Resampler:
    """PCM chunks of a microphone or a socket -> [sample], float32 mono at 16 kHz.

    `feed` takes int16 (or other integers) or float, [channel, sample] or interleaved. It gives
    whole frames of 512 samples, so that up to 32 ms are held back until `flush`.
    """

    def __init__(self, rate: int, channels: int = 1) -> None:
        self._converter = Converter(rate, channels)

    def feed(self, pcm: NDArray[Any]) -> NDArray[np.float32]:
        """[channel, sample], or interleaved [sample * channel] -> [sample] at 16 kHz."""
        mono: NDArray[np.float32] = self._converter.feed(pcm)[0]
        return mono

    def flush(self) -> NDArray[np.float32]:
        """The rest that was held back, [sample]. Nothing can be fed after it."""
        mono: NDArray[np.float32] = self._converter.flush()[0]
        return mono


def check(rate: int, channels: int) -> None:
    """Raises AudioError for a rate (Hz) or a channel count that no recording has."""
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise AudioError(
            f"a sample rate of {rate} Hz is not usable",
            remedy=f"Give audio with {LOWEST_RATE} to {HIGHEST_RATE} Hz; the header may be damaged",
        )
    if not 1 <= channels <= MOST_CHANNELS:
        raise AudioError(
            f"{channels} channels are not usable",
            remedy=f"Give audio with 1 to {MOST_CHANNELS} channels; the header may be damaged",
        )


def floats(pcm: NDArray[Any]) -> Pcm:
    """PCM of any type -> float32 of the same shape, integers scaled to -1 to 1."""
    if pcm.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):  # Level deals with what comes out
            return pcm.astype(np.float32, copy=False)
    if pcm.dtype == np.uint8:
        return (pcm.astype(np.float32) - 128.0) / 128.0
    if pcm.dtype.kind != "i":
        raise AudioError(
            f"samples of type {pcm.dtype} are not audio",
            remedy="Give signed integers, uint8 or floats",
        )
    return pcm.astype(np.float32) * np.float32(2.0 ** (1 - 8 * pcm.dtype.itemsize))


class _Filter:
    """Band-limited resampling of one group of channels with FFmpeg's filter graph."""

    def __init__(self, rate: int, channels: int) -> None:
        self._rate = rate
        self._channels = channels
        self._taken = self._given = 0  # samples in, samples out
        self._graph: Any = None  # PyAV's filters don't keep it alive
        self._source: Any = None  # made with the first samples: audio at 16 kHz needs none
        self._sink: Any = None

    def feed(self, pcm: Pcm, *, last: bool) -> Pcm:
        """[channel, sample] -> [channel, sample] at 16 kHz; with `last` also what was held."""
        import av

        if self._source is None:
            self._open()
        if pcm.shape[1]:
            packed = np.ascontiguousarray(pcm.T).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(packed, "flt", f"{self._channels}c")
            frame.sample_rate = self._rate
            self._source.push(frame)
            self._taken += pcm.shape[1]
        if last:
            self._source.push(None)
        out = self._pull()
        self._given += out.shape[1]
        if last:  # libswresample is off by one sample at times
            missing = -(-self._taken * RATE // self._rate) - self._given
            out = np.pad(out[:, : out.shape[1] + min(missing, 0)], ((0, 0), (0, max(missing, 0))))
        return out

    def _open(self) -> None:
        from av.filter import Graph

        graph = self._graph = Graph()
        self._source = graph.add(
            "abuffer",
            sample_rate=str(self._rate),
            sample_fmt="flt",
            channel_layout=f"{self._channels}c",
            time_base=f"1/{self._rate}",
        )
        # 64 taps at the lower rate, band edge at 0.97 of half of it: 2 ms of delay, no aliases
        resample = graph.add("aresample", f"{RATE}:filter_size=64:cutoff=0.97")
        packed = graph.add("aformat", "sample_fmts=flt")
        self._sink = graph.add("abuffersink")
        self._source.link_to(resample)
        resample.link_to(packed)
        packed.link_to(self._sink)
        graph.configure()

    def _pull(self) -> Pcm:
        from av.error import BlockingIOError as NotYet
        from av.error import EOFError as Ended

        parts = [np.zeros((0, self._channels), np.float32)]
        while True:
            try:
                packed = self._sink.pull().to_ndarray()
            except (NotYet, Ended):
                break
            parts.append(packed.reshape(-1, self._channels))
        return np.concatenate(parts).T
