"""Small random Whisper checkpoints in every layout, for tests.

    model = tiny_whisper("large-v3", layers=(1, 1))
    checkpoint = save_huggingface(model, tmp_path, dtype=torch.float16)
    checkpoint = save_ctranslate2(model, tmp_path, kind="int8")

Vocabularies have their full size and their real special ids; all other sizes are small.
"""

import json
import struct
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import GenerationConfig, WhisperConfig, WhisperForConditionalGeneration

from livecap.checkpoints import Checkpoint
from livecap.tokens import Specials, byte_alphabet, specials_of

Kind = Literal["float32", "float16", "bfloat16", "int8", "int8_float16", "int8_bfloat16", "int16"]
Tensors = dict[str, torch.Tensor]

# name -> vocabulary, mel bins, layers of encoder and decoder
SIZES = {
    "tiny.en": (51864, 80, 4, 4),
    "tiny": (51865, 80, 4, 4),
    "base.en": (51864, 80, 6, 6),
    "base": (51865, 80, 6, 6),
    "small": (51865, 80, 12, 12),
    "medium": (51865, 80, 24, 24),
    "large-v2": (51865, 80, 32, 32),
    "large-v3": (51866, 128, 32, 32),
    "large-v3-turbo": (51866, 128, 32, 4),
    "distil-large-v3": (51866, 128, 32, 2),
}
DTYPES = (torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)


def tiny_whisper(
    size: str = "tiny.en",
    *,
    layers: tuple[int, int] | None = None,
    width: int = 32,
    heads: int = 2,
    seed: int = 0,
) -> Any:
    """A random WhisperForConditionalGeneration in eval mode, float32.

    It has the vocabulary, mel bins and depth of a published size; `layers` overrides the depth of
    encoder and decoder. Every bias and every norm is random too, so that none can be forgotten.
    """
    vocab, mels, encoder_layers, decoder_layers = SIZES[size]
    if layers:
        encoder_layers, decoder_layers = layers
    specials = specials_of(vocab)
    config = WhisperConfig(
        vocab_size=vocab,
        num_mel_bins=mels,
        d_model=width,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        decoder_start_token_id=specials.sot,
        **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), specials.eot),
    )
    model = WhisperForConditionalGeneration(config).eval()
    _randomise(model, torch.Generator().manual_seed(seed))
    model.generation_config = _generation(specials, (decoder_layers, heads))
    return model


def _randomise(model: torch.nn.Module, generator: torch.Generator) -> None:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name == "model.encoder.embed_positions.weight":  # sinusoids, never trained
                continue
            random = torch.randn(parameter.shape, generator=generator)
            is_norm = "layer_norm" in name and name.endswith("weight")
            spread = 0.1 if parameter.ndim == 1 else parameter[0].numel() ** -0.5
            parameter.copy_(random * spread + is_norm)


def _generation(specials: Specials, decoder: tuple[int, int]) -> Any:
    layers, heads = decoder
    config = GenerationConfig(
        suppress_tokens=[1, 2, 7, specials.sot, specials.nospeech],
        begin_suppress_tokens=[220, specials.eot],
        decoder_start_token_id=specials.sot,
        eos_token_id=specials.eot,
        pad_token_id=specials.eot,
    )
    config.alignment_heads = [[layers - 1, head] for head in range(heads)]
    config.is_multilingual = specials.is_multilingual
    if specials.is_multilingual:
        config.lang_to_id = {f"<|{code}|>": number for code, number in specials.languages.items()}
    return config


def vocabulary(vocab: int) -> list[str]:
    """A vocabulary of full size: all bytes, made-up tokens, and the real special ids."""
    specials = specials_of(vocab)

    tokens = sorted(byte_alphabet())
    space = tokens.index("Ġ")
    tokens[space], tokens[220] = tokens[220], "Ġ"  # id 220 is the blank in all of Whisper's
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    pairs = [f"Ġ{one}" for one in letters] + [one + two for one in letters for two in letters]
    tokens += pairs  # these have merges
    tokens += [f"Ġw{number}" for number in range(specials.eot - len(tokens))]
    names = ["endoftext", "startoftranscript", *specials.languages, "translate", "transcribe"]
    names += ["startoflm", "startofprev", "nospeech", "notimestamps"]
    names += [f"{place * 0.02:.2f}" for place in range(1501)]
    return tokens + [f"<|{name}|>" for name in names]


def write_tokenizer(folder: Path, vocab: int) -> None:
    """A tokenizer.json as Hugging Face writes it: byte-level BPE, and the special ids added."""
    tokens, specials = vocabulary(vocab), specials_of(vocab)
    merges = [list(token) for token in tokens if len(token) == 2]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    byte_level["use_regex"] = True
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    facts = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": tokens[number], "special": True} | flags
            for number in range(specials.eot, specials.notimestamps + 1)
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate(tokens[: specials.eot])},
            "merges": merges,
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(facts), "utf-8")


def save_huggingface(
    model: Any, folder: Path, *, dtype: torch.dtype = torch.float32, shard: int | None = None
) -> Checkpoint:
    """Write a model as Hugging Face does, in shards of at most `shard` bytes if that is given."""
    folder.mkdir(parents=True, exist_ok=True)
    copy = WhisperForConditionalGeneration(model.config)
    copy.load_state_dict(model.state_dict())
    copy.generation_config = model.generation_config
    copy.to(dtype).save_pretrained(folder, max_shard_size=shard or "10GB")
    write_tokenizer(folder, model.config.vocab_size)
    return Checkpoint(folder.name, folder, "huggingface", "whisper")


def save_ctranslate2(model: Any, folder: Path, *, kind: Kind = "float32") -> Checkpoint:
    """Write a model as CTranslate2's converter does, with `kind` as its --quantization."""
    folder.mkdir(parents=True, exist_ok=True)
    write_model_bin(folder / "model.bin", ctranslate2_variables(model, kind))
    told = model.generation_config
    facts = {
        "alignment_heads": told.alignment_heads,
        "suppress_ids": told.suppress_tokens,
        "suppress_ids_begin": told.begin_suppress_tokens,
        "lang_ids": list(range(50259, 50358)),  # as converters write it, even for English models
    }
    (folder / "config.json").write_text(json.dumps(facts), "utf-8")
    lines = "\n".join(vocabulary(model.config.vocab_size))
    (folder / "vocabulary.txt").write_text(lines + "\n", "utf-8")
    return Checkpoint(folder.name, folder, "ctranslate2", "whisper")


def ctranslate2_variables(model: Any, kind: Kind) -> Tensors:
    """A model -> the variables of its model.bin, without the tied projection."""
    state = {name.removeprefix("model."): tensor for name, tensor in model.state_dict().items()}
    variables: Tensors = {}
    for stack in ("encoder", "decoder"):
        heads = model.config.encoder_attention_heads
        variables[f"{stack}/num_heads"] = torch.tensor(heads, dtype=torch.int16)
        variables |= _stack_variables(state, stack, model.config.to_dict()[f"{stack}_layers"])
    for conv in ("conv1", "conv2"):
        for part in ("weight", "bias"):
            variables[f"encoder/{conv}/{part}"] = state[f"encoder.{conv}.{part}"]
    variables["decoder/embeddings/weight"] = state["decoder.embed_tokens.weight"]
    for name, value in (("pre_norm", 1), ("activation", 3), ("alibi", 0)):
        variables[f"decoder/{name}"] = torch.tensor(value, dtype=torch.int8)
    stored: Tensors = {}
    for name, tensor in variables.items():
        stored |= _stored(name, tensor, kind)
    return stored


def _stack_variables(state: Tensors, stack: str, layers: int) -> Tensors:
    variables = {f"{stack}/position_encodings/encodings": state[f"{stack}.embed_positions.weight"]}
    variables |= _norm(state, f"{stack}.layer_norm", f"{stack}/layer_norm")
    fused = {"self_attn": (("q", "k", "v"), ("out",)), "encoder_attn": (("q",), "kv", ("out",))}
    theirs = {"self_attn": "self_attention", "encoder_attn": "attention"}
    for layer in range(layers):
        source, target = f"{stack}.layers.{layer}", f"{stack}/layer_{layer}"
        for attention in ("self_attn",) if stack == "encoder" else ("self_attn", "encoder_attn"):
            there = f"{target}/{theirs[attention]}"
            norm = f"{source}.{attention}_layer_norm"
            variables |= _norm(state, norm, f"{there}/layer_norm")
            for number, parts in enumerate(fused[attention]):
                names = [f"{source}.{attention}.{part}_proj" for part in parts]
                weights = [state[f"{name}.weight"] for name in names]
                zeros = torch.zeros(len(weights[0]))  # k_proj has no bias
                biases = [state.get(f"{name}.bias", zeros) for name in names]
                variables[f"{there}/linear_{number}/weight"] = torch.cat(weights)
                variables[f"{there}/linear_{number}/bias"] = torch.cat(biases)
        variables |= _norm(state, f"{source}.final_layer_norm", f"{target}/ffn/layer_norm")
        for number, name in enumerate(("fc1", "fc2")):
            for part in ("weight", "bias"):
                linear = f"{target}/ffn/linear_{number}/{part}"
                variables[linear] = state[f"{source}.{name}.{part}"]
    return variables


def _norm(state: Tensors, source: str, target: str) -> Tensors:
    return {
        f"{target}/gamma": state[f"{source}.weight"],
        f"{target}/beta": state[f"{source}.bias"],
    }


def _stored(name: str, tensor: torch.Tensor, kind: Kind) -> Tensors:
    """A variable -> itself in the type of the file, with its scale if it is quantised."""
    if not tensor.is_floating_point():
        return {name: tensor}
    if name.endswith("/weight") and kind.startswith("int8"):
        most = tensor.flatten(1).abs().amax(1)
        scale = 127 / most
        rows = (tensor.flatten(1) * scale[:, None]).round().to(torch.int8)
        return {name: rows.reshape(tensor.shape), f"{name}_scale": scale}
    if name.endswith("/weight") and kind == "int16":
        whole = 1024 / tensor.abs().max()
        return {name: (tensor * whole).round().to(torch.int16), f"{name}_scale": whole}
    rest = kind.removeprefix("int8").removeprefix("int16").removeprefix("_") or "float32"
    dtypes = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
    return {name: tensor.to(dtypes[rest])}


def write_model_bin(
    file: Path,
    variables: Tensors,
    *,
    aliases: dict[str, str] | None = None,
    specification: str = "WhisperSpec",
) -> None:
    """Write a model.bin; by default the projection is an alias of the embedding."""
    if aliases is None:
        aliases = {"decoder/projection/weight": "decoder/embeddings/weight"}
    parts = [struct.pack("<I", 6), _string(specification), struct.pack("<II", 3, len(variables))]
    for name, tensor in sorted(variables.items()):
        raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        shape = struct.pack(f"<B{tensor.ndim}I", tensor.ndim, *tensor.shape)
        parts += [_string(name), shape, struct.pack("<BI", DTYPES.index(tensor.dtype), len(raw))]
        parts.append(raw)
    parts.append(struct.pack("<I", len(aliases)))
    parts += [_string(name) + _string(target) for name, target in aliases.items()]
    file.write_bytes(b"".join(parts))


def _string(text: str) -> bytes:
    raw = text.encode() + b"\0"
    return struct.pack("<H", len(raw)) + raw
