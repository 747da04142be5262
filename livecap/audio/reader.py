"""A file, pipe or raw PCM -> blocks of 16 kHz audio on the media's timeline, as a stream."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from livecap.audio.decode import FILE_SECONDS, PIPE_SECONDS, DecodedPcm, Media
from livecap.audio.formats import AudioTrack, RawFormat, labels
from livecap.audio.io import File, Stream, open_path, prepare, shown
from livecap.audio.mix import Pcm
from livecap.audio.resample import Converter, check
from livecap.audio.timeline import Timeline
from livecap.audio.wav import Riff, take_head
from livecap.errors import AudioError, EmptyAudio
from livecap.events import RATE, Gap


@dataclass(frozen=True, slots=True)
class AudioBlock:
    """A stretch of audio. It follows the last one, unless `start` jumps: then a gap lies between.

    Blocks never overlap and never go back; the first starts where the track does.
    """

    start: int  # samples at 16 kHz on the media's timeline
    pcm: NDArray[np.float32]  # [row, sample], -1 to 1; one row unless channels are kept apart

    @property
    def end(self) -> int:
        """Samples at 16 kHz: where the next block starts if nothing is missing."""
        return self.start + len(self.pcm[0])


class AudioReader:
    """Iterates once over the `Block`s of a source; a context manager that releases it.

    Opening reads up to the first decoded audio. It raises NotAudio, EmptyAudio, NoAudioTrack or
    another AudioError, each with a remedy. A source that fails later gives all that came before,
    then raises AudioError; damaged stretches are skipped, counted and kept as gaps.

    `track` is a number from 0 or a language code, and by default the container's choice. With
    `split` each channel is a row of its own. `raw` says what PCM without a header is. A stream
    that can't be sought is read as it arrives, in blocks of about 0.2 s, files in blocks of 1 s.
    """

    def __init__(
        self,
        source: Path | Stream,
        *,
        track: int | str | None = None,
        split: bool = False,
        raw: RawFormat | None = None,
        name: str | None = None,
    ) -> None:
        self._name = shown(str(source) if isinstance(source, Path) else name or "the stream")
        self._split = split
        self._timeline = Timeline()
        self._media: Media | None = None
        self._tracks: tuple[AudioTrack, ...] = ()
        self._subtitles: tuple[str, ...] = ()  # language codes
        self._duration: int | None = None
        with ExitStack() as closing:
            stream = open_path(source) if isinstance(source, Path) else source
            if isinstance(source, Path):
                closing.callback(stream.close)
            self._data = prepare(stream, copy=raw is None)
            closing.callback(self._data.close)
            try:
                pieces = self._open(raw, track, closing)
                first = next(pieces)
            except AudioError as error:
                raise self._failure() or error from None
            self.labels: tuple[str, ...] = labels(first.names) if split else ()  # one a row
            self._blocks = self._convert(chain([first], pieces))
            closing.callback(self._blocks.close)
            self._closing = closing.pop_all()

    @property
    def tracks(self) -> tuple[AudioTrack, ...]:
        """All audio tracks there are."""
        return self._tracks

    @property
    def track(self) -> int:
        """The number of the track that is read."""
        return self._media.track if self._media is not None else 0

    @property
    def subtitles(self) -> tuple[str, ...]:
        """The language codes of subtitle tracks that are in the container already."""
        return self._subtitles

    @property
    def duration(self) -> int | None:
        """Samples at 16 kHz, as the header or the size says; None if unknown. May be wrong."""
        return self._media.duration if self._media is not None else self._duration

    @property
    def damaged(self) -> int:
        """Packets, so far, that could not be read or decoded."""
        return self._media.damaged if self._media is not None else 0

    @property
    def gaps(self) -> list[Gap]:
        """Stretches, so far, without audio or with damaged audio. The caller may clear it."""
        return self._timeline.gaps

    def __iter__(self) -> Iterator[AudioBlock]:
        return self

    def __next__(self) -> AudioBlock:
        return next(self._blocks)

    def __enter__(self) -> "AudioReader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Releases all that was opened here; a stream that was passed in stays open."""
        self._closing.close()

    def _open(
        self, raw: RawFormat | None, track: int | str | None, closing: ExitStack
    ) -> Iterator[DecodedPcm]:
        live = not isinstance(self._data, File)
        if raw is not None:
            return self._plain(Riff(raw, ("NONE",) * raw.channels, None))
        if live and track in (None, 0, "0") and (riff := take_head(self._data)) is not None:
            return self._plain(riff)
        media = Media(self._data, self._name, track=track, timeline=self._timeline, live=live)
        closing.callback(media.close)
        self._media = media
        self._tracks = tuple(media.tracks)
        self._subtitles = tuple(media.subtitles)
        return media.pieces()

    def _plain(self, head: Riff) -> Iterator[DecodedPcm]:
        """PCM without a header, or behind it -> pieces. A sample cut off at the end is dropped."""
        form, left, seconds = head.form, head.size, PIPE_SECONDS
        layout = {1: "mono", 2: "stereo"}.get(form.channels, f"{form.channels} channels")
        self._tracks = (
            AudioTrack(0, form.codec, form.rate, form.channels, layout, None, None, default=True),
        )
        check(form.rate, form.channels)
        if isinstance(self._data, File):
            seconds = FILE_SECONDS
            self._duration = self._data.size() // form.width * RATE // form.rate
        enough = max(1, int(seconds * form.rate)) * form.width
        held, start, ended = b"", 0, False
        while not ended:
            size = max(enough - len(held), 4096)
            wanted = size if left is None else min(size, left)
            data = self._data.read(wanted)
            paused = len(data) < wanted  # a pipe has no more for now: nothing is held back
            left = left if left is None else left - len(data)
            held, ended = held + data, not data
            whole = len(held) - len(held) % form.width
            if whole and (ended or paused or len(held) >= enough):
                yield DecodedPcm(
                    form.decode(held[:whole]), form.rate, head.names, None if start else 0
                )
                held, start = held[whole:], 1
        if not start:
            raise EmptyAudio(f"{self._name} has no audio in it", remedy="Check what writes to it")

    def _convert(self, pieces: Iterator[DecodedPcm]) -> Generator[AudioBlock]:
        converter: Converter | None = None
        end = 0
        for piece in pieces:
            if piece.start is not None:
                if converter is not None:
                    yield from self._block(end, converter.flush())
                end = piece.start
                split = self._split and len(piece.names) == len(self.labels)
                converter = Converter(piece.rate, len(piece.names), names=piece.names, split=split)
            assert converter is not None, "the first piece has a start"
            pcm = converter.feed(piece.pcm)
            yield from self._block(end, pcm)
            end += pcm.shape[1]
        if converter is not None:
            yield from self._block(end, converter.flush())
        if failure := self._failure():
            raise failure

    def _block(self, start: int, pcm: Pcm) -> Iterator[AudioBlock]:
        """At most one block: none if it is empty, or all before the timeline's beginning."""
        early = max(0, -start)  # an encoder's delay
        pcm = pcm[:, early:]
        if self._split and len(pcm) != len(self.labels):
            # the channel count changed on the way: the mix goes on in the first row
            rows = np.zeros((len(self.labels), pcm.shape[1]), np.float32)
            rows[0] = pcm[0]
            pcm = rows
        if pcm.shape[1]:
            yield AudioBlock(start + early, pcm)

    def _failure(self) -> AudioError | None:
        """Why the source ended before its end, if it did."""
        if self._data.failure is None:
            return None
        return AudioError(
            f"{self._name} could not be read to its end: {self._data.failure}",
            remedy="Check the disk, device or connection; what came before it was used",
        )
