"""What was freed is given back to the system: the C library keeps it for itself otherwise."""

import asyncio
import ctypes
import sys

OFTEN = 20.0  # seconds


async def give_back() -> None:
    """Again and again, until it is cancelled. Does nothing where the C library has no way to."""
    if sys.platform != "linux":
        return
    try:
        trim = ctypes.CDLL(None).malloc_trim  # of glibc alone
    except AttributeError:
        return
    while True:
        await asyncio.sleep(OFTEN)
        await asyncio.to_thread(trim, 0)
