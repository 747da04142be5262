"""`livecap file`: a run's events -> outputs, messages and an exit status."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Protocol

from livecap.audio.prefetch import ReadConfig
from livecap.captions import Unmet, preset
from livecap.commands.made_with import settings_of
from livecap.commands.progress import Display, clock, open_display
from livecap.commands.stats import hurried
from livecap.commands.targets import Targets, settle, signature, targets_of
from livecap.config import DecodeConfig, ModelConfig, OutputConfig, VadConfig
from livecap.errors import ConfigError, LivecapError, OutputError
from livecap.events import RATE, Caption, Event, Language, Unrecognised
from livecap.log import report
from livecap.output import NamedInput, Options, Writer, open_writer
from livecap.output.lines import record, strict_json
from livecap.runtime.runs import CaptionRun, Progress

TIMED = frozenset({"srt", "vtt"})  # formats whose cues need the times of words
WORDS = frozenset({"vtt", "json", "jsonl"})  # formats that can hold the times of every word

DONE, FAILED, SIGNALLED = 0, 1, 128  # exit statuses; a signal adds its number, as in shells


@dataclass(frozen=True, slots=True)
class BatchConfig:
    """All options of `livecap file`."""

    model: str = "auto"
    pull: bool = False
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    vad: VadConfig | None = field(default_factory=VadConfig)
    run: ModelConfig = field(default_factory=ModelConfig)
    read: ReadConfig = field(default_factory=ReadConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    folders: Mapping[str, str] = field(default_factory=dict)  # of inputs, below what was named


class StartRun(Protocol):
    """Makes what captions, once the options are known to be sound. Raises LivecapError."""

    def __call__(
        self,
        config: BatchConfig,
        open_outputs: Callable[[str], None],
        say: Callable[[str], None],
        *,
        times: bool,
    ) -> CaptionRun:
        """`open_outputs` is to be called with each input that could be opened; it raises
        OutputError. `say` writes a line for the user. `times`: words without their times won't do.
        """


def run_batch(paths: Sequence[str], config: BatchConfig, start: StartRun) -> int:
    """Caption the files -> exit status. Raises LivecapError for what stops the whole run."""
    outputs = config.output
    if config.decode.words and not outputs.json_lines and WORDS.isdisjoint(outputs.names):
        raise ConfigError(
            f"--words: {' and '.join(outputs.names)} can't hold the times of words",
            remedy="Write -f vtt or -f json, or several as in -f srt,json.",
        )
    layout = preset(outputs.preset).with_limits(
        max_line_width=outputs.max_line_width, max_lines=outputs.max_lines
    )
    options = Options(
        layout=layout,
        words=config.decode.words,
        marked=config.decode.words,
        language=config.decode.language,
        task=config.decode.task,
    )
    targets = _targets(paths, config)
    todo = [path for path in paths if outputs.json_lines or targets[path].todo]
    display = open_display(quiet=outputs.quiet, files=len(todo))
    for path in paths:
        for note in targets[path].notes:
            display.say(note)
        for warning in targets[path].warnings:
            report(f"livecap: {warning}")
    if not todo:
        display.close()
        return DONE
    timed = not outputs.json_lines and TIMED & {
        name for path in todo for name in targets[path].todo
    }
    if timed:
        config = replace(config, decode=replace(config.decode, words=True))
    try:
        return _Batch(config, targets, options, display).caption(todo, start)
    finally:
        display.close()


def _targets(paths: Sequence[str], config: BatchConfig) -> dict[str, Targets]:
    """For each input the outputs that are still to be written."""
    track = config.read.track
    number = int(track) if track is not None and track.isdigit() else None
    # A translation is English, whatever is spoken.
    language = "en" if config.decode.task == "translate" else config.decode.language
    settings = {
        name: settings_of(
            name,
            model=config.model,
            decode=config.decode,
            vad=config.vad,
            run=config.run,
            read=config.read,
            output=config.output,
        )
        for name in config.output.names
    }
    sources = [NamedInput(path, number, config.folders.get(path, "")) for path in paths]
    return targets_of(sources, config.output, language, settings)


class _Batch:
    """A run's writers and messages."""

    def __init__(
        self,
        config: BatchConfig,
        targets: Mapping[str, Targets],
        options: Options,
        display: Display,
    ) -> None:
        self.config = config
        self.targets = targets
        self.options = options
        self.display = display
        self.writers: dict[str, list[Writer]] = {}
        self.languages: dict[str, str] = {}  # of each input, once that is known
        self.signatures: dict[str, tuple[int, int] | None] = {}  # as they were when opened
        self.failed = 0
        self.begun = time.monotonic()

    def caption(self, paths: Sequence[str], start: StartRun) -> int:
        run = start(self.config, self._open, self.display.say, times=self.options.words)
        self.begun = time.monotonic()
        with _stopping(run) as stopped:
            for item in run.run(paths):
                if isinstance(item, Progress):
                    self._progress(item)
                else:
                    self._event(*item)
            if stopped:
                return SIGNALLED + stopped[0]
        return FAILED if self.failed else DONE

    def _open(self, path: str) -> None:
        """Open the outputs of an input that could be opened."""
        self.writers[path] = []
        self.signatures[path] = signature(path)
        targets = self.targets[path]
        try:
            for name, target in targets.todo.items():
                sink = sys.stdout.buffer if target is None else target
                overwrite = self.config.output.overwrite or target in targets.renewed
                writer = open_writer(name, sink, options=self.options, overwrite=overwrite)
                self.writers[path].append(writer)
        except OutputError:
            self._close(path, complete=False)
            raise

    def _event(self, path: str, event: Event) -> None:
        for writer in self.writers[path]:
            writer.write(event)
        if self.config.output.json_lines:
            _emit({"file": path, **record(event)})
        if isinstance(event, Caption) and event.language:
            self.languages.setdefault(path, event.language)
        if isinstance(event, Language):
            self.languages.setdefault(path, event.code)
            self.display.say(f"{path}: language {event.code} ({event.probability:.2f})")
        if isinstance(event, Unrecognised):
            stretch = f"{clock(event.start)} to {clock(event.end)}"
            self.display.say(f"{path}: {stretch}: speech without text; {event.reason}")

    def _progress(self, progress: Progress) -> None:
        self.display.update(progress)
        if progress.state == "running":
            return
        path, failure = progress.path, progress.failure
        changed = self.signatures.pop(path, None) not in (None, signature(path))
        complete = progress.state == "finished" and not changed
        names = [target for target in self.targets[path].todo.values() if target]
        unmet = [writer.unmet for writer in self.writers.get(path, ())]
        try:
            self._close(path, complete=complete)
        except OutputError as error:
            failure = failure or error
        else:
            names = self._settle(path) if complete and not failure else names
        if failure:
            self.failed += 1
            message = str(failure)
            report(f"livecap: {message if message.startswith(path) else f'{path}: {message}'}")
        elif progress.discarded is not None:
            self._summarise(progress, names, unmet)
            if progress.doubt:
                self.display.say(f"{path}: {progress.doubt}")
            if changed:
                self.display.say(
                    f"{path} changed while it was read: what came later may be missing, "
                    "and the next run captions it again"
                )
        if self.config.output.json_lines:
            _emit(_ended(progress, failure))

    def _settle(self, path: str) -> list[Path]:
        """Complete outputs take their final names -> those."""
        language = self.languages.get(path)
        if self.config.decode.task == "translate":
            language = None  # it is English, and named so from the start
        names, warnings = settle(self.targets[path], self.config.output, language)
        for warning in warnings:
            report(f"livecap: {path}: {warning}")
        return names

    def _summarise(self, progress: Progress, names: Sequence[Path], unmet: Sequence[Unmet]) -> None:
        took = max(time.monotonic() - self.begun, 1e-3)
        packets = "packet" if progress.damaged == 1 else "packets"
        lost = f", {progress.damaged} damaged {packets} left out" if progress.damaged else ""
        rest = ", stopped before the end" if progress.state == "stopped" else ""
        self.display.say(
            f"{progress.path}{' -> ' if names else ''}{', '.join(map(str, names))}: "
            f"{clock(progress.done)} in {took:.1f} s, "
            f"{100 * (progress.discarded or 0):.0f} % silence"
            f"{hurried(unmet, self.options.layout)}{lost}{rest}"
        )

    def _close(self, path: str, *, complete: bool) -> None:
        """Finish a file's outputs; the first failure is raised when all are closed."""
        failures: list[OutputError] = []
        for writer in self.writers.pop(path, []):
            try:
                writer.close(complete=complete)
            except OutputError as error:
                failures.append(error)
        if failures:
            raise failures[0]


def _ended(progress: Progress, failure: LivecapError | None) -> dict[str, object]:
    ended: dict[str, object] = {
        "file": progress.path,
        "type": "end",
        "state": "failed" if failure else progress.state,
        "duration": round(progress.done / RATE, 3),
    }
    if failure:
        ended["error"] = {"code": failure.code, "message": str(failure)}
    return ended


def _emit(data: dict[str, object]) -> None:
    sys.stdout.buffer.write(strict_json(data).encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()


@contextmanager
def _stopping(run: CaptionRun) -> Iterator[list[int]]:
    """Ctrl-C or SIGTERM finishes what was heard; a second one leaves at once."""
    caught: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if caught:
            os._exit(SIGNALLED + number)
        caught.append(number)
        run.stop()
        if run.is_opening:
            raise KeyboardInterrupt  # a pipe that says nothing would be waited for
        report("livecap: finishing what was heard; once more to leave at once")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
