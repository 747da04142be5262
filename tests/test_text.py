"""Bytes -> text without broken characters; loops found, and real repetition left alone."""

import re
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livecap.errors import ConfigError
from livecap.languages import NAMES, language_code
from livecap.text.detokenizer import Utf8, decode_utf8
from livecap.text.repetition import compression_ratio, loop_start


def pushed(data: bytes, cuts: list[int]) -> list[str]:
    utf8, edges = Utf8(), sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [utf8.push(data[start:end]) for start, end in pairwise(edges)]


@given(st.text(), st.lists(st.integers(0, 1000)))
def test_text_survives_any_cut(text: str, cuts: list[int]) -> None:
    pieces = pushed(text.encode(), cuts)
    assert "".join(pieces) == text
    assert "\ufffd" in text or not any("\ufffd" in piece for piece in pieces)


@given(st.binary(), st.lists(st.integers(0, 1000)))
def test_broken_bytes_come_out_alike_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    assert "".join(pushed(data, cuts)) == decode_utf8(data)


def test_a_character_is_held_back_until_it_is_whole() -> None:
    utf8 = Utf8()
    assert [utf8.push(bytes([byte])) for byte in "a😀".encode()] == ["a", "", "", "", "😀"]
    assert utf8.push("é".encode()[:1]) == ""
    assert utf8.pending == b"\xc3"
    assert utf8.finish() == b"\xc3"
    assert (utf8.pending, utf8.push(b"b"), utf8.finish()) == (b"", "b", b"")
    assert decode_utf8(b"a\xffb\xe2\x82") == "a\ufffdb"


def test_compression_ratio_is_openais() -> None:
    text = "thank you for watching " * 20
    assert compression_ratio(text) == len(text) / len(zlib.compress(text.encode())) > 2.4
    assert compression_ratio("") == 0
    assert 0.5 < compression_ratio("the quick brown fox jumps over the lazy dog") < 1.2


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("you " * 20, "you"),
        ("so it was " + "thank you " * 10, "so it was thank you"),
        ("he said " + "we are going to the " * 4, "he said we are going to the"),
        ("yes " + "a b c d e f g h i j k l " * 3, "yes a b c d e f g h i j k l"),
        ("a b c d e f g h i j k l " * 2 + "a b c d e f g h i j k", None),  # not yet three times
        ("x " + "a b c d e f g h " * 4 + "a b c", "x a b c d e f g h"),  # a copy just begun
        ("a b c d e f g h i j k l " * 3 + "m", None),  # it went on
        ("no " * 19, None),
        ("U S A " * 6, None),
        ("very very very very very good", None),
        ("we will we will rock you " * 2, None),
        ("one two three four five six seven eight nine ten " * 2, None),
        (" ".join(f"one hundred and {number} ," for number in range(30)), None),
        (" ".join(f"{number} bottles of beer on the wall ." for number in range(20, 0, -1)), None),
        (" ".join(map(str, range(100))), None),
        ("happy birthday to you " * 2 + "happy birthday dear Ann happy birthday to you", None),
        ("", None),
    ],
)
def test_loops_and_real_repetition(text: str, kept: str | None) -> None:
    words = text.split()
    start = loop_start(words)
    assert (start is None) == (kept is None)
    assert words[:start] == (kept.split() if kept else words)


@given(
    st.lists(st.integers(0, 9), max_size=20), st.lists(st.integers(10, 99), min_size=1, max_size=24)
)
def test_a_loop_is_cut_to_one_copy_at_every_length(before: list[int], block: list[int]) -> None:
    items = before + block * 25
    for end in range(len(items) - len(block), len(items)):
        once = items[:end][: loop_start(items[:end])]
        assert once[: len(before)] == before
        assert len(once) <= len(before) + len(block)
        assert loop_start(once) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *(("en", "en"), ("EN", "en"), ("English", "en"), (" english ", "en"), ("en-US", "en")),
        *(("zh_cn", "zh"), ("zh-Hant-TW", "zh"), ("zh-yue", "yue"), ("Cantonese", "yue")),
        *(
            ("iw", "he"),
            ("in", "id"),
            ("jv", "jw"),
            ("nb-NO", "no"),
            ("fil", "tl"),
            ("Mandarin", "zh"),
        ),
        *(("Haitian Creole", "ht"), ("haitian", "ht"), ("haw", "haw"), ("Castilian", "es")),
        ("yue-Hant-HK", "yue"),
        *(("eng", "en"), ("ger", "de"), ("deu", "de"), ("spa-MX", "es"), ("chi", "zh")),
        *(("nob", "no"), ("yue", "yue"), ("jav", "jw")),
    ],
)
def test_language_code(text: str, code: str) -> None:
    assert language_code(text) == code


def test_every_language_is_its_own_code() -> None:
    assert len(NAMES) == len(set(NAMES.values())) == 100
    assert all(language_code(code) == language_code(name) == code for code, name in NAMES.items())


@pytest.mark.parametrize("text", ["", "auto", "klingon", "e", "-en"])
def test_unknown_languages_are_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        language_code(text)
    assert caught.value.remedy.count("(") == 3, "the likeliest, not a hundred"


@pytest.mark.parametrize(
    ("text", "likeliest"),
    [("germn", "de (German)"), ("engl", "en (English)"), ("spn", "es (Spanish)")],
)
def test_the_likeliest_language_is_named_first(text: str, likeliest: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"Perhaps {likeliest} or ")):
        language_code(text)
