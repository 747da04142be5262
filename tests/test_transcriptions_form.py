"""Form fields in all spellings -> one request, or a refusal that names the field."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uploads import Model

from livecap.api.errors import ApiError
from livecap.api.transcriptions.form import MOST_CONTEXT, TranscriptionRequest, read
from livecap.api.transcriptions.plan import plan
from livecap.config import Task, VadConfig

Pairs = list[tuple[str, str]]


def asked(*pairs: tuple[str, str], task: Task = "transcribe") -> TranscriptionRequest:
    return read(pairs, task=task)


def refused(*pairs: tuple[str, str], task: Task = "transcribe") -> tuple[int, Any, Any]:
    with pytest.raises(ApiError) as caught:
        read(pairs, task=task)
    return caught.value.status, caught.value.code, caught.value.param


def test_nothing_is_required_of_the_fields() -> None:
    assert asked() == TranscriptionRequest("transcribe")
    assert asked(task="translate") == TranscriptionRequest("translate")
    blank = [("language", ""), ("prompt", " "), ("response_format", ""), ("temperature", "")]
    assert asked(*blank, ("stream", ""), ("model", "null")) == TranscriptionRequest("transcribe")


@pytest.mark.parametrize(
    "pairs",
    [
        [("keywords[]", "one"), ("keywords[]", "two")],
        [("keywords", "one"), ("keywords", "two")],
        [("keywords[0]", "one"), ("keywords[1]", "two")],
        [("keywords", "one,two")],
        [("keywords[]", " one , two,")],
        [("keywords", '["one", "two"]')],
        [("hotwords", "one, two")],
        [("keywords", "one"), ("hotwords", "two,one")],
    ],
)
def test_lists_in_every_spelling(pairs: Pairs) -> None:
    assert asked(*pairs).keywords == ("one", "two")


def test_a_bracket_need_not_begin_a_list() -> None:
    assert asked(("keywords", "[sic], two")).keywords == ("[sic]", "two")


@pytest.mark.parametrize("spelling", ["timestamp_granularities", "timestamp_granularities[]"])
@pytest.mark.parametrize(
    ("values", "words", "segments"),
    [
        ([], False, True),
        (["segment"], False, True),
        (["word"], True, False),
        (["WORD", "segment"], True, True),
        (["word,segment"], True, True),
    ],
)
def test_granularities(spelling: str, values: list[str], words: bool, segments: bool) -> None:
    pairs = [(spelling, value) for value in values]
    found = asked(("response_format", "verbose_json"), *pairs)
    assert (found.words, found.segments) == (words, segments)
    assert not asked(*pairs).words  # other formats have no place for them


@pytest.mark.parametrize("value", ["true", "True", "TRUE", "1", "yes", " on "])
def test_true_in_any_case(value: str) -> None:
    assert asked(("stream", value)).stream
    assert asked(("stream_include_usage", value)).usage


@pytest.mark.parametrize("value", ["false", "False", "0", "no", "None", ""])
def test_false_in_any_case(value: str) -> None:
    assert not asked(("stream", value)).stream


def test_the_last_of_several_values_counts() -> None:
    assert asked(("model", "one"), ("model", "two"), ("model", "")).model == "two"


@pytest.mark.parametrize(
    "pairs",
    [
        [
            ("chunking_strategy[type]", "server_vad"),
            ("chunking_strategy[threshold]", "0.4"),
            ("chunking_strategy[prefix_padding_ms]", "200"),
            ("chunking_strategy[silence_duration_ms]", "700"),
        ],
        [
            (
                "chunking_strategy",
                '{"type":"server_vad","threshold":0.4,"prefix_padding_ms":200,'
                '"silence_duration_ms":700}',
            )
        ],
        [
            (
                "chunking_strategy",
                '{"threshold":"0.4","prefix_padding_ms":199.6,"silence_duration_ms":700,"new":1}',
            )
        ],
    ],
)
def test_chunking_strategies(pairs: Pairs) -> None:
    expected = VadConfig(vad_threshold=0.4, vad_pad=200, vad_min_silence=700)
    assert asked(*pairs).vad == expected


@pytest.mark.parametrize("value", ["auto", '"auto"', "null", "None", ""])
def test_chunking_as_the_server_likes(value: str) -> None:
    assert asked(("chunking_strategy", value)).vad is None


@pytest.mark.parametrize("threshold", ["0", "1"])
def test_the_ends_of_the_threshold_are_usable(threshold: str) -> None:
    found = asked(("chunking_strategy[threshold]", threshold)).vad
    assert found is not None
    assert 0 < found.vad_threshold < 1


@pytest.mark.parametrize(
    ("value", "code"),
    [("de", "de"), ("German", "de"), ("de-AT", "de"), ("auto", None), ("", None), ("iw", "he")],
)
def test_languages_by_code_or_name(value: str, code: str | None) -> None:
    assert asked(("language", value)).language == code


def test_one_of_several_languages() -> None:
    assert asked(("languages[]", "de")).language == "de"
    found = asked(("languages[]", "de"), ("languages[]", "English"))
    assert (found.language, found.languages) == (None, ("de", "en"))
    assert asked(("language", "de"), ("languages", "en,de")).language == "de"


def test_temperature_zero_is_the_default() -> None:
    assert asked(("temperature", "0.0")).temperature is None
    assert asked(("temperature", "0.5")).temperature == 0.5


def test_what_is_long_is_cut_where_no_model_reads() -> None:
    assert asked(("prompt", "ab" * MOST_CONTEXT)).prompt == "ab" * (MOST_CONTEXT // 2)


def test_translation_by_a_field() -> None:
    assert asked(("task", "translate")).task == "translate"
    assert refused(("task", "transcribe"), task="translate") == (400, "invalid_value", "task")


def test_neutral_values_are_no_request() -> None:
    plain = [("repetition_penalty", "1.0"), ("seed", "42"), ("include[]", "logprobs")]
    unknown = [("vad_filter", "true"), ("what[ever][", "x"), ("", "y"), ("[]", "z")]
    assert asked(*plain, *unknown) == TranscriptionRequest("transcribe")


BAD, CANT, FORM = "invalid_value", "unsupported_value", "response_format"
GRANULARITIES, CHUNKS = "timestamp_granularities", "chunking_strategy"


@pytest.mark.parametrize(
    ("pairs", "code", "param"),
    [
        ([(FORM, "xml")], CANT, FORM),
        ([(FORM, "diarized_json")], CANT, FORM),
        ([(FORM, "srt"), ("stream", "true")], CANT, FORM),
        ([(FORM, "vtt"), ("stream", "1")], CANT, FORM),
        ([(FORM, "verbose_json"), ("stream", "True")], CANT, FORM),
        ([("temperature", "-0.1")], BAD, "temperature"),
        ([("temperature", "1.1")], BAD, "temperature"),
        ([("temperature", "nan")], BAD, "temperature"),
        ([("temperature", "hot")], BAD, "temperature"),
        ([("temperature", "9" * 5000)], BAD, "temperature"),
        ([("stream", "maybe")], BAD, "stream"),
        ([("stream_include_usage", "2")], BAD, "stream_include_usage"),
        ([("language", "klingon")], BAD, "language"),
        ([("languages[]", "en"), ("languages[]", "klingon")], BAD, "languages"),
        ([("language", "fr"), ("languages", "en,de")], BAD, "language"),
        ([(GRANULARITIES + "[]", "phrase")], BAD, GRANULARITIES),
        ([("include[]", "everything")], BAD, "include"),
        ([("long_form", "sideways")], BAD, "long_form"),
        ([("task", "sing")], BAD, "task"),
        ([(CHUNKS, "sometimes")], BAD, CHUNKS),
        ([(CHUNKS, "{")], BAD, CHUNKS),
        ([(CHUNKS, '{"a":' * 5000)], BAD, CHUNKS),
        ([(CHUNKS, "[1]")], BAD, CHUNKS),
        ([(CHUNKS + "[type]", "semantic_vad")], CANT, CHUNKS + ".type"),
        ([(CHUNKS + "[threshold]", "2")], BAD, CHUNKS + ".threshold"),
        ([(CHUNKS, '{"threshold":true}')], BAD, CHUNKS + ".threshold"),
        ([(CHUNKS + "[prefix_padding_ms]", "-1")], BAD, CHUNKS + ".prefix_padding_ms"),
        ([(CHUNKS + "[silence_duration_ms]", "nan")], BAD, CHUNKS + ".silence_duration_ms"),
        ([("known_speaker_names[]", "Ann")], CANT, "known_speaker_names"),
        ([("known_speaker_references[]", "data:")], CANT, "known_speaker_references"),
        ([("seed", "1"), ("temperature", "0.5")], CANT, "seed"),
        ([("seed", "x")], BAD, "seed"),
        ([("max_new_tokens", "0")], BAD, "max_new_tokens"),
        ([("max_new_tokens", "100")], CANT, "max_new_tokens"),
        ([("max_completion_tokens", "100")], CANT, "max_completion_tokens"),
        ([("repetition_penalty", "1.3")], CANT, "repetition_penalty"),
        ([("repetition_penalty", "3")], BAD, "repetition_penalty"),
        ([("keywords", ",".join(map(str, range(1001))))], BAD, "keywords"),
        ([("languages", ",".join(map(str, range(50_000))))], BAD, "languages"),
        ([("keywords", "long, " + "x" * MOST_CONTEXT)], BAD, "keywords"),
    ],
)
def test_refusals(pairs: Pairs, code: str, param: str) -> None:
    assert refused(*pairs) == (400, code, param)


NAMES = st.sampled_from(
    (  # noqa: SIM905 - reads better than twenty quoted words
        "model language languages prompt response_format temperature timestamp_granularities "
        "include stream chunking_strategy keywords hotwords seed max_new_tokens task x "
        "repetition_penalty stream_include_usage long_form known_speaker_names"
    ).split()
)
ENDINGS = st.sampled_from(["", "[]", "[0]", "[type]", "[threshold]", "[", "]", "[a][b]"])
VALUES = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["true", "json", "word", "en", "0.5", "1e400", "nan", "auto", "{}", "[", "[]"]),
    st.integers().map(str),
    st.floats().map(str),
)


@given(
    st.lists(st.tuples(st.tuples(NAMES, ENDINGS).map("".join), VALUES), max_size=6),
    st.sampled_from(["transcribe", "translate"]),
)
def test_any_form_is_a_request_or_a_refusal(pairs: Pairs, task: Task) -> None:
    refusal: ApiError | None = None
    try:
        plan(read(pairs, task=task), Model(), has_vad=True)
    except ApiError as error:
        refusal = error
    if refusal:
        assert refusal.status == 400
        assert refusal.param
        assert refusal.code in ("invalid_value", "unsupported_value")
        assert len(refusal.message) < 1500


# What depends on the model


def planned(*pairs: tuple[str, str], model: Model | None = None, has_vad: bool = True) -> Any:
    return plan(read(pairs, task="transcribe"), model or Model(), has_vad=has_vad)


def test_a_plan_has_all_that_was_asked_for() -> None:
    found = planned(
        ("language", "de"),
        ("prompt", " Guten Tag. "),
        ("keywords", "Ann, Bob"),
        ("temperature", "0.2"),
        ("long_form", "sequential"),
        ("chunking_strategy[threshold]", "0.3"),
    )
    assert (found.session.language, found.decode.language) == ("de", "de")
    assert (found.decode.prompt, found.decode.hotwords) == ("Guten Tag.", "Ann, Bob")
    assert (found.decode.temperature, found.decode.long_form) == (0.2, "sequential")
    assert found.session.vad == VadConfig(vad_threshold=0.3)
    assert found.session.max_segment == Model().segment
    assert planned().session.vad == VadConfig()
    assert planned(has_vad=False).session.vad is None


@pytest.mark.parametrize(
    ("form", "words"), [("json", False), ("text", False), ("srt", True), ("vtt", True)]
)
def test_cues_need_the_times_of_words(form: str, words: bool) -> None:
    assert planned(("response_format", form)).decode.words == words
    assert planned(("response_format", form), model=Model(times=False)).decode.words == words


def test_the_only_language_need_not_be_detected() -> None:
    found = planned(model=Model(languages=("en",)))
    assert (found.session.language, found.decode.language) == ("en", None)


@pytest.mark.parametrize(
    ("candidates", "language"), [("de,it", "de"), ("en,de,fr,it", None), ("de", "de")]
)
def test_candidates_that_come_to_one_or_all(candidates: str, language: str | None) -> None:
    assert planned(("languages", candidates)).session.language == language


@pytest.mark.parametrize(
    ("pairs", "model", "code", "param"),
    [
        ([("language", "it")], Model(), BAD, "language"),
        ([("languages", "it,es")], Model(), BAD, "languages"),
        ([("languages", "de,fr")], Model(), CANT, "languages"),
        ([("task", "translate")], Model(translates=False), CANT, "model"),
        ([("long_form", "sequential")], Model(conditions=False), CANT, "long_form"),
        ([("prompt", "x" * 2000)], Model(), BAD, "prompt"),
        (
            [(FORM, "verbose_json"), (GRANULARITIES, "word")],
            Model(times=False),
            CANT,
            GRANULARITIES,
        ),
    ],
)
def test_what_a_model_cannot_follow(pairs: Pairs, model: Model, code: str, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        planned(*pairs, model=model)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, code, param)


def test_voice_activity_that_is_not_there() -> None:
    with pytest.raises(ApiError) as caught:
        planned(("chunking_strategy[type]", "server_vad"), has_vad=False)
    assert caught.value.param == "chunking_strategy"
