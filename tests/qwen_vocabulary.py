"""Qwen's real vocabulary, in the files that checkpoints have it in, for tests.

The package `dashscope` brings the byte sequences in the order in which they were merged; which two
parts each was merged of follows from that order.
"""

import base64
import json
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Literal

from livecap.qwen_tokens import PUBLISHED
from livecap.tokens import byte_alphabet

Layout = Literal["official", "tokenizer.json", "strings"]

REAL = 151643  # tokens of text
SMALL = 600  # the first of them: all bytes, and the shortest merges
# Of the real vocabulary's added tokens, those between the named ones.
FILLERS = {f"<|filler_{number}|>": number for number in range(REAL, REAL + 62)}


@cache
def real_tokens() -> tuple[bytes, ...]:
    """The bytes of each token of text, by its id."""
    spec = find_spec("dashscope")
    assert spec, "the extra dev brings dashscope"
    package = Path(next(iter(spec.submodule_search_locations or [])))
    lines = (package / "resources" / "qwen.tiktoken").read_bytes().splitlines()
    ranks = sorted((int(rank), base64.b64decode(token)) for token, rank in map(bytes.split, lines))
    assert [rank for rank, _ in ranks] == list(range(REAL))
    return tuple(token for _, token in ranks)


@cache
def real_merges() -> tuple[tuple[bytes, bytes], ...]:
    """The two parts of every token that has more than one byte, in the order of merging."""
    ranks = {token: rank for rank, token in enumerate(real_tokens())}
    return tuple(_parts(token, ranks) for token in ranks if len(token) > 1)


def _parts(token: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes]:
    """What merging with all earlier tokens makes of a token's bytes: two parts."""
    parts = [token[at : at + 1] for at in range(len(token))]
    while len(parts) > 2:
        joined = [ranks.get(a + b, REAL) for a, b in pairwise(parts)]
        at = min(range(len(joined)), key=joined.__getitem__)
        assert joined[at] < ranks[token]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts[0], parts[1]


def rows_of(count: int) -> int:
    """Tokens of text -> rows of the embedding, some of which belong to no token."""
    return 151936 if count == REAL else count + 40


def added_tokens(count: int) -> dict[str, int]:
    """Tokens of text -> the special ones with their ids: the published ones, or right after."""
    if count == REAL:
        taken = set(PUBLISHED.values())
        return PUBLISHED | {name: at for name, at in FILLERS.items() if at not in taken}
    return {name: count + place for place, name in enumerate(PUBLISHED)}


@cache
def _written(count: int) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The first `count` tokens and their merges in the byte-level alphabet."""
    letters = {byte: letter for letter, byte in byte_alphabet().items()}
    tokens = ["".join(letters[byte] for byte in token) for token in real_tokens()[:count]]
    merges = real_merges()[: count - 256]
    pairs = [tuple("".join(letters[byte] for byte in part) for part in pair) for pair in merges]
    return {token: rank for rank, token in enumerate(tokens)}, [(a, b) for a, b in pairs]


@cache
def _files(count: int, layout: Layout) -> dict[str, str]:
    vocabulary, merges = _written(count)
    lines = [f"{a} {b}" for a, b in merges]
    added = [
        {"id": number, "content": name, "special": name != "<asr_text>", "normalized": False}
        for name, number in sorted(added_tokens(count).items(), key=lambda one: one[1])
    ]
    if layout == "official":
        decoder = {str(one["id"]): one for one in added}
        return {
            "vocab.json": json.dumps(vocabulary, ensure_ascii=False),
            "merges.txt": "\n".join(["#version: 0.2", *lines, ""]),
            "tokenizer_config.json": json.dumps({"added_tokens_decoder": decoder}),
        }
    model = {"type": "BPE", "vocab": vocabulary, "merges": lines if layout == "strings" else merges}
    whole = {"version": "1.0", "added_tokens": added, "model": model}
    return {"tokenizer.json": json.dumps(whole, ensure_ascii=False)}


def write_vocabulary(folder: Path, count: int = REAL, *, layout: Layout = "official") -> None:
    """Write the first `count` tokens and the special ones.

    "official" is vocab.json, merges.txt and tokenizer_config.json; "tokenizer.json" has merges as
    pairs, "strings" as they were written before.
    """
    for name, text in _files(count, layout).items():
        (folder / name).write_text(text, "utf-8")
