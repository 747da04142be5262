"""Rates, channels and levels: nothing aliased, nobody lost, nothing beyond full scale."""

import io
import itertools

import numpy as np
import pytest
from media import (
    Signal,
    Sound,
    babble,
    decibels,
    heard,
    joined,
    mux,
    read,
    tone,
    wav,
)
from numpy.typing import NDArray

from livecap.audio import AudioReader, Converter, Resampler
from livecap.errors import LivecapError
from livecap.events import RATE


@pytest.mark.parametrize("rate", [7999, 8000, 11_025, 16_000, 22_050, 44_100, 96_000, 192_000])
def test_chunks_equal_the_whole_at_any_rate(rate: int) -> None:
    count = rate + 123
    audio = np.stack([babble(count / rate, rate), babble(count / rate, rate, seed=1)])
    audio[1, : count // 2] *= -0.9
    whole, pieces = Converter(rate, 2), Converter(rate, 2)
    one = np.concatenate([whole.feed(audio), whole.flush()], axis=1)
    sizes = np.random.default_rng(0).integers(0, rate // 20, 400)
    edges = [0, 1, 3, 10, *np.minimum(10 + np.cumsum(sizes), count), count]
    parts = [pieces.feed(audio[:, a:b]) for a, b in itertools.pairwise(edges)]
    two = np.concatenate([*parts, pieces.flush()], axis=1)
    assert one.shape == (1, -(-count * RATE // rate))
    np.testing.assert_allclose(two, one, atol=1e-6)


@pytest.mark.parametrize("rate", [7999, 11_025, 44_100, 48_000, 192_000])
def test_resampling_is_band_limited_and_aligned(rate: int) -> None:
    for hertz in (200.0, 1000.0, 3000.0):
        got = _resampled(tone(1.0, rate, hertz=hertz), rate)
        wanted = tone(1.0, hertz=hertz)
        np.testing.assert_allclose(got[800:-800], wanted[800 : len(got) - 800], atol=1e-3)
    if rate > RATE:
        assert decibels(_resampled(tone(1.0, rate, hertz=9000), rate)[800:-800]) < -70


def _resampled(audio: NDArray[np.generic], rate: int, channels: int = 1) -> NDArray[np.float32]:
    resampler = Resampler(rate, channels)
    return np.concatenate([resampler.feed(audio), resampler.flush()])


def test_integers_floats_planar_and_interleaved_agree() -> None:
    both = np.stack([babble(0.5, 44_100), babble(0.5, 44_100, seed=2)])
    short = np.round(both * 32767).astype(np.int16)
    one = _resampled(short, 44_100, 2)
    np.testing.assert_allclose(one, _resampled(short.T.reshape(-1), 44_100, 2), atol=1e-6)
    np.testing.assert_allclose(one, _resampled(both.astype(np.float64), 44_100, 2), atol=1e-3)
    np.testing.assert_allclose(_resampled(short[:1], RATE), short[0] / 32768, atol=1e-7)


VOICE = babble(3.0)
OTHER = babble(3.0, seed=5)
QUIET = np.zeros_like(VOICE)
FIVE = ("FL", "FR", "FC", "LFE", "BL", "BR")


def _mixed(rows: list[Signal], names: tuple[str, ...] = ()) -> NDArray[np.float32]:
    converter = Converter(RATE, len(rows), names=names)
    mono = np.concatenate([converter.feed(np.stack(rows)), converter.flush()], axis=1)
    return np.asarray(mono[0])


MIXES: dict[str, list[Signal]] = {
    "left only": [VOICE, QUIET],
    "right only": [QUIET, VOICE],
    "right, hiss on the left": [VOICE * 0 + 1e-4 * OTHER, VOICE],
    "twins": [VOICE, VOICE],
    "anti-phase": [VOICE, -VOICE],
    "anti-phase, unequal": [VOICE, -0.7 * VOICE],
    "panned": [VOICE, 0.4 * VOICE],
    "offset on both": [VOICE + 0.3, QUIET + 0.3],
    "four microphones": [VOICE, QUIET, QUIET, QUIET],
    "four twins": [VOICE] * 4,
    "40 channels": [QUIET] * 39 + [VOICE],
}


@pytest.mark.parametrize("kind", MIXES)
def test_a_voice_keeps_its_level(kind: str) -> None:
    got = _mixed(MIXES[kind])
    settled = got[2 * RATE :] - got[2 * RATE :].mean()
    assert abs(decibels(settled) - decibels(VOICE[2 * RATE :])) < 1.5
    assert abs(np.corrcoef(settled, VOICE[2 * RATE :])[0, 1]) > 0.99


@pytest.mark.parametrize("channel", range(6))
def test_every_channel_of_six_is_heard(channel: int) -> None:
    """Also the fourth: an interface's six tracks get the name of a layout they don't have."""
    rows = [QUIET] * 6
    rows[channel] = VOICE
    assert abs(decibels(_mixed(rows, FIVE)) - decibels(VOICE)) < 1.5


def test_centre_stands_and_low_frequencies_are_dropped() -> None:
    rumble = tone(3.0, hertz=50, peak=0.5)
    got = _mixed([QUIET, QUIET, VOICE, rumble, QUIET, QUIET], FIVE)
    assert decibels(got - VOICE) < decibels(VOICE) - 40


def test_two_sides_of_a_call_are_both_loud_from_the_start() -> None:
    third = RATE
    left, right = VOICE.copy(), OTHER.copy()
    left[third : 2 * third] = 0
    right[:third] = 0
    got = _mixed([left, right])
    assert abs(decibels(got[:third]) - decibels(left[:third])) < 1
    assert abs(decibels(got[third : 2 * third]) - decibels(right[third : 2 * third])) < 1.5
    assert np.abs(got).max() <= 1


def test_gains_do_not_click() -> None:
    """A voice that moves from both sides to one: no step between neighbouring samples."""
    low = tone(3.0, hertz=100, peak=0.4)
    right = low.copy()
    right[RATE : 2 * RATE] *= np.linspace(1, 0, RATE, dtype=np.float32)
    right[2 * RATE :] = 0
    assert np.abs(np.diff(_mixed([low, right]))).max() < 0.4 * 2 * np.pi * 100 / RATE * 1.2


def test_split_keeps_rows_and_names_them() -> None:
    rows = np.stack([VOICE, OTHER, QUIET, 0.5 * VOICE])
    with AudioReader(io.BytesIO(wav(rows)), split=True) as reader:
        assert reader.labels == ("channel 1", "channel 2", "channel 3", "channel 4")
        np.testing.assert_allclose(joined(list(reader)), rows, atol=2e-5)
    data = wav(np.stack([VOICE] * 6), mask=0x3F)
    with AudioReader(io.BytesIO(data), split=True) as reader:
        assert reader.labels[:4] == ("left", "right", "centre", "low frequencies")


def test_eight_planar_channels() -> None:
    rows = np.stack([tone(1.0, 48_000, peak=0.1 * (n + 1)) for n in range(8)])
    data = mux(Sound(rows, codec="aac", layout="7.1", bits=512_000), form="matroska")
    got = joined(read(data, split=True))
    assert got.shape[0] == 8
    assert len(set(np.round(got[:, 4000:12_000].max(axis=1), 1))) > 4


FLOATS: dict[str, Signal] = {
    "peaks at 4": 40 * VOICE,
    "on the scale of integers": 32_768 * VOICE,
}


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("rate", [RATE, 48_000])
def test_floats_beyond_one_stay_linear(kind: str, rate: int) -> None:
    scale = FLOATS[kind].max() / VOICE.max()
    converter = Converter(rate, 1)
    audio = np.float32(scale) * babble(3.0, rate)
    got = np.concatenate([converter.feed(audio[None]), converter.flush()], axis=1)[0]
    tail, wanted = got[2 * RATE :], _resampled(babble(3.0, rate), rate)[2 * RATE :]
    assert np.corrcoef(tail, wanted)[0, 1] > 0.999
    assert 0.3 < np.abs(tail).max() <= 1


def test_lone_spikes_and_broken_samples_do_not_silence_the_rest() -> None:
    audio = VOICE.copy()
    audio[[100, 5000, 9000, 12_000, 12_001]] = [np.nan, np.inf, 30_000, -np.inf, np.nan]
    audio[20_000:20_100] = 1e-42
    got = heard(wav(audio, kind="f32"))
    assert np.isfinite(got).all()
    assert np.abs(got).max() <= 1
    np.testing.assert_allclose(got[13_000:19_000], VOICE[13_000:19_000], atol=1e-6)
    assert np.isfinite(heard(wav(np.full(RATE, np.nan, np.float32), 44_100, "f32"))).all()
    assert np.isfinite(heard(wav(np.full(RATE, 1e300), kind="f64"))).all()


def test_an_offset_goes_and_clean_audio_is_untouched() -> None:
    got = heard(wav(0.3 + VOICE, kind="f32"))
    assert abs(got[RATE:].mean()) < 0.03
    clean = heard(wav(VOICE, kind="f32"))
    np.testing.assert_array_equal(clean, VOICE)


@pytest.mark.parametrize("count", [1, 160, 1600, 16_000, 480_000, 480_001])
def test_any_length_comes_out_in_full(count: int) -> None:
    assert len(heard(wav(tone(count / RATE)))) == count


def test_impossible_formats_are_refused() -> None:
    for rate, channels in [(0, 1), (1, 1), (10**9, 1), (RATE, 0), (RATE, 5000)]:
        with pytest.raises(LivecapError, match="usable"):
            Resampler(rate, channels)
