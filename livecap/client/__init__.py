"""`--server`: captions by a server, over OpenAI's API, so that a weak machine need not compute.

Live audio goes to `/v1/realtime`, files to `/v1/audio/transcriptions`. Nothing here loads a model,
nor torch.
"""
