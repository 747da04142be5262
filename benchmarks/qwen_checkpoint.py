"""A random Qwen3-ASR-0.6B to measure speed with: `python benchmarks/qwen_checkpoint.py FOLDER`.

FOLDER gets 1.9 GB in the official layout: bfloat16 weights under the official names, vocabulary and
prompt. The vocabulary comes from the package `dashscope`; pip fetches it if it is not installed.
"""

import argparse
import base64
import json
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from livecap.tokens import byte_alphabet

AUDIO = {
    "model_type": "qwen3_asr_audio_encoder", "activation_function": "gelu", "num_mel_bins": 128,
    "d_model": 896, "encoder_layers": 18, "encoder_attention_heads": 14, "encoder_ffn_dim": 3584,
    "downsample_hidden_size": 480, "output_dim": 1024, "max_source_positions": 1500,
    "n_window": 50, "n_window_infer": 800, "conv_chunksize": 500,
}  # fmt: skip
TEXT = {
    "model_type": "qwen3_asr_text", "vocab_size": 151936, "max_position_embeddings": 65536,
    "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "hidden_act": "silu",
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "attention_bias": False,
    "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": True,
    "rope_scaling": {"rope_type": "default", "mrope_section": [24, 20, 20], "interleaved": True},
}  # fmt: skip
ADDED = {number: f"<|unused_{number}|>" for number in range(151643, 151705)} | {
    151643: "<|endoftext|>", 151644: "<|im_start|>", 151645: "<|im_end|>", 151704: "<asr_text>",
    151669: "<|audio_start|>", 151670: "<|audio_end|>", 151676: "<|audio_pad|>",
}  # fmt: skip
TEMPLATE = (
    "{% for one in messages %}<|im_start|>{{ one.role }}\n{% if one.content is string %}"
    "{{ one.content }}{% else %}<|audio_start|><|audio_pad|><|audio_end|>{% endif %}<|im_end|>\n"
    "{% endfor %}<|im_start|>assistant{{ '\\n' }}"  # Jinja drops a plain newline at the end
)
FILES: dict[str, dict[str, Any]] = {
    "config.json": {
        "model_type": "qwen3_asr", "architectures": ["Qwen3ASRForConditionalGeneration"],
        "dtype": "bfloat16", "support_languages": ["English"], "thinker_config": {
            "model_type": "qwen3_asr_thinker", "audio_config": AUDIO, "text_config": TEXT,
            "audio_start_token_id": 151669, "audio_end_token_id": 151670, "audio_token_id": 151676},
    },
    "generation_config.json": {"do_sample": False, "eos_token_id": [151643, 151645]},
    "preprocessor_config.json": {
        "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 128,
    },
    "tokenizer_config.json": {
        "tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>", "extra_special_tokens": {
            "audio_token": "<|audio_pad|>", "audio_bos_token": "<|audio_start|>",
            "audio_eos_token": "<|audio_end|>"},
        "added_tokens_decoder": {
            str(number): {"content": name, "special": name != "<asr_text>", "normalized": False}
            for number, name in ADDED.items()},
    },
    "chat_template.json": {"chat_template": TEMPLATE},
}  # fmt: skip

# Shapes of weights. In the encoder, all but `conv_out` have a bias; in the decoder, none.
TOWER = {
    "conv2d1": (480, 1, 3, 3), "conv2d2": (480, 480, 3, 3), "conv2d3": (480, 480, 3, 3),
    "conv_out": (896, 480 * 16), "ln_post": (896,), "proj1": (896, 896), "proj2": (1024, 896),
}  # fmt: skip
TOWER_LAYER = {
    "self_attn.q_proj": (896, 896), "self_attn.k_proj": (896, 896), "self_attn.v_proj": (896, 896),
    "self_attn.out_proj": (896, 896), "self_attn_layer_norm": (896,), "final_layer_norm": (896,),
    "fc1": (3584, 896), "fc2": (896, 3584),
}  # fmt: skip
DECODER_LAYER = {
    "self_attn.q_proj": (2048, 1024), "self_attn.k_proj": (1024, 1024), "self_attn.q_norm": (128,),
    "self_attn.v_proj": (1024, 1024), "self_attn.o_proj": (1024, 2048), "self_attn.k_norm": (128,),
    "mlp.gate_proj": (3072, 1024), "mlp.up_proj": (3072, 1024), "mlp.down_proj": (1024, 3072),
    "input_layernorm": (1024,), "post_attention_layernorm": (1024,),
}  # fmt: skip


def shapes() -> dict[str, tuple[int, ...]]:
    """All weights by name, and their shapes."""
    audio = {f"layers.{at}.{key}": TOWER_LAYER[key] for at in range(18) for key in TOWER_LAYER}
    audio |= TOWER
    text = {f"layers.{at}.{key}": DECODER_LAYER[key] for at in range(28) for key in DECODER_LAYER}
    text |= {"embed_tokens": (151936, 1024), "norm": (1024,)}
    found = {f"audio_tower.{name}.weight": shape for name, shape in audio.items()}
    found |= {f"audio_tower.{key}.bias": audio[key][:1] for key in audio if key != "conv_out"}
    return found | {f"model.{name}.weight": shape for name, shape in text.items()}


def weights() -> dict[str, torch.Tensor]:
    """Random weights that keep activations near 1: norms around 1, biases not zero."""
    generator, tensors = torch.Generator().manual_seed(0), {}
    for name, shape in shapes().items():
        spread = 0.1 if len(shape) == 1 else torch.Size(shape[1:]).numel() ** -0.5
        random = torch.randn(shape, generator=generator).mul_(spread)
        random += len(shape) == 1 and name.endswith("weight")
        tensors[f"thinker.{name}"] = random.bfloat16()
    tensors["thinker.lm_head.weight"] = tensors["thinker.model.embed_tokens.weight"].clone()
    return tensors


def tiktoken() -> str:
    """Lines of a token in base64 and its rank, which is its id."""
    name = "dashscope/resources/qwen.tiktoken"
    if (spec := find_spec("dashscope")) and spec.origin:
        return (Path(spec.origin).parents[1] / name).read_text()
    with tempfile.TemporaryDirectory() as folder:
        fetch = ["download", "--quiet", "--no-deps", "--dest", folder, "dashscope"]
        subprocess.run([sys.executable, "-m", "pip", *fetch], check=True)
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            return wheel.read(name).decode()


def merge(token: bytes, ranks: dict[bytes, int]) -> list[bytes]:
    """The two tokens that byte pair encoding joins last to make this one."""
    parts = [token[at : at + 1] for at in range(len(token))]
    while len(parts) > 2:
        joined = [ranks.get(one + two, len(ranks)) for one, two in pairwise(parts)]
        at = joined.index(min(joined))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


def main() -> None:
    """Write the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    lines = (line.split() for line in tiktoken().splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    letters = {byte: letter for letter, byte in byte_alphabet().items()}
    words = {token: "".join(letters[byte] for byte in token) for token in ranks}
    pairs = (" ".join(words[one] for one in merge(token, ranks)) for token in ranks)
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *islice(pairs, 256, None), ""]))
    files = FILES | {"vocab.json": {words[token]: rank for token, rank in ranks.items()}}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1, ensure_ascii=False))
    save_file(weights(), folder / "model.safetensors", {"format": "pt"})


if __name__ == "__main__":
    main()
