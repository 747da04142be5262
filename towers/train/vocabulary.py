"""A small byte-level vocabulary in the files that Qwen3-ASR's checkpoints have theirs in.

Every word of the texts it is made for is one token, with a space before it and without; all else is
spelt in bytes, as in the real one. Source: Qwen2's tokenizer in transformers, for the pieces that
text is cut into before tokens are merged.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIALS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|audio_start|>", "<|audio_end|>",
    "<|audio_pad|>", "<asr_text>",
)  # fmt: skip
PROMPT = ("system", "user", "assistant", "language", " English", " None")


@dataclass(frozen=True, slots=True)
class TrainingVocabulary:
    """Texts <-> ids. The special tokens come after those of text."""

    tokenizer: Tokenizer
    count: int  # tokens of text
    specials: Mapping[str, int]

    @property
    def size(self) -> int:
        """Rows that an embedding needs."""
        return max(self.specials.values()) + 1

    def special(self, name: str) -> int:
        """The id of one of SPECIALS."""
        return self.specials[name]

    def encode(self, text: str) -> list[int]:
        """Text without special tokens -> ids."""
        return list(self.tokenizer.encode(text).ids)

    def decode(self, ids: Iterable[int]) -> str:
        """Ids -> text; special ones stand for none."""
        return str(self.tokenizer.decode([id for id in ids if id < self.count]))

    def head(self) -> list[int]:
        """The prompt before the audio's rows."""
        start, end = self.special("<|im_start|>"), self.special("<|im_end|>")
        system, user = self.encode("system\n"), self.encode("user\n")
        line = self.encode("\n")
        return [start, *system, end, *line, start, *user, self.special("<|audio_start|>")]

    def tail(self) -> list[int]:
        """And after them."""
        start, end = self.special("<|im_start|>"), self.special("<|im_end|>")
        ending = [self.special("<|audio_end|>"), end, *self.encode("\n")]
        return [*ending, start, *self.encode("assistant\n")]

    def answer(self, text: str, language: str) -> list[int]:
        """What the model writes for an utterance, its end included; silence has no text."""
        named = self.encode(f"language {language if text else 'None'}")
        return [*named, self.special("<asr_text>"), *self.encode(text), self.special("<|im_end|>")]


def closed(texts: Iterable[str]) -> TrainingVocabulary:
    """A vocabulary in which every word of some texts is a token."""
    words = sorted({word for text in texts for word in text.replace(".", " ").split()})
    known = [*PROMPT, *words, *(f" {word}" for word in words)]
    tokenizer = _tokenizer(models.BPE())
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1 << 20, min_frequency=1, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(known, trainer)
    count = tokenizer.get_vocab_size()
    return TrainingVocabulary(
        tokenizer, count, {name: count + n for n, name in enumerate(SPECIALS)}
    )


def read(folder: Path) -> TrainingVocabulary:
    """The vocabulary of a checkpoint in the official layout. Raises KeyError if a special token is
    missing, and OSError.
    """
    model = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer = _tokenizer(model)
    config = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    added = {one["content"]: int(id) for id, one in config["added_tokens_decoder"].items()}
    specials = {name: added[name] for name in SPECIALS}
    return TrainingVocabulary(tokenizer, tokenizer.get_vocab_size(), specials)


def write(vocabulary: TrainingVocabulary, folder: Path) -> None:
    """`vocab.json`, `merges.txt` and `tokenizer_config.json`, as the official checkpoints have."""
    config = json.loads(vocabulary.tokenizer.to_str())["model"]
    ids: dict[str, int] = config["vocab"]
    merges: Sequence[Sequence[str]] = [
        pair.split(" ") if isinstance(pair, str) else pair for pair in config["merges"]
    ]
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges), ""]
    added = {
        str(vocabulary.special(name)): {"content": name, "special": name != "<asr_text>"}
        for name in SPECIALS
    }
    (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False), "utf-8")
    (folder / "merges.txt").write_text("\n".join(lines), "utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"added_tokens_decoder": added}), "utf-8"
    )


def _tokenizer(model: models.Model) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
