"""Token ids <-> bytes, and the ids with a meaning of their own, for Qwen3-ASR's vocabulary.

Decoding needs nothing but the list of tokens; the `tokenizers` library is loaded by the first
`encode`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from livecap.errors import ModelError
from livecap.text.detokenizer import decode_utf8
from livecap.tokens import byte_alphabet

if TYPE_CHECKING:
    import tokenizers

TEXT = 151643  # tokens of text in the published vocabulary; those added come after them
TIMESTAMP = "<timestamp>"
# The added tokens that matter here, for files that leave them out. Source: the published
# tokenizer_config.json, as several ports of the model have it.
PUBLISHED = {
    "<|endoftext|>": 151643,
    "<|im_start|>": 151644,
    "<|im_end|>": 151645,
    "<|audio_start|>": 151669,
    "<|audio_end|>": 151670,
    "<|audio_pad|>": 151676,
    "<asr_text>": 151704,
    TIMESTAMP: 151705,
}
# How text is cut before tokens are merged: contractions, words with the one sign before them,
# single digits, runs of other signs, line ends, white space. Source: Qwen2 in transformers.
PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True)
class Qwen3Specials:
    """The ids that stand for no text."""

    endoftext: int  # ends a text; all ids from here on are special
    im_start: int  # begins a turn of the chat
    im_end: int  # ends one, and so a text too
    audio_start: int
    audio_end: int
    audio_pad: int  # its rows are replaced by the encoder's
    asr_text: int  # between the language and the text
    timestamp: int | None  # the forced aligner's; None: the vocabulary has none


def specials_in(added: Mapping[str, int], count: int) -> Qwen3Specials:
    """The added tokens' ids, and how many tokens of text there are -> the special ids.

    A published vocabulary whose files leave some out has them at their published places.
    Raises ModelError if one is missing.
    """
    taken = set(added.values())

    def find(name: str) -> int | None:
        if name in added or count != TEXT or PUBLISHED[name] in taken:
            return added.get(name)
        return PUBLISHED[name]

    def need(name: str) -> int:
        found = find(name)
        if found is None:
            what = f"The vocabulary has no {name}, so it is not Qwen3-ASR's"
            files = "vocab.json, merges.txt and tokenizer_config.json"
            raise ModelError(what, remedy=f"Copy {files} of Qwen3-ASR into its folder.")
        return found

    return Qwen3Specials(
        endoftext=need("<|endoftext|>"),
        im_start=need("<|im_start|>"),
        im_end=need("<|im_end|>"),
        audio_start=need("<|audio_start|>"),
        audio_end=need("<|audio_end|>"),
        audio_pad=need("<|audio_pad|>"),
        asr_text=need("<asr_text>"),
        # only the aligner's files add it: files that add others and not this one mean it
        timestamp=added.get(TIMESTAMP) if added else find(TIMESTAMP),
    )


class Qwen3Tokenizer:
    """A Qwen3-ASR vocabulary.

    `tokens[i]` is the token of id i in the byte-level alphabet, for all that stand for text; the
    added ones, which come after, stand for none. `bpe` loads the merges. Raises ModelError if an
    added token is missing that the model can't do without.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        added: Mapping[str, int],
        *,
        bpe: "Callable[[], tokenizers.Tokenizer]",
    ) -> None:
        self.tokens = tokens
        self.specials = specials_in(added, len(tokens))
        self._load_bpe = bpe

    @property
    def eot(self) -> int:
        """End of text; all ids from here on are special."""
        return self.specials.endoftext

    @cached_property
    def _bpe(self) -> "tokenizers.Tokenizer":
        from tokenizers import Regex, normalizers, pre_tokenizers

        tokenizer = self._load_bpe()
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        return tokenizer

    def encode(self, text: str) -> list[int]:
        """Text -> ids, with no special ids whatever the text is. Characters are composed (NFC)."""
        encoded: list[int] = self._bpe.encode(text, add_special_tokens=False).ids
        return encoded

    def is_text(self, number: int) -> bool:
        """Whether an id stands for text; special ids don't."""
        return number < len(self.tokens)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Ids -> the bytes they stand for; special ids stand for none."""
        alphabet = byte_alphabet()
        return b"".join(
            bytes(alphabet[character] for character in self.tokens[number])
            for number in ids
            if self.is_text(number)
        )

    def decode(self, ids: Iterable[int]) -> str:
        """Ids -> text; a character that the ids break off in is left out."""
        return decode_utf8(self.decode_bytes(ids))
