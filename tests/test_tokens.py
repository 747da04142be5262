"""Ids -> bytes, text and words, and back, against the libraries that train and ship them."""

import json
import string
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import (
    save_ctranslate2,
    save_huggingface,
    tiny_whisper,
    vocabulary,
    write_tokenizer,
)
from transformers.models.whisper.tokenization_whisper import TO_LANGUAGE_CODE

from livecap.checkpoints import find_embedded, load_whisper
from livecap.checkpoints.vocabulary import read_tokenizer
from livecap.errors import ConfigError, CorruptModel, ModelError
from livecap.languages import language_code
from livecap.text.words import split_words
from livecap.tokens import Tokenizer, byte_alphabet, specials_of


@pytest.fixture(scope="module")
def folder() -> Path:
    found = find_embedded()
    assert found
    return found.folder


@pytest.fixture(scope="module")
def english(folder: Path) -> Tokenizer:
    return read_tokenizer(folder, 51864)


@pytest.fixture(scope="module")
def oracle(folder: Path) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


TEXTS = (
    st.text() | st.text(string.ascii_letters + " '.,!?-0123456789\n") | st.just(" naïve 你好 😀")
)


@settings(deadline=None)
@given(TEXTS)
def test_encoding_is_the_librarys_and_comes_back(
    english: Tokenizer, oracle: tokenizers.Tokenizer, text: str
) -> None:
    ids = english.encode(text)
    assert ids == oracle.encode(text, add_special_tokens=False).ids
    assert english.decode(ids) == text
    assert english.decode_bytes(ids) == text.encode()


def test_every_token_has_the_librarys_bytes(
    english: Tokenizer, oracle: tokenizers.Tokenizer
) -> None:
    for number in range(0, 50256, 7):
        ours = english.decode_bytes([number]).decode("utf-8", "replace")
        assert ours == oracle.decode([number], skip_special_tokens=False)


def test_user_text_never_becomes_a_special_id(english: Tokenizer) -> None:
    text = "<|endoftext|><|en|><|0.00|>"
    ids = english.encode(text)
    assert max(ids) < english.specials.eot
    assert english.decode(ids) == text


def test_special_ids_stand_for_no_text(english: Tokenizer) -> None:
    assert english.decode([50257, 50363, 18435, 50400, 995, 51863, 50256]) == " Hello world"


@pytest.mark.parametrize("name", ["vocabulary.txt", "tokenizer.json"])
def test_special_ids_are_where_the_files_say(folder: Path, name: str) -> None:
    if name == "tokenizer.json":
        added = json.loads((folder / name).read_text("utf-8"))["added_tokens"]
        ids = {one["content"]: one["id"] for one in added}
    else:
        lines = (folder / name).read_text("utf-8").split("\n")
        ids = {token: number for number, token in enumerate(lines)}
    specials = specials_of(51864)
    named = ("startoftranscript", "translate", "transcribe", "startoflm", "startofprev")
    assert [ids[f"<|{name}|>"] for name in named] == [
        *(specials.sot, specials.translate, specials.transcribe),
        *(specials.startoflm, specials.startofprev),
    ]
    assert ids["<|endoftext|>"] == specials.eot
    assert specials.nospeech in (ids.get("<|nocaptions|>"), ids.get("<|nospeech|>"))
    assert ids["<|notimestamps|>"] == specials.notimestamps == specials.timestamp_begin - 1
    codes = {code: "iw" if code == "he" else code for code in specials.languages}
    assert all(ids[f"<|{codes[code]}|>"] == at for code, at in specials.languages.items())
    assert ids.get("<|30.00|>", specials.timestamp_end) == specials.timestamp_end == 51863


def test_special_ids_of_multilingual_models() -> None:
    old, new = specials_of(51865), specials_of(51866)
    assert (old.eot, old.sot, old.languages["en"], old.languages["su"]) == (
        50257,
        50258,
        50259,
        50357,
    )
    assert (old.translate, old.transcribe, old.startofprev) == (50358, 50359, 50361)
    assert (old.nospeech, old.notimestamps, old.timestamp_begin) == (50362, 50363, 50364)
    assert (new.languages["yue"], new.translate, new.timestamp_begin) == (50358, 50359, 50365)
    assert (old.timestamp_end, new.timestamp_end) == (51864, 51865)
    assert "yue" not in old.languages
    assert len(new.languages) == 100


def test_unusual_vocabularies_are_read_by_name() -> None:
    tokens = [*byte_alphabet(), "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|iw|>"]
    tokens += ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>"]
    small = Tokenizer([*tokens, "<|nocaptions|>", "<|notimestamps|>"], 300)
    assert small.specials.eot == 256
    assert small.specials.languages == {"en": 258, "he": 259}
    assert (small.specials.nospeech, small.specials.timestamp_begin) == (264, 266)
    with pytest.raises(ModelError, match=r"no <\|nospeech\|>"):
        Tokenizer(tokens, 300)


def test_prompts(english: Tokenizer) -> None:
    assert english.prompt(None) == english.prompt("en") == [50257]
    assert english.prompt(None, timestamps=False) == [50257, 50362]
    many = Tokenizer(vocabulary(51866), 51866)
    assert many.prompt("de", task="translate") == [50258, 50261, 50359]
    assert many.prompt("yue", timestamps=False) == [50258, 50358, 50360, 50364]
    with pytest.raises(ConfigError, match="only transcribes English"):
        english.prompt("de")
    with pytest.raises(ConfigError, match="only transcribes English"):
        english.prompt("en", task="translate")
    for language in (None, "xx"):
        with pytest.raises(ConfigError, match="no language"):
            many.prompt(language)


def test_non_speech_ids_are_openais(english: Tokenizer, folder: Path) -> None:
    stored = json.loads((folder / "config.json").read_text("utf-8"))["suppress_ids"]
    assert sorted(english.suppressed) == stored
    assert english.non_speech_ids() == tuple(one for one in stored if one < 50256)
    assert english.suppressed_at_begin == (220, 50256)


def test_languages_are_the_librarys() -> None:
    for name, code in TO_LANGUAGE_CODE.items():
        assert language_code(name) == language_code(code) == code


def test_vocabulary_alone_decodes_but_can_not_encode(tmp_path: Path) -> None:
    tokenizer = load_whisper(save_ctranslate2(tiny_whisper(layers=(1, 1)), tmp_path)).tokenizer
    assert tokenizer.decode(range(1, 3)) == '"#'
    with pytest.raises(ConfigError, match="no merges") as caught:
        tokenizer.encode("a")
    assert "tokenizer.json" in caught.value.remedy


def test_vocab_and_merges_serve_as_well(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, 51865)
    whole = read_tokenizer(tmp_path, 51865)
    text = " the rain in Spain, 你好"
    expected = whole.encode(text)  # reads the merges
    facts = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.json").write_text(json.dumps(facts["model"]["vocab"]), "utf-8")
    added = {one["content"]: one["id"] for one in facts["added_tokens"]}
    (tmp_path / "added_tokens.json").write_text(json.dumps(added), "utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in facts["model"]["merges"])]
    (tmp_path / "merges.txt").write_text("\n".join(lines) + "\n", "utf-8")
    parts = read_tokenizer(tmp_path, 51865)
    assert parts.encode(text) == expected
    assert parts.decode(parts.encode(text)) == text
    assert list(parts.tokens) == list(whole.tokens)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"vocab": {"a": 0, "b": 2}}, "from 0 with no gap"),
        ({"vocab": {"a": "0"}}, "every token a number"),
        ({"vocab": None}, "holds no vocabulary"),
    ],
)
def test_damaged_vocabularies(tmp_path: Path, change: dict[str, object], said: str) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": change}), "utf-8")
    with pytest.raises(CorruptModel, match=said):
        read_tokenizer(tmp_path, 51864)


def test_damaged_merges_are_found_when_they_are_needed(tmp_path: Path) -> None:
    save_huggingface(tiny_whisper(layers=(1, 1)), tmp_path)
    facts = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    facts["model"]["merges"].append(["Ġ", "nothing"])
    (tmp_path / "tokenizer.json").write_text(json.dumps(facts), "utf-8")
    with pytest.raises(CorruptModel, match="merges Ġ nothing"):
        read_tokenizer(tmp_path, 51864).encode("a")


@pytest.mark.parametrize(
    ("text", "language", "words"),
    [
        (" Hello, world!", "en", [" Hello,", " world!"]),
        (' He said "good day" (twice).', "en", [" He", " said", ' "good', ' day"', " (twice)."]),
        (
            " it's $5.00, U.S.A. -- well-known",
            None,
            [" it's", " $5.00,", " U.S.A.", " --", " well-known"],
        ),
        (" two  spaces ", "en", [" two", "  spaces "]),
        ("你好，世界。", "zh", ["你", "好，", "世", "界。"]),
        ("「日本」。", "ja", ["「日", "本」。"]),
        (" naïve 😀.", "de", [" naïve", " 😀."]),
        ("", "en", []),
    ],
)
def test_words(english: Tokenizer, text: str, language: str | None, words: list[str]) -> None:
    split = split_words(english, english.encode(text), language)
    assert [word for word, _ in split] == words


@settings(deadline=None)
@given(st.lists(st.integers(0, 51863)) | TEXTS, st.sampled_from(["en", "ja", None]))
def test_words_join_to_text_and_ids(
    english: Tokenizer, source: list[int] | str, language: str | None
) -> None:
    ids = english.encode(source) if isinstance(source, str) else source
    split = split_words(english, ids, language)
    assert "".join(word for word, _ in split) == english.decode(ids)
    joined = [number for _, run in split for number in run]
    assert joined == [number for number in ids if number < english.specials.eot]
    assert all(run for _, run in split)
