"""Files and pipes -> events. Offline captions are a stream without pacing, on the same core.

Several files are under way at once when they are short, so that the model always works on full
batches; what leaves is in order within each file.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from livecap.audio import Block
from livecap.config import DecodeConfig, VadConfig
from livecap.errors import LivecapError
from livecap.events import RATE, Caption, Event, Language
from livecap.frontends.pump import Opener, Pump
from livecap.frontends.runs import Progress, Report
from livecap.longform import Conditioned
from livecap.models.load import Loaded
from livecap.recognizer import Recognizer
from livecap.session import Session, SessionConfig
from livecap.stream import Rows, SourceStream
from livecap.vad import Silero

__all__ = ["FileRun", "Progress", "Report"]

AT_ONCE = 30  # blocks fed to voice activity detection together; 30 s of a file
EVERYTHING = 1 << 30  # blocks
LIVE_BRIDGE = RATE  # samples: a pause that ends a segment of a pipe, whose text is waited for


@dataclass(slots=True)
class _Open:
    """A file under way."""

    pump: Pump
    stream: SourceStream
    ended: bool = False  # no more blocks
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
        self._recognizer: Recognizer[tuple[_Open, int]] = Recognizer(
            loaded.model, decode, most=loaded.batch
        )
        self._segment = loaded.model.segment
        languages = loaded.model.languages
        self._only_language = languages[0] if len(languages) == 1 else None
        self._silero = silero
        self._decode = decode
        self._vad = vad
        self._open_source = open_source
        self._stopping = False
        self.is_opening = False  # a source is being opened; a pipe may take its time

    def stop(self) -> None:
        """Read no more; what has been read is still recognised."""
        self._stopping = True

    def run(self, paths: Sequence[str]) -> Iterator[Report]:
        """Caption the files. A file that can't be read is reported, and the others go on."""
        waiting = list(paths)
        files: list[_Open] = []
        while waiting or files:
            if self._stopping:
                waiting.clear()
            yield from self._fill(files, waiting)
            for (file, channel), hypothesis in self._recognizer.step():
                for event in file.stream.accept(channel, hypothesis):
                    yield self._event(file, event)
                yield Progress(file.pump.path, file.done, file.pump.reader.duration)
            for file in [file for file in files if file.ended and file.stream.is_done]:
                files.remove(file)
                yield from self._finish(file)

    def _fill(self, files: list[_Open], waiting: list[str]) -> Iterator[Report]:
        """Give the recognizer all the work it has room for, reading and opening as needed."""
        while self._recognizer.room > 0:
            if self._hand_out(files):
                continue
            unread = [file for file in files if not file.ended]
            if unread:
                # Only when there is nothing else to do may a slow source be waited for.
                if not self._read(unread[0], wait=self._recognizer.is_idle):
                    return
            elif waiting and len(files) < self._recognizer.most:
                path = waiting.pop(0)
                self.is_opening = True
                try:
                    files.append(self._open(path))
                except LivecapError as error:
                    yield Progress(path, 0, None, failure=error, state="failed")
                except KeyboardInterrupt:  # nothing came of it; what is under way is finished
                    return
                finally:
                    self.is_opening = False
            else:
                return

    def _hand_out(self, files: list[_Open]) -> bool:
        for file in files:
            found = file.stream.work()
            if found:
                channel, work = found
                self._recognizer.submit((file, channel), work)
                return True
        return False

    def _open(self, path: str) -> _Open:
        pump = self._open_source(path)
        config = SessionConfig(
            vad=self._vad if self._silero else None,
            most=self._segment,
            language=self._decode.language or self._only_language,
        )
        if pump.is_live:
            config = replace(config, bridge=LIVE_BRIDGE)
        labels = pump.reader.labels if len(pump.reader.labels) > 1 else (None,)
        kind = Conditioned if self._decode.long_form == "sequential" else Session
        sessions = [kind(replace(config, speaker=label)) for label in labels]
        return _Open(pump, SourceStream(sessions, self._silero))

    def _read(self, file: _Open, *, wait: bool) -> bool:
        """Take what the source has; whether there was anything, the end included."""
        if self._stopping and not file.ended:
            # What a pipe has sent is not to be had again; a file still has what was not heard.
            late = file.pump.take(EVERYTHING, wait=False) if file.pump.is_live else None
            blocks: list[Block] | None = late or []
            file.ended = True
        else:
            blocks = file.pump.take(AT_ONCE, wait=wait)
            file.ended = blocks is None
        self._feed(file, blocks or [])
        if file.ended:
            file.stream.close()
        return file.ended or bool(blocks)

    def _feed(self, file: _Open, blocks: Sequence[Block]) -> None:
        reasons = {gap.end: gap.reason for gap in list(file.pump.reader.gaps)}
        for start, rows in _joined(blocks):
            file.stream.feed(start, rows, reasons.get(start, "the source has no audio here"))

    def _event(self, file: _Open, event: Event) -> Report:
        if isinstance(event, Caption):
            file.done = max(file.done, event.heard)
        elif not isinstance(event, Language):
            file.done = max(file.done, event.end)
        return file.pump.path, event

    def _finish(self, file: _Open) -> Iterator[Report]:
        for event in file.stream.finish():
            yield self._event(file, event)
        file.pump.close()
        total, failure = file.stream.total, file.pump.failure
        state = "failed" if failure else "stopped" if self._stopping else "finished"
        yield Progress(
            file.pump.path,
            file.done,
            file.done,
            discarded=1 - file.stream.heard / total if total else 0.0,
            damaged=file.pump.reader.damaged,
            failure=failure,
            state=state,
        )


def _joined(blocks: Iterable[Block]) -> Iterator[tuple[int, Rows]]:
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
