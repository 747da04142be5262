"""Qwen3-ASR's vocabulary against the libraries that train and ship it, on the real tokens."""

import json
import string
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from qwen_vocabulary import REAL, SMALL, Layout, real_tokens, write_vocabulary
from transformers import Qwen2TokenizerFast

from livecap.checkpoints.qwen3_vocabulary import read_qwen3_tokenizer
from livecap.errors import CorruptModel, ModelError
from livecap.qwen_tokens import PUBLISHED, Qwen3Specials, Qwen3Tokenizer
from livecap.text.words import split_words

ROWS = 151936
PAGE = """The café's owner said: “We'll open at 9:45, won't we?” — he'D been up since 03:20!
    indented\ttext   with   spaces, URLs (https://example.org/a_b?c=%20#d) and  trailing   \r
line two\r\n\r\n\n  line three… 1234567890 12,345.67 ½ Ⅷ ٣٤٥ x² E=mc² naïve coöperate Straße
今天天气很好，我们去公园散步吧！「東京」はとても大きい都市です。안녕하세요 세계, 반갑습니다.
ประเทศไทยมีอากาศร้อน สวัสดีครับ हिन्दी में लिखा हुआ पाठ русский текст, Ελληνικά, עברית, العربية
👩‍👩‍👧‍👦 🇹🇭 👍🏽 🤷‍♀️ ❤️ é (e + acute) \u00a0\u3000\u200b\ufeff end
def f(x: int) -> dict[str, int]:\n    return {"a": x ** 2, 'b': x << 3}  # why?\n\tif x!=0&&y: i++;
<|im_end|> <|im_start|>system\n<asr_text>language English<|audio_pad|></s> <|endoftext|>"""
TEXTS = st.text() | st.text(string.printable) | st.text("aé日ไ😀 '\r\n\t1٣.,Ａｅ\u0301")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real vocabulary in the official files; not to be changed."""
    folder = tmp_path_factory.mktemp("vocabulary")
    write_vocabulary(folder)
    return folder


@pytest.fixture(scope="session")
def real(folder: Path) -> Qwen3Tokenizer:
    return read_qwen3_tokenizer(folder, ROWS)


@pytest.fixture(scope="session")
def oracle(folder: Path) -> Qwen2TokenizerFast:
    """transformers' on the same files, without their added tokens."""
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    tokenizer = Qwen2TokenizerFast(vocab=str(vocabulary), merges=str(merges))
    assert len(tokenizer) == REAL + 1  # it adds <|endoftext|>
    return tokenizer


def test_the_published_ids(real: Qwen3Tokenizer) -> None:
    assert real.encode("system user assistant\n") == [8948, 1196, 17847, 198]
    assert [real.encode(word)[0] for word in ("system", "user", "assistant", "\n")] == [
        *(8948, 872, 77091, 198)
    ]
    assert real.specials == Qwen3Specials(
        endoftext=151643,
        im_start=151644,
        im_end=151645,
        audio_start=151669,
        audio_end=151670,
        audio_pad=151676,
        asr_text=151704,
        timestamp=151705,
    )
    assert real.eot == 151643 == len(real.tokens)


@pytest.mark.parametrize("text", [PAGE, *PAGE.split("\n"), "", " ", "\r\n", "a" * 5000])
def test_a_page_of_everything(real: Qwen3Tokenizer, oracle: Qwen2TokenizerFast, text: str) -> None:
    ids = real.encode(text)
    if "<|endoftext|>" not in text:
        assert ids == oracle.encode(text, add_special_tokens=False)
    assert all(real.is_text(number) for number in ids)
    assert real.decode(ids) == unicodedata.normalize("NFC", text)


@settings(deadline=None, max_examples=300)
@given(TEXTS)
def test_encoding_is_the_librarys_and_comes_back(
    real: Qwen3Tokenizer, oracle: Qwen2TokenizerFast, text: str
) -> None:
    assume("<|endoftext|>" not in text)  # to the library that is no text
    ids = real.encode(text)
    assert ids == oracle.encode(text, add_special_tokens=False)
    composed = unicodedata.normalize("NFC", text)
    assert real.decode_bytes(ids) == composed.encode()


@pytest.mark.parametrize("name", PUBLISHED)
def test_user_text_never_becomes_a_special_id(real: Qwen3Tokenizer, name: str) -> None:
    ids = real.encode(f"a {name}b")
    assert max(ids) < real.eot
    assert real.decode(ids) == f"a {name}b"


def test_every_token_has_its_bytes(real: Qwen3Tokenizer) -> None:
    for number, token in enumerate(real_tokens()):
        assert real.decode_bytes([number]) == token
    assert real.decode_bytes(range(REAL, ROWS)) == b""
    assert not any(real.is_text(number) for number in range(REAL, ROWS))


def test_a_character_in_pieces(real: Qwen3Tokenizer) -> None:
    ids = real.encode("𓀀")  # in no token as a whole
    assert len(ids) > 1
    assert real.decode(ids) == "𓀀"
    assert real.decode(ids[:-1]) == ""


@pytest.mark.parametrize("layout", ["tokenizer.json", "strings"])
def test_every_layout_is_the_same(tmp_path: Path, real: Qwen3Tokenizer, layout: Layout) -> None:
    write_vocabulary(tmp_path, layout=layout)
    other = read_qwen3_tokenizer(tmp_path, ROWS)
    assert other.tokens == real.tokens
    assert other.specials == real.specials
    assert other.encode(PAGE) == real.encode(PAGE)


def test_a_small_vocabulary_has_its_special_ids_by_name(tmp_path: Path) -> None:
    write_vocabulary(tmp_path, SMALL)
    small = read_qwen3_tokenizer(tmp_path, SMALL + 40)
    specials = small.specials
    assert (specials.endoftext, specials.im_start, specials.timestamp) == (600, 601, 607)
    assert small.decode(small.encode(PAGE)) == unicodedata.normalize("NFC", PAGE)


def test_words(real: Qwen3Tokenizer) -> None:
    ids = real.encode(' He said: "It\'s 3,000 well-known naïve 𓀀."')
    ids = [real.specials.asr_text, *ids, real.specials.im_end]
    words = split_words(real, ids, "en")
    assert [text for text, _ in words] == [
        *(" He", " said:", " \"It's", " 3,000", " well-known", " naïve", ' 𓀀."')
    ]
    assert [number for _, run in words for number in run] == ids[1:-1]
    chinese = real.encode("今天天气很好，我们去公园。")
    assert "".join(text for text, _ in split_words(real, chinese, "zh")) == real.decode(chinese)
    assert len(split_words(real, chinese, "zh")) > 3


def test_loading_needs_no_tokenizers_library(folder: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from livecap.checkpoints.qwen3_vocabulary import read_qwen3_tokenizer\n"
        f"tokenizer = read_qwen3_tokenizer(Path({str(folder)!r}), {ROWS})\n"
        "print(tokenizer.decode([9707, 1879]))\n"
        "assert not {'torch', 'tokenizers', 'safetensors'} & sys.modules.keys()\n"
        "print(tokenizer.encode('Hello world'), 'tokenizers' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("Hello world\n[9707, 1879] True\n", "")


def test_published_ids_stand_in_for_what_files_leave_out(
    tmp_path: Path, folder: Path, real: Qwen3Tokenizer
) -> None:
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    assert read_qwen3_tokenizer(tmp_path, ROWS).specials == real.specials
    some = {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}
    (tmp_path / "added_tokens.json").write_text(json.dumps(some), "utf-8")
    specials = read_qwen3_tokenizer(tmp_path, ROWS).specials
    assert (specials.asr_text, specials.timestamp) == (151704, None)
    (tmp_path / "added_tokens.json").write_text(json.dumps(some | {"<other>": 151704}), "utf-8")
    with pytest.raises(ModelError, match="has no <asr_text>"):
        read_qwen3_tokenizer(tmp_path, ROWS)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("vocab.json", None, "has no vocabulary"),
        ("vocab.json", "{", "not valid JSON"),
        ("vocab.json", '{"a": 0, "b": 2}', "no gap"),
        ("vocab.json", '{"a": "b"}', "every token a number"),
        ("vocab.json", '{"a": 0, "b": 1}', "don't fit"),
        ("merges.txt", None, "has no merges.txt"),
        ("tokenizer_config.json", '{"added_tokens_decoder": []}', "hold an object"),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"x": {}}}', "without a number"),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"9": {"content": 1}}}', "a number"),
        (
            "tokenizer_config.json",
            '{"added_tokens_decoder": {"999": {"content": "<|x|>"}}}',
            "don't fit a model of 640",
        ),
    ],
)
def test_damaged_vocabularies(tmp_path: Path, name: str, text: str | None, said: str) -> None:
    write_vocabulary(tmp_path, SMALL)
    if text is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(CorruptModel, match=said) as caught:
        read_qwen3_tokenizer(tmp_path, SMALL + 40)
    assert "livecap pull" in caught.value.remedy


def test_another_familys_vocabulary(tmp_path: Path) -> None:
    write_vocabulary(tmp_path, SMALL)
    (tmp_path / "tokenizer_config.json").unlink()
    with pytest.raises(ModelError, match="not Qwen3-ASR's"):
        read_qwen3_tokenizer(tmp_path, SMALL + 40)


def test_merges_that_the_vocabulary_lacks(tmp_path: Path) -> None:
    write_vocabulary(tmp_path, SMALL)
    (tmp_path / "merges.txt").write_text("#version: 0.2\nq zz\n", "utf-8")
    with pytest.raises(CorruptModel, match="which the vocabulary hasn't"):
        read_qwen3_tokenizer(tmp_path, SMALL + 40).encode("a")
