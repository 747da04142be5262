"""The network is Silero's, in any pieces and any company; the gate has its hysteresis."""

import importlib.util
import subprocess
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from engines import CLIPS, clip
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from livecap.config import VadConfig
from livecap.errors import CorruptModel, ModelNotFound
from livecap.vad import FRAME, Edge, Gate, Silero, VadState, load

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
        [(probabilities, state)] = ours().listen([state], [pcm[at : at + size]])
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
        "import torch, sys; torch.set_num_threads(2); from livecap.vad import load; load(); "
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
        results = ours().listen(states, pieces)
        for n, (probabilities, state) in enumerate(results):
            states[n] = state
            out[n].append(probabilities)
            ats[n] += len(pieces[n])
    for pcm, at, heard in zip(sounds, ats, out, strict=True):
        torch.testing.assert_close(torch.cat(heard), whole(pcm[:at]), atol=CLOSE, rtol=0)


def test_a_state_is_a_value() -> None:
    """Going on twice from one state gives the same twice."""
    pcm = clip("counting")[:9000]
    [(_, state)] = ours().listen([ours().open()], [pcm])
    first, again = (ours().listen([state], [pcm])[0][0] for _ in range(2))
    assert torch.equal(first, again)


def test_no_streams_and_no_audio() -> None:
    [(heard, _)] = ours().listen([ours().open()], [torch.zeros(0)])
    assert heard.shape == (0,)
    [(heard, state)] = ours().listen([ours().open()], [torch.zeros(511)])
    assert heard.shape == (0,)
    [(heard, _)] = ours().listen([state], [torch.zeros(1)])
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


# -- the gate -----------------------------------------------------------------------------------

HIGH, BAND, LOW = 0.9, 0.4, 0.1  # above, between and below the thresholds of 0.5 and 0.35
LEVELS = {"#": HIGH, "=": BAND, ".": LOW}
CONFIG = VadConfig(
    vad_min_speech=64, vad_min_silence=96, vad_pad=0, vad_tail=0
)  # two and three frames


def gated(probabilities: Sequence[float], config: VadConfig = CONFIG) -> list[Edge]:
    gate = Gate(config)
    return [*gate.feed(probabilities), *gate.close()]


def drawn(picture: str) -> list[float]:
    return [LEVELS[character] for character in picture]


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        # where speech is, in frames
        ("", []),
        ("......", []),
        ("======", []),  # the band alone starts nothing
        ("..####......", [(2, 6)]),
        ("####......", [(0, 4)]),
        ("..#.........", []),  # too short
        ("..##........", [(2, 4)]),  # just long enough
        ("..#=........", [(2, 4)]),  # the band goes on with what has started
        ("..####..####...", [(2, 12)]),  # a short pause
        ("..####...####...", [(2, 6), (9, 13)]),  # a pause just long enough
        ("..####==####...", [(2, 12)]),
        ("..####=.=####...", [(2, 13)]),  # quiet for two frames only
        ("..###.==#...", [(2, 5)]),  # the band does not end a pause that has begun
        ("..#..#..#......", [(2, 9)]),  # pauses count once speech goes on after them
        ("..####", [(2, 6)]),  # the end of the stream
        ("..####..", [(2, 6)]),  # ... in a pause that is too short yet
        ("..#", []),
        ("..#.", []),
    ],
)
def test_the_table_of_the_gate(picture: str, expected: list[tuple[int, int]]) -> None:
    edges = gated(drawn(picture))
    assert [edge.kind for edge in edges] == ["start", "stop"] * len(expected)
    spans = [(start.at, stop.at) for start, stop in zip(edges[::2], edges[1::2], strict=True)]
    assert spans == [(start * FRAME, stop * FRAME) for start, stop in expected]


def test_an_edge_says_when_it_was_known() -> None:
    start, stop, *_ = Gate(CONFIG).feed(drawn("..####......"))
    assert (start.at, start.known) == (2 * FRAME, 4 * FRAME)
    assert (stop.at, stop.known) == (6 * FRAME, 9 * FRAME)


def test_open_while_speech_goes_on() -> None:
    gate, pictures = Gate(CONFIG), "..####......"
    seen = ""
    for character in pictures:
        gate.feed(drawn(character))
        seen += "o" if gate.is_open else "-"
    assert seen == "---ooooo----"


probabilities = st.lists(st.sampled_from([HIGH, HIGH, BAND, LOW, LOW]), max_size=80)


@settings(max_examples=200, deadline=None)
@given(
    probabilities,
    st.integers(0, 5),
    st.integers(0, 8),
    st.lists(st.integers(0, 9), max_size=20),
)
def test_any_feeding_gives_the_same_edges(
    heard: list[float], speech: int, silence: int, sizes: list[int]
) -> None:
    config = VadConfig(
        vad_min_speech=32 * speech, vad_min_silence=32 * silence, vad_pad=0, vad_tail=0
    )
    gate, at, edges = Gate(config), 0, []
    for size in sizes:
        edges += gate.feed(heard[at : at + size])
        at += size
    edges += [*gate.feed(heard[at:]), *gate.close()]
    assert edges == gated(heard, config)
    assert [edge.kind for edge in edges] == ["start", "stop"] * (len(edges) // 2)
    spans = [edge.at for edge in edges]
    assert spans == sorted(spans)
    known = [edge.known for edge in edges]
    assert known == sorted(known)
    assert all(edge.at <= edge.known <= len(heard) * FRAME for edge in edges)


@cache
def their_rules() -> ModuleType:
    """The package's own offline rules, without the package."""
    spec = importlib.util.spec_from_file_location("utils_vad", package() / "utils_vad.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def their_spans(heard: Sequence[float], config: VadConfig) -> list[tuple[int, int]]:
    """Their pause is measured to the start of the last frame of it, ours to its end."""
    spans = their_rules().get_speech_timestamps_from_probs(
        list(heard),
        threshold=config.vad_threshold,
        min_speech_duration_ms=config.vad_min_speech,
        min_silence_duration_ms=config.vad_min_silence - 32,
        speech_pad_ms=0,
        audio_length_samples=len(heard) * FRAME,
    )
    return [(span["start"], span["end"]) for span in spans]


def our_spans(heard: Sequence[float], config: VadConfig) -> list[tuple[int, int]]:
    at = [edge.at for edge in gated(heard, config)]
    return list(zip(at[::2], at[1::2], strict=True))


DEFAULT = VadConfig()
PAUSE = [0.0] * 30  # at the end of the audio their rules differ: a short pause is speech there


@pytest.mark.parametrize("name", CLIPS)
def test_spans_of_speech_are_theirs(name: str) -> None:
    heard = [*whole(clip(name)).tolist(), *PAUSE]
    spans = our_spans(heard, DEFAULT)
    assert spans
    assert spans == their_spans(heard, DEFAULT)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([HIGH, LOW]), max_size=120))
def test_spans_without_the_band_are_theirs(heard: list[float]) -> None:
    """In the band they wait with ending a pause until a frame is below it again; we don't."""
    assert our_spans([*heard, *PAUSE], DEFAULT) == their_spans([*heard, *PAUSE], DEFAULT)
