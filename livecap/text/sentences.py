"""Where sentences end: the one set of marks that end them, in all scripts."""

SENTENCE_ENDS = frozenset(".!?…。！？．؟।॥۔")
ELLIPSES = ("...", "…")  # a sentence that trails off may go on
CLOSING_MARKS = "\"'”’»)]}」』）】"  # may stand behind the end of a sentence


def ends_sentence(text: str) -> bool:
    """Whether a text ends with the end of a sentence, quotes and brackets behind it aside."""
    return text.rstrip().rstrip(CLOSING_MARKS)[-1:] in SENTENCE_ENDS


def is_complete(text: str) -> bool:
    """Whether it ends with a sentence that doesn't trail off."""
    return ends_sentence(text) and not text.rstrip().rstrip(CLOSING_MARKS).endswith(ELLIPSES)
