"""How large and how deep a client's JSON may be. That is looked at before it is decoded.

A decoder makes some hundred bytes of each byte of nested lists, and others wait meanwhile.
"""

import re

import numpy as np

MOST = 256 << 10  # characters of a message, or bytes of a body, that carries no audio
DEEPEST = 32  # objects and lists in each other; a session's has five
CONTAINERS = 1000  # objects and lists in all

# With or without its end, so that each character is looked at once.
STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)


def is_deep(text: str) -> bool:
    """Whether objects and lists go deeper than any client needs them, or are more. The text may be
    no JSON.
    """
    if (brackets := text.count("[") + text.count("{")) <= DEEPEST:
        return False
    if brackets > 100 * CONTAINERS:  # no prompt has as many
        return True
    bare = STRING.sub("", text).encode("utf-8", "replace")
    codes = np.frombuffer(bare, np.uint8)
    opened = (codes == ord("[")) | (codes == ord("{"))
    closed = (codes == ord("]")) | (codes == ord("}"))
    steps = opened.astype(np.int32) - closed
    deepest = steps.cumsum().max() if len(steps) else 0
    return bool(deepest > DEEPEST or opened.sum() > CONTAINERS)
