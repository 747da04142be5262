"""The small trained model hears words: what holds for the Qwen3-ASR family, shown with text."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import Command
from live_models import changed
from live_play import play, text_of

from livecap.audio.prefetch import Pump, ReadConfig
from livecap.checkpoints import catalogue, pull, resolve
from livecap.commands.bench_measures import edits, words
from livecap.commands.file import FileRun, Progress
from livecap.config import DecodeConfig, LiveOptions, ModelConfig, VadConfig
from livecap.events import RATE, Caption, Event, Language
from livecap.models.load import Loaded, load_model
from livecap.models.streams import live_config
from livecap.online.config import StreamConfig
from livecap.online.job import DecodeJob, Hypothesis, PrefixState
from livecap.online.speech_buffer import Pcm, Piece, Segment
from livecap.runtime.batcher import Batcher
from livecap.vad.silero import load as load_silero
from towers.train import espeak
from towers.train.evaluate import evaluate
from towers.train.manifest import Utterance, read_audio, write_audio
from towers.train.synth import Lengths, synthesise

KINDS = ("windowed", "causal")
NAMES = {"windowed": "qwen3-asr-sprout", "causal": "qwen3-asr-sprout-causal"}


def synthesised(folder: Path, seconds: float, lengths: Lengths) -> list[Utterance]:
    """Held-out voices and sentences."""
    try:
        espeak.Espeak()
    except espeak.Unspoken as error:
        pytest.skip(str(error))
    return synthesise(folder / "said", seconds=seconds, split="test", seed=11, lengths=lengths)


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> list[Utterance]:
    """About a hundred seconds in pieces."""
    return synthesised(tmp_path_factory.mktemp("speech"), 100.0, Lengths(2.0, 12.0, 0.0))


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pcm, list[str], Path]:
    """Three minutes without a longer pause, the words, and the file."""
    folder = tmp_path_factory.mktemp("talk")
    (one,) = synthesised(folder, 160.0, Lengths(180.0, 180.0, 0.0))
    return read_audio(one.audio), words(one.text), one.audio


@pytest.fixture(scope="module")
def loaded() -> Callable[[str], Loaded]:
    known: dict[str, Loaded] = {}

    def load(kind: str) -> Loaded:
        if kind not in known:
            # Twice what suits it, so that there is more to be kept from update to update.
            config = ModelConfig(precision="fp32", max_segment=12)
            known[kind] = load_model(resolve(NAMES[kind]), config)
        return known[kind]

    return load


def settings(loaded: Loaded, **changes: Any) -> StreamConfig:
    """Those that a user gets, but that no update is left out."""
    config = live_config(loaded.model, LiveOptions(), vad=VadConfig(), language="en")
    return changed(config, catch_up=False, **changes)


def heard(loaded: Loaded, pcm: Pcm, language: str | None, prefix: PrefixState | None = None) -> Any:
    """Audio at one go -> its hypothesis."""
    batcher: Batcher[int] = Batcher(loaded.model, DecodeConfig(), max_jobs=1)
    segment = Segment(pcm, (Piece(0, 0, len(pcm)),))
    batcher.submit(0, DecodeJob(0, segment, language, prefix=prefix))
    while not (done := batcher.step()):
        pass
    return done[0][1]


def text_in(hypothesis: Hypothesis) -> str:
    return "".join(word.text for span in hypothesis.spans for word in span.words).strip()


def error_rate(reference: Sequence[str], text: str) -> float:
    return edits(reference, words(text)) / len(reference)


def test_both_are_on_this_machine_and_need_no_pull() -> None:
    rows = {row.name: row for row in catalogue()}
    for name in NAMES.values():
        assert rows[name].state == "installed"
        assert pull(name) == resolve(name)


@pytest.mark.parametrize("kind", KINDS)
def test_held_out_speech_is_understood(kind: str, speech: list[Utterance]) -> None:
    score = evaluate(resolve(NAMES[kind]).folder, speech)
    assert score.words > 150
    assert score.offline / score.words < (0.06 if kind == "windowed" else 0.12)
    assert score.live / score.words < 0.12


def test_a_file_is_captioned_by_name(
    talk: tuple[Pcm, list[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    livecap = Command(monkeypatch, tmp_path)
    for name in NAMES.values():
        done = livecap("file", talk[2], "--model", name, "-f", "txt", "-o", "-", "-q")
        assert done.status == 0, done.err
        assert error_rate(talk[1], done.out) < 0.12


@pytest.mark.parametrize("kind", KINDS)
def test_with_time_enough_live_is_as_the_file(
    kind: str, loaded: Callable[[str], Loaded], speech: list[Utterance]
) -> None:
    for one in speech[:6]:
        pcm = read_audio(one.audio)
        live = heard(loaded(kind), pcm, "en", PrefixState(endpointed=True, final=True))
        assert text_in(live) == text_in(heard(loaded(kind), pcm, "en")) != ""


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_changes_no_word(
    kind: str, loaded: Callable[[str], Loaded], talk: tuple[Pcm, list[str], Path]
) -> None:
    """Encoder rows, keys and drafts of the updates before, or all of it anew each time."""
    model: Any = loaded(kind).model

    def forgetful(work: DecodeJob) -> DecodeJob:
        assert work.prefix
        kept: Any = work.prefix.encoder_state
        if kept is not None:
            model.decoder.pages.release(kept.prefix_cache.table)
            kept.prefix_cache.identity = ()
        return replace(work, prefix=replace(work.prefix, draft=()))

    pcm, config = talk[0][: 40 * RATE], settings(loaded(kind))
    events, found = play(loaded(kind), pcm, config)
    again, anew = play(loaded(kind), pcm, config, forgetful)
    assert [one.tokens for one in anew] == [one.tokens for one in found]
    assert text_of(again) == text_of(events) != ""


@pytest.mark.parametrize("kind", KINDS)
def test_three_minutes_are_said_once_and_for_good(
    kind: str, loaded: Callable[[str], Loaded], talk: tuple[Pcm, list[str], Path]
) -> None:
    """Rollback, and append-only: what has been said leads each hypothesis and never changes."""
    pcm, reference, _ = talk
    config = settings(loaded(kind))
    assert config.updates
    assert type(config.updates.policy).__name__ == (
        "Rollback" if kind == "windowed" else "AppendOnly"
    )
    events, found = play(loaded(kind), pcm, config)
    assert len(pcm) > 165 * RATE
    assert error_rate(reference, text_of(events)) < 0.15
    captions = [event for event in events if isinstance(event, Caption)]
    assert all(one.processed_until <= other.processed_until for one, other in pairwise(captions))
    for one, other in pairwise(found):
        if one.job.number == other.job.number:
            assert one.job.prefix
            assert other.job.prefix
            said = one.job.prefix.committed
            assert other.job.prefix.committed[: len(said)] == said
    early = [one for one in captions if not one.final and one.words]
    assert len(early) > (20 if kind == "windowed" else 3)  # before a pause; append-only waits


@pytest.mark.parametrize("kind", KINDS)
def test_the_language_is_found_or_forced(
    kind: str, loaded: Callable[[str], Loaded], speech: list[Utterance]
) -> None:
    pcm = read_audio(speech[0].audio)
    free, forced = heard(loaded(kind), pcm, None), heard(loaded(kind), pcm, "en")
    assert free.language == forced.language == "en"
    assert free.language_probability > 0.9
    assert text_in(free) == text_in(forced)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("language", ["en", None])
def test_where_nobody_speaks_nothing_is_written(
    kind: str, language: str | None, loaded: Callable[[str], Loaded]
) -> None:
    """By the model itself, without voice activity detection."""
    generator = np.random.default_rng(5)
    times = np.arange(4 * RATE) / RATE
    sounds = (
        np.zeros(3 * RATE),
        generator.normal(0, 1e-3, 5 * RATE),
        generator.normal(0, 0.03, 5 * RATE),
        0.05 * np.sin(times * 2 * np.pi * 120),
    )
    for sound in sounds:
        assert text_in(heard(loaded(kind), sound.astype(np.float32), language)) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_recording_in_a_language_that_has_to_be_found(
    kind: str, loaded: Callable[[str], Loaded], talk: tuple[Pcm, list[str], Path]
) -> None:
    run = FileRun(
        loaded(kind),
        load_silero(),
        decode=DecodeConfig(),
        vad=VadConfig(),
        open_source=lambda name: Pump(name, ReadConfig()),
    )
    events: list[Event] = [
        item[1] for item in run.run([str(talk[2])]) if not isinstance(item, Progress)
    ]
    assert error_rate(talk[1], text_of(events)) < 0.12
    assert {event.language for event in events if isinstance(event, Caption)} == {"en"}
    assert {event.code for event in events if isinstance(event, Language)} <= {"en"}


@pytest.mark.parametrize("kind", KINDS)
def test_no_caption_of_a_file_reaches_over_a_silence(
    kind: str, loaded: Callable[[str], Loaded], speech: list[Utterance], tmp_path: Path
) -> None:
    """Its words have no times, so its segments end where nobody speaks."""
    parts = [read_audio(one.audio)[: 5 * RATE] for one in speech[:3]]
    silence = np.zeros(6 * RATE, np.float32)
    pcm = np.concatenate([part for one in parts for part in (one, silence)])
    write_audio(tmp_path / "a.wav", pcm)
    run = FileRun(
        loaded(kind),
        load_silero(),
        decode=DecodeConfig(language="en"),
        vad=VadConfig(),
        open_source=lambda name: Pump(name, ReadConfig()),
    )
    found = [item[1] for item in run.run([str(tmp_path / "a.wav")]) if isinstance(item, tuple)]
    captions = [event for event in found if isinstance(event, Caption) and event.words]
    assert len(captions) >= 3
    start = 0
    for part in parts:
        inside = [one for one in captions if start - RATE <= one.start < start + len(part)]
        assert inside
        assert all(one.processed_until <= start + len(part) + 2 * RATE for one in inside)
        start += len(part) + len(silence)
