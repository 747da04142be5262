"""The recognisers that are compared. Each runs in a process of its own, on the same weights.

`python benchmarks/systems.py NAME THREADS AUDIO` loads the system, prints `ready`, and for each
line on standard input recognises AUDIO once and prints {"seconds", "text"} as JSON. Peers come
from `pip install faster-whisper openai-whisper`.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from livecap.cli import ENVIRONMENT
from livecap.config import DecodeConfig

Pcm = NDArray[np.float32]
Run = Callable[[], str]


def read(path: Path) -> Pcm:
    """A media file -> 16 kHz mono PCM [sample]."""
    from livecap.audio import AudioReader

    with AudioReader(path) as reader:
        return np.concatenate([block.pcm[0] for block in reader])


def livecap(path: Path, threads: int, precision: str, decode: DecodeConfig) -> Run:
    """The file front end, from the file to the text."""
    from livecap.audio.prefetch import Pump, ReadConfig
    from livecap.checkpoints import resolve
    from livecap.commands.file import FileRun, Progress
    from livecap.config import ModelConfig, Precision, VadConfig
    from livecap.events import Caption
    from livecap.models.load import load_model
    from livecap.vad.silero import load

    kinds: dict[str, Precision] = {name: name for name in ("auto", "fp32", "bf16", "int8")}
    loaded = load_model(
        resolve("tiny.en"), ModelConfig(threads=threads, precision=kinds[precision])
    )
    silero = load()

    def run() -> str:
        files = FileRun(
            loaded,
            silero,
            decode=decode,
            vad=VadConfig(),
            open_source=lambda name: Pump(name, ReadConfig()),
        )
        found = files.run([str(path)])
        events = [item[1] for item in found if not isinstance(item, Progress)]
        return "".join(event.text for event in events if isinstance(event, Caption))

    return run


def faster_whisper(path: Path, threads: int, kind: str, mode: str) -> Run:
    """faster-whisper, greedy with its own temperature fallback, from the file to the text."""
    from faster_whisper import BatchedInferencePipeline, WhisperModel, decode_audio

    from livecap.checkpoints import resolve

    folder = str(resolve("tiny.en").folder)
    model = WhisperModel(folder, device="cpu", compute_type=kind, cpu_threads=threads)
    batched = BatchedInferencePipeline(model)

    def run() -> str:
        audio = decode_audio(str(path))
        if mode == "batched":
            found, _ = batched.transcribe(audio, beam_size=1, batch_size=16)
        else:
            found, _ = model.transcribe(audio, beam_size=1, vad_filter=mode == "sequential-vad")
        return "".join(segment.text for segment in found)

    return run


def openai_whisper(path: Path, threads: int) -> Run:
    """openai-whisper with its defaults (greedy, fallback, conditioned), from PCM to the text."""
    import torch
    import whisper
    from whisper.model import ModelDimensions, Whisper

    from livecap.checkpoints import load_whisper, resolve

    torch.set_num_threads(threads)
    found = load_whisper(resolve("tiny.en"))
    dims = found.dims
    model = Whisper(
        ModelDimensions(
            dims.mels, 1500, dims.width, dims.encoder_heads, dims.encoder_layers,
            dims.vocab, 448, dims.width, dims.decoder_heads, dims.decoder_layers,
        )
    )  # fmt: skip
    state = {_openai_name(name): tensor.float() for name, tensor in found.tensors.items()}
    model.load_state_dict(state, strict=False)
    audio = read(path)

    def run() -> str:
        text: str = whisper.transcribe(model, audio, fp16=False, language="en")["text"]
        return text

    return run


def _openai_name(name: str) -> str:
    """Hugging Face's name of a weight -> openai-whisper's."""
    for old, new in (
        ("model.", "", ), ("layers", "blocks"), ("embed_tokens", "token_embedding"),
        ("encoder_attn_layer_norm", "cross_attn_ln"), ("self_attn_layer_norm", "attn_ln"),
        ("encoder_attn", "cross_attn"), ("self_attn", "attn"), ("final_layer_norm", "mlp_ln"),
        ("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value"), ("out_proj", "out"),
        ("fc1", "mlp.0"), ("fc2", "mlp.2"), ("encoder.layer_norm", "encoder.ln_post"),
        ("decoder.layer_norm", "decoder.ln"), ("embed_positions.weight", "positional_embedding"),
    ):  # fmt: skip
        name = name.replace(old, new)
    return name


SYSTEMS: dict[str, Callable[[Path, int], Run]] = {
    "livecap auto": lambda path, threads: livecap(path, threads, "auto", DecodeConfig()),
    "livecap auto, without timestamps": lambda path, threads: livecap(
        path, threads, "auto", DecodeConfig(no_timestamps=True)
    ),
    "livecap auto, timed words": lambda path, threads: livecap(
        path, threads, "auto", DecodeConfig(words=True)
    ),
    "livecap fp32": lambda path, threads: livecap(path, threads, "fp32", DecodeConfig()),
    **{
        f"faster-whisper {kind} {mode}": lambda path, threads, kind=kind, mode=mode: (  # type: ignore[misc]
            faster_whisper(path, threads, kind, mode)
        )
        for kind in ("int8", "float32")
        for mode in ("sequential", "sequential-vad", "batched")
    },
    "openai-whisper float32": openai_whisper,
}


def main() -> None:
    """Serve one system."""
    name, threads, path = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    run = SYSTEMS[name](path, threads)
    print("ready", flush=True)
    for _ in sys.stdin:
        begun = time.perf_counter()
        text = run()
        seconds = time.perf_counter() - begun
        print(json.dumps({"seconds": seconds, "text": text}), flush=True)


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT | os.environ)
    main()
