"""The vocabulary files of a checkpoint -> its Tokenizer."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from livecap.checkpoints.files import read_json, read_object
from livecap.checkpoints.spec import damaged
from livecap.tokens import Tokenizer, byte_alphabet

if TYPE_CHECKING:
    import tokenizers


def read_tokenizer(folder: Path, vocab: int) -> Tokenizer:
    """A folder, and the rows of the model's embedding -> the tokenizer.

    Takes CTranslate2's vocabulary.txt or .json, Hugging Face's tokenizer.json, or vocab.json with
    merges.txt. Raises CorruptModel if there is none, or if it doesn't fit the model.
    """
    for name, read in (
        ("vocabulary.txt", read_lines),
        ("vocabulary.json", _read_list),
        ("tokenizer.json", _read_tokenizer_json),
        ("vocab.json", _read_map),
    ):
        file = folder / name
        if file.exists():
            tokenizer = Tokenizer(read(file), vocab, bpe=find_bpe(folder))
            _check(tokenizer, file)
            return tokenizer
    raise damaged(folder, "has no vocabulary: no tokenizer.json or vocabulary.txt", incomplete=True)


def known_ids(ids: Iterable[int], vocab: int) -> tuple[int, ...]:
    """Ids as a config lists them -> those that the model has, ascending."""
    return tuple(sorted({number for number in ids if 0 <= number < vocab}))


def read_lines(file: Path) -> list[str]:
    """A text file -> its lines. Raises CorruptModel."""
    try:
        lines = file.read_text("utf-8").split("\n")
    except OSError as error:
        raise damaged(file, f"can't be read: {error.strerror}", incomplete=True) from error
    except UnicodeDecodeError as error:
        raise damaged(file, "is not UTF-8") from error
    return lines[:-1] if not lines[-1] else lines


def _read_list(file: Path) -> list[str]:
    tokens = read_json(file)
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise damaged(file, "holds no list of tokens")
    return tokens


def _read_tokenizer_json(file: Path) -> list[str]:
    vocabulary, added = read_both(file)
    return ordered(vocabulary | added, file)


def read_both(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A tokenizer.json -> the ids of its model's tokens, and of those added, not yet checked.

    Raises CorruptModel.
    """
    facts = read_object(file)
    model, added = facts.get("model"), facts.get("added_tokens", [])
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(vocabulary, dict) or not isinstance(added, list):
        raise damaged(file, "holds no vocabulary")
    named: dict[Any, Any] = {
        one.get("content"): one.get("id") for one in added if isinstance(one, dict)
    }
    return vocabulary, named


def _read_map(file: Path) -> list[str]:
    extra = file.with_name("added_tokens.json")
    return ordered(read_object(file) | (read_object(extra) if extra.exists() else {}), file)


def ordered(ids: dict[str, int], file: Path) -> list[str]:
    """Token -> id, as read -> the tokens by their ids. Raises CorruptModel if an id is left out."""
    check_numbers(ids, file)
    tokens = sorted(ids, key=ids.__getitem__)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise damaged(file, "should number its tokens from 0 with no gap")
    return tokens


def check_numbers(ids: dict[str, int], file: Path) -> None:
    """Raise CorruptModel unless these are tokens and whole numbers."""
    if not all(isinstance(token, str) and type(number) is int for token, number in ids.items()):
        raise damaged(file, "should give every token a number")


def _check(tokenizer: Tokenizer, file: Path) -> None:
    if not 256 <= len(tokenizer.tokens) <= tokenizer.vocab:
        what = f"has {len(tokenizer.tokens)} tokens for a model of {tokenizer.vocab}"
        raise damaged(file, what)
    written = set("".join(tokenizer.tokens[: tokenizer.specials.eot]))
    if not written <= byte_alphabet().keys():
        raise damaged(file, "has tokens that are not in the byte-level alphabet")


def find_bpe(folder: Path) -> "Callable[[], tokenizers.Tokenizer] | None":
    """A folder -> what loads its merges, None if there are none.

    The merges alone: how text is cut before them is the family's affair. There are no added tokens,
    so no text that a user types becomes a special id.
    """
    whole, vocab, merges = (folder / n for n in ("tokenizer.json", "vocab.json", "merges.txt"))
    if whole.exists():
        return partial(_bpe_of_tokenizer_json, whole)
    if vocab.exists() and merges.exists():
        return partial(_bpe_of_merges, vocab, merges)
    return None


def _bpe_of_tokenizer_json(file: Path) -> "tokenizers.Tokenizer":
    model = read_object(file).get("model")
    if not isinstance(model, dict):
        raise damaged(file, "holds no model")
    return _bpe(model.get("vocab"), model.get("merges"), file)


def _bpe_of_merges(vocab: Path, merges: Path) -> "tokenizers.Tokenizer":
    lines = [line for line in read_lines(merges) if line and not line.startswith("#version")]
    return _bpe(read_object(vocab), lines, merges)


def _bpe(vocabulary: object, merges: object, file: Path) -> "tokenizers.Tokenizer":
    import tokenizers

    if not isinstance(vocabulary, dict) or not isinstance(merges, list):
        raise damaged(file, "holds no vocabulary with merges")
    ordered(vocabulary, file)
    pairs = [tuple(one.split(" ") if isinstance(one, str) else one) for one in merges]
    for pair in pairs:
        if len(pair) != 2 or not {*pair, "".join(pair)} <= vocabulary.keys():
            raise damaged(file, f"merges {' '.join(pair)}, which the vocabulary hasn't")
    return tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, pairs))
