"""Whisper: model, decoding, streaming, timestamps."""
