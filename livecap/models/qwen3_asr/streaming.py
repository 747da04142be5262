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
from livecap.engine.request import Embedded, Request
from livecap.engine.request import Sequence as Decoded
from livecap.events import RATE, Word
from livecap.models.protocol import DecodeSteps, EncodeRequest, Step
from livecap.models.qwen3_asr.answer import JudgedAnswer, budget, judge
from livecap.models.qwen3_asr.decoder import Qwen3Decoder
from livecap.models.qwen3_asr.encoder_state import EncoderState, GrowingTower, open_state
from livecap.models.qwen3_asr.prompt import Prompt
from livecap.models.qwen3_asr.text import code_for
from livecap.models.stopping import SPOKEN, Runaway
from livecap.online.job import DecodeJob, Hypothesis, PrefixState, TextSpan
from livecap.text.words import UNSPACED, split_words
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

    def decode(self, job: DecodeJob, prefix: PrefixState, config: DecodeConfig) -> DecodeSteps:
        """The way from an update to its hypothesis."""
        before = prefix.encoder_state or open_state(self.mel, self.tower, self.decoder.embedding)
        assert isinstance(before, EncoderState)
        try:
            pcm = job.segment.pcm[before.samples :]
            if prefix.endpointed:  # as a whole clip is heard
                pcm = np.pad(pcm, (0, max(SHORTEST - len(job.segment.pcm), 0)))
            now: EncoderState = yield EncodeRequest(pcm, job.deadline, before, prefix.endpointed)
            attempt = yield from self._decode(now, config, job, prefix)
        except GeneratorExit:  # nobody wants it any more
            if prefix.encoder_state is None:
                self.free(before)
            raise
        if prefix.final:
            self.free(before)
            return self._hypothesis(job, prefix, attempt, None)
        # Speech that has paused may go on: from before the pause was taken for its end.
        return self._hypothesis(job, prefix, attempt, before if prefix.endpointed else now)

    def free(self, encoder_state: object) -> None:
        """Free the keys and values of a segment's beginning."""
        assert isinstance(encoder_state, EncoderState)
        self.decoder.pages.release(encoder_state.prefix_cache.table)
        encoder_state.prefix_cache.identity = ()

    def _decode(
        self, now: EncoderState, config: DecodeConfig, job: DecodeJob, prefix: PrefixState
    ) -> Generator[Step, Any, JudgedAnswer]:
        """What follows the text that is said; the rest of the last hypothesis is a draft."""
        language = code_for(job.language) if job.language else None
        seconds, rows = len(job.segment.pcm) / RATE, now.rows
        context = [*self.prompt.context(config), *self.prompt.before(job.context_text)]
        ids, start = self.prompt.ids(len(rows), context=context, language=language)
        prompt = (*ids, *prefix.committed)
        limit = max(len(ids) + budget(seconds), len(prompt) + 2)
        runaway = Runaway(self.prompt.tokenizer.specials.endoftext, int(SPOKEN * seconds))
        decoded: Decoded = yield Request(
            prompt=prompt,
            limit=limit,
            ends=self.ends,
            draft=prefix.draft[: limit - len(prompt) - 1] if language else (),
            embedded=Embedded(start, rows),
            prefix_cache=now.prefix_cache,
            identity=(*prompt[:start], *now.names),
            halt=runaway,
            deadline=job.deadline,
        )
        return judge(self.prompt, decoded, runaway, is_forced=language is not None)

    def _hypothesis(
        self,
        job: DecodeJob,
        prefix: PrefixState,
        attempt: JudgedAnswer,
        encoder_state: EncoderState | None,
    ) -> Hypothesis:
        """The answer as words that follow those that are said."""
        forced = code_for(job.language) if job.language else None
        language = forced or attempt.answer.language
        tokens = self._text(attempt, is_forced=forced is not None)
        pieces = split_words(self.prompt.tokenizer, tokens, language)
        words = [Word(text) for text, _ in pieces]
        if words and not prefix.committed and language not in UNSPACED:
            words[0] = Word(" " + words[0].text.lstrip())
        spans = (TextSpan(0, len(job.segment.pcm), tuple(words), attempt.scores),)
        is_lost = attempt.looped or attempt.cut or not prefix.committed
        reason = attempt.reason if is_lost else None
        return Hypothesis(
            job,
            spans if words else (),
            language,
            None if forced else attempt.answer.probability,
            reason,
            untranscribed_from=prefix.committed_until if reason else None,
            conditioned=True,
            tokens=tuple(tokens),
            token_counts=tuple(len(ids) for _, ids in pieces),
            encoder_state=encoder_state,
        )

    def _text(self, attempt: JudgedAnswer, *, is_forced: bool) -> list[int]:
        """The tokens of the text: without header and marks."""
        if not attempt.answer.text:
            return []
        tokens, marker = attempt.tokens, self.prompt.tokenizer.specials.asr_text
        if not is_forced and marker in tokens:
            tokens = tokens[tokens.index(marker) + 1 :]
        return [token for token in tokens if self.prompt.tokenizer.is_text(token)]
