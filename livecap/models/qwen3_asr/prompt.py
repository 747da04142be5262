"""The chat that Qwen3-ASR was trained on: what is asked, and how the answer is taken apart.

Source: Qwen3-ASR's chat template and the package qwen-asr. The empty system turn is part of the
form: without it, greedy answers end after the language.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from livecap.config import DecodeConfig
from livecap.models.qwen3_asr.text import LANGUAGES, collapse_repetitions, parse
from livecap.qwen_tokens import Qwen3Tokenizer
from livecap.text.detokenizer import decode_utf8


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """What the model wrote."""

    text: str
    language: str | None  # ISO 639-1 code that it named, if it was left to it
    probability: float | None  # of that


class Prompt:
    """Makes prompts and reads answers of one vocabulary."""

    def __init__(self, tokenizer: Qwen3Tokenizer) -> None:
        self.tokenizer = tokenizer
        specials, newline = tokenizer.specials, tokenizer.encode("\n")
        self._system = (specials.im_start, *tokenizer.encode("system"), *newline)
        self._user = (
            *(specials.im_end, *newline, specials.im_start, *tokenizer.encode("user"), *newline),
            specials.audio_start,
        )
        self._assistant = (
            *(specials.audio_end, specials.im_end, *newline),
            *(specials.im_start, *tokenizer.encode("assistant"), *newline),
        )

    def context(self, config: DecodeConfig) -> tuple[int, ...]:
        """The prompt and hotwords of the options, as tokens."""
        given = [text.strip() for text in (config.hotwords, config.prompt) if text.strip()]
        return tuple(self.tokenizer.encode(" ".join(given))) if given else ()

    def before(self, text: str) -> tuple[int, ...]:
        """The text of what was said before, as tokens of the context."""
        return tuple(self.tokenizer.encode(text.strip())) if text.strip() else ()

    def ids(
        self, rows: int, *, context: Sequence[int] = (), language: str | None = None
    ) -> tuple[tuple[int, ...], int]:
        """The prompt for so many audio rows, and the position of the first of them.

        The rows' placeholders are counted, never tokenised. `language` is a code of LANGUAGES.
        """
        specials = self.tokenizer.specials
        head = (*self._system, *context, *self._user)
        tail = self._assistant
        if language:
            name = self.tokenizer.encode(f"language {LANGUAGES[language]}")
            tail = (*tail, *name, specials.asr_text)
        return (*head, *(specials.audio_pad,) * rows, *tail), len(head)

    def answer(
        self, tokens: Sequence[int], logprobs: Sequence[float], *, is_forced: bool
    ) -> ParsedAnswer:
        """Sampled tokens and their log-probabilities -> the text, and the language before it.

        The two are parted by the token <asr_text>; without it, all is text.
        """
        marker = self.tokenizer.specials.asr_text
        at = tokens.index(marker) if marker in tokens else None
        header = parse(self._text(tokens[:at] if at is not None else ()))
        text = self._text(tokens[at + 1 :] if at is not None else tokens)
        text = collapse_repetitions(text)
        if is_forced or at is None:
            return ParsedAnswer(text, None, None)
        if header.silent:
            return ParsedAnswer("", None, None)
        prob = math.exp(sum(logprobs[: at + 1]))
        return ParsedAnswer(text, header.language, prob if header.language else None)

    def _text(self, tokens: Sequence[int]) -> str:
        return decode_utf8(self.tokenizer.decode_bytes(tokens))
