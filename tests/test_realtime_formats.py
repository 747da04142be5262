"""Audio as clients send it: values, rates, and that its pieces leave no trace."""

from itertools import pairwise

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from realtime_client import Client, encoded

from livecap.api.realtime.formats import ALAW, ULAW, AudioFormat, Intake
from livecap.audio import Converter

APPEND = "input_audio_buffer.append"
FORMATS = [
    ({"type": "audio/pcm", "rate": 8_000}, 2, 8_000),
    ({"type": "audio/pcm", "rate": 16_000}, 2, 16_000),
    ({"type": "audio/pcm", "rate": 24_000}, 2, 24_000),
    ({"type": "audio/pcm", "rate": 48_000}, 2, 48_000),
    ({"type": "audio/pcmu"}, 1, 8_000),
    ({"type": "audio/pcma"}, 1, 8_000),
]


@pytest.mark.parametrize(("table", "codec"), [(ULAW, "pcm_mulaw"), (ALAW, "pcm_alaw")])
def test_g711_as_ffmpeg_expands_it(table: NDArray[np.int16], codec: str) -> None:
    decoder = av.CodecContext.create(codec, "r")
    assert isinstance(decoder, av.AudioCodecContext)
    decoder.sample_rate, decoder.layout = 8000, "mono"
    [frame] = decoder.decode(av.Packet(bytes(range(256))))
    assert np.array_equal(frame.to_ndarray().reshape(-1), table)


def test_pcm_is_little_endian() -> None:
    samples = AudioFormat("pcm", 16_000).samples(b"\x01\x00\xff\xff\x00\x80")
    assert samples.tolist() == [1, -1, -32768]


@pytest.mark.parametrize(("form", "width", "rate"), FORMATS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_the_cut_into_events_changes_nothing(
    form: dict[str, object], width: int, rate: int, data: st.DataObject
) -> None:
    size = data.draw(st.integers(rate // 10, rate // 3)) * width
    cuts = data.draw(st.lists(st.integers(0, size // width), max_size=8))
    raw = np.random.default_rng(size).bytes(size)
    edges = [0, *sorted(cut * width for cut in cuts), size]
    whole, pieces = (Client({"turn_detection": "none"}) for _ in range(2))
    for client in (whole, pieces):
        client.configure(format=form)
    whole.send(APPEND, audio=encoded(raw))
    for start, stop in pairwise(edges):
        pieces.send(APPEND, audio=encoded(raw[start:stop]))
    for client in (whole, pieces):
        client.commit()
    assert np.array_equal(whole.samples(1), pieces.samples(1))
    assert len(whole.samples(1)) == -(-(size // width) * 16_000 // rate)


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000, 48_000])
def test_the_audio_is_what_was_sent(rate: int) -> None:
    times = np.arange(rate) / rate
    samples = np.round(12_000 * np.sin(2 * np.pi * 440 * times)).astype(np.int16)
    client = Client({"turn_detection": "none", "sample_rate": str(rate)})
    client.pcm(samples)
    client.commit()
    converter = Converter(rate, 1)
    expected = np.concatenate([converter.feed(samples[None])[0], converter.flush()[0]])
    assert np.array_equal(client.samples(1), expected)


def test_each_buffer_begins_anew() -> None:
    """No sound of one commit leaks into the next, and none is lost."""
    client = Client({"turn_detection": "none"})
    loud, quiet = np.full(2401, 20_000, np.int16), np.zeros(2400, np.int16)
    client.pcm(loud)
    client.commit()
    client.pcm(quiet)
    client.commit()
    assert len(client.samples(1)) == 1601
    assert not client.samples(2).any()


def test_how_much_more_fits() -> None:
    intake = Intake(AudioFormat("pcm", 24_000), 100)
    assert intake.room(100) == 0
    assert intake.room(99) == 0
    assert intake.room(1700) == 2400
    assert intake.room(1701) == 2402
    intake.feed(np.zeros(2400, np.int16))
    assert intake.position == 1700
    assert intake.room(1700) == 0


def test_audio_that_comes_at_once_is_as_good_as_in_pieces() -> None:
    """An event may hold minutes; it is resampled a minute at a time."""
    client = Client({"sample_rate": "8000"})
    client.append(150_000, rate=8_000)
    client.commit()
    assert len(client.samples(1)) == 150 * 16_000


@pytest.mark.parametrize("size", [1, 3, 333, 4801])
@pytest.mark.parametrize("binary", [False, True])
def test_a_sample_may_be_cut_in_two(size: int, binary: bool) -> None:
    """Pieces of an odd number of bytes are the same audio as whole ones."""
    raw = np.random.default_rng(size).integers(-9000, 9000, 4801).astype("<i2").tobytes()[:-1]

    def heard(step: int) -> NDArray[np.float32]:
        client = Client({"sample_rate": "16000"}, binary=binary)
        for at in range(0, len(raw), step):
            piece = raw[at : at + step]
            told = client.raw(piece) if binary else client.send(APPEND, audio=encoded(piece))
            assert told == []
        client.commit()
        return client.samples(1)

    assert np.array_equal(heard(size), heard(len(raw) - 1))
    assert len(heard(size)) == 4800


def test_half_a_sample_is_forgotten_with_the_buffer() -> None:
    client = Client({"sample_rate": "16000"}, binary=True)
    client.raw(b"\x7f")
    client.send("input_audio_buffer.clear")
    client.raw(np.full(1600, 5, "<i2").tobytes())
    client.commit()
    assert np.allclose(client.samples(max(client.hearings))[200:-200], 5 / 32768, atol=1e-6)
