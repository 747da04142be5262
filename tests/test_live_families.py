"""Live updates of both families against the long way: nothing kept, nothing guessed, at once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from live_models import changed
from live_play import play, text_of
from qwen_models import save_causal, save_official, tiny_qwen
from torch import Tensor

from livecap.audio import AudioReader
from livecap.audio.prefetch import Pump, ReadConfig
from livecap.checkpoints import resolve
from livecap.commands.file import FileRun, Progress
from livecap.config import DecodeConfig, LiveOptions, ModelConfig, VadConfig
from livecap.engine.request import Request
from livecap.events import RATE, Event
from livecap.models.load import Loaded, load_model
from livecap.models.protocol import DecodeSteps
from livecap.models.streams import live_config
from livecap.online.config import StreamConfig
from livecap.online.job import DecodeJob, Hypothesis, PrefixState
from livecap.online.policy import LocalAgreement
from livecap.online.speech_buffer import Pcm, Piece, Segment
from livecap.online.stream import OnlineStream
from livecap.runtime.batcher import Batcher
from livecap.runtime.service import Service
from livecap.runtime.source import MultichannelSource
from livecap.vad.silero import load as load_silero

JFK = Path(__file__).parent / "audio" / "jfk.flac"
FP32 = ModelConfig(precision="fp32")
FAMILIES = ("whisper", "windowed", "causal")


class Fluent:
    """A random model made to speak: no token twice, and an end after three a second."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def decode(self, work: DecodeJob, config: DecodeConfig) -> DecodeSteps:
        said = work.prefix.committed if work.prefix else ()
        length = 3 * len(work.segment.pcm) // RATE + 1

        def rule(logits: Tensor, sampled: Sequence[int]) -> None:
            before = [*said, *sampled]
            logits[before] = -torch.inf
            logits[list(self.model.ends)] = 0.0 if len(before) >= length else -torch.inf
            if len(before) >= length:
                logits[: min(self.model.ends)] = -torch.inf

        recognition, answer = self.model.decode(work, config), None
        while True:
            try:
                ask = recognition.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # what the model returns
            if isinstance(ask, Request):
                ask = replace(ask, rules=(rule,), halt=None)
            answer = yield ask


@pytest.fixture(scope="module")
def jfk() -> Pcm:
    with AudioReader(JFK) as reader:
        return np.concatenate([block.pcm[0] for block in reader])


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Loaded]:
    """A family's model, in float32; of Qwen3-ASR, small and random."""
    known: dict[str, Loaded] = {}

    def load(family: str) -> Loaded:
        if family not in known:
            folder = tmp_path_factory.mktemp(family)
            if family == "whisper":
                checkpoint = resolve("tiny.en")
            elif family == "windowed":
                checkpoint = save_official(tiny_qwen(tied=False, window=2), folder)
            else:
                checkpoint = save_causal(tiny_qwen(tied=False), folder)
            found = load_model(checkpoint, FP32)
            spoken: Any = found.model if family == "whisper" else Fluent(found.model)
            known[family] = replace(found, model=spoken)
        return known[family]

    return load


def settings(loaded: Loaded, **changes: Any) -> StreamConfig:
    """Those of the model, with updates as often as a test can wait for, and none left out."""
    often = 2.0 if loaded.model.name == "tiny.en" else 1.0
    config = live_config(loaded.model, LiveOptions(update=often), vad=VadConfig(), language="en")
    return changed(config, catch_up=False, **changes)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_said_leads_and_never_changes(
    family: str, loaded: Callable[[str], Loaded], jfk: Pcm
) -> None:
    events, found = play(loaded(family), jfk, settings(loaded(family)))
    assert len(found) > 5
    said: dict[int, tuple[int, ...]] = {}
    for one in found:
        assert one.job.prefix
        before = said.get(one.job.number, ())
        assert one.job.prefix.committed[: len(before)] == before
        said[one.job.number] = one.job.prefix.committed
    assert any(said.values()), "nothing is committed before the end"
    assert text_of(events).strip()


@pytest.mark.parametrize("family", FAMILIES)
def test_drafted_is_as_undrafted(family: str, loaded: Callable[[str], Loaded], jfk: Pcm) -> None:
    def undrafted(work: DecodeJob) -> DecodeJob:
        assert work.prefix
        return replace(work, prefix=replace(work.prefix, draft=()))

    config = settings(loaded(family))
    events, found = play(loaded(family), jfk[: 7 * RATE], config)
    assert any(one.job.prefix and one.job.prefix.draft for one in found)
    again, plain = play(loaded(family), jfk[: 7 * RATE], config, undrafted)
    assert [one.tokens for one in plain] == [one.tokens for one in found]
    assert text_of(again) == text_of(events)


@pytest.mark.parametrize("family", ["windowed", "causal"])
def test_kept_is_as_rebuilt(family: str, loaded: Callable[[str], Loaded], jfk: Pcm) -> None:
    """Encoder rows and keys of finished audio, or all of them anew at every update."""
    model: Any = loaded(family).model

    def forgetful(work: DecodeJob) -> DecodeJob:
        assert work.prefix
        if work.prefix.encoder_state is None:
            return work
        kept: Any = work.prefix.encoder_state
        model.decoder.pages.release(kept.prefix_cache.table)
        kept.prefix_cache.identity = ()
        return work

    config = settings(loaded(family))
    events, found = play(loaded(family), jfk, config)
    again, anew = play(loaded(family), jfk, config, forgetful)
    assert [one.tokens for one in anew] == [one.tokens for one in found]
    assert text_of(again) == text_of(events)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_update_is_as_a_file(family: str, loaded: Callable[[str], Loaded], jfk: Pcm) -> None:
    """Live with unlimited time and file mode say the same of the same audio."""
    model = loaded(family).model
    for pcm in (jfk[: 4 * RATE], jfk[3 * RATE :], jfk[: RATE // 3]):
        segment = Segment(pcm, (Piece(0, 0, len(pcm)),))
        batcher: Batcher[str] = (
            Batcher(model, DecodeConfig(no_timestamps=True), max_jobs=2)
            if family == "whisper"
            else Batcher(model, DecodeConfig(), max_jobs=2)
        )
        batcher.submit("file", DecodeJob(0, segment, "en"))
        batcher.submit("live", DecodeJob(0, segment, "en", prefix=PrefixState(True, True)))
        done: dict[str, Hypothesis] = {}
        while len(done) < 2:
            done |= dict(batcher.step())
        words = {
            key: "".join(word.text for span in one.spans for word in span.words)
            for key, one in done.items()
        }
        assert words["live"].strip() == words["file"].strip()


def test_a_recording_without_updates_is_as_a_file(
    loaded: Callable[[str], Loaded], jfk: Pcm
) -> None:
    """The same segmentation: one stretch of speech, said at its end."""
    held = settings(
        loaded("whisper"),
        policy=LocalAgreement(),
        interval=1 << 40,
        pause_update=0,
        endpoint_silence=1 << 40,
    )
    events, _ = play(loaded("whisper"), jfk, changed(held, max_silence=1 << 41))
    run = FileRun(
        loaded("whisper"),
        load_silero(),
        decode=DecodeConfig(no_timestamps=True),
        vad=VadConfig(),
        open_source=lambda name: Pump(name, ReadConfig()),
    )
    found = [item[1] for item in run.run([str(JFK)]) if not isinstance(item, Progress)]
    assert text_of(events) == text_of(found)


@pytest.mark.parametrize("family", FAMILIES)
def test_many_at_once_are_as_each_alone(
    family: str, loaded: Callable[[str], Loaded], jfk: Pcm
) -> None:
    model, config = loaded(family), settings(loaded(family))
    parts = [jfk[: 6 * RATE], jfk[2 * RATE : 7 * RATE], jfk[: 4 * RATE]]
    alone = [text_of(play(model, pcm, config)[0]) for pcm in parts]
    service = Service(replace(model, batch=4), load_silero(), DecodeConfig())
    try:
        streams = [service.open(config) for _ in parts]
        for at in range(0, len(jfk), RATE // 4):
            for stream, pcm in zip(streams, parts, strict=True):
                if at < len(pcm):
                    stream.push(at, pcm[None, at : at + RATE // 4])
        for stream in streams:
            stream.finish()
        together = []
        for stream in streams:
            events: list[Event] = []
            while not stream.is_done:
                events += stream.poll()
                stream.wait(1.0)
            together.append(text_of(events))
    finally:
        service.close()
    assert together == alone


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_a_stream_that_is_dropped_frees_its_pages(
    family: str, steps: int, loaded: Callable[[str], Loaded], jfk: Pcm
) -> None:
    model = loaded(family).model
    live = OnlineStream(settings(loaded(family)))
    stream = MultichannelSource([live], load_silero())
    batcher: Batcher[int] = Batcher(model, DecodeConfig(), max_jobs=2)
    stream.push(0, jfk[None])
    for update in range(3):
        found = stream.poll()
        assert found
        batcher.submit(0, found[1])
        if update == 2:
            break
        while not (done := batcher.step()):
            pass
        stream.accept(0, done[0][1])
    for _ in range(steps):
        batcher.step()
    batcher.cancel(lambda key: key == 0)
    for kept in live.cancel():
        batcher.free(kept)
    assert model.decoder.pages.available == model.decoder.pages.count
    memory = model.decoder.memory
    assert memory is None or memory.available == memory.count
    assert batcher.is_idle
    assert live.is_done


@pytest.mark.parametrize("family", ["windowed", "causal"])
def test_speech_that_goes_on_after_a_pause_is_heard_as_if_there_was_none(
    family: str, loaded: Callable[[str], Loaded], jfk: Pcm
) -> None:
    """At a pause the encoder is told that the segment ends; if it doesn't, that is undone."""
    model: Any = loaded(family).model
    batcher: Batcher[int] = Batcher(model, DecodeConfig(), max_jobs=1)

    def hear(length: int, *, whole: bool, kept: object, last: bool = False) -> Hypothesis:
        segment = Segment(jfk[:length], (Piece(0, 0, length),))
        update = PrefixState(whole, last, encoder_state=kept)
        batcher.submit(0, DecodeJob(0, segment, "en", prefix=update))
        while not (done := batcher.step()):
            pass
        return done[0][1]

    first = hear(3 * RATE, whole=False, kept=None)
    paused = hear(3 * RATE + 7000, whole=True, kept=first.encoder_state)
    resumed = hear(8 * RATE, whole=True, last=True, kept=paused.encoder_state)
    straight = hear(3 * RATE, whole=False, kept=None)
    expected = hear(8 * RATE, whole=True, last=True, kept=straight.encoder_state)
    assert resumed.tokens == expected.tokens
    assert model.decoder.pages.available == model.decoder.pages.count
