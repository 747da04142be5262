"""`livecap mic`: what is said now -> captions on the terminal, and in files."""

import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Literal

import numpy as np

from livecap.audio.live_source import AudioIn, Chunk, Heard, Notice
from livecap.captions import Layout
from livecap.commands.backend import Begin
from livecap.commands.captioner import Captioner
from livecap.commands.live_outputs import options_of, refuse_written, replaced, targets_of
from livecap.commands.stats import Tally, hurried
from livecap.commands.targets import settle
from livecap.commands.terminal_echo import unechoed
from livecap.config import OutputConfig, Task
from livecap.errors import LivecapError, OutputError
from livecap.events import RATE, Event
from livecap.log import report
from livecap.output import Writer, open_writer
from livecap.output.json_events import JsonEvents
from livecap.output.push.options import PushOptions
from livecap.output.push.receivers import passing
from livecap.output.terminal import Status, Terminal, open_terminal

TICK = 0.1  # seconds between two looks at what has come
AHEAD = 60.0  # seconds of a recording that may wait to be heard; a microphone can't be made to wait
UNKNOWN = "the source has no audio here"
DONE, FAILED, SIGNALLED = 0, 1, 128  # exit statuses; a signal adds its number, as in shells


@dataclass(frozen=True, slots=True)
class MicConfig:
    """What is shown and written, and how the source is treated."""

    language: str | None = None  # code, if it is known beforehand
    task: Task = "transcribe"
    output: OutputConfig = field(default_factory=OutputConfig)
    partials: bool = True
    can_wait: bool = False  # the source is a recording: it is read no faster than it is captioned
    push: PushOptions = field(default_factory=PushOptions)


def run_mic(open_source: Callable[[], AudioIn], begin: Begin, config: MicConfig) -> int:
    """Caption live audio -> exit status. Raises LivecapError for what can't begin at all."""
    # What can't work is said before a model is loaded.
    is_translated = config.task == "translate"
    targets = targets_of(config.output, "en" if is_translated else config.language)
    options = options_of(config.output, config.language, config.task)
    if not config.output.overwrite:
        refuse_written(targets)
    for warning in replaced(targets) if config.output.overwrite else ():
        report(f"livecap: {warning}")
    to = passing(config.push, lambda message: report(f"livecap: {message}"))
    terminal = _terminal(config)
    writers: list[Writer] = [to] if to else []
    captioner: Captioner | None = None
    run: _Run | None = None
    try:
        captioner = begin(terminal.notice)
        source = open_source()  # only now: nothing that is said has to wait for a model
        try:
            for name, target in targets.todo.items():
                assert target is not None
                overwrite = config.output.overwrite
                writers.append(open_writer(name, target, options=options, overwrite=overwrite))
            run = _Run(config, source, captioner, terminal, writers)
            status = run.caption()
        finally:
            source.close()
    finally:
        _finish_terminal(terminal)
        if captioner:
            captioner.close()
        is_complete = run is not None and run.is_finished
        failed = [error for writer in writers if (error := _close(writer, complete=is_complete))]
    for error in failed:
        report(f"livecap: {error}")
    if is_complete and not failed:
        language = None if is_translated else captioner.language
        for warning in settle(targets, config.output, language)[1]:
            report(f"livecap: {warning}")
    run.summarise(options.layout)
    if run.gone:
        raise run.gone
    return status or (FAILED if failed else DONE)


def _close(writer: Writer, *, complete: bool) -> OutputError | None:
    try:
        writer.close(complete=complete)
    except OutputError as error:
        return error
    return None


def _finish_terminal(terminal: Terminal) -> None:
    """Standard output may be gone; the files must be finished all the same."""
    with suppress(OSError):
        terminal.close()


def _terminal(config: MicConfig) -> Terminal:
    if config.output.json_lines:
        return JsonEvents(sys.stdout, quiet=config.output.quiet, say=report)
    return open_terminal(quiet=config.output.quiet, no_partials=not config.partials, say=report)


class _Run:
    """One stream from its first sample to its last word."""

    def __init__(
        self,
        config: MicConfig,
        source: AudioIn,
        captioner: Captioner,
        terminal: Terminal,
        writers: list[Writer],
    ) -> None:
        self.config = config
        self.source = source
        self.captioner = captioner
        self.terminal = terminal
        self.writers = writers
        self.tally = Tally()
        self.is_finished = False  # everything that was captured has been captioned
        self.gone: OSError | None = None  # why there is nowhere to show captions any more
        self._broken = False  # the source could not go on
        self._captured = 0  # samples
        self._level = -math.inf  # dBFS of the newest audio
        self._begun = self._latest = time.monotonic()  # seconds: of the last chunk
        self._failed = False

    def caption(self) -> int:
        """Until the source ends or a signal comes; then what is left -> exit status."""
        with _signals() as caught, unechoed():
            self._show(f"listening to {self.source.name}; Ctrl-C ends")
            self._listen(caught)
            self._finish()
        return SIGNALLED + caught[0] if caught else FAILED if self._failed else DONE

    def _listen(self, caught: list[int]) -> None:
        is_stopped = False
        while True:
            if (caught or self.gone) and not is_stopped:
                self.source.stop()
                is_stopped = True
                self._show("finishing what was heard; once more to leave at once")
            if self.config.can_wait and self.captioner.lag > AHEAD and not is_stopped:
                self.captioner.wait(TICK)
                items: list[Heard] | None = []
            else:
                items = self._take()
            if items is None:
                return
            for item in items:
                if isinstance(item, Chunk):
                    self._send(item)
                else:
                    self._show(item.text)
            self._pass_on("listening")

    def _take(self) -> list[Heard] | None:
        """What has come; if the source can't go on, what it gave is finished."""
        try:
            return self.source.take(TICK)
        except LivecapError as error:
            self._failed = self._broken = True
            report(f"livecap: {error}")
            return None

    def _send(self, chunk: Chunk) -> None:
        if len(chunk.pcm):
            power = float(np.mean(np.square(chunk.pcm, dtype=np.float64)))
            self._level = 10 * math.log10(power) if power > 0 else -math.inf
        self._captured = chunk.start + len(chunk.pcm)
        self._latest = time.monotonic()
        self.captioner.send(
            chunk.start, chunk.pcm[None], chunk.reason or "the source has no audio here"
        )

    def _finish(self) -> None:
        self.captioner.finish()
        while not self.captioner.is_done:
            self._pass_on("finishing")
            self.captioner.wait(TICK)
        self.is_finished = not self._broken

    def _pass_on(self, state: Literal["listening", "finishing"]) -> None:
        """Show and write what has happened, and how it goes."""
        now = time.monotonic()
        reached = self._captured + round((now - self._latest) * RATE)
        for item in self.captioner.take():
            if isinstance(item, Notice):
                self._show(item.text)
                continue
            self.tally.add(item, reached)
            self._write(item)  # first: what has been seen must be on disk
            self._show(item)
        self._show(
            Status(
                level=self._level,
                lag=self.captioner.lag,
                speed=self.captioner.speed,
                behind=self.captioner.is_behind,
                state=state,
                language=self.captioner.language,
                elapsed=now - self._begun,
            )
        )

    def _show(self, item: Event | Status | str) -> None:
        """Where there is nowhere to show it any more, what was heard is finished for the files."""
        if self.gone:
            return
        try:
            if isinstance(item, str):
                self.terminal.notice(item)
            elif isinstance(item, Status):
                self.terminal.status(item)
            else:
                self.terminal.event(item)
        except OSError as error:
            self.gone = error

    def _write(self, event: Event) -> None:
        for writer in list(self.writers):
            try:
                writer.write(event)
            except OutputError as error:  # nowhere to keep it; the others go on
                self._failed = True
                self.writers.remove(writer)
                report(f"livecap: {error}")

    def summarise(self, layout: Layout) -> None:
        """Duration, words and lag; and how many captions of that layout come too fast."""
        if not self.config.output.quiet:
            rest = hurried([writer.unmet for writer in self.writers], layout)
            report(f"livecap: {self.tally.summary(self._captured)}{rest}")


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Ctrl-C or SIGTERM ends the capture; a second one leaves at once."""
    caught: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if caught:
            os._exit(SIGNALLED + number)
        caught.append(number)

    wanted = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if os.name == "posix" else [])]
    before = {number: signal.signal(number, stop) for number in wanted}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
