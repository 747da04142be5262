"""What is said on standard error. Loads nothing, so that a mistyped option is answered at once."""

import sys


def report(text: str) -> None:
    """One line on standard error that can't fail, whatever characters it has."""
    encoding = sys.stderr.encoding or "utf-8"
    line = printable(text).encode(encoding, "backslashreplace").decode(encoding)
    print(line, file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """The text with control characters escaped: a file's name must not move the cursor."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )
