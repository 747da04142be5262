"""qwen3-asr-sprout: the real classes, small enough to be trained on a laptop in an hour."""

from typing import Any

import torch
from torch import nn
from transformers import Qwen3ASRConfig, Qwen3ASRForConditionalGeneration

from towers.train.vocabulary import TrainingVocabulary

AUDIO = {
    "encoder_layers": 4,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 576,
    "d_model": 144,
    "downsample_hidden_size": 48,
    "n_window": 50,
    "n_window_infer": 800,
    "num_mel_bins": 128,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
}
TEXT = {
    "model_type": "qwen3",
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
}


def sprout(vocabulary: TrainingVocabulary, *, seed: int) -> Any:
    """A new model with random weights."""
    torch.manual_seed(seed)
    ends = [vocabulary.special(name) for name in ("<|endoftext|>", "<|im_end|>")]
    config = Qwen3ASRConfig(
        audio_config=AUDIO | {"output_dim": TEXT["hidden_size"]},
        text_config=TEXT | {"vocab_size": vocabulary.size},
        audio_token_id=vocabulary.special("<|audio_pad|>"),
        tie_word_embeddings=True,
        eos_token_id=ends,
        pad_token_id=ends[1],
    )
    model = Qwen3ASRForConditionalGeneration(config)
    _begin(model)
    return model


def _begin(model: nn.Module) -> None:
    """Weights by the size of what they add up, so that rows keep their size through all layers.

    The class begins all with 0.02, which suits wide layers: after these narrow ones, little would
    be left of the sound beside the positions. Sources: He et al. 2015, Glorot and Bengio 2010.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)
