"""The network is Silero's, in any pieces and any company."""

import importlib.util
import subprocess
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from engines import CLIPS, clip
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from livecap.errors import CorruptModel, ModelNotFound
from livecap.vad.endpointer import FRAME
from livecap.vad.silero import Silero, VadState, load

CLOSE = 1e-5  # of a probability; 1e-6 was seen


def package() -> Path:
    """Where silero-vad is. Importing it would set torch's number of threads."""
    spec = importlib.util.find_spec("silero_vad")
    assert spec
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


@cache
def theirs() -> Any:
    with warnings.catch_warnings():
        # the package's only format with these weights
        warnings.filterwarnings("ignore", message=".*torch.jit.load", category=Warning)
        return torch.jit.load(str(package() / "data/silero_vad.jit"))  # type: ignore[no-untyped-call]


@cache
def ours() -> Silero:
    return load()


def frame_by_frame(pcm: Tensor) -> Tensor:
    """What the package's own model says of every whole frame."""
    model = theirs()
    model.reset_states()
    frames = pcm[: len(pcm) // FRAME * FRAME].view(-1, FRAME)
    with torch.no_grad():
        return torch.stack([model(frame[None], 16_000)[0, 0] for frame in frames])


def noise(length: int, level: float = 0.1) -> Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(length)) * level


def in_pieces(pcm: Tensor, sizes: Sequence[int]) -> tuple[Tensor, VadState]:
    state, at, out = ours().open(), 0, []
    for size in [*sizes, len(pcm)]:
        [(probabilities, state)] = ours().probs([state], [pcm[at : at + size]])
        out.append(probabilities)
        at += size
    return torch.cat(out), state


def whole(pcm: Tensor) -> Tensor:
    return in_pieces(pcm, [])[0]


# -- the network --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLIPS)
def test_speech_frame_by_frame(name: str) -> None:
    pcm = clip(name)
    heard = whole(pcm)
    assert heard.max() > 0.9
    torch.testing.assert_close(heard, frame_by_frame(pcm), atol=CLOSE, rtol=0)


@pytest.mark.parametrize("level", [0.0, 1e-4, 0.1, 1.0])
def test_noise_frame_by_frame(level: float) -> None:
    pcm = noise(16_000, level)
    torch.testing.assert_close(whole(pcm), frame_by_frame(pcm), atol=CLOSE, rtol=0)


def test_loading_leaves_the_threads_alone() -> None:
    code = (
        "import torch, sys; torch.set_num_threads(2); from livecap.vad.silero import load; load(); "
        "assert torch.get_num_threads() == 2; assert 'silero_vad' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(st.integers(0, 40), st.integers(0, 4000)), max_size=30))
def test_any_pieces_are_the_whole(sizes: list[int]) -> None:
    pcm = clip("hello_world")[:20_000]
    heard, state = in_pieces(pcm, sizes)
    torch.testing.assert_close(heard, whole(pcm), atol=CLOSE, rtol=0)
    assert torch.equal(state.rest, pcm[len(heard) * FRAME :])


def test_single_samples() -> None:
    pcm = clip("hello_world")[8000:9600]
    heard, _ = in_pieces(pcm, [1] * 1600)
    torch.testing.assert_close(heard, whole(pcm), atol=CLOSE, rtol=0)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3000), min_size=6, max_size=6), min_size=1, max_size=6))
def test_many_streams_are_each_alone(rounds: list[list[int]]) -> None:
    """Six streams, each with as much new audio as it happens to have."""
    sounds = [*(clip(name) for name in CLIPS), noise(18_000), noise(18_000, 0), clip("counting")]
    states, ats = [ours().open() for _ in sounds], [0] * len(sounds)
    out: list[list[Tensor]] = [[] for _ in sounds]
    for sizes in rounds:
        pieces = [pcm[at : at + size] for pcm, at, size in zip(sounds, ats, sizes, strict=True)]
        results = ours().probs(states, pieces)
        for n, (probabilities, state) in enumerate(results):
            states[n] = state
            out[n].append(probabilities)
            ats[n] += len(pieces[n])
    for pcm, at, heard in zip(sounds, ats, out, strict=True):
        torch.testing.assert_close(torch.cat(heard), whole(pcm[:at]), atol=CLOSE, rtol=0)


def test_a_state_is_a_value() -> None:
    """Going on twice from one state gives the same twice."""
    pcm = clip("counting")[:9000]
    [(_, state)] = ours().probs([ours().open()], [pcm])
    first, again = (ours().probs([state], [pcm])[0][0] for _ in range(2))
    assert torch.equal(first, again)


def test_no_streams_and_no_audio() -> None:
    [(heard, _)] = ours().probs([ours().open()], [torch.zeros(0)])
    assert heard.shape == (0,)
    [(heard, state)] = ours().probs([ours().open()], [torch.zeros(511)])
    assert heard.shape == (0,)
    [(heard, _)] = ours().probs([state], [torch.zeros(1)])
    assert heard.shape == (1,)


def test_a_missing_or_damaged_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ModelNotFound, match="silero-vad"):
        load()
    monkeypatch.undo()
    (tmp_path / "silero_vad/data").mkdir(parents=True)
    (tmp_path / "silero_vad/__init__.py").touch()
    (tmp_path / "silero_vad/data/silero_vad.jit").write_bytes(b"PK not a model")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CorruptModel, match="voice activity"):
        load()
