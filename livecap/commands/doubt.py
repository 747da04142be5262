"""Whether a model that knows one language alone was given another: its own text is improbable."""

import math
from collections.abc import Sequence

from livecap.events import Caption

# Mean log probability below which text is doubted. Of tiny.en: -0.05 to -0.6 on 15 English
# recordings (films of 1968 among them), -0.7 to -2.4 on 24 of eight other languages.
DOUBTFUL_LOGPROB = -0.8
MIN_WORDS = 4  # of a whole recording
MIN_WORDS_LIVE = 12  # after which live speech is judged
LEAST = 1e-3  # probability that a word has at least: one alone must not decide


class Doubt:
    """Adds up how probable a stream's words are to the model that made them."""

    def __init__(self, model: str, languages: Sequence[str]) -> None:
        """`languages` are the codes that the model knows; with several, nothing is doubted."""
        self._model = model
        self._only = languages[0] if len(languages) == 1 else None
        self._words = 0
        self._logprob = 0.0  # sum over the words

    def add(self, caption: Caption) -> None:
        """Words that were committed."""
        if caption.scores is not None:
            self._words += len(caption.words)
            self._logprob += len(caption.words) * caption.scores.average_logprob
            return
        for word in caption.words:
            if word.probability is not None:
                self._words += 1
                self._logprob += math.log(max(word.probability, LEAST))

    def message(self, min_words: int = MIN_WORDS) -> str:
        """What to tell the user; empty while there is no doubt."""
        if self._only is None or self._words < min_words:
            return ""
        mean = self._logprob / self._words
        if mean >= DOUBTFUL_LOGPROB:
            return ""
        from livecap.languages import NAMES

        return (
            f"this text is improbable (log probability {mean:.1f}): {self._model} knows "
            f"{NAMES[self._only]} alone. For another language: `livecap pull large-v3-turbo`"
        )
