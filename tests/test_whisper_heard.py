"""What Whisper says twice and hears once is said once; what is said twice is kept."""

from collections.abc import Sequence

import numpy as np
import torch
from command import plain
from live_models import SCORES
from torch import Tensor

from livecap.checkpoints import load_whisper, resolve
from livecap.engine.request import Memory
from livecap.events import RATE, Word
from livecap.models.whisper_heard import doubled, heard_words
from livecap.models.whisper_text import Aligner

TICK = RATE // 50  # samples that a word takes at least


def words(text: str, *lengths: int) -> list[Word]:
    """Words, and how many ticks each of them takes; the last number goes for the rest, too."""
    pieces, at, made = text.split(), 0, list[Word]()
    for place, piece in enumerate(pieces):
        stop = at + TICK * lengths[min(place, len(lengths) - 1)]
        made.append(Word(f" {piece}", at, stop))
        at = stop
    return made


def left(said: str, said_twice: list[Word]) -> str:
    """The text without the copy."""
    copy = doubled(said.split(), said_twice)
    assert copy
    kept = said_twice[: copy.start] + said_twice[copy.stop :]
    return plain(said + "".join(word.text for word in kept))


def test_the_first_copy_has_no_audio() -> None:
    """It may be anywhere in the text, and begin in the words that are said."""
    text, lengths = "What you do. Ask not! What you do.", (0, 0, 0, 1, 0, 9)
    assert left("Ask not", words(text, *lengths)) == "ask not what you do"
    assert left("Ask not", words(f"{text} Ask me", *lengths)) == "ask not what you do ask me"
    assert left("", words("and so it goes it goes on", 9, 9, 0, 0, 9)) == "and so it goes on"


def test_words_that_were_repeated_are_kept() -> None:
    """Both copies have audio, or only one word of the first has none."""
    assert doubled([], words("that one that one", 9)) is None
    assert doubled(["no"], words("no no no no", 9, 1, 9)) is None
    assert doubled(["that", "one"], words("that one", 9)) is None
    assert doubled(["not", "now"], words("not now", 0, 0)) is None, "the first copy was heard"
    assert doubled([], words("all of it and then some", 0)) is None, "nothing comes twice"


def test_the_last_copy_has_no_audio() -> None:
    """So it is left out."""
    assert heard_words([], words("all of it all of it", 9, 9, 9, 0, 0, 9)) == 3
    assert heard_words(["all", "of", "it"], words("all of it", 0, 1, 30)) == 0
    assert heard_words([], words("all of it all of it", 9)) == 6
    assert heard_words([], words("all of it and then some", 9, 9, 9, 0, 0, 9)) == 3
    assert heard_words([], words("all of it", 9, 0, 9)) == 3


class Decoder:
    """Hears the last tokens one after the other, and those before them nowhere."""

    rows = 10  # for each

    def __init__(self, heard: int) -> None:
        self.heard = heard
        self.calls = 0

    def align(
        self,
        tokens: Sequence[int],
        memory: Memory,
        heads: Sequence[tuple[int, int]],
        *,
        predict: slice,
    ) -> tuple[Tensor, Tensor]:
        self.calls += 1
        scores = torch.zeros(1, len(tokens), self.heard * self.rows)
        for place in range(len(tokens) - 1):  # it is heard by the row that predicts it
            number = max(place - (len(tokens) - 2 - self.heard), 0)
            scores[0, place, number * self.rows : (number + 1) * self.rows] = 9.0
        return scores, torch.zeros(len(tokens), max(tokens) + 1)[predict]


def test_a_copy_is_taken_out_and_the_rest_aligned_anew() -> None:
    """With its tokens, so that the next hypothesis goes on from what is left."""
    tokenizer = load_whisper(resolve("tiny.en")).tokenizer
    said = tokenizer.encode(" ask not")
    once = tokenizer.encode(" what your country can do for you")
    decoder = Decoder(len(once))
    aligner = Aligner(decoder, tokenizer, ((0, 0),))  # type: ignore[arg-type]
    pcm = np.random.default_rng(0).normal(0, 0.1, len(once) * decoder.rows * TICK)
    found = aligner.words_after(
        said,
        [*once, *said, *once],
        None,  # type: ignore[arg-type]
        fixed=0,
        start=[tokenizer.specials.sot],
        pcm=pcm.astype(np.float32),
        language="en",
        scores=SCORES,
    )
    assert found
    passage, tokens = found
    assert "".join(word.text for word in passage.words) == " what your country can do for you"
    assert [number for word in tokens for number in word] == once
    assert decoder.calls == 2
    lengths = [(word.end or 0) - (word.start or 0) for word in passage.words]
    assert min(lengths) > 5 * TICK
