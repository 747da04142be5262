"""Whisper's tower and decoder equal transformers', for the shape of every published size."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from engines import (
    CLIPS,
    Recorder,
    clip,
    decoder_of,
    drain,
    embedded,
    forced_logits,
    remember,
    their_logits,
    their_rows,
    tower_of,
)
from tiny_models import SIZES, tiny_whisper
from torch import Tensor
from transformers import WhisperConfig, WhisperForConditionalGeneration

from livecap.engine.engine import Engine
from livecap.engine.request import Memory, Request, Rule
from livecap.engine.sampler import Suppress, SuppressFirst, Timestamps
from livecap.tokens import Specials, specials_of
from towers.layers import dense
from towers.mel import Mel

# Largest difference over largest value, float32. Seen: 9e-7 at most in random models, of 32 layers
# too; on speech 4e-5 in tiny.en's tower (a few rows are large), 4e-6 in its logits and attention.
RELATIVE = 1e-4
LENGTH = 24  # tokens to decode
ROWS = 1500


def near(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, relative to the largest value."""
    assert ours.shape == theirs.shape
    return float((ours - theirs).abs().max() / theirs.abs().max())


@cache
def model_of(size: str) -> Any:
    return tiny_whisper(size)


@cache
def rows_of(size: str) -> Tensor:
    """What transformers' encoder hears in noise [1, 1500, width]."""
    return their_rows(model_of(size), mel_of(size))


def mel_of(size: str) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randn(1, SIZES[size][1], 3000, generator=generator) * 0.5


def prompt_of(specials: Specials, *, timestamps: bool = False) -> list[int]:
    prompt = [specials.sot]
    if specials.is_multilingual:
        prompt += [specials.languages["en"], specials.transcribe]
    return prompt if timestamps else [*prompt, specials.notimestamps]


def tokens_of(specials: Specials) -> list[int]:
    generator = torch.Generator().manual_seed(3)
    text = torch.randint(0, specials.eot, (LENGTH,), generator=generator).tolist()
    return [*prompt_of(specials), *text, specials.eot]


def rules_of(model: Any) -> tuple[Rule, ...]:
    told = model.generation_config
    return (
        Suppress(torch.tensor(told.suppress_tokens)),
        SuppressFirst(torch.tensor(told.begin_suppress_tokens)),
    )


@dataclass(frozen=True)
class Once:
    """No token comes twice: a random model left alone repeats itself, which would test little."""

    prompt: list[int]

    def __call__(self, logits: Tensor, sampled: Sequence[int]) -> None:
        logits[[*self.prompt, *sampled]] = -torch.inf


def their_greedy(
    model: Any, prompt: list[int], rows: Tensor, end: int, *, once: bool = False
) -> list[int]:
    """A plain loop that runs everything again for every token."""
    told, tokens = model.generation_config, list(prompt)
    while len(tokens) < len(prompt) + LENGTH:
        logits = their_logits(model, tokens, rows)[-1].clone()
        logits[told.suppress_tokens] = -torch.inf
        if len(tokens) == len(prompt):
            logits[told.begin_suppress_tokens] = -torch.inf
        if once:
            logits[tokens] = -torch.inf
        token = int(logits.argmax())
        if token == end:
            break
        tokens.append(token)
    return tokens[len(prompt) :]


def request_for(prompt: list[int], memory: Memory, rules: tuple[Rule, ...], end: int) -> Request:
    return Request(
        prompt=tuple(prompt),
        limit=len(prompt) + LENGTH,
        ends=frozenset([end]),
        rules=rules,
        memory=memory,
    )


@pytest.mark.parametrize("size", SIZES)
def test_the_tower_hears_the_same(size: str) -> None:
    with torch.inference_mode():
        ours = tower_of(model_of(size)).encode(mel_of(size))
    assert near(ours, rows_of(size)) < RELATIVE


@pytest.mark.parametrize("size", SIZES)
def test_logits_are_the_same_at_every_position(size: str) -> None:
    model, rows = model_of(size), rows_of(size)
    tokens, decoder = tokens_of(specials_of(SIZES[size][0])), decoder_of(model)
    memory = remember(decoder, rows[0])
    expected = their_logits(model, tokens, rows)
    assert near(forced_logits(decoder, tokens, memory), expected) < RELATIVE
    _, aligned = decoder.align(tokens, memory, ((0, 0),))
    assert aligned is not None
    assert near(aligned, expected) < RELATIVE
    _, some = decoder.align(tokens, memory, ((0, 0),), predict=slice(2, -2))
    assert some is not None
    assert near(some, expected[2:-2]) < RELATIVE


@pytest.mark.parametrize("size", SIZES)
def test_greedy_tokens_are_the_same(size: str) -> None:
    model, rows = model_of(size), rows_of(size)
    specials = specials_of(SIZES[size][0])
    prompt, decoder = prompt_of(specials), decoder_of(model)
    expected = their_greedy(model, prompt, rows, specials.eot, once=True)
    recorder = Recorder(decoder)
    rules = (*rules_of(model), Once(prompt))
    request = request_for(prompt, remember(decoder, rows[0]), rules, specials.eot)
    [sequence] = drain(Engine(recorder, most=1), [request])
    assert len(expected) > LENGTH // 2
    assert sequence.sampled == expected
    # step by step, the logits were those of one pass over the whole
    whole = their_logits(model, [*prompt, *expected], rows)[len(prompt) - 1 : -1]
    stepwise = torch.cat(recorder.logits)[: len(whole)]
    free = torch.ones(SIZES[size][0], dtype=torch.bool)
    free[model.generation_config.suppress_tokens] = False
    free[[*prompt, *expected]] = False
    assert near(stepwise[:, free], whole[:, free]) < RELATIVE


@pytest.mark.parametrize("size", ["tiny.en", "base", "distil-large-v3"])
def test_greedy_tokens_are_those_of_generate(size: str) -> None:
    model, rows = tiny_whisper(size), rows_of(size)
    specials = specials_of(SIZES[size][0])
    prompt, decoder = prompt_of(specials), decoder_of(model)
    told = model.generation_config
    told.no_timestamps_token_id = specials.notimestamps
    told.task_to_id = {"transcribe": specials.transcribe}
    # A timestamp that a random model says by chance would make `generate` go on from there.
    told.suppress_tokens += range(specials.timestamp_begin, SIZES[size][0])
    told.no_repeat_ngram_size = 1
    chosen = {"language": "en", "task": "transcribe"} if specials.is_multilingual else {}
    expected = model.generate(
        mel_of(size), max_new_tokens=LENGTH, do_sample=False, num_beams=1, **chosen
    )[0].tolist()
    if expected[: len(prompt)] == prompt:
        expected = expected[len(prompt) :]
    if specials.eot in expected:
        expected = expected[: expected.index(specials.eot)]
    rules = (*rules_of(model), Once(prompt))
    request = request_for(prompt, remember(decoder, rows[0]), rules, specials.eot)
    [sequence] = drain(Engine(decoder, most=1), [request])
    assert sequence.sampled == expected


@pytest.mark.parametrize("size", SIZES)
def test_cross_attention_is_the_same(size: str) -> None:
    model, rows = model_of(size), rows_of(size)
    tokens, decoder = tokens_of(specials_of(SIZES[size][0])), decoder_of(model)
    layers = SIZES[size][3]
    heads = ((0, 1), (layers - 1, 0), (layers - 1, 1), (layers // 2, 0))
    scores, _ = decoder.align(tokens, remember(decoder, rows[0]), heads)
    theirs = their_attentions(model, tokens, rows)
    for (layer, head), ours in zip(heads, scores.softmax(-1), strict=True):
        assert near(ours, theirs[layer][0, head]) < RELATIVE


@torch.inference_mode()
def their_attentions(model: Any, tokens: list[int], rows: Tensor) -> tuple[Tensor, ...]:
    """Cross-attention weights, [1, head, token, row] a layer."""
    model.set_attn_implementation("eager")
    out = model(
        decoder_input_ids=torch.tensor([tokens]), encoder_outputs=(rows,), output_attentions=True
    )
    model.set_attn_implementation("sdpa")
    attentions: tuple[Tensor, ...] = out.cross_attentions
    return attentions


def test_less_memory_than_a_window() -> None:
    """The rows of the audio alone are as a shorter encoder output: nothing else is attended to."""
    model, rows = model_of("tiny.en"), rows_of("tiny.en")
    tokens, decoder = tokens_of(specials_of(51864)), decoder_of(model)
    for length in (1, 99, 100, 101, 377):
        memory = remember(decoder, rows[0, :length])
        expected = their_logits(model, tokens, rows[:, :length])
        assert near(forced_logits(decoder, tokens, memory), expected) < RELATIVE
        decoder.free(memory)
    assert decoder.memory.available == decoder.memory.count


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [1, 377, 1500])
def test_the_first_rows_alone(count: int, precision: torch.dtype) -> None:
    """They hear the whole window, as they do beside the others."""
    mel = torch.cat([mel_of("tiny"), mel_of("tiny").flip(2)])
    tower = tower_of(model_of("tiny"), dense(precision))
    with torch.inference_mode():
        assert near(tower.encode(mel, count), tower.encode(mel)[:, :count]) < RELATIVE


def test_a_window_of_several_clips() -> None:
    mel = torch.cat([mel_of("tiny"), mel_of("tiny").flip(2)])
    with torch.inference_mode():
        ours = tower_of(model_of("tiny")).encode(mel)
    assert near(ours, their_rows(model_of("tiny"), mel)) < RELATIVE


# -- the embedded model, on speech --------------------------------------------------------------


@cache
def real() -> Any:
    """Whisper tiny.en in transformers."""
    checkpoint = embedded()
    dims = checkpoint.dims
    config = WhisperConfig(
        vocab_size=dims.vocab,
        num_mel_bins=dims.mels,
        d_model=dims.width,
        encoder_layers=dims.encoder_layers,
        decoder_layers=dims.decoder_layers,
        encoder_attention_heads=dims.encoder_heads,
        decoder_attention_heads=dims.decoder_heads,
        encoder_ffn_dim=dims.encoder_hidden,
        decoder_ffn_dim=dims.decoder_hidden,
    )
    model = WhisperForConditionalGeneration(config).eval()
    tensors = {name: tensor.float() for name, tensor in checkpoint.tensors.items()}
    tensors["proj_out.weight"] = tensors["model.decoder.embed_tokens.weight"]
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert not unexpected
    assert not missing
    facts = checkpoint.generation
    model.generation_config.suppress_tokens = list(facts.suppress)
    model.generation_config.begin_suppress_tokens = list(facts.suppress_at_begin)
    return model


@cache
def heard(name: str) -> Tensor:
    """Transformers' encoder rows of a clip [1, 1500, 384]."""
    return their_rows(real(), Mel(80).offline(clip(name), 3000)[None])


@pytest.mark.parametrize("name", CLIPS)
def test_speech_is_heard_the_same(name: str) -> None:
    with torch.inference_mode():
        ours = tower_of(real()).encode(Mel(80).offline(clip(name), 3000)[None])
    assert near(ours, heard(name)) < RELATIVE


@pytest.mark.parametrize("name", CLIPS)
def test_speech_is_read_the_same(name: str) -> None:
    model, specials = real(), specials_of(51864)
    decoder, prompt = decoder_of(model, memories=1, sequences=2), prompt_of(specials)
    memory = remember(decoder, heard(name)[0])
    request = request_for(prompt, memory, rules_of(model), specials.eot)
    [sequence] = drain(Engine(decoder, most=1), [request])
    assert sequence.sampled == their_greedy(model, prompt, heard(name), specials.eot)
    assert sequence.status == "end"
    text = embedded().tokenizer.decode(sequence.sampled).lower()
    told = {"counting": "2-3", "quick_brown_fox": "brown fox", "hello_world": "hello"}
    assert told[name] in text

    tokens = [*prompt, *sequence.sampled, specials.eot]
    expected = their_logits(model, tokens, heard(name))
    assert near(forced_logits(decoder, tokens, memory), expected) < RELATIVE
    heads = embedded().generation.alignment_heads
    assert heads is not None
    scores, _ = decoder.align(tokens, memory, heads)
    theirs = their_attentions(model, tokens, heard(name))
    for (layer, head), ours in zip(heads, scores.softmax(-1), strict=True):
        assert near(ours, theirs[layer][0, head]) < RELATIVE


def test_speech_with_times() -> None:
    """With the rules of timestamps the text is between two of them that fit the clip."""
    specials = specials_of(51864)
    decoder = decoder_of(real(), memories=1, sequences=1)
    times = Timestamps(
        begin=specials.timestamp_begin,
        last=specials.timestamp_end,
        end_of_text=specials.eot,
        no_timestamps=specials.notimestamps,
    )
    request = request_for(
        prompt_of(specials, timestamps=True),
        remember(decoder, heard("counting")[0]),
        (*rules_of(real()), times),
        specials.eot,
    )
    [sequence] = drain(Engine(decoder, most=1), [request])
    first, last = sequence.sampled[0], sequence.sampled[-1]
    begin = specials.timestamp_begin
    assert begin <= first <= begin + 50
    assert first < last <= begin + len(clip("counting")) // 320 + 50
