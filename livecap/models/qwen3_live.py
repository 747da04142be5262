"""Qwen3-ASR on a segment that grows: what is heard once is neither encoded nor read again.

Finished rows of the encoder stay, and so do the decoder's keys and values of them. Each update adds
what is new, reads the text that is said already, and verifies the rest of the last one as a draft.
Words have no times: the aligner would take as long again as the model.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from livecap.config import DecodeConfig
from livecap.engine.qwen3_decoder import Qwen3Decoder
from livecap.engine.request import Embedded, Request
from livecap.engine.request import Sequence as Decoded
from livecap.events import RATE, Word
from livecap.models.protocol import Ask, Listen, Recognition
from livecap.models.qwen3_answer import Attempt, budget, judge
from livecap.models.qwen3_hearing import GrowingTower, Hearing, open_hearing
from livecap.models.qwen3_prompt import Prompt
from livecap.models.qwen3_text import code_for
from livecap.models.runaway import SPOKEN, Runaway
from livecap.words import UNSPACED, split_words
from livecap.work import Hypothesis, Passage, Update, Work
from towers.mel import Mel

SHORTEST = RATE // 2  # samples: a shorter clip is heard with silence after it


@dataclass(frozen=True, slots=True)
class Updates:
    """Hears growing segments for one model."""

    prompt: Prompt
    ends: frozenset[int]
    mel: Mel
    tower: GrowingTower
    decoder: Qwen3Decoder

    def recognise(self, work: Work, update: Update, config: DecodeConfig) -> Recognition:
        """The way from an update to its hypothesis."""
        before = update.kept or open_hearing(self.mel, self.tower, self.decoder.embedding)
        assert isinstance(before, Hearing)
        try:
            pcm = work.segment.pcm[before.samples :]
            if update.whole:  # as a whole clip is heard
                pcm = np.pad(pcm, (0, max(SHORTEST - len(work.segment.pcm), 0)))
            now: Hearing = yield Listen(pcm, work.deadline, before, update.whole)
            attempt = yield from self._decode(now, config, work, update)
        except GeneratorExit:  # nobody wants it any more
            if update.kept is None:
                self.forget(before)
            raise
        if update.last:
            self.forget(before)
            return self._hypothesis(work, update, attempt, None)
        # Speech that has paused may go on: from before the pause was taken for its end.
        return self._hypothesis(work, update, attempt, before if update.whole else now)

    def forget(self, kept: object) -> None:
        """Free the keys and values of a segment's beginning."""
        assert isinstance(kept, Hearing)
        self.decoder.pages.release(kept.kept.table)
        kept.kept.identity = ()

    def _decode(
        self, now: Hearing, config: DecodeConfig, work: Work, update: Update
    ) -> Generator[Ask, Any, Attempt]:
        """What follows the text that is said; the rest of the last hypothesis is a draft."""
        language = code_for(work.language) if work.language else None
        seconds, rows = len(work.segment.pcm) / RATE, now.rows
        context = [*self.prompt.context(config), *self.prompt.before(work.before)]
        ids, start = self.prompt.ids(len(rows), context=context, language=language)
        prompt = (*ids, *update.said)
        limit = max(len(ids) + budget(seconds), len(prompt) + 2)
        runaway = Runaway(self.prompt.tokenizer.specials.endoftext, int(SPOKEN * seconds))
        decoded: Decoded = yield Request(
            prompt=prompt,
            limit=limit,
            ends=self.ends,
            draft=update.draft[: limit - len(prompt) - 1] if language else (),
            embedded=Embedded(start, rows),
            kept=now.kept,
            identity=(*prompt[:start], *now.names),
            halt=runaway,
            deadline=work.deadline,
        )
        return judge(self.prompt, decoded, runaway, is_forced=language is not None)

    def _hypothesis(
        self, work: Work, update: Update, attempt: Attempt, kept: Hearing | None
    ) -> Hypothesis:
        """The answer as words that follow those that are said."""
        forced = code_for(work.language) if work.language else None
        language = forced or attempt.answer.language
        tokens = self._text(attempt, is_forced=forced is not None)
        pieces = split_words(self.prompt.tokenizer, tokens, language)
        words = [Word(text) for text, _ in pieces]
        if words and not update.said and language not in UNSPACED:
            words[0] = Word(" " + words[0].text.lstrip())
        passages = (Passage(0, len(work.segment.pcm), tuple(words), attempt.scores),)
        is_lost = attempt.looped or attempt.cut or not update.said
        reason = attempt.reason if is_lost else None
        return Hypothesis(
            work,
            passages if words else (),
            language,
            None if forced else attempt.answer.probability,
            reason,
            unsure=update.fixed if reason else None,
            tokens=tuple(tokens),
            counts=tuple(len(ids) for _, ids in pieces),
            kept=kept,
        )

    def _text(self, attempt: Attempt, *, is_forced: bool) -> list[int]:
        """The tokens of the text: without header and marks."""
        if not attempt.answer.text:
            return []
        tokens, marker = attempt.tokens, self.prompt.tokenizer.specials.asr_text
        if not is_forced and marker in tokens:
            tokens = tokens[tokens.index(marker) + 1 :]
        return [token for token in tokens if self.prompt.tokenizer.is_text(token)]
