"""Languages: detected on random multilingual weights, forced, refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import save_ctranslate2, save_huggingface, tiny_whisper, write_tokenizer
from transformers import WhisperFeatureExtractor

from livecap.checkpoints import Checkpoint
from livecap.config import DecodeConfig, ModelConfig
from livecap.errors import ConfigError
from livecap.events import RATE, Caption, Event, Language
from livecap.languages import NAMES
from livecap.models.load import Loaded, load_model
from livecap.online.config import StreamConfig
from livecap.online.job import DecodeJob, Hypothesis
from livecap.online.speech_buffer import Piece, Segment
from livecap.online.stream import OnlineStream
from livecap.runtime.batcher import Batcher
from livecap.tokens import specials_of


@pytest.fixture(scope="module", params=["huggingface", "ctranslate2"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = tmp_path_factory.mktemp("multilingual")
    model = tiny_whisper("large-v3", layers=(1, 1))
    if request.param == "huggingface":
        checkpoint: Checkpoint = save_huggingface(model, folder)
        write_tokenizer(folder, 51866)
    else:
        checkpoint = save_ctranslate2(model, folder)
    return load_model(checkpoint, ModelConfig(precision="fp32", batch_size=4))


def run(loaded: Loaded, config: DecodeConfig, *, most: int) -> list[Event]:
    noise = np.random.default_rng(5).normal(0, 0.1, 8 * RATE).astype(np.float32)
    stream = OnlineStream(StreamConfig(vad=None, max_segment=2 * RATE, language=config.language))
    stream.push(noise, ())
    stream.finish()
    batcher: Batcher[None] = Batcher(loaded.model, config, max_jobs=most)
    while not stream.is_done:
        while batcher.capacity and (job := stream.poll()):
            batcher.submit(None, job)
        for _, hypothesis in batcher.step():
            stream.accept(hypothesis)
    return stream.close()


def test_detection_names_one_language_whatever_the_batch(loaded: Loaded) -> None:
    config = DecodeConfig(temperature=0.0)
    alone, together = run(loaded, config, most=1), run(loaded, config, most=4)
    assert alone == together
    (language,) = [event for event in alone if isinstance(event, Language)]
    assert language.code in NAMES
    assert 0 < language.probability <= 1


def test_detection_is_the_likeliest_language_token(tmp_path: Path) -> None:
    model = tiny_whisper("large-v3", layers=(1, 1), seed=2)
    checkpoint = save_huggingface(model, tmp_path)
    write_tokenizer(tmp_path, 51866)
    loaded = load_model(checkpoint, ModelConfig(precision="fp32", batch_size=4))
    noise = np.random.default_rng(7).normal(0, 0.1, 29 * RATE).astype(np.float32)
    work = DecodeJob(0, Segment(noise, (Piece(0, 0, len(noise)),)), None)
    batcher: Batcher[None] = Batcher(loaded.model, DecodeConfig(temperature=0.0), max_jobs=1)
    batcher.submit(None, work)
    found: list[Hypothesis] = []
    while not found:
        found = [hypothesis for _, hypothesis in batcher.step()]
    features = WhisperFeatureExtractor(feature_size=128)(
        noise, sampling_rate=RATE, return_tensors="pt"
    )
    specials = specials_of(51866)
    with torch.inference_mode():
        logits = model(features["input_features"], decoder_input_ids=torch.tensor([[specials.sot]]))
    ids = list(specials.languages.values())
    chances = logits.logits[0, 0, ids].softmax(-1)
    assert found[0].language == list(specials.languages)[int(chances.argmax())]
    assert found[0].language_probability == pytest.approx(float(chances.max()), rel=1e-3)


def test_a_forced_language_is_not_detected(loaded: Loaded) -> None:
    events = run(loaded, DecodeConfig(language="yue", temperature=0.0), most=4)
    assert not [event for event in events if isinstance(event, Language)]
    assert {event.language for event in events if isinstance(event, Caption)} <= {"yue"}


def test_translation_is_another_task(loaded: Loaded) -> None:
    tokenizer = loaded.model.tokenizer  # type: ignore[attr-defined]
    specials = tokenizer.specials
    assert tokenizer.prompt("fr", task="translate")[2] == specials.translate
    run(loaded, DecodeConfig(language="fr", task="translate", temperature=0.0), most=4)


def test_a_language_that_it_has_not_is_refused(loaded: Loaded) -> None:
    with pytest.raises(ConfigError, match="has no language 'xx'"):
        Batcher(loaded.model, DecodeConfig(language="xx"), max_jobs=1)


def test_both_layouts_detect_the_same(tmp_path: Path) -> None:
    found = []
    for kind in ("huggingface", "ctranslate2"):
        folder = tmp_path / kind
        folder.mkdir()
        model = tiny_whisper("tiny", layers=(1, 1), seed=4)
        if kind == "huggingface":
            checkpoint = save_huggingface(model, folder, dtype=torch.float32)
            write_tokenizer(folder, 51865)
        else:
            checkpoint = save_ctranslate2(model, folder)
        model = load_model(checkpoint, ModelConfig(precision="fp32", batch_size=4))
        found.append(run(model, DecodeConfig(temperature=0.0), most=4))
    texts = [[e.text for e in events if isinstance(e, Caption)] for events in found]
    languages = [[e.code for e in events if isinstance(e, Language)] for events in found]
    assert texts[0] == texts[1]
    assert languages[0] == languages[1]
