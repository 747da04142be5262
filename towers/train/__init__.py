"""Training of Qwen3-ASR models, and of causal towers from their windowed ones."""
