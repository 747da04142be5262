"""A prompt and hotwords -> as much of both as a model reads, and what is left out.

Whisper reads half of its text positions before the text, a quarter in live speech, and takes the
last of what is more: a long prompt would drive out all hotwords, which stand before it. Qwen3-ASR
refuses what is too long by itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from livecap.config import DecodeConfig
from livecap.models.whisper.model import Whisper


def fitted(
    model: object, decode: DecodeConfig, say: Callable[[str], None], *, live: bool
) -> DecodeConfig:
    """The options with what fits; `say` is told once what doesn't.

    Hotwords count in the order in which they are given, and have at least half of the room; of the
    prompt, its end counts. Raises ConfigError where the model can't read a prompt at all.
    """
    if not isinstance(model, Whisper):
        return decode
    half = model.fallback.limit // 2
    room = half // 2 if live else half - 1  # tokens

    def tokens(hotwords: str, prompt: str) -> int:
        return len(model.fallback.given(replace(decode, hotwords=hotwords, prompt=prompt)))

    if tokens(decode.hotwords, decode.prompt) <= room:
        return decode
    terms, words = _terms(decode.hotwords), decode.prompt.split()
    share = max(room // 2, room - tokens("", decode.prompt))
    stored = _most(len(terms), lambda count: tokens(", ".join(terms[:count]), "") <= share)
    hotwords = ", ".join(terms[:stored])
    last = _most(len(words), lambda count: tokens(hotwords, _end(words, count)) <= room)
    lost = []
    if stored < len(terms):
        lost.append(f"{len(terms) - stored} of {len(terms)} hotwords, the last ones")
    if last < len(words):
        lost.append(f"{len(words) - last} of {len(words)} words of the prompt, the first ones")
    say(f"the model reads {room} tokens before the text; left out are {', and '.join(lost)}")
    return replace(decode, hotwords=hotwords, prompt=_end(words, last))


def _terms(hotwords: str) -> list[str]:
    """Names and terms with commas between; without any comma, words."""
    parts = hotwords.split(",") if "," in hotwords else hotwords.split()
    return [part.strip() for part in parts if part.strip()]


def _end(words: Sequence[str], count: int) -> str:
    return " ".join(words[len(words) - count :])


def _most(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest count up to `limit` that fits, if all smaller ones do."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
