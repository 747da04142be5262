"""Token ids <-> bytes, and the ids with a meaning of their own, for Whisper's vocabularies.

Decoding needs nothing but the list of tokens; the `tokenizers` library is loaded by the first
`encode`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from livecap.errors import ConfigError, ModelError
from livecap.languages import NAMES
from livecap.text.detokenizer import decode_utf8

if TYPE_CHECKING:
    import tokenizers

Task = Literal["transcribe", "translate"]

TIMESTAMPS = 1501  # 0.00 to 30.00 s, 0.02 s apart
ENGLISH_VOCAB = 51864  # one less than the first multilingual vocabulary; 51866 has Cantonese

# Marks of speakers, notes and sound effects that are no speech (OpenAI's whisper/tokenizer.py).
MARKS = tuple('"#()*+/:;<=>@[\\]^_`{|}~「」『』')
MARKS += ("<<", ">>", "<<<", ">>>", "--", "---", "-(", "-[", "('", '("', "((", "))", "(((", ")))")
MARKS += ("[[", "]]", "{{", "}}", "♪♪", "♪♪♪")
NOTES = tuple("♩♪♫♬♭♮♯")  # of these the first token alone gives them away
DASHES = (" -", " '")  # fine inside a word, but not before one


@dataclass(frozen=True, slots=True)
class Specials:
    """The ids that stand for no text."""

    eot: int  # end of text; all ids from here on are special
    sot: int
    languages: dict[str, int]  # ISO 639-1 code -> id
    translate: int
    transcribe: int
    startoflm: int
    startofprev: int
    nospeech: int
    notimestamps: int
    is_multilingual: bool  # else the prompt has neither language nor task

    @property
    def timestamp_begin(self) -> int:
        """The id of 0.00 s; the id of t seconds is this + 50 * t."""
        return self.notimestamps + 1

    @property
    def timestamp_end(self) -> int:
        """The id of 30.00 s."""
        return self.notimestamps + TIMESTAMPS


def specials_of(vocab: int) -> Specials:
    """The rows of a published Whisper vocabulary (51864 to 51866) -> its special ids."""
    assert ENGLISH_VOCAB <= vocab <= ENGLISH_VOCAB + 2, vocab
    is_multilingual = vocab > ENGLISH_VOCAB
    codes = list(NAMES)[: 100 if vocab > ENGLISH_VOCAB + 1 else 99]
    eot = 50257 if is_multilingual else 50256
    task = eot + 2 + len(codes)
    return Specials(
        eot=eot,
        sot=eot + 1,
        languages={code: eot + 2 + index for index, code in enumerate(codes)},
        translate=task,
        transcribe=task + 1,
        startoflm=task + 2,
        startofprev=task + 3,
        nospeech=task + 4,
        notimestamps=task + 5,
        is_multilingual=is_multilingual,
    )


def specials_named(ids: Mapping[str, int]) -> Specials:
    """Token -> id of an unusual Whisper vocabulary -> its special ids, found by their names.

    Raises ModelError if one is missing.
    """

    def find(*names: str) -> int:
        found = next((ids[f"<|{name}|>"] for name in names if f"<|{name}|>" in ids), None)
        if found is None:
            what = f"The vocabulary has no <|{names[0]}|>, so it is not Whisper's"
            raise ModelError(what, remedy="Name a Whisper model.")
        return found

    written = {code: code for code in NAMES} | {"iw": "he"}  # Hebrew goes by its old code
    languages = {code: ids[f"<|{one}|>"] for one, code in written.items() if f"<|{one}|>" in ids}
    return Specials(
        eot=find("endoftext"),
        sot=find("startoftranscript"),
        languages=languages,
        translate=find("translate"),
        transcribe=find("transcribe"),
        startoflm=find("startoflm"),
        startofprev=find("startofprev"),
        nospeech=find("nospeech", "nocaptions"),
        notimestamps=find("notimestamps"),
        is_multilingual=len(languages) > 1,
    )


@cache
def byte_alphabet() -> Mapping[str, int]:
    """The character that byte-level BPE writes for a byte -> that byte.

    Printable bytes stand for themselves; the others, in order, for the characters from 256 on.
    Source: GPT-2's encoder.py.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet |= {chr(256 + index): byte for index, byte in enumerate(others)}
    return MappingProxyType(alphabet)


class Tokenizer:
    """A Whisper vocabulary.

    `tokens[i]` is the token of id i in the byte-level alphabet; the list may end before the
    special ids, whose number follows from `vocab`, the rows of the embedding. `bpe` loads the
    merges; None: this checkpoint has none, and text can't be encoded.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        vocab: int,
        *,
        bpe: "Callable[[], tokenizers.Tokenizer] | None" = None,
    ) -> None:
        self.tokens = tokens
        self.vocab = vocab
        self._load_bpe = bpe
        if ENGLISH_VOCAB <= vocab <= ENGLISH_VOCAB + 2:
            self.specials = specials_of(vocab)
        else:
            self.specials = specials_named(self._ids)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    @cached_property
    def _bpe(self) -> "tokenizers.Tokenizer":
        if self._load_bpe is None:
            raise ConfigError(
                "This model's folder has no merges, so a prompt can't be turned into tokens",
                remedy="Copy the model's tokenizer.json into its folder, or leave the prompt out.",
            )
        import tokenizers

        tokenizer = self._load_bpe()
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        return tokenizer

    def encode(self, text: str) -> list[int]:
        """Text -> ids, with no special ids whatever the text is. Raises ConfigError."""
        encoded: list[int] = self._bpe.encode(text, add_special_tokens=False).ids
        return encoded

    def is_text(self, number: int) -> bool:
        """Whether an id stands for text; special ids and timestamps don't."""
        return number < self.specials.eot

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Ids -> the bytes they stand for; special ids and timestamps stand for none."""
        alphabet, end = byte_alphabet(), min(self.specials.eot, len(self.tokens))
        return b"".join(
            bytes(alphabet[character] for character in self.tokens[number])
            for number in ids
            if number < end
        )

    def decode(self, ids: Iterable[int]) -> str:
        """Ids -> text; a character that the ids break off in is left out."""
        return decode_utf8(self.decode_bytes(ids))

    def prompt(
        self, language: str | None, *, task: Task = "transcribe", timestamps: bool = True
    ) -> list[int]:
        """The ids that start a transcript: sot, and for multilingual models language and task.

        `language` is a code that `languages` has. Raises ConfigError for one it hasn't, or for
        a language or task that an English-only model can't do.
        """
        specials = self.specials
        tasks = {"transcribe": specials.transcribe, "translate": specials.translate}
        ids = [specials.sot]
        if specials.is_multilingual:
            ids += [self._language(language), tasks[task]]
        elif language not in (None, "en") or task == "translate":
            raise ConfigError(
                "This model only transcribes English",
                remedy="Choose a model whose name doesn't end in .en.",
            )
        return ids if timestamps else [*ids, specials.notimestamps]

    def _language(self, language: str | None) -> int:
        if language not in self.specials.languages:
            raise ConfigError(
                f"This model has no language {language!r}",
                remedy=f"It has: {', '.join(self.specials.languages)}.",
            )
        return self.specials.languages[language]

    def non_speech_ids(self) -> tuple[int, ...]:
        """The ids of marks that transcripts use for what is no speech, ascending.

        OpenAI's list for suppress_tokens="-1" without its special ids.
        """
        found = {self._ids.get(_written(space + mark)) for mark in MARKS for space in ("", " ")}
        found |= {self._first(space + note) for note in NOTES for space in ("", " ")}
        found |= {self._first(dash) for dash in DASHES}
        return tuple(sorted(number for number in found if number is not None))

    def _first(self, text: str) -> int | None:
        """The id of the longest token that the text begins with."""
        written = _written(text)
        prefixes = (written[:length] for length in range(len(written), 0, -1))
        return next((self._ids[prefix] for prefix in prefixes if prefix in self._ids), None)

    @property
    def suppressed(self) -> tuple[int, ...]:
        """What is never to be sampled, for a checkpoint that doesn't say."""
        s = self.specials
        control = (s.sot, s.translate, s.transcribe, s.startoflm, s.startofprev, s.nospeech)
        return (*self.non_speech_ids(), *control)

    @property
    def suppressed_at_begin(self) -> tuple[int, ...]:
        """What may not come first, for a checkpoint that doesn't say: a blank, or the end."""
        blank = self._ids.get(_written(" "))
        return (self.specials.eot,) if blank is None else (blank, self.specials.eot)


def _written(text: str) -> str:
    characters = {byte: character for character, byte in byte_alphabet().items()}
    return "".join(characters[byte] for byte in text.encode())
