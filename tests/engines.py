"""Towers, decoders and engines for tests, made from Hugging Face models, and how to drive them."""

import struct
from collections.abc import Iterable
from collections.abc import Sequence as Tokens
from importlib.resources import files
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from livecap.checkpoints import (
    WhisperCheckpoint,
    WhisperDims,
    find_embedded,
    load_whisper,
    whisper_shapes,
)
from livecap.config import Precision
from livecap.engine.batch import Batch
from livecap.engine.engine import Engine
from livecap.engine.layers import choose
from livecap.engine.pages import Pages
from livecap.engine.request import Memory, Request, Sequence
from livecap.models.whisper.decoder import PoolSizes, WhisperDecoder
from towers.layers import MakeLinear, dense
from towers.whisper import WhisperTower

CPU = torch.device("cpu")
FP32 = dense(torch.float32)
CLIPS = ("counting", "quick_brown_fox", "hello_world")


def tower_of(model: Any, make: MakeLinear = FP32) -> WhisperTower:
    """The encoder of a transformers model."""
    heads: int = model.config.encoder_attention_heads
    return WhisperTower(model.state_dict(), heads=heads, make=make)


def decoder_of(
    model: Any, *, precision: Precision = "fp32", sequences: int = 8, memories: int = 4
) -> WhisperDecoder:
    """The decoder of a transformers model."""
    precisions = choose(precision, CPU)
    return WhisperDecoder(
        model.state_dict(),
        heads=model.config.decoder_attention_heads,
        room=PoolSizes(sequences, memories),
        make=precisions.make_decoder_linear(),
        make_wide=dense(precisions.decoder),
        dtype=precisions.decoder,
        device=CPU,
    )


def toy_decoder(
    *, sequences: int = 4, memories: int = 3, vocab: int = 120, positions: int = 100
) -> WhisperDecoder:
    """A random Whisper decoder with so few tokens that a test can run it thousands of times.

    Position embeddings are large and the head is not the embedding, so that it doesn't say one
    token again and again.
    """
    dims = WhisperDims(80, 32, 1, 2, 2, 2, 64, 64, vocab, text_positions=positions)
    generator = torch.Generator().manual_seed(1)
    shapes = whisper_shapes(dims) | {"proj_out.weight": (vocab, 32)}
    tensors = {
        name: torch.randn(shape, generator=generator) * (0.3 if len(shape) > 1 else 0.1)
        + ("norm.weight" in name)
        for name, shape in shapes.items()
    }
    return WhisperDecoder(
        tensors,
        heads=2,
        room=PoolSizes(sequences, memories),
        make=FP32,
        make_wide=FP32,
        dtype=torch.float32,
        device=CPU,
    )


def toy_rows(length: int, seed: int) -> Tensor:
    """Encoder rows for the toy decoder [length, 32]."""
    return torch.randn(length, 32, generator=torch.Generator().manual_seed(seed)) * 2


def embedded() -> WhisperCheckpoint:
    """Whisper tiny.en."""
    checkpoint = find_embedded()
    assert checkpoint is not None, "the extra `tiny` is not installed"
    return load_whisper(checkpoint)


def remember(decoder: WhisperDecoder, rows: Tensor) -> Memory:
    """Encoder rows -> memory; there must be room."""
    memory = decoder.project_cross_kv(rows)
    assert memory is not None
    return memory


def clip(name: str, language: str = "en") -> Tensor:
    """One of pytest-audioeval's spoken clips, float32 WAV at 16 kHz -> [sample] in -1 to 1."""
    raw = (files("pytest_audioeval") / f"samples/audio/{language}/{name}.wav").read_bytes()
    form, channels, rate = struct.unpack_from("<HHI", raw, raw.index(b"fmt ") + 8)
    assert (form, channels, rate) == (3, 1, 16_000)
    at = raw.index(b"data")
    (size,) = struct.unpack_from("<I", raw, at + 4)
    return torch.from_numpy(np.frombuffer(raw[at + 8 : at + 8 + size], "<f4").copy())


class Recorder:
    """A decoder that keeps every row of logits that it gave."""

    def __init__(self, decoder: WhisperDecoder) -> None:
        self.decoder = decoder
        self.pages = decoder.pages
        self.memory: Pages | None = decoder.memory
        self.device = decoder.device
        self.logits: list[Tensor] = []

    def forward(self, batch: Batch) -> Tensor:
        """As the decoder's."""
        logits = self.decoder.forward(batch)
        self.logits.append(logits.clone())
        return logits


def drain(engine: Engine, requests: Iterable[Request] = ()) -> list[Sequence]:
    """Submit requests and step until nothing is left; results in the order of the requests."""
    wanted = list(requests)
    for request in wanted:
        engine.submit(request)
    finished: list[Sequence] = []
    steps = 0
    while not engine.is_idle:
        finished += engine.step()
        steps += 1
        assert steps < 10_000, "the engine stalls"
    if not wanted:
        return finished
    return [next(one for one in finished if one.request is request) for request in wanted]


def forced_logits(decoder: WhisperDecoder, tokens: Tokens[int], memory: Memory) -> Tensor:
    """The logits after every one of `tokens` [token, vocab]: one step of an engine, as a draft."""
    recorder = Recorder(decoder)
    engine = Engine(recorder, most=1)
    request = Request(
        prompt=(tokens[0],),
        draft=tuple(tokens[1:]),
        limit=len(tokens) + 1,
        ends=frozenset(),
        memory=memory,
    )
    engine.submit(request)
    engine.step()
    drain(engine)
    return recorder.logits[0]


@torch.inference_mode()
def their_rows(model: Any, mel: Tensor) -> Tensor:
    """Mel [batch, bins, 3000] -> transformers' encoder output."""
    return cast(Tensor, model.model.encoder(mel).last_hidden_state)


@torch.inference_mode()
def their_logits(model: Any, tokens: Tokens[int], rows: Tensor) -> Tensor:
    """Transformers' logits after every token [token, vocab]; rows are [1, row, width]."""
    out = model(decoder_input_ids=torch.tensor([list(tokens)]), encoder_outputs=(rows,))
    return cast(Tensor, out.logits[0].float())
