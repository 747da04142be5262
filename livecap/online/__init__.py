"""One stream of speech: PCM and speech probabilities in, caption events out.

Pure: no torch, no I/O, no threads, no clock. The data flows through `stream.py` in this order:
`speech_buffer.py` and `segmenter.py` (endpoints -> segments), `job.py` (what a model is asked and
answers), `segment.py` and `policy.py` (hypotheses -> commits), `transcript.py` (commits -> events).
"""
