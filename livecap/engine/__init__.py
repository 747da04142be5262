"""The paged decoder engine: token sequences in, tokens out. It knows nothing of audio."""
