"""The small trained Qwen3-ASR, all its ways to hear: `python benchmarks/sprout.py MANIFEST`.

MANIFEST is held-out speech (`python -m towers.train synth FOLDER --split test`), each utterance a
stream of its own; delays are counted from its own times of words. On the virtual clock: computing
takes as long as it does, waiting nothing. Operations are counted in a pass of its own.
"""

import argparse
import os
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from livecap.cli import ENVIRONMENT

os.environ.update(ENVIRONMENT | os.environ)

from compare import keep, machine, write_table
from torch.utils.flop_counter import FlopCounterMode

from livecap.checkpoints import resolve
from livecap.commands.bench_measures import delays, edits, erasure, word_delays, words
from livecap.commands.bench_runs import SessionRun, offline, replay
from livecap.config import DecodeConfig, LiveOptions, ModelConfig, VadConfig
from livecap.events import RATE, Word
from livecap.models.load import Loaded, load_model
from livecap.models.streams import live_config
from livecap.vad.silero import Silero, load
from towers.train.manifest import Utterance, read_audio, read_manifest

PART = 10  # the operations of one utterance in so many are counted
WINDOWED, CAUSAL = "qwen3-asr-sprout", "qwen3-asr-sprout-causal"
DECODE = DecodeConfig(language="en")


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of one utterance."""

    said: Utterance
    text: str
    run: SessionRun | None = None  # where it was heard live

    @property
    def times(self) -> list[Word]:
        """Its words, as the synthesiser knows them."""
        return [Word(w, int(a * RATE), int(b * RATE)) for w, a, b in self.said.words]


def used() -> float:
    """Core-seconds of this process so far."""
    now = resource.getrusage(resource.RUSAGE_SELF)
    return now.ru_utime + now.ru_stime


def at_once(loaded: Loaded, silero: Silero, one: Utterance) -> Heard:
    """The file mode."""
    found = offline(loaded, silero, str(one.audio), DECODE, VadConfig())
    return Heard(one, "".join(word.text for word in found))


def live(loaded: Loaded, silero: Silero, one: Utterance) -> Heard:
    """As it comes. No update is left out, so that counting, which is slow, changes nothing."""
    config = live_config(loaded.model, LiveOptions(), vad=VadConfig(), language="en")
    assert config.updates is not None
    config = replace(config, updates=replace(config.updates, catch_up=False))
    run = replay(loaded, silero, read_audio(one.audio), config, DECODE)
    return Heard(one, run.text, run)


def seconds(some: Sequence[Utterance]) -> float:
    """How long they take."""
    return sum(len(read_audio(one.audio)) for one in some) / RATE


def row(name: str, hear: Callable[[Utterance], Heard], said: Sequence[Utterance]) -> str:
    """A line of the table."""
    begun = used()
    found = [hear(one) for one in said]
    spent = (used() - begun) / seconds(said)
    few = said[: max(len(said) // PART, 1)]
    with FlopCounterMode(display=False) as counter:
        for one in few:
            hear(one)
    flops = counter.get_total_flops() / 1e9 / seconds(few)
    wrong = sum(edits(words(one.said.text), words(one.text)) for one in found)
    told = ["", "", ""]
    runs = [(one.run, one.times) for one in found if one.run]
    if runs:
        late = delays(value for run, times in runs for value in word_delays(run.captions, times))
        flicker = erasure([run.captions for run, _ in runs])
        told = [f"{late.p50:.2f}", f"{late.p95:.2f}", f"{flicker:.3f}"]
    share = 100 * wrong / sum(len(words(one.text)) for one in said)
    return f"| {name} | {share:.2f} | {' | '.join(told)} | {flops:.2f} | {spent:.3f} |"


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--section", default="sprout", help="of README.md, where the table goes")
    options = parser.parse_args()
    said = [one for one in read_manifest(options.manifest) if one.text]
    usual = ModelConfig(threads=options.threads, precision="fp32")
    shorter = {n: replace(usual, attention_window=n) for n in (4, 2)}
    ways: list[tuple[str, str, ModelConfig, Callable[..., Heard]]] = [
        ("windowed, offline", WINDOWED, usual, at_once),
        ("causal, offline", CAUSAL, usual, at_once),
        ("windowed, live, windows of 8 s", WINDOWED, usual, live),
        *(
            (f"windowed, live, windows of {n} s", WINDOWED, config, live)
            for n, config in shorter.items()
        ),
        ("causal, live", CAUSAL, usual, live),
    ]
    silero = load()
    rows = [
        "| way | WER % | commit p50 s | p95 s | flicker | GFLOP/s of audio | core-s/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, checkpoint, config, hear in ways:
        loaded = load_model(resolve(checkpoint), config)
        rows.append(row(name, partial(hear, loaded, silero), said))
    count = sum(len(words(one.text)) for one in said)
    told = (
        f"{machine(options.threads)}; {len(said)} utterances of {seconds(said):.0f} s together, "
        f"{count} words, float32."
    )
    keep("sprout", [{"rows": rows, "told": told}])
    write_table(options.section, f"{told}\n\n" + "\n".join(rows))


if __name__ == "__main__":
    main()
