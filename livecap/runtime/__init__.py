"""What computes: one thread for all streams, live ones and files.

`service.py` owns the thread, `handle.py` is what callers hold, `loop.py` is one round for all,
`batcher.py` answers what models ask for in batches, `capacity.py` says how many streams fit.
"""
