"""livecap's stages on a Qwen3-ASR checkpoint: `python benchmarks/qwen_systems.py CHECKPOINT WAV`.

Prints one line of JSON: seconds of the encoder and of the prompt, milliseconds a decoded token, of
a whole clip offline, or (`--stream`) of updates every 2 s. The number of tokens is forced, so the
weights may be random.
"""

import argparse
import json
import math
import os
import resource
import time
import wave
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path

from livecap.cli import ENVIRONMENT

os.environ.update(ENVIRONMENT | os.environ)

import numpy as np
import torch
from torch import Tensor

from livecap.checkpoints import resolve
from livecap.config import ModelConfig
from livecap.engine.engine import Engine
from livecap.engine.request import Embedded, PrefixCache, Request
from livecap.events import RATE
from livecap.models.load import load_model
from livecap.models.protocol import EncodeRequest
from livecap.models.qwen3_asr.model import Qwen3Asr
from livecap.online.speech_buffer import Pcm
from towers import qwen3_windowed

UPDATE = 2 * RATE  # samples between two updates
LEAD = RATE // 100  # samples more before the first: then its last mel frame is whole, and so on
ROLLBACK, NEW = 5, 6  # tokens that an update decodes again, and those that it adds
SEGMENT = 16 * RATE  # samples after which a stream begins anew


@dataclass(frozen=True, slots=True)
class Forced:
    """A rule that leaves one token for each place of a text, whatever the weights say."""

    before: int  # tokens of the text before the first that is sampled

    def __call__(self, logits: Tensor, sampled: Sequence[int]) -> None:
        logits.fill_(-math.inf)
        logits[1000 + self.before + len(sampled)] = 0.0


@dataclass
class Clock:
    """Seconds by stage."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        """Add the time of a block to a stage."""
        begun = time.perf_counter()
        yield
        spent = time.perf_counter() - begun
        self.seconds[stage] = self.seconds.get(stage, 0.0) + spent


def decode(engine: Engine, request: Request, clock: Clock) -> list[int]:
    """Run one request: its prompt is one stage, the tokens after the first another."""
    engine.submit(request)
    with clock.time("prefill"):
        finished = engine.step()
        while not finished and not engine.scheduler.running[0].logprobs:
            finished = engine.step()
    with clock.time("decode"):
        while not finished:
            finished = engine.step()
    return finished[0].sampled


def offline(model: Qwen3Asr, pcm: Pcm, tokens: int) -> dict[str, float]:
    """A whole clip at once."""
    clock, engine = Clock(), Engine(model.decoder, most=1)
    with clock.time("total"):
        with clock.time("encoder"):
            rows = model.encode([EncodeRequest(pcm)])[0]
        ids, start = model.prompt.ids(len(rows), language="en")
        request = Request(ids, len(ids) + tokens, frozenset(), embedded=Embedded(start, rows))
        decode(engine, request, clock)
    return {**clock.seconds, "prefill_tokens": len(ids), "decode_steps": tokens - 1}


def stream(model: Qwen3Asr, pcm: Pcm, *, accepted: bool) -> dict[str, float]:
    """Updates every 2 s: new audio encoded, known rows kept, the last tokens decoded again.

    With `accepted` those are a draft that turns out right, so one pass with the prompt verifies
    them; else they are decoded one by one, as for a draft whose first token is wrong.
    """
    clock, engine = Clock(), Engine(model.decoder, most=1)
    counted: list[int] = []
    with clock.time("total"):
        for at in range(0, len(pcm), SEGMENT):
            counted += _segment(model, engine, pcm[at : at + SEGMENT], clock, accepted=accepted)
    return {**clock.seconds, "updates": len(counted), "decode_steps": sum(counted)}


def _segment(
    model: Qwen3Asr, engine: Engine, pcm: Pcm, clock: Clock, *, accepted: bool
) -> Iterable[int]:
    tower, kept, known = model.tower, PrefixCache(), list[int]()
    assert isinstance(tower, qwen3_windowed.WindowedTower)
    state, heard = tower.open(), model.mel.open()
    stable = torch.zeros(0, model.decoder.embedding.shape[1])
    names: list[tuple[str, int, int]] = []
    places = count()
    bounds = [0, *range(UPDATE + LEAD, len(pcm) - LEAD, UPDATE), len(pcm)]
    for at, stop in pairwise(bounds):
        with clock.time("encoder"):
            new = torch.from_numpy(pcm[at:stop])
            final = stop == len(pcm)
            mel, heard = model.mel.stream(new, heard, final=final)
            ((rows, state),) = tower.encode([state], [mel], final=final)
        stable = torch.cat([stable, rows.stable])
        names += [("row", block, next(places)) for block in rows.block_ids]
        whole = torch.cat([stable, rows.provisional])
        prefix = known[: len(known) - ROLLBACK] if len(known) > ROLLBACK else []
        draft = known[len(prefix) :] if accepted else []
        ids, start = model.prompt.ids(len(whole), language="en")
        prompt = (*ids, *prefix)
        request = Request(
            prompt,
            len(prompt) + ROLLBACK + NEW,
            frozenset(),
            rules=(Forced(len(prefix)),),
            draft=tuple(draft),
            embedded=Embedded(start, whole),
            prefix_cache=kept,
            identity=(*prompt[:start], *names),
        )
        known = [*prefix, *decode(engine, request, clock)]
        yield ROLLBACK + NEW - len(draft) - 1  # the first comes with the prompt
    engine.decoder.pages.release(kept.table)


def main() -> None:
    """Load, warm up, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("wav", type=Path)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--window", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--accepted", action="store_true")
    options = parser.parse_args()
    config = ModelConfig(
        precision=options.precision,
        threads=options.threads,
        attention_window=options.window,
        max_segment=60,
    )
    begun = time.perf_counter()
    model = load_model(resolve(options.checkpoint), config).model
    load = time.perf_counter() - begun
    assert isinstance(model, Qwen3Asr)
    with wave.open(str(options.wav)) as opened:
        raw = opened.readframes(opened.getnframes())
    pcm = np.frombuffer(raw, "<i2").astype(np.float32) / np.float32(32768)
    offline(model, pcm[: 4 * RATE], 4)
    if options.stream:
        found = stream(model, pcm, accepted=options.accepted)
    else:
        found = offline(model, pcm, options.tokens)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**found, "load": load, "peak_mb": peak, "audio": len(pcm) / RATE}))


if __name__ == "__main__":
    main()
