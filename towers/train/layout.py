"""Checkpoints in the official layouts: a model's folder, and a causal tower's.

Source: the tensor names and config.json of Qwen/Qwen3-ASR-0.6B, and the tower file of
qfuxa/qwen3-asr-0.6b-streaming.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import (
    Qwen3ASRConfig,
    Qwen3ASRForConditionalGeneration,
    WhisperFeatureExtractor,
)

from livecap.checkpoints.qwen3_asr_config import CHUNK, PREPROCESSOR
from towers.qwen3_layers import BINS
from towers.train.network import tower_of
from towers.train.vocabulary import TrainingVocabulary, write

AUDIO = (
    "encoder_layers", "encoder_attention_heads", "encoder_ffn_dim", "d_model", "output_dim",
    "downsample_hidden_size", "n_window", "n_window_infer", "num_mel_bins",
)  # fmt: skip
TEXT = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps", "vocab_size",
)  # fmt: skip


def save_model(
    model: Any,
    vocabulary: TrainingVocabulary,
    folder: Path,
    *,
    dtype: torch.dtype,
    chunk: int = CHUNK,
) -> None:
    """Weights, the vocabulary and the configs, which say that `chunk` seconds at once suit it."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"thinker.audio_tower.{name}": one for name, one in tower_of(model).items()}
    tensors |= {
        f"thinker.model.{name}": one for name, one in model.model.language_model.named_parameters()
    }
    if not model.config.tie_word_embeddings:
        tensors["thinker.lm_head.weight"] = model.lm_head.weight
    _save(tensors, folder / "model.safetensors", dtype)
    _write(folder / "config.json", _config(model))
    ends = [vocabulary.special(name) for name in ("<|im_end|>", "<|endoftext|>")]
    _write(folder / "generation_config.json", {"eos_token_id": ends})
    _write(folder / PREPROCESSOR, _features(chunk))
    write(vocabulary, folder)


def load_model(folder: Path) -> Any:
    """A model in the official layout -> transformers' class, float32.

    Raises OSError, and KeyError or RuntimeError if it is not Qwen3-ASR's.
    """
    config_value = json.loads((folder / "config.json").read_text("utf-8"))["thinker_config"]
    audio, text = dict(config_value["audio_config"]), dict(config_value["text_config"])
    tied = bool(text.get("tie_word_embeddings", True))
    config = Qwen3ASRConfig(
        audio_config={name: audio[name] for name in AUDIO},
        text_config={name: text[name] for name in TEXT}
        | {
            "model_type": "qwen3",
            "tie_word_embeddings": tied,
            "rope_parameters": {"rope_type": "default", "rope_theta": text["rope_theta"]},
        },
        audio_token_id=config_value["audio_token_id"],
        tie_word_embeddings=tied,
    )
    model = Qwen3ASRForConditionalGeneration(config)
    tensors: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(file)
    named: dict[str, nn.Parameter] = {
        f"thinker.audio_tower.{name}": one for name, one in tower_of(model).items()
    }
    decoder = model.model.language_model.named_parameters()
    named |= {f"thinker.model.{name}": one for name, one in decoder}
    if not tied:
        named["thinker.lm_head.weight"] = model.lm_head.weight
    with torch.no_grad():
        for name, parameter in named.items():
            parameter.copy_(tensors[name])
    return model


def save_tower(
    tensors: Mapping[str, Tensor], folder: Path, *, base: str, dtype: torch.dtype
) -> None:
    """A causal tower for the model `base`."""
    folder.mkdir(parents=True, exist_ok=True)
    _save(tensors, folder / "model.safetensors", dtype)
    _write(folder / "tower.json", {"base_model_id": base, "chunk_frames": 8, "block_frames": 192})


def _save(tensors: Mapping[str, Tensor], file: Path, dtype: torch.dtype) -> None:
    tensors_out = {name: one.detach().to(dtype).contiguous().cpu() for name, one in tensors.items()}
    save_file(tensors_out, file, metadata={"format": "pt"})


def _config(model: Any) -> dict[str, Any]:
    audio, text = (one.to_dict() for one in (model.config.audio_config, model.config.text_config))
    rope = text["rope_parameters"]
    return {
        "model_type": "qwen3_asr",
        "architectures": ["Qwen3ASRForConditionalGeneration"],
        "thinker_config": {
            "model_type": "qwen3_asr_thinker",
            "audio_config": {name: audio[name] for name in AUDIO}
            | {
                "model_type": "qwen3_asr_audio_encoder",
                "num_hidden_layers": audio["encoder_layers"],
                "max_source_positions": 1500,
                "conv_chunksize": 500,
            },
            "text_config": {name: text[name] for name in TEXT}
            | {
                "model_type": "qwen3_asr_text",
                "tie_word_embeddings": model.config.tie_word_embeddings,
                "rope_theta": rope["rope_theta"],
                "rope_scaling": {
                    "rope_type": "default",
                    "mrope_section": [24, 20, 20],
                    "interleaved": True,
                },
            },
            "audio_token_id": model.config.audio_token_id,
        },
    }


def _features(chunk: int) -> dict[str, Any]:
    return dict(WhisperFeatureExtractor(feature_size=BINS, chunk_length=chunk).to_dict())


def _write(file: Path, facts: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
