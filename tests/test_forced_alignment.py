"""Units and repaired times against transformers'; words get the times of their units."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.qwen3_asr.processing_qwen3_asr import (
    FORCED_ALIGNER_LANGUAGES,
    LANGUAGE_CODE_TO_NAME,
    Qwen3ASRProcessor,
    _clean_tokens,
    _fix_timestamps,
)

from livecap.models.qwen3_asr.alignment import ALIGNED_LANGUAGES, Unit, repair, units, word_times

MIXED = "ab'é1٣ \n\t.,-_’“—。、・ー々〇ゝがか\u3099カﾞｶァ学生𠀀𫠠𬺰豈한국e\u0301"
texts = st.text() | st.text(MIXED)
times = st.lists(st.integers(0, 12).map(lambda step: step * 80)) | st.lists(
    st.integers(0, 400_000), max_size=60
)


def written(text: str, language: str | None) -> list[str]:
    return [unit.text for unit in units(text, language)]


def test_the_languages_are_transformers() -> None:
    names = {LANGUAGE_CODE_TO_NAME[code] for code in ALIGNED_LANGUAGES}
    assert names == FORCED_ALIGNER_LANGUAGES
    assert len(names) == len(ALIGNED_LANGUAGES) == 11


@given(texts, st.sampled_from([None, "en", "zh", "yue", "ru"]))
def test_units_equal_transformers(text: str, language: str | None) -> None:
    name = language and LANGUAGE_CODE_TO_NAME[language]
    theirs = Qwen3ASRProcessor.split_words_for_alignment(None, text, name)
    assert written(text, language) == theirs


def test_every_ideograph_is_one_as_in_transformers() -> None:
    text = "".join(
        map(chr, [*range(0x2E00, 0xD800), *range(0xF800, 0xFB00), *range(0x1F000, 2**18)])
    )
    assert written(text, None) == Qwen3ASRProcessor.split_words_for_alignment(None, text, None)


@given(texts)
def test_korean_words_are_those_between_spaces(text: str) -> None:
    assert written(text, "ko") == _clean_tokens(text.split())  # soynlp's without a dictionary


@given(texts, st.sampled_from([None, "ja", "ko"]))
def test_every_letter_is_in_one_unit(text: str, language: str | None) -> None:
    found = units(text, language)
    assert "".join(unit.text for unit in found) == "".join(_clean_tokens(text))
    assert all(a.stop <= b.start for a, b in pairwise(found))
    for unit in found:
        piece = text[unit.start : unit.stop]
        assert "".join(_clean_tokens(piece)) == unit.text
        assert (piece[0], piece[-1]) == (unit.text[0], unit.text[-1])


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Well, it's—fine!", "en", ["Well", "it'sfine"]),
        ("我爱NLP，真的 3.5", "zh", ["我", "爱", "NLP", "真", "的", "35"]),
        ("아니, 大學에 가요.", "ko", ["아니", "大學에", "가요"]),
        # Of these, nagisa makes: これ は テスト です; 人々 が すごーい ラーメン を 3 5 杯 食べ た.
        ("これはテストです。", "ja", ["これは", "テスト", "です"]),
        (
            "人々がすごーいラーメンを3.5杯食べた",
            "ja",
            ["人々", "がすごーい", "ラーメン", "を", "3", "5", "杯", "食", "べた"],
        ),
        ("ジョン・スミスさん、Wi-Fi", "ja", ["ジョン", "スミス", "さん", "Wi", "Fi"]),
        ("カ\u3099ス", "ja", ["カス"]),  # as with all marks that stand alone, the aligner drops it
        (" . — ", "fr", []),
        ("", "ja", []),
    ],
)
def test_units(text: str, language: str, expected: list[str]) -> None:
    assert written(text, language) == expected


def test_units_know_where_they_are_from() -> None:
    assert units(' "Well, it—is"', "en") == [Unit("Well", 2, 6), Unit("itis", 8, 13)]


@given(times.filter(bool))
def test_repair_equals_transformers(milliseconds: list[int]) -> None:
    assert repair(milliseconds) == _fix_timestamps(np.array(milliseconds, np.float32))


def test_short_repairs_all_equal_transformers() -> None:
    for length, most in ((6, 5), (9, 3)):
        for milliseconds in product(range(0, most * 80, 80), repeat=length):
            assert repair(milliseconds) == _fix_timestamps(np.array(milliseconds))


@given(times)
def test_repaired_times_never_decrease(milliseconds: list[int]) -> None:
    repaired = repair(milliseconds)
    assert repaired == sorted(repaired)
    assert repair(repaired) == repaired
    assert len(repaired) == len(milliseconds)


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [
        ([], []),
        ([80, 9000, 160, 240], [80, 80, 160, 240]),
        ([80, 9000, 9000, 160, 240, 320], [80, 80, 160, 160, 240, 320]),  # each takes the nearer
        ([0, 9, 9, 9, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1]),
        ([0, 900, 800, 700, 400, 480], [0, 100, 200, 300, 400, 480]),  # three are spread
        ([900, 0, 80], [0, 0, 80]),
        ([80, 160, 0], [80, 160, 160]),
    ],
)
def test_repair(milliseconds: list[int], expected: list[int]) -> None:
    assert repair(milliseconds) == expected


def test_words_have_the_times_of_their_units() -> None:
    text = "— Well, it's 中文！ ok"
    found = units(text, "en")
    assert [unit.text for unit in found] == ["Well", "it's", "中", "文", "ok"]
    at = [80, 240, 320, 400, 480, 560, 640, 720, 880, 960]
    words = spans("—", " Well", ",", " it's", " 中文", "！", " ok")
    assert word_times(found, at, words, duration=1000) == [
        *((80, 80), (80, 240), (240, 240), (320, 400), (480, 720), (720, 720), (880, 960))
    ]
    assert word_times(found, at, words, duration=700)[-3:] == [(480, 700), (700, 700), (700, 700)]
    assert word_times(found, at, words[3:5], duration=1000) == [(320, 400), (480, 720)]
    assert word_times([], [], spans("…", "!"), duration=1000) == [(0, 0), (0, 0)]


def test_a_unit_is_shared_out_by_its_characters() -> None:
    words = spans("これ", "は", "。")
    found = units("これは。", "ja")
    assert word_times(found, [300, 600], words, duration=900) == [
        (300, 500),
        (500, 600),
        (600, 600),
    ]
    words = spans("to", "—", "do", ".")
    assert word_times(units("to—do.", "en"), [0, 500], words, duration=900) == [
        *((0, 200), (200, 200), (300, 500), (500, 500))
    ]


@given(
    st.lists(st.text(MIXED, min_size=1)),
    st.sampled_from(["en", "ja", "ko"]),
    st.lists(st.integers(0, 900), min_size=200, max_size=200),
    st.integers(0, 900),
)
def test_word_times_never_decrease(
    texts: list[str], language: str, steps: list[int], duration: int
) -> None:
    found = units("".join(texts), language)
    at = [steps[place % len(steps)] for place in range(2 * len(found))]
    pairs = word_times(found, at, spans(*texts), duration=duration)
    flat = [time for pair in pairs for time in pair]
    assert flat == sorted(flat)
    assert all(0 <= time <= duration for time in flat)
    for text, (start, end) in zip(texts, pairs, strict=True):
        assert _clean_tokens([text]) or start == end


@given(st.lists(st.text("ab'1中", min_size=1), min_size=1), st.data())
def test_whole_units_keep_their_times(words: list[str], data: st.DataObject) -> None:
    texts = [f" {word}," for word in words]
    found = units("".join(texts), "zh")
    many = st.lists(st.integers(0, 999), min_size=2 * len(found), max_size=2 * len(found))
    at = sorted(data.draw(many))
    pairs = word_times(found, at, spans(*texts), duration=1000)
    counts = [len(units(text, "zh")) for text in texts]
    stops = np.cumsum(counts).tolist()
    assert pairs == [
        (at[2 * (stop - count)], at[2 * stop - 1])
        for stop, count in zip(stops, counts, strict=True)
    ]


def spans(*words: str) -> list[tuple[str, int, int]]:
    """Words that make up a text -> the same with where they stand."""
    stops = np.cumsum([len(word) for word in words]).tolist()
    return [(word, stop - len(word), stop) for word, stop in zip(words, stops, strict=True)]
