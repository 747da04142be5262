"""Small random Qwen3-ASR checkpoints in every layout, for tests.

    model = tiny_qwen(count=REAL)
    checkpoint = save_hf(model, tmp_path, dtype=torch.bfloat16)
    checkpoint = save_official(model, tmp_path, shards=2, head=True)
    checkpoint = save_causal(model, tmp_path)

All sizes are small, and so is the vocabulary by default: the first SMALL of the real tokens, and
the special ones right after them. `count=REAL` has all of the real ones and the published ids.
"""

import json
from pathlib import Path
from typing import Any

import torch
from qwen_vocabulary import REAL, SMALL, added_tokens, rows_of, write_vocabulary
from safetensors.torch import save_file
from transformers import (
    Qwen3ASRConfig,
    Qwen3ASRForConditionalGeneration,
    Qwen3ASRForTokenClassification,
)

from livecap.checkpoints import Checkpoint

__all__ = ["REAL", "SMALL"]

Tensors = dict[str, torch.Tensor]

AUDIO = {
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "d_model": 24,
    "output_dim": 32,
    "downsample_hidden_size": 8,
    "n_window": 50,
    "num_mel_bins": 128,
}
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 65536,
    "rms_norm_eps": 1e-6,
}
# transformers' names -> the official ones
OFFICIAL = (
    ("model.audio_tower.", "thinker.audio_tower."),
    ("model.multi_modal_projector.linear_1.", "thinker.audio_tower.proj1."),
    ("model.multi_modal_projector.linear_2.", "thinker.audio_tower.proj2."),
    ("model.language_model.", "thinker.model."),
    ("lm_head.", "thinker.lm_head."),
    ("score.", "thinker.lm_head."),
)


def tiny_qwen(
    *, count: int = SMALL, tied: bool = True, window: int = 8, hidden: int = 32, seed: int = 0
) -> Any:
    """A random Qwen3ASRForConditionalGeneration in eval mode, float32.

    `window` is in chunks of 1 s, `hidden` the decoder's width.
    """
    config = _config(count, tied=tied, window=window, hidden=hidden)
    model = Qwen3ASRForConditionalGeneration(config).eval()
    _randomise(model, seed)
    if tied:
        assert model.lm_head.weight is model.model.language_model.embed_tokens.weight
    return model


def tiny_aligner(*, count: int = SMALL, classes: int = 50, seed: int = 0) -> Any:
    """A random Qwen3ASRForTokenClassification in eval mode, float32: a forced aligner."""
    config = _config(count, tied=False, window=8, hidden=32)
    config.num_labels = classes
    model = Qwen3ASRForTokenClassification(config).eval()
    _randomise(model, seed)
    return model


def _config(count: int, *, tied: bool, window: int, hidden: int) -> Any:
    added = added_tokens(count)
    ends = [added["<|endoftext|>"], added["<|im_end|>"]]
    text = TEXT | {
        "model_type": "qwen3",
        "vocab_size": rows_of(count),
        "hidden_size": hidden,
        "tie_word_embeddings": tied,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    }
    return Qwen3ASRConfig(
        audio_config=AUDIO | {"n_window_infer": 100 * window, "output_dim": hidden},
        text_config=text,
        audio_token_id=added["<|audio_pad|>"],
        timestamp_token_id=added["<timestamp>"],
        tie_word_embeddings=tied,
        eos_token_id=ends,
        pad_token_id=ends[1],
    )


def _randomise(model: torch.nn.Module, seed: int) -> None:
    """Draw every parameter anew, biases and norms too, so that none can be forgotten."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_norm = "norm" in name.split(".")[-2] or "ln_post" in name
            around = float(is_norm and name.endswith("weight"))
            parameter.copy_(around + 0.2 * torch.randn(parameter.shape, generator=generator))


def tower_of(model: Any) -> Tensors:
    """A model's audio tower under the official names, without prefix."""
    return _below("thinker.audio_tower.", _official(model))


def decoder_of(model: Any) -> Tensors:
    """A model's decoder as livecap names it, without a tied head."""
    state = _official(model)
    decoder = _below("thinker.model.", state)
    if hasattr(model, "score"):
        decoder["score.weight"] = state["thinker.lm_head.weight"]
    elif not model.config.tie_word_embeddings:
        decoder["lm_head.weight"] = state["thinker.lm_head.weight"]
    return decoder


def _official(model: Any) -> Tensors:
    renamed: Tensors = {}
    for name, tensor in model.state_dict().items():
        theirs, ours = next(pair for pair in OFFICIAL if name.startswith(pair[0]))
        renamed[ours + name.removeprefix(theirs)] = tensor.detach().clone()
    return renamed


def _below(prefix: str, state: Tensors) -> Tensors:
    return {name[len(prefix) :]: one for name, one in state.items() if name.startswith(prefix)}


def save_hf(
    model: Any, folder: Path, *, dtype: torch.dtype = torch.float32, shard: int | None = None
) -> Checkpoint:
    """Write a model as transformers does, in shards of at most `shard` bytes if that is given."""
    folder.mkdir(parents=True, exist_ok=True)
    copy = type(model)(model.config)
    copy.load_state_dict(model.state_dict())
    copy.to(dtype).save_pretrained(folder, max_shard_size=shard or "10GB")
    write_vocabulary(folder, _count(model), layout="tokenizer.json")
    return Checkpoint(folder.name, folder, "huggingface", "qwen3-asr")


def save_official(
    model: Any,
    folder: Path,
    *,
    dtype: torch.dtype = torch.float32,
    shards: int = 1,
    head: bool = True,
) -> Checkpoint:
    """Write a model as it is published; without `head` a tied projection is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.to(dtype) for name, tensor in _official(model).items()}
    if not head:
        assert model.config.tie_word_embeddings
        del tensors["thinker.lm_head.weight"]
    _save(tensors, folder, shards)
    _write(folder / "config.json", official_config(model))
    ends = {"eos_token_id": list(model.config.eos_token_id)}
    _write(folder / "generation_config.json", ends)
    write_vocabulary(folder, _count(model))
    return Checkpoint(folder.name, folder, "huggingface", "qwen3-asr")


def official_config(model: Any) -> dict[str, Any]:
    """A model -> the config.json of the official layout."""
    config = model.config.to_dict()
    audio = {name: config["audio_config"][name] for name in (*AUDIO, "n_window_infer")}
    text = {name: config["text_config"][name] for name in (*TEXT, "vocab_size")}
    aligner = hasattr(model, "score")
    thinker = {
        "model_type": "qwen3_forced_aligner" if aligner else "qwen3_asr_thinker",
        "audio_config": audio
        | {
            "model_type": "qwen3_asr_audio_encoder",
            "num_hidden_layers": audio["encoder_layers"],
            "max_source_positions": 1500,
            "conv_chunksize": 500,
        },
        "text_config": text
        | {
            "model_type": "qwen3_asr_text",
            "tie_word_embeddings": config["tie_word_embeddings"],
            "rope_theta": 1e6,
            "rope_scaling": {
                "rope_type": "default",
                "mrope_section": [24, 20, 20],
                "interleaved": True,
            },
        },
        "audio_token_id": config["audio_token_id"],
    }
    if aligner:
        thinker |= {"classify_num": model.num_labels, "timestamp_segment_time": 80}
    return {"model_type": "qwen3_asr", "thinker_config": thinker}


def save_causal(
    model: Any, folder: Path, *, file: str = "tower.safetensors", decoder: bool = True
) -> Checkpoint:
    """Write a model's tower alone, as a causal one, with the whole model in `decoder/` below it."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tower_of(model), folder / file)
    inside = folder / "decoder"
    if decoder:
        save_official(model, inside)
    return Checkpoint(
        folder.name, folder, "tower", "qwen3-asr", decoder=inside if decoder else None
    )


def _save(tensors: Tensors, folder: Path, shards: int) -> None:
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
        return
    places: dict[str, str] = {}
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        names = sorted(tensors)[number::shards]
        save_file({name: tensors[name] for name in names}, folder / file)
        places |= dict.fromkeys(names, file)
    _write(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": places})


def _write(file: Path, facts: dict[str, Any]) -> None:
    file.write_text(json.dumps(facts), "utf-8")


def _count(model: Any) -> int:
    """Tokens of text in the vocabulary that a model was made for."""
    return next(n for n in (SMALL, REAL) if rows_of(n) == model.config.text_config.vocab_size)
