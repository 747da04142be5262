"""One file a family: how a checkpoint's tower, decoder, prompt and text rules work together."""
