"""The timeline of what is read, damage, pipes, raw PCM, memory."""

import io
import itertools
import tracemalloc
from collections.abc import Callable
from fractions import Fraction

import av
import numpy as np
import pytest
from media import (
    Drip,
    Signal,
    Sound,
    babble,
    chunk,
    joined,
    mux,
    pack,
    read,
    tone,
    wav,
)

from livecap.audio import AudioReader, RawFormat
from livecap.audio.timeline import Timeline
from livecap.errors import ConfigError, EmptyAudio, NoAudioTrack
from livecap.events import RATE

A = tone(1.0)
T48 = tone(2.0, 48_000)
CODED = {
    "opus": mux(Sound(babble(20.0, 48_000), codec="libopus"), form="ogg"),
    "mp3": mux(Sound(babble(20.0, 48_000), codec="libmp3lame"), form="mp3"),
    "webm": mux(Sound(babble(20.0, 48_000), codec="libopus"), form="webm"),
}

# -- the timeline ------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["matroska", "mp4"])
def test_a_late_track_keeps_its_offset(form: str) -> None:
    codec = "aac" if form == "mp4" else "pcm_s16le"
    data = mux(Sound(T48, codec=codec, start=2.5), form=form, video=True)
    with AudioReader(io.BytesIO(data)) as reader:
        first = next(iter(reader))
        assert abs(first.start - 40_000) <= (400 if codec == "aac" else 0)
        assert [(gap.start, gap.end) for gap in reader.gaps] == [(0, first.start)]


def joined_pieces(form: str, count: int, seconds: float) -> bytes:
    """Pieces of AAC, each with a burst in its middle, joined without decoding: as `ffmpeg -f concat
    -c copy` does, each begins when the one before it is to be over, whatever that has in it.
    """
    rate = 48_000
    piece = np.zeros((1, round(seconds * rate)), np.float32)
    middle = round(seconds * rate / 2)
    piece[0, middle : middle + 2400] = tone(0.05, rate)
    out = io.BytesIO()
    with av.open(out, "w", format=form) as container:
        stream = container.add_stream("aac", rate=rate, layout="mono")
        last = -1
        for number in range(count):
            encoder = av.CodecContext.create("aac", "w")
            encoder.rate, encoder.layout, encoder.format = rate, "mono", "fltp"
            frame = av.AudioFrame.from_ndarray(piece, "fltp", "mono")
            frame.rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
            encoder.time_base = frame.time_base
            for packet in [*encoder.encode(frame), *encoder.encode(None)]:
                at = packet.pts + round(number * seconds * rate)
                packet.pts = packet.dts = last = max(at, last + 1)
                packet.time_base, packet.stream = Fraction(1, rate), stream
                container.mux(packet)
    return out.getvalue()


@pytest.mark.parametrize("form", ["matroska", "mp4"])
@pytest.mark.parametrize("seconds", [5.0, 2.0])
def test_joined_pieces_do_not_drift(form: str, seconds: float) -> None:
    with AudioReader(io.BytesIO(joined_pieces(form, 24, seconds))) as reader:
        blocks = list(reader)
    loud = np.concatenate(
        [block.start + np.flatnonzero(np.abs(block.pcm[0]) > 0.1) for block in blocks]
    )
    starts = loud[np.diff(loud, prepend=-RATE) > RATE // 2] / RATE
    assert starts == pytest.approx([seconds * (n + 0.5) for n in range(24)], abs=0.1)
    assert blocks[-1].end == pytest.approx(24 * seconds * RATE, abs=RATE // 10)
    assert all(two.start >= one.end for one, two in itertools.pairwise(blocks))


def test_timestamps_of_another_clock_cost_little() -> None:
    """Times that run slower than the samples are followed no further than a join would be."""
    timeline, kept = Timeline(), 0
    for number in range(10_000):
        time = 0.9 * number * 512  # frames of 512 samples
        if timeline.is_covered(time, 512 / RATE):
            continue
        timeline.index(time)
        timeline.advance(512 / RATE)
        kept += 1
    assert kept > 10_000 * 0.85


@pytest.mark.parametrize("form", ["matroska", "mp4"])
def test_a_files_own_start_is_zero(form: str) -> None:
    """A cut that keeps its old times (-copyts), so that all its streams begin at 30 s: times count
    from where players show the file to begin.
    """
    codec = "aac" if form == "mp4" else "pcm_s16le"
    sounds = [Sound(T48, codec=codec, start=start) for start in (30.0, 30.5)]
    data = mux(*sounds, form=form)
    for track, start in ((0, 0.0), (1, 0.5)):
        with AudioReader(io.BytesIO(data), track=track) as reader:
            first = next(iter(reader))
            assert first.start / RATE == pytest.approx(start, abs=0.03)


def test_gaps_are_kept_and_jitter_is_absorbed() -> None:
    gaps = {10_240: 0.75, 20_480: 0.02, 30_720: 0.004}  # packets hold 1024 samples
    sound = Sound(tone(1.0, 48_000), gaps=gaps)
    with AudioReader(io.BytesIO(mux(sound, form="matroska"))) as reader:
        blocks = list(reader)
        (gap,) = reader.gaps
        assert gap.reason == "no audio"
        assert gap.end - gap.start == pytest.approx(12_000, abs=16)
    assert sum(block.pcm.shape[1] for block in blocks) == pytest.approx(RATE, abs=3)
    jumps = [two.start - one.end for one, two in itertools.pairwise(blocks)]
    assert sorted(jumps)[-1] == pytest.approx(12_000, abs=16)
    assert sum(jump != 0 for jump in jumps) == 1


@pytest.mark.parametrize(("form", "codec"), [("matroska", "flac"), ("mp3", "libmp3lame")])
def test_damaged_packets_are_counted_and_become_a_gap(form: str, codec: str) -> None:
    data = bytearray(mux(Sound(babble(4.0, 48_000), codec=codec), form=form))
    with av.open(io.BytesIO(bytes(data))) as container:
        packets = [packet for packet in container.demux(audio=0) if packet.size]
    third = len(packets) // 3
    for packet in packets[third : third + 8]:
        place = data.index(bytes(packet)[:40]) + (6 if codec == "libmp3lame" else 0)
        data[place : place + 60] = b"\xff" * 60
    with AudioReader(io.BytesIO(bytes(data))) as reader:
        blocks = list(reader)
        assert reader.damaged >= 6
        assert {gap.reason for gap in reader.gaps} == {"damaged"}
    for gap, (one, two) in itertools.product(reader.gaps, itertools.pairwise(blocks)):
        assert not one.start < gap.end <= one.end
        assert two.start >= one.end
    assert blocks[-1].end == pytest.approx(4 * RATE, abs=500)


def test_a_container_given_up_early_reports_the_rest_as_a_gap() -> None:
    data = bytearray(mux(Sound(babble(4.0, 48_000), codec="flac"), form="matroska"))
    middle = len(data) // 2
    data[middle : middle + 9000] = b"\xff" * 9000
    with AudioReader(io.BytesIO(bytes(data))) as reader:
        end = list(reader)[-1].end
        assert reader.damaged > 0
        assert sum(gap.end - gap.start for gap in reader.gaps) + end >= 4 * RATE - 2


# -- pipes, raw PCM, memory --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["wav", "opus", "mp3", "webm"])
def test_a_pipe_is_read_as_it_arrives(kind: str) -> None:
    data = wav(babble(20.0)) if kind == "wav" else CODED[kind]
    source = Drip(data, most=800)
    with AudioReader(source) as reader:
        first = next(iter(reader))
        assert 0 < first.pcm.shape[1] < 8000
        assert source.taken < len(data) / (50 if kind == "wav" else 5)


RAW: dict[str, Callable[[Signal], bytes]] = {
    "s8": lambda a: np.round(a * 127).astype(np.int8).tobytes(),
    "u8": lambda a: pack(a, "u8"),
    "s16le": lambda a: pack(a, "s16"),
    "s16be": lambda a: np.frombuffer(pack(a, "s16"), "<i2").astype(">i2").tobytes(),
    "s24le": lambda a: pack(a, "s24"),
    "s32le": lambda a: pack(a, "s32"),
    "f32le": lambda a: pack(a, "f32"),
    "f64le": lambda a: pack(a, "f64"),
    "mulaw": lambda a: mux(Sound(a, RATE, "pcm_mulaw"), form="mulaw"),
    "alaw": lambda a: mux(Sound(a, RATE, "pcm_alaw"), form="alaw"),
}


@pytest.mark.parametrize("codec", RAW)
def test_raw_pcm(codec: str) -> None:
    data = RAW[codec](A)
    for source in (Drip(data, most=333), io.BytesIO(data)):
        with AudioReader(source, raw=RawFormat.parse(f"{codec}:16000:1"), name="-") as reader:
            got = joined(list(reader))[0]
        assert len(got) == RATE
        loose = codec in ("u8", "s8", "mulaw", "alaw")
        np.testing.assert_allclose(got, A, atol=0.02 if loose else 2e-5)


def test_raw_stereo_split_with_a_cut_sample() -> None:
    both = np.stack([A, 0.5 * A])
    raw = RawFormat.parse("s16le:16000:2")
    with AudioReader(io.BytesIO(pack(both) + b"\1\2\3"), raw=raw, split=True) as reader:
        assert reader.labels == ("left", "right")
        assert reader.duration == RATE
        np.testing.assert_allclose(joined(list(reader)), both, atol=2e-5)
    with pytest.raises(EmptyAudio):
        AudioReader(io.BytesIO(b"\0"), raw=raw)


@pytest.mark.parametrize(
    "text", ["", "mp3", "s16le:0:1", "s16le:16000:0", "s16le:x", "s16le:1:1:1"]
)
def test_bad_raw_formats_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="s16le"):
        RawFormat.parse(text)


def test_memory_is_flat_and_close_ends_it() -> None:
    source = Drip(wav(np.zeros(RATE * 120, np.float32), size=0xFFFFFFFF), most=65_536)
    reader = AudioReader(source)
    tracemalloc.start()
    for number, block in enumerate(reader):
        assert block.pcm.shape[1] <= 16_384
        if number == 400:
            break
    assert tracemalloc.get_traced_memory()[1] < 4_000_000
    tracemalloc.stop()
    reader.close()
    reader.close()
    assert list(reader) == []
    assert not source.closed


def test_wav_in_a_pipe_ends_with_its_data_and_other_tracks_are_refused() -> None:
    data = wav(np.stack([A] * 6), mask=0x3F, before=chunk(b"LIST", b"INFOa"), after=bytes(5000))
    with AudioReader(Drip(data), split=True) as reader:
        assert reader.labels[:4] == ("left", "right", "centre", "low frequencies")
        assert reader.tracks[0].channels == 6
        assert joined(list(reader)).shape == (6, RATE)
    with pytest.raises(NoAudioTrack, match="track 1"):
        AudioReader(Drip(data), track=1)


def test_an_index_at_the_end_is_waited_for_and_one_at_the_front_is_not() -> None:
    sound = Sound(babble(20.0, 48_000), codec="aac")
    for options, share in [({}, 1.0), ({"movflags": "faststart"}, 0.3)]:
        data = mux(sound, form="ipod", options=options)
        source = Drip(data)
        with AudioReader(source) as reader:
            next(iter(reader))
            assert source.taken <= share * len(data)
            assert sum(block.pcm.shape[1] for block in reader) > 18 * RATE


def test_channels_that_change_on_the_way_keep_the_rows() -> None:
    links = [
        mux(Sound(np.stack([tone(1.0, 48_000)] * count), codec="libopus"), form="ogg")
        for count in (2, 1)
    ]
    blocks = read(b"".join(links), split=True)
    assert joined(blocks).shape == (2, 2 * RATE)
    assert np.abs(joined(blocks)[0, -8000:]).max() > 0.4


def test_seconds_of_a_bad_clock_do_not_move_back() -> None:
    """Two recordings one after the other in one transport stream: the second goes on behind."""
    one = mux(Sound(T48, codec="aac"), form="mpegts")
    blocks = read(one + one)
    assert all(b.start >= a.end for a, b in itertools.pairwise(blocks))
    assert blocks[-1].end == pytest.approx(4 * RATE, abs=3200)


def test_what_comes_before_time_zero_is_cut() -> None:
    sound = Sound(T48, start=-0.256)
    data = mux(sound, form="matroska", options={"avoid_negative_ts": "disabled"})
    blocks = read(data)
    assert blocks[0].start == 0
    assert joined(blocks).shape[1] == pytest.approx(2 * RATE - 4096, abs=16)
