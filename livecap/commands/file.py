"""Files and pipes -> events. A file is a stream without pacing, captioned by the same service.

Several files are under way at once when they are short, so that the model always works on full
batches; what leaves is in order within each file.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from livecap.audio import AudioBlock
from livecap.audio.prefetch import Opener, Pump
from livecap.commands.doubt import Doubt
from livecap.config import DecodeConfig, VadConfig
from livecap.errors import LivecapError
from livecap.events import RATE, Caption, Event, Language
from livecap.models.load import Loaded
from livecap.online.config import StreamConfig
from livecap.runtime.handle import NO_AUDIO, StreamHandle
from livecap.runtime.runs import Progress, Report
from livecap.runtime.service import Service
from livecap.runtime.source import Rows
from livecap.vad.silero import Silero

__all__ = ["FileRun", "Progress", "Report"]

READ_BLOCKS = 30  # that are pushed together: 30 s of a file
READ_AHEAD = 60 * RATE  # samples pushed and not taken in, from which reading waits
ALL_BLOCKS = 1 << 30
MAX_SILENCE_PIPE = RATE  # samples that end a segment of a pipe, whose text is waited for
WAIT_S = 0.05  # for events, before a slow source is looked at again


@dataclass(slots=True)
class _Open:
    """A file under way."""

    pump: Pump
    stream: StreamHandle
    doubt: Doubt
    is_read: bool = False  # no more blocks
    done: int = 0  # media time of the last event


class FileRun:
    """One run over several files."""

    def __init__(
        self,
        loaded: Loaded,
        silero: Silero | None,
        *,
        decode: DecodeConfig,
        vad: VadConfig,
        open_source: Opener,
    ) -> None:
        loaded.model.check(decode)
        self._loaded = loaded
        self._silero = silero
        self._decode = decode
        self._vad = vad
        self._open_source = open_source
        self._stopping = False
        self.is_opening = False  # a source is being opened; a pipe may take its time

    def stop(self) -> None:
        """Read no more; what has been read is still captioned."""
        self._stopping = True

    def run(self, paths: Sequence[str]) -> Iterator[Report]:
        """Caption the files. A file that can't be read is reported, and the others go on."""
        service = Service(self._loaded, self._silero, self._decode)
        waiting = list(paths)
        files: list[_Open] = []
        try:
            while waiting or files:
                if self._stopping:
                    waiting.clear()
                if waiting and self._has_room(files):
                    yield from self._open(service, waiting.pop(0), files)
                is_idle = not any([self._read(file) for file in files])
                for file in list(files):
                    for event in file.stream.poll():
                        is_idle = False
                        yield self._event(file, event)
                        yield Progress(file.pump.path, file.done, file.pump.reader.duration)
                    if file.stream.is_done:
                        files.remove(file)
                        yield self._finished(file)
                if is_idle and files and not (waiting and self._has_room(files)):
                    files[0].stream.wait(WAIT_S)
        finally:
            service.close()
            for file in files:
                file.pump.close()

    def _has_room(self, files: Sequence[_Open]) -> bool:
        """Whether all audio of the open files is taken in, and more can be decoded beside it."""
        is_taken = all(file.is_read and not file.stream.waiting for file in files)
        return is_taken and len(files) < self._loaded.batch

    def _open(self, service: Service, path: str, files: list[_Open]) -> Iterator[Report]:
        self.is_opening = True
        try:
            pump = self._open_source(path)
        except LivecapError as error:
            yield Progress(path, 0, None, failure=error, state="failed")
            return
        except KeyboardInterrupt:  # nothing came of it; what is under way is finished
            return
        finally:
            self.is_opening = False
        languages, silence = self._loaded.model.languages, self._loaded.model.streaming.max_silence
        config = StreamConfig(
            vad=self._vad if self._silero else None,
            max_segment=self._loaded.model.segment,
            max_silence=min(MAX_SILENCE_PIPE, silence) if pump.is_live else silence,
            language=self._decode.language or (languages[0] if len(languages) == 1 else None),
            sequential=self._decode.long_form == "sequential",
        )
        labels = pump.reader.labels
        speakers = labels if len(labels) > 1 else (None,)
        doubt = Doubt(self._loaded.model.name, languages)
        files.append(_Open(pump, service.open(config, speakers=speakers), doubt))

    def _read(self, file: _Open) -> bool:
        """Push what the source has; whether there was anything, the end included."""
        if file.is_read or (file.stream.waiting > READ_AHEAD and not self._stopping):
            return False
        if self._stopping:
            # What a pipe has sent is not to be had again; a file still has what was not decoded.
            late = file.pump.take(ALL_BLOCKS, wait=False) if file.pump.is_live else None
            blocks: list[AudioBlock] | None = late or []
            file.is_read = True
        else:
            blocks = file.pump.take(READ_BLOCKS, wait=False)
            file.is_read = blocks is None
        reasons = {gap.end: gap.reason for gap in list(file.pump.reader.gaps)}
        for start, rows in _joined(blocks or []):
            file.stream.push(start, rows, reasons.get(start, NO_AUDIO))
        if file.is_read:
            file.stream.finish()
        return file.is_read or bool(blocks)

    def _event(self, file: _Open, event: Event) -> Report:
        if isinstance(event, Caption):
            file.done = max(file.done, event.processed_until)
            file.doubt.add(event)
        elif not isinstance(event, Language):
            file.done = max(file.done, event.end)
        return file.pump.path, event

    def _finished(self, file: _Open) -> Progress:
        file.pump.close()
        total, failure = file.stream.source.total, file.pump.failure
        state = "failed" if failure else "stopped" if self._stopping else "finished"
        return Progress(
            file.pump.path,
            file.done,
            file.done,
            discarded=1 - file.stream.decoded / total if total else 0.0,
            damaged=file.pump.reader.damaged,
            failure=failure,
            state=state,
            doubt=file.doubt.message(),
        )


def _joined(blocks: Iterable[AudioBlock]) -> Iterator[tuple[int, Rows]]:
    """Blocks that follow each other -> one stretch."""
    start, rows = 0, list[Rows]()
    end = 0
    for block in blocks:
        if rows and block.start != end:
            yield start, np.concatenate(rows, axis=1)
            rows = []
        if not rows:
            start = block.start
        rows.append(block.pcm)
        end = block.end
    if rows:
        yield start, np.concatenate(rows, axis=1)
