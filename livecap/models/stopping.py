"""Whether a text under way repeats itself without end. Asked of the tokens sampled so far."""

from collections.abc import Sequence
from dataclasses import dataclass

from livecap.text.repetition import SHORT_PERIOD, SHORTEST_LOOP, loop_period, loop_start

# People do say a sentence three times over. What sets that apart from a loop: it fits the time, the
# model is sure of it without having been led there by a context, and it is more than a few words.
LONG = SHORT_PERIOD + 1  # tokens of a block too long for `loop_period` to see
FEWEST = 16  # tokens in all copies of a loop, however little audio there is
SPOKEN = 5.0  # tokens a second, the most that fast speech has


@dataclass(frozen=True, slots=True)
class Runaway:
    """The question, for one stretch of audio."""

    begin: int  # ids from here on are no text; timestamps differ from copy to copy
    spoken: int  # text tokens that can be said in the window

    def __call__(self, tokens: Sequence[int]) -> bool:
        return self.repeats(tokens) and not self.could_be_said(tokens)

    def repeats(self, tokens: Sequence[int]) -> bool:
        """Whether the text ends in copies of one block."""
        return self._period(self._text(tokens)) is not None

    def could_be_said(self, tokens: Sequence[int]) -> bool:
        """Whether somebody may have repeated a sentence: it fits the time, and is one."""
        text = self._text(tokens)
        return len(text) <= self.spoken and (self._period(text) or LONG) > SHORT_PERIOD

    def once(self, tokens: Sequence[int]) -> list[int]:
        """Tokens -> those before the repetition that they end in, times included."""
        indices = [index for index, token in enumerate(tokens) if token < self.begin]
        start = loop_start(self._text(tokens), self._shortest)
        return list(tokens if start is None else tokens[: indices[start]])

    @property
    def _shortest(self) -> int:
        """Tokens that a loop has at least: fewer where so many can't be said in the time."""
        return min(SHORTEST_LOOP, max(2 * self.spoken, FEWEST))

    def _period(self, text: Sequence[int]) -> int | None:
        return loop_period(text, self._shortest)

    def _text(self, tokens: Sequence[int]) -> list[int]:
        return [token for token in tokens if token < self.begin]
