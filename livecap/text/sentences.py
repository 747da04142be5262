"""Where sentences end: the one set of marks that end them."""

SENTENCE_ENDS = frozenset(".!?…。！？．؟।॥۔")


def ends_sentence(text: str) -> bool:
    """Whether a text ends with the end of a sentence."""
    return text.rstrip()[-1:] in SENTENCE_ENDS
