"""Words on the media timeline: in order, whatever hypotheses and neighbours claim."""

import numpy as np

from livecap.events import RATE, Caption, Word
from livecap.online.speech_buffer import Piece, Segment
from livecap.online.transcript import Commit, Transcript


def committed(*texts: str, at: list[tuple[int, int]]) -> Commit:
    words = tuple(Word(text, *times) for text, times in zip(texts, at, strict=True))
    return Commit(words, "", 0, RATE, final=True, language=None)


def test_no_word_begins_before_the_one_ahead_of_it_has_ended() -> None:
    transcript = Transcript(language=None, speaker=None)
    segment = Segment(np.zeros(2 * RATE, np.float32), (Piece(0, 0, 2 * RATE),))
    transcript.commit(0, segment, committed(" I", " can", at=[(1600, 1920), (1600, 3200)]))
    transcript.commit(0, segment, committed(" see", " it", at=[(2400, 3000), (3000, 6400)]))
    words = [
        word for event in transcript.take() if isinstance(event, Caption) for word in event.words
    ]
    assert [(word.start, word.end) for word in words] == [
        (1600, 1920),
        (1920, 3200),
        (3200, 3200),
        (3200, 6400),
    ]


def test_no_line_begins_with_a_comma() -> None:
    """What ends a line is said before the mark behind it is decoded."""
    transcript = Transcript(language=None, speaker=None)
    segment = Segment(np.zeros(2 * RATE, np.float32), (Piece(0, 0, 2 * RATE),))

    def said(*texts: str, tail: str = "", number: int = 0, final: bool = False) -> None:
        words = tuple(Word(text) for text in texts)
        commit = Commit(words, tail, 0, RATE, final=final, language=None)
        transcript.commit(number, segment, commit)

    said(" Well", final=True)
    said(tail=", I")
    said(",", " I", tail=" am")
    said(",", " am", final=True)
    said(", and", " so", number=1)
    said(" ... or", number=2)
    found = [event for event in transcript.take() if isinstance(event, Caption)]
    assert [(event.text, event.tail) for event in found] == [
        (" Well", ""),
        ("", " I"),
        (" I", " am"),
        (", am", ""),
        (" and so", ""),
        (" ... or", ""),
    ]
