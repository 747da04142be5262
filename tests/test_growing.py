"""What is open of a stream's speech, against a mask over all its samples."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from livecap.config import VadConfig
from livecap.events import RATE
from livecap.growing import Growing
from livecap.segments import Pcm, Segment
from livecap.vad import FRAME, Edge, Gate

ms = RATE // 1000
VADS = (
    VadConfig(),
    VadConfig(vad_pad=0, vad_tail=0),
    VadConfig(vad_pad=1000, vad_tail=900, vad_min_silence=100),
    VadConfig(vad_min_speech=0, vad_min_silence=0, vad_pad=50, vad_tail=2000),
)
runs = st.lists(st.one_of(st.integers(0, 12), st.integers(0, 40)), max_size=8)


@dataclass
class Model:
    """Speech with its padding, as far as it is known: simple, and slow."""

    vad: VadConfig
    starts: list[int] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    now: int = 0
    quiet: int | None = None
    done: int = 0

    def advance(self, now: int, edges: Sequence[Edge], quiet: int | None) -> None:
        for edge in edges:
            (self.starts if edge.kind == "start" else self.stops).append(edge.at)
        self.now, self.quiet = now, quiet

    @property
    def open(self) -> NDArray[np.intp]:
        """Numbers of the samples that are open."""
        mask = np.zeros(self.now, bool)
        pad, tail = self.vad.vad_pad * ms, self.vad.vad_tail * ms
        ends: list[int | None] = [*self.stops, self.quiet]
        for start, stop in zip(self.starts, ends, strict=False):
            mask[max(start - pad, 0) : self.now if stop is None else stop + tail] = True
        mask[: self.done] = False
        return np.flatnonzero(mask)

    @property
    def is_speaking(self) -> bool:
        return len(self.starts) > len(self.stops)

    def close(self, length: int) -> None:
        self.done = int(self.open[length - 1]) + 1


def numbers(segment: Segment) -> list[int]:
    return [int(sample) for sample in segment.pcm]


def assert_same(growing: Growing, model: Model) -> None:
    expected = model.open
    assert growing.length == len(expected)
    view = growing.view(growing.length)
    assert numbers(view) == expected.tolist()
    offset = 0
    for piece in view.pieces:  # and each sample knows where it was
        assert piece.offset == offset
        assert piece.length > 0
        assert view.pcm[offset] == piece.start
        assert view.pcm[offset + piece.length - 1] == piece.start + piece.length - 1
        offset += piece.length
    assert offset == len(view.pcm)
    if len(expected):
        assert growing.is_open
        assert growing.start == expected[0]
        assert growing.has_paused == (not model.is_speaking)
        last = model.quiet if model.is_speaking else model.stops[-1]
        assert growing.silence == (0 if last is None else model.now - last)


@pytest.mark.parametrize("vad", VADS, ids=["usual", "bare", "wide", "hasty"])
@settings(max_examples=20, deadline=None)
@given(
    lengths=runs,
    beyond=st.integers(0, FRAME - 1),
    ahead=st.sampled_from([0, 1, 5000, 10**6]),
    closes=st.lists(st.tuples(st.integers(1, 60), st.floats(0, 1)), max_size=8),
)
@example(lengths=[0, 40, 20, 40], beyond=0, ahead=10**6, closes=[(30, 0.5), (1, 0.5), (1, 1.0)])
@example(lengths=[0, 40, 3, 40, 60, 1], beyond=100, ahead=0, closes=[(41, 1.0), (2, 1.0)])
def test_what_is_open(
    vad: VadConfig,
    lengths: list[int],
    beyond: int,
    ahead: int,
    closes: list[tuple[int, float]],
) -> None:
    """Frame by frame, with some of it closed now and then; audio may be fed far ahead."""
    frames = [0.9 if n % 2 else 0.0 for n, length in enumerate(lengths) for _ in range(length)]
    total = len(frames) * FRAME + beyond
    gate, model = Gate(vad), Model(vad)
    growing = Growing(pad=vad.vad_pad * ms, tail=vad.vad_tail * ms, lag=gate.lag)
    left, wait = list(closes), closes[0][0] if closes else -1
    fed, closed, settled = 0, list[int](), 0
    begun: Pcm = np.zeros(0, np.float32)
    for place in range(len(frames) + 1):
        is_end = place == len(frames)
        now = total if is_end else (place + 1) * FRAME
        while fed < min(now + ahead, total):
            size = min(FRAME // 2 + 77 + ahead, total - fed)
            growing.feed(np.arange(fed, fed + size, dtype=np.float32))
            fed += size
        edges = gate.close() if is_end else gate.feed([frames[place]])
        quiet = None if is_end else gate.quiet
        growing.advance(now, edges, quiet)
        model.advance(now, edges, quiet)
        assert_same(growing, model)
        heard: Pcm = growing.view(growing.length).pcm
        assert np.array_equal(heard[: len(begun)], begun), "what is heard only grows"
        begun = heard
        assert growing.start >= settled
        settled = growing.start
        wait -= 1
        if wait == 0 and growing.length:
            _, share = left.pop(0)
            wait = left[0][0] if left else -1
            length = max(round(growing.length * share), 1)
            closed += numbers(growing.close(length))
            model.close(length)
            assert closed[-1] == model.done - 1
            assert_same(growing, model)
            begun = growing.view(growing.length).pcm
    closed += numbers(growing.view(growing.length))
    model.done, everything = 0, Model(vad, model.starts, model.stops, total)
    assert closed == everything.open.tolist()


def test_a_view_is_its_beginning() -> None:
    growing = Growing(pad=0, tail=0, lag=0)
    growing.feed(np.arange(100, dtype=np.float32))
    growing.advance(30, [Edge("start", 10, 20), Edge("stop", 20, 30)], None)
    growing.advance(60, [Edge("start", 40, 50)], None)
    assert growing.length == 30
    assert numbers(growing.view(15)) == [*range(10, 20), *range(40, 45)]
    assert [(p.offset, p.start, p.length) for p in growing.view(15).pieces] == [
        (0, 10, 10),
        (10, 40, 5),
    ]
    assert numbers(growing.view(10)) == [*range(10, 20)]
    assert len(growing.view(10).pieces) == 1
    assert numbers(growing.view(1000)) == [*range(10, 20), *range(40, 60)]
    assert numbers(growing.view(0)) == []


def test_what_turns_out_to_be_nothing() -> None:
    growing = Growing(pad=0, tail=20, lag=0)
    growing.feed(np.arange(100, dtype=np.float32))
    growing.advance(30, [Edge("start", 10, 20), Edge("stop", 20, 30)], None)
    assert growing.length == 20
    assert numbers(growing.close(20)) == [*range(10, 30)]
    assert growing.is_open  # its tail goes on
    assert growing.length == 0
    growing.discard()
    assert not growing.is_open
    growing.advance(100, [Edge("start", 35, 90)], None)
    assert numbers(growing.view(100)) == [*range(35, 100)]


@pytest.mark.parametrize("speaks", [False, True])
def test_memory(*, speaks: bool) -> None:
    """Closed speech and silence are forgotten, but for what may become padding."""
    growing = Growing(pad=100, tail=100, lag=50)
    for now in range(100, 100_000, 100):
        growing.feed(np.zeros(100, np.float32))
        edges = [Edge("start", 0, 100)] if speaks and now == 100 else []
        growing.advance(now, edges, None)
        assert growing.buffer.stop - growing.buffer.start <= 1100
        if growing.length >= 1000:
            growing.close(900)
