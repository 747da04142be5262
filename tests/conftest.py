"""What all tests share: several of them run at once, so each takes one thread."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # only counts before torch is loaded
