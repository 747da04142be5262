"""Whisper as a whole: the same text from every layout, batch and feed; words in time."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from media import said_by_espeak
from tiny_models import save_huggingface
from transformers import WhisperConfig, WhisperForConditionalGeneration
from transformers.models.whisper.generation_whisper import (
    _dynamic_time_warping,
    _median_filter,
)

from livecap.audio import AudioReader
from livecap.checkpoints import Checkpoint, load_whisper, resolve
from livecap.config import DecodeConfig, ModelConfig
from livecap.engine.engine import Engine
from livecap.engine.pages import Table
from livecap.engine.request import Request
from livecap.engine.request import Sequence as Decoded
from livecap.events import RATE, Scores, Word
from livecap.models.load import Loaded, load_model
from livecap.models.stopping import Runaway
from livecap.models.whisper import attempt, word_times
from livecap.models.whisper.alignment import attention_matrix, median_filter, path, token_rows
from livecap.online.job import DecodeJob, Hypothesis, PrefixState
from livecap.online.speech_buffer import Piece, Segment
from livecap.runtime.batcher import Batcher
from livecap.text.repetition import is_crowded

SPEECH = Path(__file__).parent / "audio" / "jfk.flac"
TEXT = "ask not what your country can do for you ask what you can do for your country."


@pytest.fixture(scope="module")
def fp32() -> Loaded:
    return load_model(resolve("tiny.en"), ModelConfig(precision="fp32"))


@pytest.fixture(scope="module")
def pcm() -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    with AudioReader(SPEECH) as reader:
        return np.concatenate([block.pcm[0] for block in reader])


def recognise(
    loaded: Loaded,
    clips: list["np.ndarray[tuple[int, ...], np.dtype[np.float32]]"],
    config: DecodeConfig,
    *,
    most: int = 16,
) -> list[Hypothesis]:
    """Clips -> hypotheses in order, `most` at once."""
    batcher: Batcher[int] = Batcher(loaded.model, config, max_jobs=most)
    works: Iterator[DecodeJob] = (
        DecodeJob(number, Segment(clip, (Piece(0, 0, len(clip)),)), "en")
        for number, clip in enumerate(clips)
    )
    found: dict[int, Hypothesis] = {}
    left = len(clips)
    while left:
        while batcher.capacity and (work := next(works, None)):
            batcher.submit(work.number, work)
        for key, hypothesis in batcher.step():
            found[key] = hypothesis
            left -= 1
    memory = loaded.model.decoder.memory
    assert memory
    assert memory.available == memory.count, "pages leaked"
    return [found[number] for number in sorted(found)]


def text(hypothesis: Hypothesis) -> str:
    return "".join(word.text for span in hypothesis.spans for word in span.words)


def words(hypothesis: Hypothesis) -> list[Word]:
    return [word for span in hypothesis.spans for word in span.words]


def test_both_layouts_of_one_model_say_the_same(
    tmp_path: Path, fp32: Loaded, pcm: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"
) -> None:
    embedded = resolve("tiny.en")
    read = load_whisper(embedded)
    dims = read.dims
    config = WhisperConfig(
        vocab_size=dims.vocab,
        num_mel_bins=dims.mels,
        d_model=dims.width,
        encoder_layers=dims.encoder_layers,
        decoder_layers=dims.decoder_layers,
        encoder_attention_heads=dims.encoder_heads,
        decoder_attention_heads=dims.decoder_heads,
        encoder_ffn_dim=dims.encoder_hidden,
        decoder_ffn_dim=dims.decoder_hidden,
    )
    model = WhisperForConditionalGeneration(config)
    model.load_state_dict(
        {name: tensor.float() for name, tensor in read.tensors.items()}, strict=False
    )
    model.tie_weights()
    save_huggingface(model, tmp_path, dtype=torch.float32, shard=50_000_000)
    (tmp_path / "tokenizer.json").write_bytes((embedded.folder / "tokenizer.json").read_bytes())
    copy = load_model(
        Checkpoint("copy", tmp_path, "huggingface", "whisper"), ModelConfig(precision="fp32")
    )
    (ours,) = recognise(copy, [pcm], DecodeConfig(words=True))
    (theirs,) = recognise(fp32, [pcm], DecodeConfig(words=True))
    assert text(ours) == text(theirs)
    assert TEXT in text(ours)
    assert [(word.start, word.end) for word in words(ours)] == [
        (word.start, word.end) for word in words(theirs)
    ]


def test_a_batch_says_what_each_says_alone(
    fp32: Loaded, pcm: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"
) -> None:
    clips = [pcm, pcm[: 5 * RATE], pcm[3 * RATE :], pcm[RATE : 9 * RATE], np.tile(pcm, 2)]
    together = recognise(fp32, clips, DecodeConfig(words=True))
    alone = recognise(fp32, clips, DecodeConfig(words=True), most=1)
    for batched, single in zip(together, alone, strict=True):
        assert text(batched) == text(single)
        assert [(w.start, w.end) for w in words(batched)] == [
            (w.start, w.end) for w in words(single)
        ]


@pytest.mark.parametrize("precision", ["auto", "bf16", "int8"])
def test_every_precision_says_the_same(
    precision: str, fp32: Loaded, pcm: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"
) -> None:
    loaded = load_model(resolve("tiny.en"), ModelConfig(precision=precision))  # type: ignore[arg-type]
    (ours,) = recognise(loaded, [pcm], DecodeConfig())
    (exact,) = recognise(fp32, [pcm], DecodeConfig())
    assert text(ours) == text(exact)


def test_words_are_in_time(
    fp32: Loaded, pcm: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"
) -> None:
    (hypothesis,) = recognise(fp32, [pcm], DecodeConfig(words=True))
    found = words(hypothesis)
    times = [time for word in found for time in (word.start, word.end)]
    assert None not in times
    assert times == sorted(times, key=lambda time: time or 0)
    assert all(0 <= (time or 0) <= len(pcm) for time in times)
    # By ear: "Americans" ends at 2.2 s, "country" of the first half is from 6.3 to 6.8 s.
    at = {word.text.strip(): word for word in found}
    assert at["Americans"].end == pytest.approx(2.25 * RATE, abs=0.3 * RATE)
    ask = next(word for word in found if word.text.strip() == "ask")
    assert ask.start == pytest.approx(3.3 * RATE, abs=0.3 * RATE), "the pause is not its own"
    country = next(word for word in found if word.text.strip() == "country")
    assert country.start == pytest.approx(6.4 * RATE, abs=0.4 * RATE)


@pytest.mark.parametrize("config", [DecodeConfig(no_timestamps=True), DecodeConfig(temperature=0)])
def test_other_ways_to_decode(
    config: DecodeConfig,
    fp32: Loaded,
    pcm: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]",
) -> None:
    (hypothesis,) = recognise(fp32, [pcm], config)
    assert TEXT.rstrip(".") in text(hypothesis).replace(",", "")


def test_prompt_and_hotwords_steer_but_do_not_appear(
    fp32: Loaded, pcm: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"
) -> None:
    config = DecodeConfig(prompt="A speech, in 1961.", hotwords="Kennedy, inaugural")
    (hypothesis,) = recognise(fp32, [pcm], config)
    assert "country" in text(hypothesis)
    assert "1961" not in text(hypothesis)
    assert "Kennedy" not in text(hypothesis)


def test_sampling_repeats_itself(
    fp32: Loaded, pcm: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"
) -> None:
    hot = DecodeConfig(temperature=0.8)
    first, second = (recognise(fp32, [pcm, pcm[: 6 * RATE]], hot, most=most) for most in (1, 2))
    assert [text(one) for one in first] == [text(two) for two in second]


@pytest.mark.parametrize("unlikely", [0.0, -0.12, -1.0])  # none, some or all are believed
def test_temperatures_at_once_and_in_turn(
    fp32: Loaded, pcm: np.ndarray, monkeypatch: pytest.MonkeyPatch, unlikely: float
) -> None:
    """What somebody waits for is begun at all temperatures, with the same text in the end."""
    monkeypatch.setattr(attempt, "UNLIKELY", unlikely)
    begun: list[Request] = []
    submit = Engine.submit

    def noted(engine: Engine, request: Request) -> None:
        begun.append(request)
        submit(engine, request)

    monkeypatch.setattr(Engine, "submit", noted)
    clips = [pcm[: 3 * RATE], pcm[3 * RATE : 8 * RATE], pcm[8 * RATE :]]
    found = []
    for deadline in (math.inf, 0.0):
        batcher: Batcher[int] = Batcher(fp32.model, DecodeConfig(), max_jobs=16)
        for number, clip in enumerate(clips):
            segment = Segment(clip, (Piece(0, 0, len(clip)),))
            prefix = PrefixState(endpointed=True, final=True)
            batcher.submit(
                number, DecodeJob(number, segment, "en", prefix=prefix, deadline=deadline)
            )
        done: dict[int, Hypothesis] = {}
        while not batcher.is_idle:
            done |= dict(batcher.step())
        assert batcher.engine.is_idle, "what nobody asked for still runs"
        found.append([text(one) for _, one in sorted(done.items())])
    assert found[0] == found[1]
    assert (max(request.temperature for request in begun) > 0) == (unlikely > -1)
    memory = fp32.model.decoder.memory
    assert memory
    assert memory.available == memory.count, "pages leaked"


def test_alignment_steps_equal_transformers() -> None:
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(4, 20, 130, generator=generator) * 3
    weights = scores.softmax(-1)
    std, mean = torch.std_mean(weights, dim=-2, keepdim=True, unbiased=False)
    smooth = _median_filter(((weights - mean) / std)[None], 7)[0]
    assert torch.equal(median_filter((weights - mean) / std), smooth)
    matrix = attention_matrix(scores)
    assert torch.allclose(matrix, smooth.mean(0), atol=1e-6)
    cost = -matrix.double().numpy()
    theirs = _dynamic_time_warping(cost)
    for ours, their in zip(path(cost), theirs, strict=True):
        assert np.array_equal(ours, their)
    jumps = np.pad(np.diff(theirs[0]), (1, 0), constant_values=1).astype(bool)
    assert np.array_equal(token_rows(scores, 130)[0][:-1], theirs[1][jumps])


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (3, 3), (40, 7), (7, 40)])
def test_paths_of_every_shape_equal_transformers(shape: tuple[int, int]) -> None:
    cost = np.random.default_rng(sum(shape)).normal(size=shape)
    for ours, theirs in zip(path(cost), _dynamic_time_warping(cost), strict=True):
        assert np.array_equal(ours, theirs)


def test_what_is_really_said_again_is_written_again(
    fp32: Loaded, pcm: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"
) -> None:
    pause = np.zeros(RATE // 2, np.float32)
    clip = np.concatenate([pcm, pause, pcm, pause, pcm[: 5 * RATE]])
    (hypothesis,) = recognise(fp32, [clip], DecodeConfig())
    assert text(hypothesis).count("fellow Americans") == 3
    assert hypothesis.reason is None


def test_a_loop_is_told_from_a_repetition() -> None:
    begin = 1000
    sentence = list(range(12))
    said = Runaway(begin, spoken=140)
    with_times = [token for copy in range(4) for token in (begin + copy, *sentence, begin + copy)]
    assert said.repeats(with_times), "times between do not hide it"
    assert said.could_be_said(with_times)
    assert not said(with_times)
    assert Runaway(begin, spoken=20)(with_times), "too much for so little audio"
    assert said([7, 8, 9] * 8), "a few words again and again are a loop"
    assert not said(list(range(60)))
    assert not said([7, 8] * 9), "nine times may be meant"
    assert Runaway(begin, spoken=5)([7, 8] * 8), "but not within a second"
    assert not Runaway(begin, spoken=5)([7, 8] * 7)
    assert not Runaway(begin, spoken=1)([7] * 15)
    assert Runaway(begin, spoken=5).once([1, begin, *[7, 8] * 8]) == [1, begin, 7, 8]


def test_the_first_texts_do_not_wait_for_all_audio_to_be_encoded(
    fp32: Loaded, pcm: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"
) -> None:
    ticks = iter(range(10_000))  # every look at the clock is a second later
    batcher: Batcher[int] = Batcher(
        fp32.model, DecodeConfig(), max_jobs=8, clock=lambda: float(next(ticks))
    )
    for number in range(8):
        clip = pcm[: 5 * RATE]
        batcher.submit(number, DecodeJob(number, Segment(clip, (Piece(0, 0, len(clip)),)), "en"))
    batcher.step()
    memory = fp32.model.decoder.memory
    assert memory
    assert 0 < memory.count - memory.available < 8 * memory.needed(300), "not all at once"
    found: list[tuple[int, Hypothesis]] = []
    while len(found) < 8:
        found += batcher.step()
    assert sorted(key for key, _ in found) == list(range(8))
    assert memory.available == memory.count


@pytest.mark.parametrize(
    ("phrase", "seconds", "likely", "silent", "is_believed"),
    [
        (" Where? Where is it?", 1.4, -0.2, 0.1, True),
        (" Where? Where is it?", 0.6, -0.2, 0.1, False),  # nobody speaks that fast
        (" Where? Where is it?", 1.4, -0.6, 0.1, False),
        (" Where? Where is it?", 1.4, -0.2, 0.7, False),  # nobody speaks
        (" you", 1.4, -0.2, 0.1, False),  # as in noise
    ],
)
def test_a_loop_is_believed_if_it_would_be_said_once(
    fp32: Loaded, phrase: str, seconds: float, likely: float, silent: float, is_believed: bool
) -> None:
    fallback = fp32.model.fallback  # type: ignore[attr-defined]  # the family's own
    once = fallback.tokenizer.encode(phrase)
    tokens = once * (30 // len(once))
    request = Request((), 100, frozenset())
    decoded = Decoded(request, tokens, Table(), None, logprobs=[likely] * len(tokens))
    decoded.status, decoded.watched = "halted", silent
    runaway = Runaway(fallback.tokenizer.specials.timestamp_begin, int(5 * seconds))
    attempt = fallback._judge(decoded, runaway, seconds, led=False)
    assert attempt.looped
    assert list(attempt.tokens) == once
    assert fallback._is_said_once(decoded, attempt, seconds) == is_believed


def test_a_word_is_on_the_side_of_a_pause_where_it_was_heard() -> None:
    """What is on the other side is its neighbour's; and long quiet ends are no part of a word."""
    ms = RATE // 1000
    pcm = np.full(4 * RATE, 1e-4, np.float32)
    for start, stop in ((200, 700), (1500, 1700), (1700, 2600), (3400, 3900)):
        pcm[start * ms : stop * ms] = 0.1

    def timed(*times: tuple[str, int, int, int]) -> list[tuple[int | None, int | None]]:
        given = [
            word_times.Aligned(Word(text, start * ms, stop * ms, 1.0), peak * ms)
            for text, start, stop, peak in times
        ]
        found = word_times.timed(given, Scores((), 0.0, 0.0, 1.0, 0.0), pcm).words
        assert [word.text for word in found] == [text for text, *_ in times]
        return [(word.start and word.start // ms, word.end and word.end // ms) for word in found]

    was, so = (" was", 1700, 2600, 2000), (" so.", 200, 700, 400)
    assert timed((" He", 500, 1700, 1600), was)[0] == (1500, 1700)
    assert timed((" Well,", 200, 1700, 400), was)[0] == (200, 700)
    assert timed((" Well,", 200, 1700, 900), was)[0] == (200, 700)  # what is nearest
    assert timed(so, (" He", 600, 1700, 1600), was)[1] == (1500, 1700)
    breath = timed(so, (" He", 1400, 3440, 1600), (" it", 3440, 3900, 3500))
    assert breath[1] == (1600, 2600)  # rows of the next word are no sound, and this one is too long
    short = timed((" so", 200, 900, 300), (" he", 900, 1700, 1600), was, (" it", 3300, 4000, 3500))
    assert short == [(200, 700), (1500, 1700), (1700, 2600), (3400, 3900)]
    near = timed((" a", 200, 700, 300), (" b", 1400, 1700, 1600), (" c", 1700, 2600, 2000))
    assert near[1] == (1400, 1700)  # words begin softly


@pytest.mark.parametrize("no_timestamps", [False, True])
@pytest.mark.parametrize("around", [0, RATE * 3 // 10])
def test_real_repetition_is_kept(
    fp32: Loaded, tmp_path: Path, around: int, no_timestamps: bool
) -> None:
    said = np.pad(said_by_espeak("No no no, that one, that one.", tmp_path), around)
    (found,) = recognise(fp32, [said], DecodeConfig(no_timestamps=no_timestamps))
    said_words = "".join(c for c in text(found).lower() if c.isalnum() or c == " ").split()
    assert said_words[:3] == ["no"] * 3
    assert len(said_words) <= 10


@pytest.mark.parametrize("no_timestamps", [False, True])
@pytest.mark.parametrize("gap", [0.4, 0.6, 0.8])
def test_a_tiny_clip_does_not_hold_a_loop(
    fp32: Loaded, tmp_path: Path, gap: float, no_timestamps: bool
) -> None:
    one, two = (said_by_espeak(word, tmp_path) for word in ("one", "two"))
    said = np.concatenate([one, np.zeros(int(gap * RATE), np.float32), two])
    (found,) = recognise(fp32, [said], DecodeConfig(no_timestamps=no_timestamps))
    assert text(found).split() == ["1", "2"]


def test_a_second_of_audio_bounds_the_text() -> None:
    assert not is_crowded("one two three four five six seven", 1.0)
    assert is_crowded("1 2 2 1 1 2 1 2 1 1 2 2 1 1 1 1 2", 1.8)
    assert not is_crowded("", 0.0)
