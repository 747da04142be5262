"""Token bytes -> text that can be shown: whole characters only."""

import codecs


class Utf8:
    """Bytes in pieces of any size -> text, holding back a character until it is whole.

    What can't be UTF-8 comes out as U+FFFD, once for each maximal broken part; a character that
    is only split between pieces never does. The pieces joined give the same text however the
    bytes are cut.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def pending(self) -> bytes:
        """The held-back bytes: the start of a character, at most 3."""
        return self._decoder.getstate()[0]

    def push(self, data: bytes) -> str:
        """The next bytes -> the text that is whole now."""
        return self._decoder.decode(data)

    def finish(self) -> bytes:
        """End the text: the bytes of a character that never got whole, mostly none."""
        left = self.pending
        self._decoder.reset()
        return left


def decode_utf8(data: bytes) -> str:
    """All bytes of a text -> the text, without a character that they break off in."""
    return Utf8().push(data)
