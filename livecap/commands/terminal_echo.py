"""Keys pressed while captions run must not be echoed into them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unechoed() -> Iterator[None]:
    """Without echo on the terminal, if there is one and the system has terminals of that kind."""
    try:
        import termios
    except ImportError:  # Windows
        yield
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    quiet = [*before]
    quiet[3] &= ~termios.ECHO  # local modes
    termios.tcsetattr(descriptor, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
