"""The training recipe at toy size: what is trained is what runs, and stopping costs nothing."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from livecap.checkpoints import resolve
from livecap.checkpoints.qwen3_asr_config import chunk_length
from livecap.config import DecodeConfig, ModelConfig
from livecap.models.load import load_model as load_here
from livecap.online.job import DecodeJob
from livecap.online.speech_buffer import Piece, Segment
from livecap.runtime.batcher import Batcher
from towers import causal, qwen3_windowed
from towers.layers import dense
from towers.qwen3_layers import BINS
from towers.train import __main__ as command
from towers.train import espeak, lora
from towers.train.alignment import labels
from towers.train.batches import batches
from towers.train.distill import DistillConfig, Student, distill, paired
from towers.train.features import Features, features
from towers.train.fit import FitConfig, fit
from towers.train.layout import load_model, save_model, save_tower
from towers.train.manifest import (
    RATE,
    BadManifest,
    Utterance,
    read_audio,
    read_manifest,
    write_audio,
    write_manifest,
)
from towers.train.network import hear, tower_of
from towers.train.sprout import sprout
from towers.train.synth import Lengths, synthesise
from towers.train.vocabulary import TrainingVocabulary, closed, read

WORDS = ("red", "green", "blue")
SMALL = FitConfig(steps=12, rate=3e-3, warmup=2, frames=600, ctc_steps=6, every=4, masks=1, seed=3)
PULL = DistillConfig(steps=8, rate=1e-3, warmup=2, frames=2000, every=4, masks=0)


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A manifest of tones: a word is a pitch. The folder of it."""
    folder, random = tmp_path_factory.mktemp("tones"), Random(0)
    made = []
    for number in range(12):
        said = [random.randrange(3) for _ in range(random.randint(1, 4))]
        times = np.arange(RATE // 3) / RATE
        tones = [0.3 * np.sin(2 * np.pi * 300 * 2**word * times) for word in said]
        path = folder / f"{number}.wav"
        write_audio(path, np.concatenate(tones).astype(np.float32))
        made.append(Utterance(path, " ".join(WORDS[word] for word in said) + "."))
    write_manifest(folder / "manifest.jsonl", made)
    return folder


@pytest.fixture(scope="module")
def utterances(speech: Path) -> list[Utterance]:
    return read_manifest(speech / "manifest.jsonl")


@pytest.fixture(scope="module")
def mels(utterances: Sequence[Utterance], speech: Path) -> Features:
    return features(utterances, speech / "cache" / "mels")


@pytest.fixture(scope="module")
def vocabulary() -> TrainingVocabulary:
    return closed([" ".join(WORDS)])


@pytest.fixture(scope="module")
def model(vocabulary: TrainingVocabulary) -> Any:
    """Not trained; no bias is zero."""
    made = sprout(vocabulary, seed=1).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, one in made.named_parameters():
            if name.endswith("bias"):
                one.copy_(0.1 * torch.randn(one.shape, generator=generator))
    return made


def clips(*lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(BINS, frames, generator=generator) for frames in lengths]


def test_the_windowed_rows_of_training_are_those_of_transformers(model: Any) -> None:
    mine = hear(tower_of(model), clips(1230, 77, 800), kind="windowed", heads=4, window=8)
    for rows, mel in zip(mine.rows, clips(1230, 77, 800), strict=True):
        padded = torch.nn.functional.pad(mel, (0, -mel.shape[1] % 100))
        mask = (torch.arange(padded.shape[1]) < mel.shape[1]).long()
        with torch.no_grad():
            theirs = model.model.get_audio_features(padded[None], mask[None]).pooler_output
        torch.testing.assert_close(rows.detach(), theirs, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("piece", [8, 192, 333])
def test_the_causal_rows_of_training_are_those_that_run(model: Any, piece: int) -> None:
    """Of several clips in one batch with gradients, and of one block after the other without."""
    mels = clips(1230, 77, 800, 2)
    mine = hear(tower_of(model), mels, kind="causal", heads=4, window=8, record=True)
    tower = causal.CausalTower(tower_of(model), heads=4, make=dense(torch.float32))
    for n, mel in enumerate(mels):
        state, found = tower.open(), []
        for at in range(0, mel.shape[1], piece):
            is_last = at + piece >= mel.shape[1]
            ((rows, state),) = tower.encode([state], [mel[:, at : at + piece]], final=is_last)
            found.append(rows)
        told = mine.rows[n].detach()
        torch.testing.assert_close(told, torch.cat(found), atol=2e-5, rtol=1e-4)
        last = tower.parts.project(mine.layers[n][-1]).detach()
        torch.testing.assert_close(last, told, atol=2e-5, rtol=1e-4)


def test_windowed_layers_are_written_down_in_order(model: Any) -> None:
    heard = hear(tower_of(model), clips(230, 900), kind="windowed", heads=4, window=8, record=True)
    tower = qwen3_windowed.WindowedTower(tower_of(model), heads=4, make=dense(torch.float32))
    for rows, layers in zip(heard.rows, heard.layers, strict=True):
        assert len(layers) == 4
        torch.testing.assert_close(tower.parts.project(layers[-1]), rows)


def test_rows_are_paired_by_time() -> None:
    """Not by number, by which they would be 0.6 s apart after 16 s."""
    rows = torch.arange(1000)
    here = rows * 0.08
    there = paired(1000) // 13 * 1.0 + paired(1000) % 13 * 0.08
    assert float((here - there).abs().max()) <= 0.041
    assert float((here - rows / 13).abs().max()) > 3


def test_losses_fall_and_a_stop_changes_nothing(
    vocabulary: TrainingVocabulary, utterances: list[Utterance], mels: Features, tmp_path: Path
) -> None:
    def run(name: str, until: int) -> tuple[list[dict[str, float]], Any]:
        model = sprout(vocabulary, seed=2)
        told = list(fit(model, vocabulary, utterances, mels, tmp_path / name, SMALL, until=until))
        return told, model

    whole, one = run("whole", 12)
    assert whole[-1]["ctc"] < whole[0]["ctc"]
    run("parts", 4)
    rest, other = run("parts", 12)
    assert [told["step"] for told in rest] == [8, 12]
    assert rest[-1]["loss"] == pytest.approx(whole[-1]["loss"])
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
    lines = (tmp_path / "parts" / "curve.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [4, 8, 12]


def test_a_tower_is_pulled_and_a_stop_changes_nothing(
    model: Any,
    vocabulary: TrainingVocabulary,
    utterances: list[Utterance],
    mels: Features,
    tmp_path: Path,
) -> None:
    def run(name: str, until: int) -> tuple[list[dict[str, float]], Student]:
        student = Student(tower_of(model))
        folder = tmp_path / name
        told = distill(model, student, vocabulary, utterances, mels, folder, PULL, until=until)
        return list(told), student

    whole, one = run("whole", 8)
    assert whole[-1]["loss"] < whole[0]["loss"]
    run("parts", 4)
    _, other = run("parts", 8)
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_additions_to_the_decoder_become_part_of_it(
    vocabulary: TrainingVocabulary, utterances: list[Utterance], mels: Features, tmp_path: Path
) -> None:
    model = sprout(vocabulary, seed=2)
    before = {name: one.clone() for name, one in model.named_parameters()}
    config = replace(SMALL, steps=2, ctc_steps=0, lora=2, every=2)
    list(fit(model, vocabulary, utterances, mels, tmp_path, config))
    lora.merge(model)
    after = dict(model.named_parameters())
    assert after.keys() == before.keys()
    changed = {name for name, one in after.items() if not torch.equal(one, before[name])}
    decoder = {name for name in changed if name.startswith("model.language_model.")}
    assert decoder == {name for name in decoder if name.split(".")[-2] in lora.TARGETS}
    assert decoder


def test_what_is_saved_is_what_livecap_reads(
    model: Any, vocabulary: TrainingVocabulary, tmp_path: Path
) -> None:
    """The official layout, there and back; and a tower with its decoder inside."""
    folder = tmp_path / "model"
    save_model(model, vocabulary, folder, dtype=torch.float32, chunk=6)
    again = load_model(folder)
    assert chunk_length(folder) == 6
    for mine, theirs in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert read(folder).answer("red blue.", "English") == vocabulary.answer("red blue.", "English")
    save_tower(tower_of(model), tmp_path / "tower", base="sprout", dtype=torch.float32)
    save_model(model, vocabulary, tmp_path / "tower" / "decoder", dtype=torch.bfloat16)
    pcm = np.random.default_rng(0).normal(0, 0.1, 3 * RATE).astype(np.float32)
    for place, seconds in ((folder, 6), (tmp_path / "tower", 16)):
        loaded = load_here(resolve(str(place)), ModelConfig(precision="fp32"))
        assert loaded.model.segment == seconds * RATE
        batcher: Batcher[int] = Batcher(loaded.model, DecodeConfig(language="en"), max_jobs=1)
        batcher.submit(0, DecodeJob(0, Segment(pcm, (Piece(0, 0, len(pcm)),)), "en"))
        while not (done := batcher.step()):
            pass
        assert done[0][1].language == "en"


def test_rows_are_told_what_they_hear(vocabulary: TrainingVocabulary) -> None:
    """A word said twice is two; the full stop comes right after its word."""
    words = (("red", 0.2, 0.6), ("red", 0.6, 1.0), ("blue", 1.5, 1.9))
    one = Utterance(Path("none"), "red red. blue", words=words)
    told = labels(one, vocabulary, 250)
    assert told is not None
    assert len(told) == 33
    heard = [int(a) for a, b in pairwise([*told, -1]) if a != b]
    said = [token for token in heard if token != vocabulary.count]
    assert said == vocabulary.encode("red red. blue")
    at = [n // 13 + n % 13 * 0.08 for n in range(33) if int(told[n]) == said[-1]]
    assert 1.4 < at[0] < at[-1] < 1.9
    assert labels(replace(one, words=()), vocabulary, 250) is None


def test_batches_have_everything_once_an_epoch() -> None:
    lengths = [100 + 37 * n % 400 for n in range(50)]
    order = batches(lengths, frames=1000, seed=1)
    seen: list[int] = []
    while len(seen) < 50:
        batch = next(order)
        assert len(batch) == 1 or sum(lengths[n] for n in batch) <= 1000
        seen += batch
    assert sorted(seen) == list(range(50))
    first, again = (batches(lengths, frames=1000, seed=1) for _ in "12")
    assert [next(first) for _ in range(30)] == [next(again) for _ in range(30)]


@pytest.mark.parametrize(
    ("line", "told"),
    [("{", "line 1"), ('{"audio": "a.wav"}', "'text'"), ("[1]", "line 1"), ("", "no lines")],
)
def test_a_manifest_that_is_none(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "manifest.jsonl"
    path.write_text(line)
    with pytest.raises(BadManifest, match=told):
        read_manifest(path)


def test_the_commands_from_speech_to_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of them, with synthesised speech."""
    try:
        espeak.Espeak()
    except espeak.Unspoken as error:
        pytest.skip(str(error))
    said, told = str(tmp_path / "said"), str(tmp_path / "said" / "manifest.jsonl")
    assert command.main(["synth", said, "--hours", "0.003", "--longest", "3", "--silent", "0"]) == 0
    few = ["--warmup", "1", "--batch-seconds", "4", "--every", "2", "--masks", "0"]
    out, pulled = str(tmp_path / "out"), str(tmp_path / "pulled")
    short = ["--chunk-length", "9"]
    assert command.main(["fit", told, out, "--steps", "4", "--ctc-steps", "2", *few, *short]) == 0
    made = f"{out}/model"
    more = ["--model", made, "--steps", "2", "--ctc-steps", "0", "--lora", "2", *few]
    assert command.main(["fit", told, f"{out}-more", *more]) == 0
    assert command.main(["fit", told, f"{out}-more", *more]) == 0  # it goes on
    assert chunk_length(Path(f"{out}-more/model")) == chunk_length(Path(made)) == 9
    assert command.main(["distill", told, pulled, "--model", made, "--steps", "2", *few]) == 0
    assert command.main(["evaluate", made, told, "--most", "1"]) == 0
    assert command.main(["evaluate", f"{pulled}/tower", told, "--most", "1"]) == 0
    assert capsys.readouterr().out.count("WER offline") == 2
    assert command.main(["distill", told, out, "--model", made]) == 1
    assert "Name another folder" in capsys.readouterr().err
    assert command.main(["distill", told, pulled, "--model", f"{pulled}/tower"]) == 1
    assert command.main(["fit", str(tmp_path / "none"), out]) == 1
    assert "none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--lora", "-1"),
        ("--steps", "0"),
        ("--every", "0"),
        ("--rate", "nan"),
        ("--chunk-length", "1"),
        ("--chunk-length", "9999"),
        ("--batch-seconds", "inf"),
        ("--threads", "9" * 30),
        ("--masks", "1e3"),
    ],
)
def test_numbers_that_say_nothing_are_refused(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["fit", "manifest.jsonl", "out", option, value])
    assert ended.value.code == 2
    assert re.search(rf"argument {option}: .* is n(o|ot) ", capsys.readouterr().err)


def test_a_model_that_can_not_be_evaluated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_text('{"audio": "a.wav", "text": "red"}')
    assert command.main(["evaluate", "none-such", str(manifest)]) == 1
    assert "none-such" in capsys.readouterr().err


def test_synthesised_speech_is_the_same_again_and_held_out_by_sentence(tmp_path: Path) -> None:
    try:
        train = synthesise(
            tmp_path / "a", seconds=40, split="train", seed=1, lengths=Lengths(1, 4, 0)
        )
    except espeak.Unspoken as error:
        pytest.skip(str(error))
    again = synthesise(tmp_path / "b", seconds=20, split="train", seed=1, lengths=Lengths(1, 4, 0))
    for one, other in zip(train, again, strict=False):
        assert one.text == other.text
        assert one.words == other.words
        assert one.audio.read_bytes() == other.audio.read_bytes()
    assert all(one.text and one.words for one in again)
    quiet = synthesise(tmp_path / "d", seconds=9, split="train", seed=1, lengths=Lengths(1, 4, 1.0))
    vocabulary = closed(["red"])
    for one in quiet:
        assert not one.text
        told = labels(one, vocabulary, 100 * len(read_audio(one.audio)) // RATE)
        assert told is not None
        assert set(told.tolist()) == {vocabulary.count}
    test = synthesise(tmp_path / "c", seconds=40, split="test", seed=1, lengths=Lengths(1, 4))
    sentences = [
        {part for u in split for part in u.text.split(".") if len(part.split()) > 2}
        for split in (train, test)
    ]
    assert not sentences[0] & sentences[1]
    assert all(end > start >= 0 for u in train for _, start, end in u.words)
    with pytest.raises(FileExistsError, match="isn't empty"):
        synthesise(tmp_path / "a", seconds=1, split="train", seed=1)
