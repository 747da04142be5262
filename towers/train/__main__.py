"""`python -m towers.train synth | fit | distill | evaluate`. Each says more with --help."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from livecap.checkpoints.qwen3_asr_config import LEAST, chunk_length
from livecap.errors import LivecapError
from towers.train.distill import DistillConfig, Student, distill
from towers.train.espeak import Unspoken
from towers.train.evaluate import evaluate
from towers.train.features import features
from towers.train.fit import FitConfig, fit
from towers.train.layout import load_model, save_model, save_tower
from towers.train.loop import OtherRun
from towers.train.lora import merge
from towers.train.manifest import BadManifest, read_manifest
from towers.train.network import tower_of
from towers.train.sprout import sprout
from towers.train.synth import Lengths, synthesise
from towers.train.vocabulary import TrainingVocabulary, closed, read

SUBFOLDER = "decoder"  # of a causal tower's folder, with the model that reads its rows
N = TypeVar("N", int, float)
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Unusable(ValueError):
    """A checkpoint that can't be trained; the message says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0, 1 for what went wrong, 2 for options that can't be followed."""
    options = _parser().parse_args(arguments)
    if getattr(options, "threads", None):
        torch.set_num_threads(options.threads)
    try:
        options.run(options)
    except (BadManifest, OtherRun, Unusable, Unspoken, LivecapError, OSError) as error:
        print(f"towers.train: {error}", file=sys.stderr)
        return 1
    return 0


def _synth(options: argparse.Namespace) -> None:
    made = synthesise(
        options.folder,
        seconds=options.hours * 3600,
        split=options.split,
        seed=options.seed,
        lengths=Lengths(options.shortest, options.longest, options.silent),
    )
    print(f"{len(made)} utterances in {options.folder / 'manifest.jsonl'}")


def _fit(options: argparse.Namespace) -> None:
    utterances = read_manifest(options.manifest)
    mels = features(utterances, options.cache or options.folder / "mels")
    out = options.folder / "model"
    before = options.model if options.model and not out.exists() else out
    chunk = options.chunk_length or chunk_length(before)
    if options.model:
        model, vocabulary = _opened(options.model)
    else:
        vocabulary = closed(one.text for one in utterances)
        model = sprout(vocabulary, seed=options.seed)
    config = FitConfig(
        ctc_steps=options.ctc_steps, ctc=options.ctc, lora=options.lora, **_steps(options)
    )
    _tell(fit(model, vocabulary, utterances, mels, options.folder, config))
    merge(model)
    save_model(model, vocabulary, options.folder / "model", dtype=torch.bfloat16, chunk=chunk)
    print(f"written: {options.folder / 'model'}")


def _distill(options: argparse.Namespace) -> None:
    utterances = read_manifest(options.manifest)
    mels = features(utterances, options.cache or options.folder / "mels")
    model, vocabulary = _opened(options.model)
    student = Student(tower_of(model))
    config = DistillConfig(layers=options.layers, answer=options.answer, **_steps(options))
    _tell(distill(model, student, vocabulary, utterances, mels, options.folder, config))
    tower = options.folder / "tower"
    save_tower(student.tensors(), tower, base=str(options.model), dtype=torch.bfloat16)
    print(f"written: {tower}")
    _join(tower / SUBFOLDER, options.model.resolve())


def _opened(folder: Path) -> tuple[Any, TrainingVocabulary]:
    """A checkpoint in the official layout, to be trained. Raises Unusable, and OSError."""
    try:
        return load_model(folder), read(folder)
    except (KeyError, RuntimeError, ValueError) as error:
        message = f"{folder} is no Qwen3-ASR model in the official layout: {error!r}"
        raise Unusable(message) from error


def _join(decoder: Path, model: Path) -> None:
    """Let a tower's folder know its decoder by a link, so that it can be run as it is."""
    if decoder.is_symlink():
        decoder.unlink()
    try:
        decoder.symlink_to(model, target_is_directory=True)
    except OSError as error:  # one is there already, or links aren't allowed
        print(f"To run it, put {model} there as {decoder}: {error}", file=sys.stderr)


def _steps(options: argparse.Namespace) -> dict[str, Any]:
    """What both ways of training are told alike."""
    return {
        "steps": options.steps,
        "rate": options.rate,
        "warmup": options.warmup,
        "frames": int(options.batch_seconds * 100),
        "seed": options.seed,
        "every": options.every,
        "dtype": TYPES[options.dtype],
        "masks": options.masks,
    }


def _evaluate(options: argparse.Namespace) -> None:
    utterances = read_manifest(options.manifest)[: options.most]
    print(evaluate(options.checkpoint, utterances, threads=options.threads))


def _tell(curve: Iterable[dict[str, float]]) -> None:
    for row in curve:
        shown = "  ".join(f"{name} {value:.3f}" for name, value in row.items() if name != "step")
        print(f"step {row['step']:.0f}  {shown}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m towers.train",
        description="Train a Qwen3-ASR model on speech and text, and a causal tower from it.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    made = commands.add_parser("synth", help="speech by espeak-ng, in a closed vocabulary")
    made.add_argument("folder", type=Path, help="a new or empty folder")
    made.add_argument("--hours", type=_between(1e-6, 10_000, " hours"), default=6.0)
    made.add_argument("--split", choices=("train", "test"), default="train")
    made.add_argument("--seed", type=_count(0), default=0)
    made.add_argument(
        "--shortest",
        type=_between(0.1, 3600, " seconds"),
        default=1.0,
        help="seconds of an utterance",
    )
    made.add_argument("--longest", type=_between(0.1, 3600, " seconds"), default=12.0)
    made.add_argument(
        "--silent", type=_between(0, 1), default=0.05, help="share in which nobody speaks"
    )
    made.set_defaults(run=_synth)

    fitted = _trainer(commands.add_parser("fit", help="a model from speech and text"), FitConfig())
    fitted.add_argument(
        "--model", type=Path, help="go on from this one; without it: a small new one"
    )
    fitted.add_argument(
        "--ctc-steps", type=_count(0), default=800, help="steps with CTC alone, first"
    )
    fitted.add_argument(
        "--ctc", type=_between(0, 1e6), default=0.3, help="weight of CTC afterwards"
    )
    fitted.add_argument(
        "--lora", type=_count(0, 4096), default=0, help="rank of additions to the decoder"
    )
    fitted.add_argument(
        "--chunk-length",
        type=_chunk,
        default=0,
        metavar="SECONDS",
        help="of audio at once, at most, that suit the model; 0: as it was, or 30",
    )
    fitted.set_defaults(run=_fit)

    pulled = commands.add_parser("distill", help="a causal tower from a model's windowed one")
    _trainer(pulled, DistillConfig())
    pulled.add_argument("--model", type=Path, required=True, help="a folder in the official layout")
    pulled.add_argument(
        "--layers", type=_between(0, 1e6), default=0.5, help="weight of rows inside the tower"
    )
    pulled.add_argument(
        "--answer", type=_between(0, 1e6), default=1.0, help="weight of the decoder's text"
    )
    pulled.set_defaults(run=_distill)

    judged = commands.add_parser("evaluate", help="word error rates, offline and live")
    judged.add_argument("checkpoint", type=Path)
    judged.add_argument("manifest", type=Path)
    judged.add_argument("--most", type=_count(1), default=None, help="only so many utterances")
    judged.add_argument("--threads", type=_count(0, 1024), default=0)
    judged.set_defaults(run=_evaluate)
    return parser


def _between(least: float, limit: float, unit: str = "") -> Callable[[str], float]:
    """What reads such a number."""
    return partial(_number, float, least, limit, unit)


def _count(least: int, limit: int = 1 << 31) -> Callable[[str], int]:
    """What reads such a whole number."""
    return partial(_number, int, least, limit, "")


def _chunk(text: str) -> int:
    return 0 if text == "0" else _number(int, LEAST, 1200, " seconds", text)


def _number(kind: type[N], least: float, limit: float, unit: str, text: str) -> N:
    try:
        number = kind(text)
    except (ValueError, OverflowError) as error:
        what = "whole number" if kind is int else "number"
        raise argparse.ArgumentTypeError(f"{text!r} is no {what}") from error
    if not least <= number <= limit:
        raise argparse.ArgumentTypeError(f"{text} is not between {least:g} and {limit:g}{unit}")
    return number


def _trainer(
    parser: argparse.ArgumentParser, usual: FitConfig | DistillConfig
) -> argparse.ArgumentParser:
    parser.add_argument("manifest", type=Path, help="JSONL with audio and text")
    parser.add_argument("folder", type=Path, help="of what comes of it; goes on with what is there")
    parser.add_argument("--steps", type=_count(1), default=usual.steps)
    parser.add_argument(
        "--rate", type=_between(1e-9, 1), default=usual.rate, help="of learning, the highest"
    )
    parser.add_argument("--warmup", type=_count(0), default=usual.warmup, help="steps up to it")
    parser.add_argument("--batch-seconds", type=_between(0.1, 1e6), default=usual.frames / 100)
    parser.add_argument("--seed", type=_count(0), default=0)
    parser.add_argument(
        "--every", type=_count(1), default=usual.every, help="steps between two savings"
    )
    parser.add_argument("--dtype", choices=tuple(TYPES), default="fp32", help="of the tower")
    parser.add_argument("--masks", type=_count(0, 100), default=usual.masks, help="of SpecAugment")
    parser.add_argument("--cache", type=Path, help="of mel spectrograms; several runs can share it")
    parser.add_argument("--threads", type=_count(0, 1024), default=None)
    return parser


if __name__ == "__main__":
    sys.exit(main())
