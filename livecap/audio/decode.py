"""Bytes of a container -> pieces of PCM, each placed on the timeline.

libav (PyAV) reads and decodes; this module chooses the track, survives damage, and gathers
frames into larger pieces, since per-frame work in Python would cost more than the decoding.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livecap.audio.formats import AudioTrack, same_language
from livecap.audio.io import ChainedOggPart, File, Pipe
from livecap.audio.resample import check
from livecap.audio.timeline import Timeline
from livecap.errors import AudioError, EmptyAudio, NoAudioTrack, NotAudio
from livecap.events import RATE

_MOST = 1 << 20  # samples of all channels in a piece, whatever the header says of the rate
FILE_SECONDS, PIPE_SECONDS = 1.0, 0.2  # of audio in a piece: for speed, and for low delay
_PATIENCE = 16  # errors in a row from a demuxer before it is given up
_LATE = 3600  # seconds: no track starts this late; it is a broadcast's clock then
_PLACING = {"matroska", "webm", "mov", "mp4"}  # containers that place a track in time
_FORMATS = {"u8", "s16", "s32", "flt", "dbl"}  # sample formats that PyAV gives as arrays
_CONVERT = "If it plays elsewhere, convert it first: ffmpeg -i input -ar 16000 -ac 1 output.wav"


@dataclass(frozen=True, slots=True)
class DecodedPcm:
    """PCM as it was decoded; all that came before it is continued, unless `start` is set."""

    pcm: NDArray[Any]  # [channel, sample], any type
    rate: int  # Hz
    names: tuple[str, ...]  # FFmpeg's channel names, 'NONE' where unknown
    start: int | None  # samples at 16 kHz: set where another format or a later time begins


class Media:
    """One opened container and its chosen track. `pieces` can be taken once."""

    def __init__(
        self, data: Pipe, name: str, *, track: int | str | None, timeline: Timeline, live: bool
    ) -> None:
        self._data = data
        self._name = name
        self._wanted = track
        self._timeline = timeline
        self._live = live
        self._seconds = PIPE_SECONDS if live else FILE_SECONDS
        self._link: ChainedOggPart | None = None
        self._chained = False
        self.damaged = 0  # packets that could not be read or decoded
        self.duration: int | None = None  # samples at 16 kHz, as the header says
        self._container: Any = self._open_first()
        self.tracks = [_track(stream, self._container) for stream in self._audio()]
        self._stream: Any = self._choose()
        self.track = int(self._wanted or 0)  # of `tracks`
        self.subtitles = [stream.language or "und" for stream in self._container.streams.subtitles]
        self._origin = 0.0  # seconds at which the container's timeline begins
        self._placed = False  # whether the container places its tracks in time
        self._frames = self._decode()

    def pieces(self) -> Iterator[DecodedPcm]:
        """All audio of the track. Raises EmptyAudio or NotAudio if there is none."""
        import av

        fifo, form, start = av.AudioFifo(), None, None
        names: tuple[str, ...] = ()
        for frame in self._frames:
            time = self._time(frame)
            if self._timeline.is_covered(time, frame.samples / frame.rate):
                continue
            form_now = (frame.format.name, frame.layout.name, frame.rate)
            if form_now != form:
                check(frame.rate, frame.layout.nb_channels)
                self._timeline.settle()
            jump = self._timeline.index(time)
            if form_now != form or jump is not None:
                if fifo.samples:
                    yield _piece(fifo, names, start)
                fifo, form, names = av.AudioFifo(), form_now, _names(frame)
                start = jump if jump is not None else round(self._timeline.position)
            self._timeline.advance(frame.samples / frame.rate)
            frame.pts = None  # the fifo would check it
            fifo.write(frame)
            if fifo.samples >= min(self._seconds * frame.rate, _MOST / len(names)):
                yield _piece(fifo, names, start)
                start = None
        if fifo.samples:
            yield _piece(fifo, names, start)
        if form is None:
            raise self._nothing()

    def close(self) -> None:
        """Releases libav's side of it; the source stays open."""
        self._frames.close()
        self._container.close()

    def _nothing(self) -> AudioError:
        if self.damaged:
            return NotAudio(f"nothing in {self._name} can be decoded", remedy=_CONVERT)
        return EmptyAudio(
            f"{self._name} has no audio in it",
            remedy="The recording may have failed; check it in a player",
        )

    def _open_first(self) -> Any:
        if self._data.peek(4) != b"OggS":
            container = self._open(self._data)
            self.duration = _duration(container)
            return container
        if isinstance(self._data, File):
            with self._open(self._data) as container:
                self.duration = _duration(container)
            self._data.seek(0)
        return self._open_link()

    def _open_link(self) -> Any:
        self._link = ChainedOggPart(self._data)
        return self._open(self._link)

    def _open(self, data: Pipe | ChainedOggPart) -> Any:
        import av

        # An empty list of protocols: a playlist must not make us open other files. Decoders of
        # audio alone: libav decodes the first picture of every track to learn its format, and two
        # megabytes can hold one that takes gigabytes.
        options = {"protocol_whitelist": "", "codec_whitelist": _decoders()}
        if self._live:
            options["analyzeduration"] = "1000000"  # microseconds to wait for stream parameters
        try:
            return av.open(data, options=options)
        except (av.FFmpegError, OSError, ValueError):
            if not self._data.count:
                raise EmptyAudio(
                    f"{self._name} has no bytes in it",
                    remedy="The recording or the upload may have failed; check the source",
                ) from None
            raise NotAudio(f"{self._name} is no audio or video", remedy=_CONVERT) from None

    def _audio(self) -> list[Any]:
        return list(self._container.streams.audio)

    def _choose(self) -> Any:
        have = "; ".join(track.describe() for track in self.tracks)
        if not self.tracks:
            raise NoAudioTrack(
                f"{self._name} has no audio track", remedy="Give a file that has sound in it"
            )
        if self._wanted is None:
            stream = self._container.streams.best("audio") or self._audio()[0]
            number: int | None = self._audio().index(stream)
        else:
            number = _find(self._wanted, self.tracks)
        if number is None:
            raise NoAudioTrack(
                f"{self._name} has no audio track {self._wanted!r}", remedy=f"It has {have}"
            )
        stream = self._audio()[number]
        if stream.codec_context is None:
            raise NotAudio(
                f"{self._name} holds audio that can't be decoded here ({have})", remedy=_CONVERT
            )
        stream.codec_context.thread_count = 1
        self._wanted = number
        return stream

    def _time(self, frame: Any) -> float | None:
        """Timestamp of a frame (or packet) on the container's timeline, in samples at 16 kHz."""
        if frame.pts is None:
            return None
        seconds = float(frame.pts * float(frame.time_base))
        return (seconds - self._origin) * RATE

    def _decode(self) -> Generator[Any]:
        """Decoded frames of all links, in order."""
        yield from self._decode_link()
        while self._link is not None and self._link.more:
            self._container.close()
            self._timeline.restart()
            try:
                self._container = self._open_link()
            except AudioError:  # what follows is no Ogg after all
                self.damaged += 1
                return
            tracks = self._audio()
            if tracks:
                self._stream = tracks[min(int(self._wanted or 0), len(tracks) - 1)]
                yield from self._decode_link()

    def _decode_link(self) -> Iterator[Any]:
        import av

        self._placed = bool(_PLACING.intersection(self._container.format.name.split(",")))
        start = float((self._container.start_time or 0) / 1_000_000)
        # Players show the start of a cut that keeps its times as zero. A track that is alone has a
        # place in what it was taken from.
        is_alone = len(self._audio()) + len(self._container.streams.video) == 1
        is_late = start > (_LATE if is_alone else 0)
        self._origin = start if is_late or not self._placed else 0.0
        end: float | None = None
        for packet in self._packets():
            try:
                frames = self._stream.decode(packet)
            except EOFError:  # emptied before
                continue
            except av.FFmpegError:
                self._hurt()
                time = self._time(packet) if packet is not None else None
                if time is not None and packet.duration:
                    end = time + float(packet.duration * packet.time_base) * RATE
                continue
            yield from (frame for frame in frames if frame.samples)
        if self.damaged and self._placed and self.duration:
            end = max(end or 0.0, float(self.duration))  # the demuxer may have given up early
        self._timeline.close(end)

    def _packets(self) -> Iterator[Any]:
        """All packets of the track, and then one without data, which empties the decoder."""
        import av

        for _ in range(_PATIENCE):
            try:
                yield from self._container.demux(self._stream)
                return
            except IndexError:  # PyAV at the end, when streams turned up on the way
                break
            except (av.FFmpegError, OSError):
                self._hurt()
        yield None

    def _hurt(self) -> None:
        self.damaged += 1
        self._timeline.damaged = True


@cache
def _decoders() -> str:
    """The names of libav's decoders of audio, with commas between."""
    from av import Codec
    from av.codec import codecs_available
    from av.codec.codec import UnknownCodecError

    found: set[str] = set()
    for name in codecs_available:
        try:
            codec = Codec(name, "r")
        except UnknownCodecError:  # it can only be encoded
            continue
        if codec.type == "audio":
            found |= {name, codec.name}
    return ",".join(sorted(found))


def _find(wanted: int | str, tracks: list[AudioTrack]) -> int | None:
    if isinstance(wanted, str) and wanted.isascii() and wanted.isdigit():
        wanted = int(wanted)
    if isinstance(wanted, int):
        return wanted if 0 <= wanted < len(tracks) else None
    found = (track.number for track in tracks if same_language(track.language, wanted))
    return next(found, None)


def _track(stream: Any, container: Any) -> AudioTrack:
    from av.stream import Disposition

    codec = stream.codec_context
    return AudioTrack(
        number=list(container.streams.audio).index(stream),
        codec=codec.codec.canonical_name if codec is not None else "unknown codec",
        rate=(codec.sample_rate or 0) if codec is not None else 0,
        channels=codec.channels if codec is not None else 0,
        layout=_layout(codec) if codec is not None else "unknown layout",
        language=None if stream.language in (None, "und") else stream.language,
        title=stream.metadata.get("title"),
        default=bool(stream.disposition & Disposition.default),
    )


def _layout(codec: Any) -> str:
    """As FFmpeg names it; 'mono' and 'stereo' also where the header gives the count alone."""
    return {1: "mono", 2: "stereo"}.get(codec.channels) or str(codec.layout.name)


def _duration(container: Any) -> int | None:
    micros = container.duration
    return micros * RATE // 1_000_000 if micros and micros > 0 else None


def _names(frame: Any) -> tuple[str, ...]:
    return tuple(channel.name for channel in frame.layout.channels)


def _piece(fifo: Any, names: tuple[str, ...], start: int | None) -> DecodedPcm:
    """Everything in the fifo -> one piece."""
    from av import AudioResampler, FFmpegError

    frame = fifo.read(0)
    rate: int = frame.rate
    packed = frame.format.packed.name
    # PyAV counts one plane too many from 8 channels on, and crashes on it
    if packed not in _FORMATS or (frame.format.is_planar and len(names) > 7):
        form = packed if packed in _FORMATS else "dbl"
        try:
            frame = AudioResampler(format=form, layout=frame.layout).resample(frame)[0]
        except (FFmpegError, ValueError):
            raise AudioError(
                f"{len(names)} channels in an unknown layout can't be taken apart",
                remedy="Convert it first, to a WAV file or to fewer channels",
            ) from None
    pcm = frame.to_ndarray()
    if not frame.format.is_planar:
        pcm = pcm.reshape(-1, len(names)).T
    return DecodedPcm(np.asarray(pcm), rate, names, start)
