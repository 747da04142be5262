"""What stands around Qwen3-ASR's text, and its loops, against transformers."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.qwen3_asr.processing_qwen3_asr import (
    LANGUAGE_CODE_TO_NAME,
    _detect_and_fix_repetitions,
    _parse_single_output,
)

from livecap.languages import NAMES, language_code
from livecap.models.qwen3_asr.text import (
    LANGUAGES,
    Header,
    code_for,
    collapse_repetitions,
    language_named,
    parse,
)

# A few characters, mostly in blocks that are there about as often as a loop must be.
letters = st.text("ab \n", max_size=45)
loops = st.builds(
    lambda block, copies, rest: block * copies + rest,
    st.text("abc\n", min_size=1, max_size=22),
    st.integers(18, 42),
    letters,
)
looping = st.lists(letters | loops | st.text(max_size=5), max_size=5).map("".join)


@given(looping)
def test_collapsed_text_equals_transformers(text: str) -> None:
    assert collapse_repetitions(text) == _detect_and_fix_repetitions(text, threshold=20)


@pytest.mark.parametrize("period", [1, 2, 3, 7, 19, 20, 21])
@pytest.mark.parametrize("copies", [19, 20, 21, 22, 40])
def test_every_edge_equals_transformers(period: int, copies: int) -> None:
    block = "abcdefghijklmnopqrstu"[:period]
    for rest in ("", "x", "a", block[:-1], "x" * 19, "x" * 20, "x" * 21, "y" * 20 + "z" * 40):
        for before in ("", "x", block[1:]):
            text = before + block * copies + rest
            assert collapse_repetitions(text) == _detect_and_fix_repetitions(text, threshold=20)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", ""),
        ("a" * 20, "a" * 20),
        ("wa" + "a" * 20 + "it", "wait"),
        ("no, " * 19, "no, " * 19),
        ("so " + "no, " * 20 + "yes", "so no, yes"),
        ("好的。" * 30 + "谢谢。" * 30, "好的。谢谢。"),
    ],
)
def test_collapse(text: str, kept: str) -> None:
    assert collapse_repetitions(text) == kept


@pytest.mark.parametrize("block", ["a", "ab", "a" * 19 + "b", "abcdefghijklmnopqrst"])
def test_a_long_loop_is_collapsed_at_once(block: str) -> None:
    assert collapse_repetitions(block * (100_000 // len(block))) == block


def test_long_text_takes_no_long_time() -> None:
    """A hundred thousand characters that are almost loops, or thousands of loops."""
    almost = ("abcdefghijklmnopqrst" * 19 + "u") * 260
    loops = "".join("no " * 20 + f"{number} " for number in range(1600))
    start = process_time()
    assert collapse_repetitions(almost) == almost
    assert collapse_repetitions(loops).startswith("no 0 no 1 no 2 ")
    assert process_time() - start < 5  # seconds, and a fifth of one in fact


def test_the_languages_are_transformers() -> None:
    assert LANGUAGES == LANGUAGE_CODE_TO_NAME
    assert len(LANGUAGES) == 30


def test_languages_by_name() -> None:
    for code, name in LANGUAGES.items():
        assert language_named(name) == language_named(f" {name.upper()} ") == code
    assert language_named("Klingon") is None
    assert language_named("None") is None


def test_codes_of_users_lead_to_the_models() -> None:
    assert {code for code in map(code_for, NAMES) if code} == set(LANGUAGES)
    assert code_for(language_code("Filipino")) == code_for(language_code("fil")) == "fil"
    assert code_for(language_code("zh-Hant-TW")) == "zh"
    assert code_for("cy") is None


@pytest.mark.parametrize(
    ("meta", "header"),
    [
        *(("language English", Header("en", False)), ("language None", Header(None, True))),
        *(("language none\n", Header(None, True)), (" language  cantonese ", Header("yue", False))),
        *(("\n\nlanguage Filipino\n", Header("fil", False)), ("", Header(None, False))),
        *(("language Elvish", Header(None, False)), ("language", Header(None, False))),
        ("so\nlanguage German\nlanguage French", Header("de", False)),
        ("a language English", Header(None, False)),
    ],
)
def test_parse(meta: str, header: Header) -> None:
    assert parse(meta) == header


@pytest.mark.parametrize("before", ["", "\n", "  "])
@pytest.mark.parametrize("after", ["", "\n", "\nx"])
def test_parse_equals_transformers(before: str, after: str) -> None:
    for code, name in LANGUAGES.items():
        meta = f"{before}language {name}{after}"
        theirs = _parse_single_output(f"{meta}<asr_text>text")["language"]
        assert parse(meta) == Header(code, False)
        assert language_named(theirs) == code
