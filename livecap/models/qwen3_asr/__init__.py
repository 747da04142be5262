"""Qwen3-ASR: model, prompt, streaming, forced aligner."""
