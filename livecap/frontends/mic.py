"""`livecap mic`: what is said now -> captions on the terminal, and in files."""

import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Literal

import numpy as np

from livecap.config import DecodeConfig, LiveOptions, ModelConfig, OutputConfig, VadConfig
from livecap.cues import preset
from livecap.errors import ConfigError, LivecapError, OutputError
from livecap.events import RATE, Event
from livecap.frontends.audio_in import AudioIn, Chunk, Heard
from livecap.frontends.keys import unechoed
from livecap.frontends.messages import report
from livecap.frontends.tally import Tally
from livecap.live_stream import LiveStream
from livecap.service import Service
from livecap.sinks import (
    Options,
    Source,
    Writer,
    format_of,
    is_complete,
    open_writer,
    plan,
)
from livecap.sinks.json_events import JsonEvents
from livecap.sinks.terminal import Status, Terminal, open_terminal

TICK = 0.1  # seconds between two looks at what has come
AHEAD = 60.0  # seconds of a recording that may wait to be heard; a microphone can't be made to wait
UNKNOWN = "the source has no audio here"
DONE, FAILED, SIGNALLED = 0, 1, 128  # exit statuses; a signal adds its number, as in shells


@dataclass(frozen=True, slots=True)
class MicConfig:
    """All options of `livecap mic`."""

    model: str = "auto"
    pull: bool = False
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    vad: VadConfig | None = field(default_factory=VadConfig)
    live: LiveOptions = field(default_factory=LiveOptions)
    run: ModelConfig = field(default_factory=ModelConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    partials: bool = True
    can_wait: bool = False  # the source is a recording: it is read no faster than it is captioned
    hurries: bool = True  # updates are left out where the machine is too slow for all of them


def run_mic(open_source: Callable[[], AudioIn], config: MicConfig) -> int:
    """Caption live audio -> exit status. Raises LivecapError for what can't begin at all."""
    targets = _targets(
        config.output, config.decode.language
    )  # what can't work is said before the model is loaded
    options = _options(config)
    if not config.output.overwrite:
        _refuse_written(targets)
    terminal = _terminal(config)
    writers: list[Writer] = []
    service: Service | None = None
    run: _Run | None = None
    try:
        service, stream = _load(config, terminal)
        source = open_source()  # only now: nothing that is said has to wait for a model
        try:
            for name, target in targets.items():
                assert target is not None
                overwrite = config.output.overwrite
                writers.append(open_writer(name, target, options=options, overwrite=overwrite))
            run = _Run(config, source, stream, terminal, writers)
            status = run.caption()
        finally:
            source.close()
    finally:
        _finish_terminal(terminal)
        if service:
            service.close()
        is_complete = run is not None and run.is_finished
        failed = [error for writer in writers if (error := _close(writer, complete=is_complete))]
    for error in failed:
        report(f"livecap: {error}")
    run.summarise()
    if run.gone:
        raise run.gone
    return status or (FAILED if failed else DONE)


def _targets(output: OutputConfig, language: str | None) -> dict[str, Path | None]:
    """Where each format goes; nothing without -o."""
    if output.output is None:
        if output.format:
            raise ConfigError(
                f"-f {output.format} has no place to go", remedy="Name one, as in -o talk."
            )
        return {}
    if output.output == "-":
        raise ConfigError(
            "Captions go to standard output already", remedy="Leave out -o -, or name a file."
        )
    names = output.names if output.format else (format_of(output.output) or "srt",)
    source = Source(time.strftime("live-%Y%m%d-%H%M%S"))
    (found,) = plan([source], names, output=output.output, language=language)
    return found


def _refuse_written(targets: Mapping[str, Path | None]) -> None:
    """What was said can't be heard again: not even a text that was cut off is written over."""
    for target in targets.values():
        if target and target.is_file() and target.stat().st_size:
            state = "exists" if is_complete(target) else "is left from a run that was cut off"
            raise OutputError(
                f"{target} {state}", remedy="Add --overwrite, or choose another name."
            )


def _options(config: MicConfig) -> Options:
    output = config.output
    layout = preset(output.preset).with_limits(
        max_line_width=output.max_line_width, max_lines=output.max_lines
    )
    language, task = config.decode.language, config.decode.task
    return Options(layout=layout, words=True, language=language, task=task)


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


def _load(config: MicConfig, terminal: Terminal) -> tuple[Service, LiveStream]:
    """The service with one stream, warm."""
    from livecap.checkpoints import resolve
    from livecap.models.load import load_model
    from livecap.policies import live_config
    from livecap.vad import load

    checkpoint = resolve(config.model, pull=config.pull)
    terminal.notice(f"model: {checkpoint.name}; loading")
    loaded = load_model(checkpoint, config.run)
    live = live_config(loaded.model, config.live, vad=config.vad, language=config.decode.language)
    service = Service(loaded, load() if config.vad else None, config.decode)
    service.warm_up()
    return service, service.open(replace(live, catch_up=config.hurries))


class _Run:
    """One stream from its first sample to its last word."""

    def __init__(
        self,
        config: MicConfig,
        source: AudioIn,
        stream: LiveStream,
        terminal: Terminal,
        writers: list[Writer],
    ) -> None:
        self.config = config
        self.source = source
        self.stream = stream
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
            if self.config.can_wait and self.stream.lag > AHEAD and not is_stopped:
                self.stream.wait(TICK)
                heard: list[Heard] | None = []
            else:
                heard = self._take()
            if heard is None:
                return
            for item in heard:
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
        self.stream.send(
            chunk.start, chunk.pcm[None], chunk.reason or "the source has no audio here"
        )

    def _finish(self) -> None:
        self.stream.finish()
        while not self.stream.is_done:
            self._pass_on("finishing")
            self.stream.wait(TICK)
        self.is_finished = not self._broken

    def _pass_on(self, state: Literal["listening", "finishing"]) -> None:
        """Show and write what has happened, and how it goes."""
        now = time.monotonic()
        reached = self._captured + round((now - self._latest) * RATE)
        for event in self.stream.take():
            self.tally.add(event, reached)
            self._write(event)  # first: what has been seen must be on disk
            self._show(event)
        heard = self.stream.live.heard / RATE
        self._show(
            Status(
                level=self._level,
                lag=self.stream.lag,
                speed=heard / self.stream.busy if self.stream.busy else 0.0,
                behind=self.stream.is_behind,
                state=state,
                language=self.stream.live.language,
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

    def summarise(self) -> None:
        """Duration, words and lag."""
        if not self.config.output.quiet:
            report(f"livecap: {self.tally.summary(self._captured)}")


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
