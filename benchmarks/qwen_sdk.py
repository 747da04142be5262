"""The package qwen-asr, its transformers back end: `python benchmarks/qwen_sdk.py CHECKPOINT WAV`.

Runs in an environment of its own, which pins another transformers: only it and torch are imported.
Prints one line of JSON like `qwen_systems.py`. Its encoder attends over the whole clip here, and
its head is computed for the whole prompt: that is its way.
"""

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from typing import Any


def timed(owner: Any, method: str, spans: list[tuple[float, float]]) -> None:
    """Note when a method starts and ends."""
    plain: Callable[..., Any] = getattr(owner, method)

    def call(*arguments: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        result = plain(*arguments, **named)
        spans.append((begun, time.perf_counter()))
        return result

    setattr(owner, method, call)


def main() -> None:
    """Load, warm up, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("wav")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=32)
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from qwen_asr import Qwen3ASRModel

    torch.set_num_threads(options.threads)
    begun = time.perf_counter()
    model = Qwen3ASRModel.from_pretrained(
        options.checkpoint,
        dtype=torch.bfloat16,
        device_map="cpu",
        max_new_tokens=options.tokens,
    )
    load = time.perf_counter() - begun
    encoder: list[tuple[float, float]] = []
    forward: list[tuple[float, float]] = []
    generate: list[tuple[float, float]] = []
    timed(model.model.thinker.audio_tower, "forward", encoder)
    timed(model.model.thinker, "forward", forward)
    lengths: list[int] = []
    model.model.thinker.register_forward_pre_hook(
        lambda _, __, named: lengths.append(named["input_ids"].shape[1]), with_kwargs=True
    )
    plain = model.model.generate
    model.model.generate = lambda **given: plain(**given, min_new_tokens=options.tokens)
    timed(model.model, "generate", generate)
    total = 0.0
    for _ in range(2):  # the first is cold
        for spans in (encoder, forward, generate):
            spans.clear()
        begun = time.perf_counter()
        model.transcribe(options.wav)
        total = time.perf_counter() - begun
    heard = encoder[0][1] - encoder[0][0]
    found = {
        "encoder": heard,
        "prefill": forward[0][1] - forward[0][0] - heard,
        "prefill_tokens": lengths[0],
        "decode": generate[0][1] - forward[0][1],
        "decode_steps": len(forward) - 1,
        "total": total,
        "load": load,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
