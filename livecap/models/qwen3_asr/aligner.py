"""Qwen3-ForcedAligner: a known text and its audio -> when each word was said.

One pass over audio, words and two <timestamp> tokens after each; at those the head chooses among
steps of 80 ms. Source: Qwen3-ASR technical report and the package qwen-asr.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from livecap.engine.request import Embedded
from livecap.events import RATE
from livecap.models.qwen3_asr.alignment import ALIGNED_LANGUAGES, LONGEST, repair, units, word_times
from livecap.models.qwen3_asr.decoder import Qwen3Decoder
from livecap.online.speech_buffer import Pcm
from livecap.qwen_tokens import Qwen3Tokenizer
from towers.mel import Mel
from towers.qwen3_windowed import WindowedTower

STEP = 80  # ms between two classes


class ForcedAligner:
    """A loaded aligner."""

    def __init__(
        self, tokenizer: Qwen3Tokenizer, *, mel: Mel, tower: WindowedTower, decoder: Qwen3Decoder
    ) -> None:
        self.tokenizer = tokenizer
        self.mel, self.tower, self.decoder = mel, tower, decoder

    def times(self, pcm: Pcm, words: Sequence[str], language: str) -> list[tuple[int, int]] | None:
        """16 kHz audio and its words, joined its text -> start and end of each, in samples.

        None if the aligner can't do it: an unknown language, or audio of more than 180 s.
        """
        if language not in ALIGNED_LANGUAGES or len(pcm) > LONGEST:
            return None
        text = "".join(words)
        bounds = [0]
        for word in words:
            bounds.append(bounds[-1] + len(word))
        parts = units(text, language)
        found = repair([STEP * choice for choice in self.classes(pcm, [one.text for one in parts])])
        duration = len(pcm) * 1000 // RATE
        spans = [(word, *span) for word, span in zip(words, pairwise(bounds), strict=True)]
        return [
            (start * RATE // 1000, end * RATE // 1000)
            for start, end in word_times(parts, found, spans, duration)
        ]

    @torch.inference_mode()
    def classes(self, pcm: Pcm, texts: Sequence[str]) -> list[int]:
        """The chosen class at each of the two timestamps of every text."""
        if not texts:
            return []
        rows: Tensor = self.tower.clip(
            self.mel.offline(torch.from_numpy(pcm).to(self.decoder.device))
        )
        specials, tokenizer = self.tokenizer.specials, self.tokenizer
        assert specials.timestamp is not None
        ids = [specials.audio_start, *[specials.audio_pad] * len(rows), specials.audio_end]
        marks: list[int] = []
        for text in texts:
            ids += tokenizer.encode(text)
            marks += [len(ids), len(ids) + 1]
            ids += [specials.timestamp, specials.timestamp]
        logits = self.decoder.score(ids, Embedded(1, rows), marks)
        return [int(choice) for choice in logits.argmax(-1)]


class OnDemand:
    """An aligner that is loaded when the first word wants its time: it takes 1.8 GB."""

    def __init__(self, load: Callable[[], ForcedAligner]) -> None:
        self._load = load
        self._aligner: ForcedAligner | None = None

    def times(self, pcm: Pcm, words: Sequence[str], language: str) -> list[tuple[int, int]] | None:
        """As the aligner's."""
        self._aligner = self._aligner or self._load()
        return self._aligner.times(pcm, words, language)
