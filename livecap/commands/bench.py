"""`livecap bench`: a recording through the live path -> how late, how right and how costly it is.

Either in real time, or on a virtual clock in no more time than the computing takes.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from livecap.commands import bench_measures as measures
from livecap.commands.bench_measures import DelayPercentiles, Stretches
from livecap.commands.bench_runs import SessionRun, offline, perform, read, replay, stretches
from livecap.config import DecodeConfig, LiveOptions, ModelConfig, VadConfig
from livecap.errors import ConfigError
from livecap.events import RATE, Word
from livecap.models.protocol import Model
from livecap.models.streams import live_config
from livecap.output.lines import strict_json
from livecap.runtime.handle import BEHIND_UPDATES

WARM = 5 * RATE  # samples heard before anything is measured
WIDE = 10_000  # columns: more than a row can have


@dataclass(frozen=True, slots=True)
class BenchConfig:
    """All options of `livecap bench`."""

    model: str = "auto"
    pull: bool = False
    realtime: bool = False
    sessions: int = 1
    reference: str | None = None  # a text file
    json: bool = False
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    vad: VadConfig = field(default_factory=VadConfig)
    live: LiveOptions = field(default_factory=LiveOptions)
    run: ModelConfig = field(default_factory=ModelConfig)


@dataclass(frozen=True, slots=True)
class Quality:
    """How late and how right. Error rates leave case and punctuation aside."""

    commit: DelayPercentiles  # end of a word to its commit
    timed_by: str  # what tells where words end: live or offline alignment, or nothing
    first: DelayPercentiles  # start of speech to its first text, be it a tail
    final: DelayPercentiles  # end of speech to the moment when all of it is said for good
    against: str  # what error rates compare with: the reference, or offline without one
    live_wer: float | None
    settled_wer: float | None  # of the same model offline; None without a reference
    erasure: float | None  # words of tails taken back, for each word said for good


@dataclass(frozen=True, slots=True)
class Cost:
    """What it takes. Rates are for a second of one session's audio."""

    core_seconds: float
    rtf: float | None  # None where several sessions share the machine
    works: float | None  # hypotheses; None in real time
    capacity: float | None  # sessions that this machine can bear, estimated from one
    lag: DelayPercentiles  # audio that had come and was not heard
    kept_up: bool  # no session was ever so late that it counted as behind


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured."""

    model: str
    policy: str
    audio: float  # seconds
    realtime: bool
    sessions: int
    quality: Quality
    cost: Cost


def run_bench(path: str, config: BenchConfig) -> int:
    """Measure and print -> exit status. Raises LivecapError for what can't work."""
    from livecap.checkpoints import resolve
    from livecap.models.load import load_model
    from livecap.vad.silero import load

    if config.sessions < 1:
        raise ConfigError(f"--sessions can't be {config.sessions}", remedy="Use 1 or more.")
    if config.sessions > 1 and not config.realtime:
        raise ConfigError(
            "--sessions at once share a real clock",
            remedy="Add --realtime; without it, an estimate is made from one session.",
        )
    reference = None if config.reference is None else _reference(config.reference)
    pcm = read(path)
    checkpoint = resolve(config.model, pull=config.pull)
    loaded, silero = load_model(checkpoint, config.run), load()
    model, language = loaded.model, config.decode.language
    live = live_config(model, config.live, vad=config.vad, language=language)
    updates = live.updates
    assert updates is not None
    decode = replace(config.decode, words=model.untimed(language) is None)
    replay(loaded, silero, pcm[:WARM], live, decode)
    begun = time.process_time()
    if config.realtime:
        runs = perform(loaded, silero, pcm, live, decode, sessions=config.sessions)
    else:
        runs = [replay(loaded, silero, pcm, live, decode)]
    used = time.process_time() - begun
    settled = offline(loaded, silero, path, decode, config.vad)
    spoken = stretches(silero, pcm, config.vad, updates.endpoint_silence)
    made = Report(
        model=checkpoint.name,
        policy=model.streaming.policies[0] if config.live.policy == "auto" else config.live.policy,
        audio=round(len(pcm) / RATE, 3),
        realtime=config.realtime,
        sessions=len(runs),
        quality=_quality(runs, spoken, settled, reference),
        cost=_cost(runs, used, len(pcm) / RATE, BEHIND_UPDATES * updates.interval / RATE),
    )
    if config.json:
        print(strict_json(asdict(made)))
    else:
        _show(made, model, language)
    return 0


def _reference(path: str) -> str:
    """The text of the recording. Raises ConfigError if there is none to be had."""
    try:
        text = Path(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"--reference {path} can't be read: {error}", remedy="Name a text file in UTF-8."
        ) from error
    if not measures.words(text):
        raise ConfigError(f"--reference {path} has no words", remedy="Name another, or none.")
    return text


def _quality(
    runs: Sequence[SessionRun], spoken: Stretches, settled: Sequence[Word], reference: str | None
) -> Quality:
    timed = [word for word in settled if word.end is not None]
    words = [word for run in runs for _, caption in run.captions for word in caption.words]
    is_timed = all(word.end is not None for word in words)
    text = "".join(word.text for word in settled)
    return Quality(
        commit=measures.delays(
            one for run in runs for one in measures.word_delays(run.captions, timed)
        ),
        timed_by="live alignment" if is_timed else "offline alignment" if timed else "nothing",
        first=measures.delays(
            one for run in runs for one in measures.first_delays(run.captions, spoken)
        ),
        final=measures.delays(
            one for run in runs for one in measures.final_delays(run.captions, spoken)
        ),
        against="offline" if reference is None else "reference",
        live_wer=measures.error_rate(reference or text, [run.text for run in runs]),
        settled_wer=None if reference is None else measures.error_rate(reference, [text]),
        erasure=measures.erasure([run.captions for run in runs]),
    )


def _cost(runs: Sequence[SessionRun], used: float, audio: float, late: float) -> Cost:
    """`used`: core-seconds; `late`: seconds of lag from which a session counts as behind."""
    lags = [lag for run in runs for lag in run.lags]
    busy, works = sum(run.busy for run in runs), [run.works for run in runs if run.works]
    is_alone = len(runs) == 1
    return Cost(
        core_seconds=round(used / audio / len(runs), 4),
        rtf=round(busy / audio, 4) if is_alone else None,
        works=round(sum(works) / audio, 3) if works else None,
        capacity=round(audio / busy, 1) if is_alone and busy else None,
        lag=measures.delays(lags),
        kept_up=max(lags) <= late,
    )


def _show(made: Report, model: Model, language: str | None) -> None:
    """A table on standard output, whole where that is no terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("", "median", "95 %", "of", "not measured"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for name, one in (
        ("end of a word to its commit, s", made.quality.commit),
        ("start of speech to first text, s", made.quality.first),
        ("end of speech to all its text, s", made.quality.final),
        ("audio not heard yet, s", made.cost.lag),
    ):
        table.add_row(name, _shown(one.p50), _shown(one.p95), str(one.count), str(one.missing))
    console = Console(
        width=None if sys.stdout.isatty() else WIDE, markup=False, highlight=False, soft_wrap=True
    )
    clock = "real" if made.realtime else "virtual"
    console.print(f"{made.model}, {made.policy}: {made.audio:.1f} s of audio, {clock} clock\n")
    console.print(table)
    console.print()
    for line in (*_rates(made.quality), *_costs(made), *_untold(made.quality, model, language)):
        console.print(line)


def _rates(quality: Quality) -> list[str]:
    text = f"word errors live, against {quality.against}: {_percent(quality.live_wer)}"
    if quality.settled_wer is not None:
        text += f"; the same model offline: {_percent(quality.settled_wer)}"
    return [
        f"{text} (case and punctuation aside)",
        f"words of tails taken back, for each word said: {_shown(quality.erasure)}",
    ]


def _costs(made: Report) -> list[str]:
    cost = made.cost
    lines = [f"core-seconds for a second of audio: {cost.core_seconds:.3f}"]
    if cost.rtf is not None:
        lines.append(f"real-time factor: {cost.rtf:.3f}")
    if cost.works is not None:
        lines.append(f"hypotheses for a second of audio: {cost.works:.2f}")
    verdict = "kept up" if cost.kept_up else "fell behind"
    if made.sessions > 1:
        lines.append(f"{made.sessions} sessions at once {verdict}")
    else:
        text = "" if cost.capacity is None else f"; estimate of sessions: {cost.capacity:.1f}"
        lines.append(f"one session {verdict}{text}")
    return lines


def _untold(quality: Quality, model: Model, language: str | None) -> list[str]:
    """Where words get their times, if not from the live path; why some have none."""
    if quality.timed_by == "live alignment":
        return []
    lines = [f"words have no times when live; they are those of {quality.timed_by}"]
    remedy = model.untimed(language)
    return [*lines, f"{model.name} alone can't time words: {remedy}"] if remedy else lines


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.1f} %"


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
