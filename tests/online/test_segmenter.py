"""Every voiced sample is in exactly one segment, of bounded length, however the stream is fed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from livecap.config import VadConfig
from livecap.events import RATE
from livecap.online.segmenter import Segmenter
from livecap.online.speech_buffer import QUIET_WINDOW, Pcm, Piece, Segment, SpeechBuffer, quietest
from livecap.vad.endpointer import FRAME, Edge, Endpointer

MOST = 3 * RATE  # far below Whisper's 28 s, so that short streams have many segments
BRIDGE = 2 * RATE
VAD = VadConfig(vad_min_speech=100, vad_min_silence=300, vad_pad=300, vad_tail=300)
PAD = 300 * RATE // 1000
LAG = Endpointer(VAD).lag

# Runs of frames with speech and without, in turn; some of the lengths that matter with MOST.
runs = st.lists(st.one_of(st.integers(0, 40), st.integers(60, 140)), max_size=14)
feeds = st.lists(st.one_of(st.integers(0, 700), st.integers(0, 60_000)), max_size=12)


def frames_of(lengths: Sequence[int]) -> list[float]:
    return [0.9 if n % 2 else 0.0 for n, length in enumerate(lengths) for _ in range(length)]


def numbered(length: int) -> Pcm:
    """Audio whose samples say where they are."""
    return np.arange(length, dtype=np.float32)


@dataclass
class Stream:
    """An endpointer and a segmenter, driven as a stream does."""

    endpointer: Endpointer
    buffer: SpeechBuffer
    segmenter: Segmenter
    edges: list[Edge] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    most_kept: int = 0  # samples in the buffer after a feed
    fed: int = 0

    def feed(self, pcm: Pcm, probs: Sequence[float]) -> None:
        self.fed += len(pcm)
        edges, _ = self.endpointer.push(probs, self.fed)
        self.edges += [edge for edge in edges if edge.kind in ("start", "stop")]
        self.buffer.append(pcm)
        self.segments += self.segmenter.advance(self.endpointer.at, edges)
        self.most_kept = max(self.most_kept, self.buffer.stop - self.buffer.start)

    def close(self) -> None:
        edges, _ = self.endpointer.finish(self.fed)
        self.edges += [edge for edge in edges if edge.kind in ("start", "stop")]
        self.segments += self.segmenter.advance(self.fed, edges)
        self.segments += self.segmenter.finish(self.fed, is_last=True)

    @property
    def pieces(self) -> list[Piece]:
        return [piece for segment in self.segments for piece in segment.pieces]


def opened(vad: VadConfig = VAD, *, most: int = MOST, bridge: int = BRIDGE) -> Stream:
    endpointer, buffer = Endpointer(vad), SpeechBuffer()
    segmenter = Segmenter(
        buffer,
        max_segment=most,
        max_silence=bridge,
        pad=endpointer.pad,
        tail=endpointer.tail,
        lag=endpointer.lag,
    )
    return Stream(endpointer, buffer, segmenter)


def fed(pcm: Pcm, frames: Sequence[float], sizes: Sequence[int], stream: Stream) -> Stream:
    """Feed the audio in pieces, each with the frames that it makes whole, and close."""
    at = 0
    for size in [*sizes, len(pcm)]:
        stop = min(at + size, len(pcm))
        stream.feed(pcm[at:stop], frames[at // FRAME : stop // FRAME])
        at = stop
    stream.close()
    return stream


def assert_whole(stream: Stream, pcm: Pcm, most: int = MOST, pad: int = PAD) -> None:
    """What every list of segments has to be."""
    until = 0
    for segment in stream.segments:
        assert 0 < len(segment.pcm) <= most
        offset = 0
        for piece in segment.pieces:
            assert piece.length > 0
            assert piece.offset == offset
            assert piece.start >= until, "a sample twice"
            heard = segment.pcm[offset : offset + piece.length]
            assert np.array_equal(heard, pcm[piece.start : piece.start + piece.length])
            offset += piece.length
            until = piece.start + piece.length
        assert offset == len(segment.pcm)
    covered = np.zeros(len(pcm), bool)
    for piece in stream.pieces:
        covered[piece.start : piece.start + piece.length] = True
    expected = np.zeros(len(pcm), bool)
    for start, stop in zip(stream.edges[::2], stream.edges[1::2], strict=True):
        expected[max(start.at - pad, 0) : stop.at + pad] = True
    assert np.array_equal(covered, expected)


def same(one: Stream, other: Stream) -> bool:
    return [(s.pieces, s.pcm.tobytes()) for s in one.segments] == [
        (s.pieces, s.pcm.tobytes()) for s in other.segments
    ]


@settings(max_examples=150, deadline=None)
@given(runs, feeds, st.integers(0, FRAME - 1))
# speech that, with its padding, is a little longer than a segment, and more speech soon after
@example([0, 88, 25, 40], [], 0)
@example([0, 92, 22, 20], [4000, 4000], 3)
def test_speech_is_in_segments_once(lengths: list[int], sizes: list[int], beyond: int) -> None:
    frames = frames_of(lengths)
    pcm = numbered(len(frames) * FRAME + beyond)
    whole = fed(pcm, frames, [], opened())
    assert_whole(whole, pcm)
    pieces = fed(pcm, frames, sizes, opened())
    assert same(pieces, whole)
    singles = fed(pcm, frames, [FRAME] * len(frames), opened())
    assert same(singles, whole)


@settings(max_examples=100, deadline=None)
@given(
    runs,
    feeds,
    st.sampled_from([0, 32, 500, 2500]),
    st.sampled_from([0, 32, 600, 2000]),
    st.sampled_from([0, 300, 1000]),
    st.sampled_from([RATE, 3 * RATE, 8 * RATE]),
    st.sampled_from([0, RATE, 30 * RATE]),
)
# the padding of the second remark reaches back into the first segment, which has left already
@example([0, 10, 12, 10], [], 0, 32, 300, 8 * RATE, 0)
# padding that is still to come is longer than what a segment holds
@example([0, 35, 2], [36 * FRAME], 0, 0, 1000, RATE, 0)
def test_any_configuration(
    lengths: list[int],
    sizes: list[int],
    speech: int,
    silence: int,
    pad: int,
    most: int,
    bridge: int,
) -> None:
    vad = VadConfig(vad_min_speech=speech, vad_min_silence=silence, vad_pad=pad, vad_tail=pad)
    frames = frames_of(lengths)
    pcm = numbered(len(frames) * FRAME)
    whole = fed(pcm, frames, [], opened(vad, most=most, bridge=bridge))
    assert_whole(whole, pcm, most, pad * RATE // 1000)
    pieces = fed(pcm, frames, sizes, opened(vad, most=most, bridge=bridge))
    assert same(pieces, whole)


# -- where segments end -------------------------------------------------------------------------


def cut(*lengths: int, most: int = MOST, bridge: int = BRIDGE) -> list[list[tuple[float, float]]]:
    """Runs of frames -> per segment its pieces (start, stop) in frames, without the padding."""
    frames = frames_of(lengths)
    pcm = numbered(len(frames) * FRAME)
    stream = fed(
        pcm, frames, [], opened(VadConfig(vad_pad=0, vad_tail=0), most=most, bridge=bridge)
    )
    return [
        [(piece.start / FRAME, (piece.start + piece.length) / FRAME) for piece in segment.pieces]
        for segment in stream.segments
    ]


def test_short_remarks_share_a_segment_without_the_silence_between() -> None:
    assert cut(10, 20, 30, 20, 40, 30) == [[(10, 30), (60, 80), (120, 150)]]


def test_a_long_silence_ends_a_segment() -> None:
    assert cut(10, 20, 70, 20) == [[(10, 30)], [(100, 120)]]


def test_a_full_segment_ends_at_its_last_pause() -> None:
    """93.75 frames fit: the third remark doesn't."""
    assert cut(0, 40, 20, 40, 20, 40) == [[(0, 40), (60, 100)], [(120, 160)]]


def test_endless_speech_is_cut_where_it_is_quietest() -> None:
    frames = [0.9] * 400
    generator = np.random.default_rng(0)
    pcm = generator.standard_normal(400 * FRAME).astype(np.float32)
    moments = [2 * RATE, 4 * RATE + 5000, 7 * RATE, 9 * RATE + 777]
    for moment in moments:
        pcm[moment - QUIET_WINDOW // 2 : moment + QUIET_WINDOW // 2] *= 0.01
    stream = fed(pcm, frames, [], opened())
    assert_whole(stream, pcm)
    stops = [segment.stop for segment in stream.segments]
    assert stops[:4] == pytest.approx(moments, abs=5)
    assert all(len(segment.pcm) >= MOST // 2 for segment in stream.segments[:-1])


def test_a_pause_that_becomes_known_late_is_preferred_to_a_cut() -> None:
    """The speech stops just before the limit; that it has stopped is known only after it."""
    [first, second] = cut(0, 92, 12, 40)
    assert first == [(0, 92)]
    assert second == [(104, 144)]


def test_the_quietest_moment() -> None:
    pcm = np.ones(RATE, np.float32)
    pcm[5000 : 5000 + QUIET_WINDOW] = 0
    assert quietest(pcm) == 5000 + QUIET_WINDOW // 2
    assert quietest(pcm[:100]) == 50
    assert quietest(pcm[:0]) == 0


# -- memory -------------------------------------------------------------------------------------


def endless(frame: Sequence[float], minutes: int) -> Iterator[Stream]:
    """Blocks of 100 ms for many minutes; the stream after each second."""
    stream, block, at = opened(), np.ones(RATE // 10, np.float32), 0
    for n in range(minutes * 600):
        stop = at + len(block)
        count = stop // FRAME - at // FRAME
        first = at // FRAME
        stream.feed(block, [frame[(first + k) % len(frame)] for k in range(count)])
        at = stop
        if n % 10 == 9:
            yield stream
            stream.segments.clear()


@pytest.mark.parametrize(
    ("frame", "bound"),
    [
        ([0.0], PAD + LAG),  # silence: padding and what is not known yet
        ([0.9], MOST + LAG),  # speech
        ([0.9] * 9 + [0.0] * 40, MOST + LAG),  # remarks
        ([0.9] * 93 + [0.0] * 12, MOST + LAG),
    ],
    ids=["silence", "speech", "remarks", "long remarks"],
)
def test_memory_does_not_grow_with_the_stream(frame: list[float], bound: int) -> None:
    block = RATE // 10
    for stream in endless(frame, minutes=3):
        assert stream.most_kept <= bound + 2 * FRAME + 2 * block
        spans = sum(len(span.pcm) for span in stream.segmenter._spans if span.pcm is not None)
        assert spans <= 2 * MOST
        assert sum(len(segment.pcm) for segment in stream.segments) <= 3 * RATE + MOST


def test_the_buffer() -> None:
    buffer = SpeechBuffer()
    for start, stop in ((0, 10), (10, 10), (10, 25), (25, 30)):
        buffer.append(numbered(30)[start:stop])
    assert buffer.take(3, 27).tolist() == list(range(3, 27))
    buffer.drop(24)
    assert buffer.start == 10  # whole blocks only
    assert buffer.take(24, 30).tolist() == list(range(24, 30))
    buffer.drop(30)
    assert (buffer.start, buffer.stop) == (30, 30)
    with pytest.raises(AssertionError):
        buffer.take(29, 30)


# -- places -------------------------------------------------------------------------------------


def test_a_place_in_a_segment_on_the_timeline() -> None:
    segment = Segment(numbered(50), (Piece(0, 100, 20), Piece(20, 500, 30)))
    assert (segment.start, segment.stop) == (100, 530)
    assert segment.span(0, 5) == (100, 105)
    assert segment.span(19, 20) == (119, 120)
    assert segment.span(20, 50) == (500, 530)
    assert segment.span(10, 30) == (110, 120)  # ends before the silence that was left out
    assert segment.span(45, 80) == (525, 530)  # a model may think that it heard more
    assert segment.span(60, 70) == (530, 530)
    assert segment.span(7, 3) == (107, 107)
    assert segment.silences(380) == (20,)
    assert segment.silences(381) == ()
    first = segment.first(25)
    assert (first.start, first.stop, len(first.pcm)) == (100, 505, 25)
    assert segment.first(20).pieces == (Piece(0, 100, 20),)


def test_the_buffer_knows_media_times() -> None:
    buffer = SpeechBuffer()
    buffer.append(numbered(10))
    buffer.skip(100)
    buffer.append(numbered(5))
    assert [buffer.media(sample) for sample in (0, 9, 10, 14)] == [0, 9, 100, 104]
    assert [buffer.media_end(sample) for sample in (0, 10, 11, 15)] == [0, 10, 101, 105]
    assert buffer.pieces(8, 12, 3) == (Piece(3, 8, 2), Piece(5, 100, 2))
    buffer.drop(10)
    assert buffer.media(12) == 102


@settings(max_examples=60, deadline=None)
@given(runs)
def test_every_sample_of_a_segment_has_its_place(lengths: list[int]) -> None:
    frames = frames_of(lengths)
    stream = fed(numbered(len(frames) * FRAME), frames, [], opened())
    for segment in stream.segments:
        for at in range(0, len(segment.pcm), 997):
            assert segment.span(at, at + 1) == (segment.pcm[at], segment.pcm[at] + 1)
