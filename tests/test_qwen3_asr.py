"""Qwen3-ASR as a whole: prompt, answer, and file mode, on random weights of the real classes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from media import wav
from qwen_models import (
    REAL,
    SMALL,
    save_causal,
    save_hf,
    save_official,
    tiny_aligner,
    tiny_qwen,
)
from qwen_vocabulary import added_tokens
from safetensors.torch import load_file
from transformers.models.qwen3_asr.feature_extraction_qwen3_asr import Qwen3ASRFeatureExtractor

from livecap.audio import AudioReader
from livecap.audio.prefetch import Pump, ReadConfig
from livecap.checkpoints import Checkpoint, load_qwen3_asr, resolve
from livecap.commands.file import FileRun, Progress
from livecap.config import DecodeConfig, ModelConfig, VadConfig
from livecap.engine.engine import Engine
from livecap.engine.pages import Table
from livecap.engine.request import Embedded, Request
from livecap.engine.request import Sequence as Decoded
from livecap.errors import ConfigError, CorruptModel, ModelError
from livecap.events import RATE, Caption, Language, Unrecognised
from livecap.models.load import Loaded, load_model
from livecap.models.protocol import EncodeRequest
from livecap.models.qwen3_asr import load
from livecap.models.qwen3_asr.aligner import ForcedAligner
from livecap.models.qwen3_asr.answer import budget
from livecap.models.qwen3_asr.model import CONTEXT, Qwen3Asr
from livecap.models.qwen3_asr.prompt import ParsedAnswer, Prompt
from livecap.models.qwen3_asr.text import LANGUAGES
from livecap.online.job import DecodeJob, Hypothesis
from livecap.online.speech_buffer import Pcm, Piece, Segment
from livecap.runtime.batcher import Batcher
from livecap.vad.silero import load as load_silero
from towers.mel import Mel

JFK = Path(__file__).parent / "audio" / "jfk.flac"
FP32 = ModelConfig(precision="fp32")


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_qwen()


@pytest.fixture(scope="module")
def checkpoint(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return save_official(model, tmp_path_factory.mktemp("qwen"))


@pytest.fixture(scope="module")
def loaded(checkpoint: Checkpoint) -> Loaded:
    return load_model(checkpoint, FP32)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Prompt:
    """Prompts in the published vocabulary."""
    saved = save_official(tiny_qwen(count=REAL), tmp_path_factory.mktemp("real"))
    return Prompt(load_qwen3_asr(saved).tokenizer)


@pytest.fixture(scope="module")
def jfk() -> Pcm:
    with AudioReader(JFK) as reader:
        return np.concatenate([block.pcm[0] for block in reader])


def work_of(pcm: Pcm, language: str | None = None, number: int = 0) -> DecodeJob:
    return DecodeJob(number, Segment(pcm, (Piece(0, 0, len(pcm)),)), language)


def recognise(
    loaded: Loaded, works: list[DecodeJob], config: DecodeConfig | None = None, *, most: int = 4
) -> list[Hypothesis]:
    batcher: Batcher[int] = Batcher(loaded.model, config or DecodeConfig(), max_jobs=most)
    waiting, found = list(works), dict[int, Hypothesis]()
    while len(found) < len(works):
        while waiting and batcher.capacity:
            work = waiting.pop(0)
            batcher.submit(work.number, work)
        found |= dict(batcher.step())
    pages = loaded.model.decoder.pages
    assert pages.available == pages.count, "pages leaked"
    return [found[number] for number in sorted(found)]


def text(hypothesis: Hypothesis) -> str:
    return "".join(word.text for span in hypothesis.spans for word in span.words)


def clips(pcm: Pcm) -> list[Pcm]:
    """Pieces of very different lengths, one of under half a second."""
    return [pcm, pcm[: 3 * RATE], pcm[5 * RATE : 9 * RATE + 77], pcm[: RATE // 3], pcm[-RATE:]]


# -- prompt and answer --------------------------------------------------------------------------


def test_prompts_are_the_published_ones(real: Prompt) -> None:
    ids, start = real.ids(3)
    assert start == 9
    assert ids[:9] == (151644, 8948, 198, 151645, 198, 151644, 872, 198, 151669)
    assert ids[9:12] == (151676,) * 3
    assert ids[12:] == (151670, 151645, 198, 151644, 77091, 198)
    forced, _ = real.ids(390, language="en")
    assert len(forced) == 390 + 15 + 3
    assert forced[-3:] == (11528, 6364, 151704)  # "language", " English", the mark
    config = DecodeConfig(prompt="about ships", hotwords="Pequod")
    given, start = real.ids(0, context=real.context(config))
    assert real.tokenizer.decode(given[3 : start - 6]) == "Pequod about ships"


@pytest.mark.parametrize(
    ("meta", "said", "answer"),
    [
        ("language English", " Hi.", ParsedAnswer(" Hi.", "en", 1.0)),
        ("language Chinese", "你好，世界🙂", ParsedAnswer("你好，世界🙂", "zh", 1.0)),
        ("\nlanguage Cantonese\n", "係", ParsedAnswer("係", "yue", 1.0)),
        ("language None", "", ParsedAnswer("", None, None)),
        ("language Klingon", "nuqneH", ParsedAnswer("nuqneH", None, None)),
        (None, "no mark at all", ParsedAnswer("no mark at all", None, None)),
        ("language English", "ha" * 40, ParsedAnswer("ha", "en", 1.0)),
    ],
)
def test_answers_are_taken_apart(
    real: Prompt, meta: str | None, said: str, answer: ParsedAnswer
) -> None:
    tokenizer = real.tokenizer
    tokens = tokenizer.encode(said)
    if meta is not None:
        tokens = [*tokenizer.encode(meta), tokenizer.specials.asr_text, *tokens]
    assert real.answer(tokens, [0.0] * len(tokens), is_forced=False) == answer


def test_an_answer_in_a_forced_language_is_text(real: Prompt) -> None:
    tokens = real.tokenizer.encode("language is hard")
    found = real.answer(tokens, [0.0] * len(tokens), is_forced=True)
    assert found == ParsedAnswer("language is hard", None, None)


def test_an_answer_that_breaks_off_in_a_character_loses_only_that(real: Prompt) -> None:
    tokens = real.tokenizer.encode("a𓀀")
    assert len(tokens) > 2
    found = real.answer(tokens[:-1], [0.0] * (len(tokens) - 1), is_forced=True)
    assert found.text == "a"


def test_many_placeholders_cost_nothing(real: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
    real.ids(1, language="en")
    calls: list[str] = []
    encode = real.tokenizer.encode

    def noted(text: str) -> list[int]:
        calls.append(text)
        return encode(text)

    monkeypatch.setattr(real.tokenizer, "encode", noted)
    ids, _ = real.ids(15_600, language="en")
    assert len(ids) == 15_618
    assert calls == ["language English"]


# -- the model ----------------------------------------------------------------------------------


@torch.inference_mode()
def theirs(model: Any, pcm: Pcm, prompt: tuple[int, ...], most: int) -> list[int]:
    """What transformers' own model writes about a clip, greedily."""
    extractor = Qwen3ASRFeatureExtractor()
    features = extractor(
        pcm, sampling_rate=RATE, padding="longest", return_attention_mask=True, return_tensors="pt"
    )
    ends = set(model.config.eos_token_id)
    rows = model.get_audio_features(features["input_features"], features["attention_mask"])
    tokens = list(prompt)
    while len(tokens) - len(prompt) < most:
        x = model.get_input_embeddings()(torch.tensor([tokens]))
        x[0, [at for at, token in enumerate(tokens) if token == model.config.audio_token_id]] = (
            rows.pooler_output
        )
        token = int(model(inputs_embeds=x).logits[0, -1].argmax())
        if token in ends:
            break
        tokens.append(token)
    return tokens[len(prompt) :]


@pytest.mark.parametrize("language", [None, "en", "yue"])
def test_tokens_equal_transformers(
    model: Any, loaded: Loaded, jfk: Pcm, language: str | None
) -> None:
    qwen = loaded.model
    assert isinstance(qwen, Qwen3Asr)
    for clip in clips(jfk)[1:]:
        (found,) = recognise(loaded, [work_of(clip, language)])
        rows = qwen.encode([_listen(clip)])[0]
        prompt, _ = qwen.prompt.ids(len(rows), language=language)
        scores = _scores(loaded, clip, language)
        expected = theirs(model, clip, prompt, len(scores))
        assert list(scores) == expected
        assert len(scores) <= budget(len(clip) / RATE)
        assert found.reason is None or found.spans or not text(found)


@pytest.mark.parametrize(("name", "language"), [("free", None), ("forced", "en")])
def test_prompt_rows_logits_and_tokens_equal_the_package_qwen_asr(
    name: str, language: str | None, jfk: Pcm, tmp_path: Path
) -> None:
    expected = load_file(Path(__file__).parent / "fixtures" / "qwen_asr.safetensors")
    checkpoint = save_official(tiny_qwen(count=REAL, tied=False), tmp_path)
    qwen = load_model(checkpoint, FP32).model
    assert isinstance(qwen, Qwen3Asr)
    rows = qwen.encode([_listen(jfk[: 8 * RATE])])[0]
    assert isinstance(rows, torch.Tensor)
    torch.testing.assert_close(rows, expected["rows"], rtol=1e-4, atol=1e-4)
    prompt, start = qwen.prompt.ids(len(rows), language=language)
    assert list(prompt) == expected[f"{name}.prompt"].tolist()
    said = expected[f"{name}.tokens"].tolist()
    assert len(set(said)) > 2
    tokens = [*prompt, *said[:-1]]
    logits = qwen.decoder.score(tokens, Embedded(start, rows), range(len(prompt) - 1, len(tokens)))
    top = logits[0, expected[f"{name}.top"]]
    torch.testing.assert_close(top, expected[f"{name}.logits"], rtol=1e-3, atol=1e-3)
    logits = logits.clone()
    logits[:, list(qwen.ends)] = -torch.inf  # the package was made to go on
    assert logits.argmax(1).tolist() == said


def _listen(pcm: Pcm) -> Any:
    return EncodeRequest(pcm)


def _scores(loaded: Loaded, pcm: Pcm, language: str | None) -> tuple[int, ...]:
    """The tokens sampled for a clip, taken from the model's own requests."""
    recognition = loaded.model.decode(work_of(pcm, language), DecodeConfig())
    ask: Any = next(recognition)
    request = recognition.send(loaded.model.encode([ask])[0])
    assert isinstance(request, Request)
    engine = Engine(loaded.model.decoder, most=1)
    engine.submit(request)
    while not (done := engine.step()):
        pass
    recognition.close()
    return tuple(done[0].sampled)


def test_batched_equals_alone(loaded: Loaded, jfk: Pcm) -> None:
    works = [work_of(clip, number=number) for number, clip in enumerate(clips(jfk))]
    alone = recognise(loaded, works, most=1)
    together = recognise(loaded, works, most=5)
    assert [text(one) for one in together] == [text(one) for one in alone]
    assert len({text(one) for one in alone}) > 2


@pytest.mark.parametrize("layout", ["hf", "sharded"])
def test_every_layout_says_the_same(
    model: Any, loaded: Loaded, jfk: Pcm, tmp_path: Path, layout: str
) -> None:
    saved = save_hf(model, tmp_path) if layout == "hf" else save_official(model, tmp_path, shards=3)
    works = [work_of(jfk[: 3 * RATE])]
    assert recognise(load_model(saved, FP32), works) == recognise(loaded, works)


def test_a_text_that_loops_is_tried_again_without_the_context(loaded: Loaded, jfk: Pcm) -> None:
    qwen = loaded.model
    assert isinstance(qwen, Qwen3Asr)
    config = DecodeConfig(prompt="Pequod", language="en")
    context = qwen.prompt.context(config)
    recognition = qwen.decode(work_of(jfk[: 3 * RATE], "en"), config)
    next(recognition)
    request: Any = recognition.send(rows := torch.zeros(39, 32))
    assert request.prompt == qwen.prompt.ids(39, context=context, language="en")[0]
    assert request.embedded.rows is rows
    loop = Decoded(request, [*request.prompt, *[70, 71, 72] * 9], Table(), None, status="halted")
    request = recognition.send(loop)
    assert request.prompt == qwen.prompt.ids(39, language="en")[0]
    said = qwen.tokenizer.encode("All is well.")
    good = Decoded(request, [*request.prompt, *said], Table(), None, status="end")
    with pytest.raises(StopIteration) as end:
        recognition.send(good)
    hypothesis: Hypothesis = end.value.value
    assert text(hypothesis) == " All is well."
    assert hypothesis.reason is None


@pytest.mark.parametrize(
    ("said", "status", "kept", "reason"),
    [
        ("go on and on " * 20, "halted", " go on and on", "repeating itself"),
        ("much", "limit", " much", "cut"),
        ("", "end", "", "no speech"),
    ],
)
def test_nothing_is_left_out_in_silence(
    loaded: Loaded, jfk: Pcm, said: str, status: Any, kept: str, reason: str
) -> None:
    qwen = loaded.model
    assert isinstance(qwen, Qwen3Asr)
    recognition = qwen.decode(work_of(jfk[: 3 * RATE], "en"), DecodeConfig())
    next(recognition)
    request: Any = recognition.send(torch.zeros(39, 32))
    tokens = [*request.prompt, *qwen.tokenizer.encode(said)]
    with pytest.raises(StopIteration) as end:
        recognition.send(Decoded(request, tokens, Table(), None, status=status))
    hypothesis: Hypothesis = end.value.value
    assert text(hypothesis).rstrip() == kept
    assert hypothesis.reason
    assert reason in hypothesis.reason


def test_temperature_samples_by_seed(loaded: Loaded, jfk: Pcm) -> None:
    works = [work_of(jfk[: 3 * RATE])]
    config = DecodeConfig(temperature=1.0)
    first, again = (recognise(loaded, works, config) for _ in range(2))
    assert first == again
    assert first != recognise(loaded, works)


def test_audio_louder_than_full_scale_is_scaled(loaded: Loaded, jfk: Pcm) -> None:
    works = [work_of(jfk[: 3 * RATE] / np.abs(jfk[: 3 * RATE]).max())]
    loud = [work_of(jfk[: 3 * RATE] * 40)]
    assert text(recognise(loaded, loud)[0]) == text(recognise(loaded, works)[0])


# -- what it can't do ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (DecodeConfig(task="translate"), "--task translate"),
        (DecodeConfig(long_form="sequential"), "--long-form sequential"),
        (DecodeConfig(no_timestamps=True), "--no-timestamps"),
        (DecodeConfig(language="la"), "'la'"),
        (DecodeConfig(prompt="word " * 2 * CONTEXT), "tokens"),
    ],
)
def test_what_it_has_not_is_refused_by_name(
    loaded: Loaded, config: DecodeConfig, said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        loaded.model.check(config)
    assert caught.value.remedy
    if config.language:
        assert all(name in str(caught.value) for name in LANGUAGES.values())


def test_filipino_goes_by_either_code(loaded: Loaded) -> None:
    for code in ("tl", "fil"):
        loaded.model.check(DecodeConfig(language=code))


@pytest.mark.parametrize("seconds", [29, 300, 1200])
def test_long_segments_have_room(checkpoint: Checkpoint, seconds: int) -> None:
    loaded = load_model(checkpoint, ModelConfig(precision="fp32", max_segment=seconds))
    model = loaded.model
    assert model.segment == seconds * RATE
    assert isinstance(model, Qwen3Asr)
    ids, _ = model.prompt.ids(13 * seconds, context=(1,) * CONTEXT, language="yue")
    assert len(ids) + budget(seconds) <= model.decoder.limit


@pytest.mark.parametrize(("told", "seconds"), [(6, 6), (30, 28), (None, 28)])
def test_a_checkpoint_says_what_suits_it(
    model: Any, tmp_path: Path, told: int | None, seconds: int
) -> None:
    """`chunk_length`, unless the user says otherwise."""
    checkpoint = save_official(model, tmp_path)
    if told:
        (tmp_path / "preprocessor_config.json").write_text(json.dumps({"chunk_length": told}))
    loaded = load_model(checkpoint, FP32)
    assert loaded.model.segment == seconds * RATE
    assert loaded.model.streaming.max_segment == min(seconds, 16) * RATE
    longer = load_model(checkpoint, ModelConfig(precision="fp32", max_segment=40))
    assert longer.model.segment == 40 * RATE


@pytest.mark.parametrize("told", [0, -3, 1, "six", None])
def test_a_length_that_is_none(model: Any, tmp_path: Path, told: object) -> None:
    checkpoint = save_official(model, tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"chunk_length": told}))
    with pytest.raises(CorruptModel, match="chunk_length"):
        load_model(checkpoint, FP32)


def test_the_windows_are_the_users_choice(checkpoint: Checkpoint, jfk: Pcm) -> None:
    rows = {
        window: load_model(
            checkpoint, ModelConfig(precision="fp32", attention_window=window)
        ).model.encode([_listen(jfk)])[0]
        for window in (0, 2, 4, 8)
    }
    assert isinstance(rows[0], torch.Tensor)
    assert torch.equal(rows[0], rows[8])
    assert not torch.equal(rows[2], rows[4])


def test_whisper_refuses_what_is_not_its_own() -> None:
    with pytest.raises(ConfigError, match="--max-segment"):
        load_model(resolve("tiny.en"), ModelConfig(max_segment=60))
    with pytest.raises(ConfigError, match="--attention-window"):
        load_model(resolve("tiny.en"), ModelConfig(attention_window=4))
    assert load_model(resolve("tiny.en"), ModelConfig(max_segment=10)).model.segment == 10 * RATE


# -- the streaming tower in file mode -------------------------------------------------------------


def test_the_causal_tower_hears_with_the_decoder_beside_it(
    model: Any, tmp_path: Path, jfk: Pcm
) -> None:
    loaded = load_model(save_causal(model, tmp_path), FP32)
    assert loaded.model.languages == ("en",)
    assert loaded.model.segment == 16 * RATE
    rows = loaded.model.encode([_listen(jfk[: 5 * RATE])])[0]
    assert isinstance(rows, torch.Tensor)
    assert rows.shape == (62, 32)  # 12.5 a second, and no row for less than 80 ms
    (found,) = recognise(loaded, [work_of(jfk[: 5 * RATE], "en")])
    assert found.language == "en"
    with pytest.raises(ConfigError, match="'fr'"):
        loaded.model.check(DecodeConfig(language="fr"))
    for config in (ModelConfig(max_segment=17), ModelConfig(attention_window=4)):
        with pytest.raises(ConfigError):
            load_model(save_causal(model, tmp_path), config)


# -- the forced aligner -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def their_aligner() -> Any:
    return tiny_aligner(classes=200)


@pytest.fixture(scope="module")
def aligner(their_aligner: Any, tmp_path_factory: pytest.TempPathFactory) -> ForcedAligner:
    saved = save_official(their_aligner, tmp_path_factory.mktemp("aligner"))
    with pytest.raises(ModelError, match="aligns"):
        load_model(saved, FP32)
    return load.load_aligner(load.read_aligner(saved), FP32)


@torch.inference_mode()
def test_aligner_classes_equal_transformers(
    their_aligner: Any, aligner: ForcedAligner, jfk: Pcm
) -> None:
    units = ["And", "so", "my", "fellow", "Americans"]
    clip = jfk[: 3 * RATE]
    features = Qwen3ASRFeatureExtractor()(
        clip, sampling_rate=RATE, padding="longest", return_attention_mask=True, return_tensors="pt"
    )
    ids = added_tokens(SMALL)
    tokens = [ids["<|audio_start|>"], *[ids["<|audio_pad|>"]] * 39, ids["<|audio_end|>"]]
    for unit in units:
        tokens += [*aligner.tokenizer.encode(unit), ids["<timestamp>"], ids["<timestamp>"]]
    logits = their_aligner(
        input_ids=torch.tensor([tokens]),
        input_features=features["input_features"],
        input_features_mask=features["attention_mask"],
    ).logits[0]
    marks = [at for at, token in enumerate(tokens) if token == ids["<timestamp>"]]
    assert aligner.classes(clip, units) == logits[marks].argmax(-1).tolist()


def test_aligned_words_are_in_order_and_inside(aligner: ForcedAligner, jfk: Pcm) -> None:
    words = [" And", " so,", " my", " fellow", " —", " Americans!"]
    times = aligner.times(jfk[: 3 * RATE], words, "en")
    assert times is not None
    flat = [moment for span in times for moment in span]
    assert flat == sorted(flat)
    assert flat[0] >= 0
    assert flat[-1] <= 3 * RATE
    assert aligner.times(jfk, words, "th") is None
    assert aligner.times(np.zeros(181 * RATE, np.float32), words, "en") is None


def test_the_aligner_on_this_machine_is_used(
    checkpoint: Checkpoint, their_aligner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIVECAP_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "nowhere"))
    folder = tmp_path / "models" / load.ALIGNER
    assert load_model(checkpoint, FP32).model.untimed("en")
    save_official(their_aligner, folder)
    loaded = load_model(checkpoint, FP32)
    assert loaded.model.untimed("en") is None
    assert "aligner knows" in str(loaded.model.untimed("hi"))
    config = DecodeConfig(words=True, language="en")
    words = [
        word
        for _, event in run(loaded, [str(JFK)], config)
        if isinstance(event, Caption)
        for word in event.words
    ]
    assert words
    assert all(word.start is not None for word in words)
    (folder / "model.safetensors").unlink()  # a broken one is none
    assert load_model(checkpoint, FP32).model.untimed("en")


# -- file mode ----------------------------------------------------------------------------------


def run(loaded: Loaded, paths: list[str], config: DecodeConfig) -> list[Any]:
    files = FileRun(
        loaded,
        load_silero(),
        decode=config,
        vad=VadConfig(),
        open_source=lambda name: Pump(name, ReadConfig()),
    )
    return [item for item in files.run(paths) if not isinstance(item, Progress)]


def test_file_mode_accounts_for_everything(loaded: Loaded) -> None:
    events = [event for _, event in run(loaded, [str(JFK)] * 3, DecodeConfig())]
    heard = [one for one in events if isinstance(one, Caption | Unrecognised)]
    assert heard
    for event in events:
        if isinstance(event, Caption):
            assert all(word.start is None for word in event.words), "times are never invented"
            assert not event.text or event.text.startswith(" ")
        assert not isinstance(event, Language) or event.code in LANGUAGES


def test_words_get_times_from_the_aligner(
    model: Any, checkpoint: Checkpoint, aligner: ForcedAligner
) -> None:
    plain = load_model(checkpoint, FP32)
    assert plain.model.untimed(None)
    qwen = plain.model
    assert isinstance(qwen, Qwen3Asr)
    timed = Qwen3Asr(
        load_qwen3_asr(checkpoint),
        mel=Mel(128),
        tower=qwen.tower,
        decoder=qwen.decoder,
        segment=qwen.segment,
        aligner=aligner,
    )
    assert timed.untimed(None) is None
    config = DecodeConfig(words=True, language="en")
    events = [event for _, event in run(Loaded(timed, 2), [str(JFK)], config)]
    words = [word for event in events if isinstance(event, Caption) for word in event.words]
    assert words
    assert all(word.start is not None and word.end is not None for word in words)


def test_long_segments_are_heard_at_once(checkpoint: Checkpoint, jfk: Pcm, tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    path.write_bytes(wav(np.tile(jfk, 5)))
    for seconds, segments in ((28, {0, 1}), (60, {0})):
        loaded = load_model(checkpoint, ModelConfig(precision="fp32", max_segment=seconds))
        hypotheses = run(loaded, [str(path)], DecodeConfig(language="en"))
        numbers = {event.segment for _, event in hypotheses if isinstance(event, Caption)}
        assert numbers == segments
