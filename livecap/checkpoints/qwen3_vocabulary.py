"""The vocabulary files of a Qwen3-ASR checkpoint -> its tokenizer."""

import re
from pathlib import Path

from livecap.checkpoints.files import read_object
from livecap.checkpoints.spec import damaged
from livecap.checkpoints.vocabulary import check_numbers, find_bpe, ordered, read_both
from livecap.qwen_tokens import Qwen3Tokenizer
from livecap.tokens import byte_alphabet

END = "<|endoftext|>"  # the first of the tokens that stand for no text


def read_qwen3_tokenizer(folder: Path, vocab: int) -> Qwen3Tokenizer:
    """A folder, and the rows of the model's embedding -> the tokenizer.

    Takes tokenizer.json, or vocab.json with merges.txt; added tokens from these, added_tokens.json
    and tokenizer_config.json. Raises CorruptModel if there are none or if they don't fit the model,
    and ModelError for another family's vocabulary.
    """
    file, vocabulary, added = _read(folder)
    added |= _added(folder)
    check_numbers(vocabulary | added, file)
    end = added.get(END, vocabulary.get(END, len(vocabulary)))
    added |= {token: number for token, number in vocabulary.items() if number >= end}
    tokens = ordered({token: at for token, at in vocabulary.items() if at < end}, file)
    if not set("".join(tokens)) <= byte_alphabet().keys():
        raise damaged(file, "has tokens that are not in the byte-level alphabet")
    bpe = find_bpe(folder)
    if bpe is None:
        raise damaged(folder, "has no merges.txt for its vocab.json", incomplete=True)
    if len(tokens) != end or not 256 <= end < vocab or max(added.values(), default=0) >= vocab:
        raise damaged(file, f"has tokens that don't fit a model of {vocab}")
    return Qwen3Tokenizer(tokens, added, bpe=bpe)


def _read(folder: Path) -> tuple[Path, dict[str, int], dict[str, int]]:
    """A folder -> the file of its vocabulary, the ids of its tokens, and of those added."""
    whole, plain = folder / "tokenizer.json", folder / "vocab.json"
    if whole.exists():
        return whole, *read_both(whole)
    if plain.exists():
        return plain, read_object(plain), {}
    raise damaged(folder, "has no vocabulary: no tokenizer.json or vocab.json", incomplete=True)


def _added(folder: Path) -> dict[str, int]:
    """What the small files beside a vocabulary add to it."""
    extra, config = folder / "added_tokens.json", folder / "tokenizer_config.json"
    added: dict[str, int] = read_object(extra) if extra.exists() else {}
    listed = read_object(config).get("added_tokens_decoder", {}) if config.exists() else {}
    if not isinstance(listed, dict):
        raise damaged(config, "should hold an object under 'added_tokens_decoder'")
    for number, token in listed.items():
        named = isinstance(token, dict) and "content" in token
        if not named or not re.fullmatch("[0-9]{1,9}", number):
            raise damaged(config, "lists an added token without a number or its content")
        added[token["content"]] = int(number)
    return added
