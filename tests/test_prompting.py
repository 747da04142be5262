"""Prompts and hotwords that are too long: what counts is read, and the rest is told of once."""

from pathlib import Path

import numpy as np
import pytest
from command import Command, speechless
from media import wav

from livecap.api.realtime.actions import Hearing
from livecap.api.sessions.stream_options import heard_by
from livecap.api.transcriptions.form import TranscriptionRequest
from livecap.api.transcriptions.plan import plan
from livecap.checkpoints import resolve
from livecap.config import DecodeConfig, LiveOptions, ModelConfig
from livecap.engine.request import Request
from livecap.events import RATE
from livecap.models.load import load_model
from livecap.models.prompting import fitted
from livecap.models.protocol import EncodeRequest
from livecap.models.whisper.model import Whisper

MANY = [f"Name{n}sson" for n in range(3500)]
LONG = " ".join(f"word{n}" for n in range(900))


@pytest.fixture(scope="module")
def model() -> Whisper:
    found = load_model(resolve("tiny.en"), ModelConfig()).model
    assert isinstance(found, Whisper)
    return found


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("hotwords", [", ".join(MANY), " ".join(MANY), "Alpha, Beta", ""])
@pytest.mark.parametrize("prompt", ["", "A short one.", LONG])
def test_what_counts_is_read(model: Whisper, hotwords: str, prompt: str, live: bool) -> None:
    room = 112 if live else 223
    told: list[str] = []
    asked = DecodeConfig(hotwords=hotwords, prompt=prompt)
    found = fitted(model, asked, told.append, live=live)
    read = model.fallback.given(found)
    assert len(read) <= room
    assert len(told) == (len(model.fallback.given(asked)) > room)
    if not told:
        assert found == asked
        return
    assert len(read) > room - 12  # and no more is left out than must be
    terms = [term.strip() for term in found.hotwords.split(",") if term.strip()]
    if hotwords:
        assert terms
        assert (MANY if "Name" in hotwords else ["Alpha", "Beta"])[: len(terms)] == terms
        share = len(model.fallback.given(DecodeConfig(hotwords=found.hotwords)))
        assert share > room // 2 - 12 or len(terms) == 2
    assert prompt.endswith(found.prompt)
    assert bool(found.prompt) == bool(prompt)
    assert ("hotwords" in told[0]) == (len(hotwords) > 20)


def test_a_run_says_it_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    livecap = Command(monkeypatch, tmp_path)
    options = ("--hotwords", ",".join(MANY), "--prompt", LONG)
    done = livecap("file", *speechless(2, tmp_path), *options)
    assert done.status == 0
    assert done.err.count("left out") == 1
    assert "of 3500 hotwords" in done.err
    assert "of 900 words of the prompt" in done.err
    (tmp_path / "talk.wav").write_bytes(wav(np.zeros(1600, np.float32)))
    live = livecap("mic", "--from", "talk.wav", "--speed", "0", *options)
    assert live.status == 0
    assert live.err.count("left out") == 1
    assert "left out" not in livecap("file", "talk.wav", "--hotwords", "Alpha, Beta").err


def test_help_says_in_which_order_they_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    livecap = Command(monkeypatch, tmp_path)
    for command in ("file", "mic"):
        told = " ".join(livecap(command, "--help").out.replace("│", " ").split())
        assert "the first count" in told
        assert "its end counts" in told


@pytest.mark.parametrize("once", [False, True])
def test_context_makes_way_for_what_was_given(model: Whisper, once: bool) -> None:
    """Hotwords and prompt stand before each window, however long the text before it is."""
    decode = DecodeConfig(language="en", hotwords="Kennedy, inaugural", long_form="sequential")
    given = model.fallback.given(decode)
    context = [model.tokenizer.specials.eot - 1 - n for n in range(400)]
    memory = model.encode([EncodeRequest(np.zeros(RATE, np.float32))])[0]
    fallback = model.fallback
    way = fallback.decode_once if once else fallback.decode  # updates of live speech; windows
    request = next(way(memory, "en", decode, context, seconds=1.0, seed=0))
    assert isinstance(request, Request)
    assert list(request.prompt[1 : 1 + len(given)]) == given
    room = model.fallback.limit // 2 - 1 - len(given)
    assert list(request.prompt[1 + len(given) :][:room]) == context[-room:]
    model.decoder.free(memory)


def test_a_server_says_what_it_leaves_out(model: Whisper, caplog: pytest.LogCaptureFixture) -> None:
    """In its log, and for live speech and files alike."""
    names = tuple(MANY)
    hearing = Hearing("tiny.en", None, (), "", names, True, 0.5, 300, 500, None, False)
    _, decode = heard_by(hearing, model, LiveOptions())
    asked = TranscriptionRequest("transcribe", keywords=names)
    found = plan(asked, model, has_vad=True).decode
    for one in (decode, found):
        assert one.hotwords.startswith("Name0sson, Name1sson")
        assert len(model.fallback.given(one)) < model.fallback.limit // 2
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert all("of 3500 hotwords" in record.getMessage() for record in caplog.records)
