"""The log-mel front end equals the checkpoints' own extractor, whole and in pieces."""

from functools import cache
from typing import Any

import pytest
import torch
from engines import clip
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import WhisperFeatureExtractor

from towers.mel import HOP, RANGE, Mel

TOLERANCE = 1e-5  # of values from -1.5 to 1.5; 2.4e-7 was seen
WINDOW_FRAMES = 3000
EDGES = [0, 1, 2, 3, 100, 159, 160, 161, 199, 200, 201, 202, 239, 240, 241, 319, 320, 399, 400, 401]
LENGTHS = [*EDGES, 1000, 16_000, 16_001, 80_123, 479_439, 479_440, 479_600, 479_999, 480_000]

pieces = st.lists(st.integers(0, 3000), min_size=1, max_size=12)


@cache
def extractor_of(bins: int) -> Any:
    return WhisperFeatureExtractor(feature_size=bins)


def noise(length: int, seed: int = 0) -> Tensor:
    """Audio that is at times loud and at times nearly silent."""
    generator = torch.Generator().manual_seed(seed)
    envelope = torch.linspace(0, 12, max(length, 1)).sin().square()[:length] + 1e-4
    return torch.randn(length, generator=generator) * 0.3 * envelope


def theirs(pcm: Tensor, bins: int) -> Tensor:
    out = extractor_of(bins)(pcm.numpy(), sampling_rate=16_000, return_tensors="pt")
    features: Tensor = out.input_features[0]
    return features


def streamed(mel: Mel, pcm: Tensor, sizes: list[int]) -> list[Tensor]:
    """The frames that each piece of the audio let out; `sizes` go round."""
    state, at, out = mel.open(), 0, []
    for n in range(10_000):
        stop = min(at + sizes[n % len(sizes)], len(pcm))
        frames, state = mel.stream(pcm[at:stop], state, final=False)
        out.append(frames)
        at = stop
        if at == len(pcm):
            break
    frames, state = mel.stream(pcm[:0], state, final=True)
    assert state.frames == len(pcm) // HOP
    return [*out, frames]


@pytest.mark.parametrize("bins", [80, 128])
@pytest.mark.parametrize("length", LENGTHS)
def test_a_padded_window_is_the_extractors(length: int, bins: int) -> None:
    pcm = noise(length, seed=length)
    ours = Mel(bins).offline(pcm, WINDOW_FRAMES)
    assert ours.shape == (bins, WINDOW_FRAMES)
    torch.testing.assert_close(ours, theirs(pcm, bins), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("bins", [80, 128])
def test_speech_is_the_extractors(bins: int) -> None:
    pcm = clip("counting")
    ours = Mel(bins).offline(pcm, WINDOW_FRAMES)
    torch.testing.assert_close(ours, theirs(pcm, bins), atol=TOLERANCE, rtol=0)


def test_every_short_length() -> None:
    pcm, mel = noise(402), Mel(80)
    clips = [pcm[:n].numpy() for n in range(402)]
    batch = extractor_of(80)(
        clips, sampling_rate=16_000, padding="max_length", max_length=960, return_tensors="pt"
    )
    for n, expected in enumerate(batch.input_features):
        ours = mel.offline(pcm[:n], 960 // HOP)
        torch.testing.assert_close(ours, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("length", [201, 320, 400, 401, 4000, 16_001, 16_100, 16_159, 16_160])
def test_an_unpadded_clip_is_the_extractors(length: int) -> None:
    pcm = noise(length)
    out = extractor_of(80)(pcm.numpy(), sampling_rate=16_000, padding=False, return_tensors="pt")
    ours = Mel(80).offline(pcm)
    assert ours.shape == (80, length // HOP)
    torch.testing.assert_close(ours, out.input_features[0], atol=TOLERANCE, rtol=0)


def test_digital_silence_is_flat() -> None:
    silence = Mel(80).offline(torch.zeros(8000), 100)
    assert set(silence.flatten().tolist()) == {-1.5}  # (log10(1e-10) + 4) / 4
    torch.testing.assert_close(theirs(torch.zeros(8000), 80)[:, :100], silence)


@settings(max_examples=60, deadline=None)
@given(length=st.integers(0, 9000), sizes=pieces, seed=st.integers(0, 5))
def test_pieces_make_the_offline_frames(length: int, sizes: list[int], seed: int) -> None:
    if not any(sizes):
        sizes = [160]
    mel, pcm = Mel(80), noise(length, seed)
    together = torch.cat(streamed(mel, pcm, sizes), 1)
    assert together.shape[1] == length // HOP
    if not together.numel():
        return
    offline = mel.offline(pcm)
    # The stream's floor is never above the clip's: put on the clip's floor, all is equal.
    floor = offline.max() - RANGE / 4
    torch.testing.assert_close(together.clamp(min=floor), offline, atol=1e-5, rtol=0)


@settings(max_examples=25, deadline=None)
@given(sizes=pieces, other=pieces)
def test_the_floor_follows_the_loudest_so_far(sizes: list[int], other: list[int]) -> None:
    """What has left depends on the audio so far only, so it never has to be changed."""
    mel = Mel(80)
    sizes, other = [*sizes, 500], [*other, 500]
    quiet, loud = noise(6000, 1) * 0.01, noise(6000, 2)
    before = streamed(mel, quiet, sizes)[:-1]
    then = torch.cat(streamed(mel, torch.cat([quiet, loud]), sizes), 1)
    count = sum(frames.shape[1] for frames in before)
    cut = torch.cat(before, 1)
    # The piece that holds the end of the quiet part may hold the start of the loud part too.
    whole = max(count - max(sizes) // HOP - 3, 0)
    assert torch.equal(then[:, :whole], cut[:, :whole])
    floor_then = then.max() - RANGE / 4
    again = torch.cat(streamed(mel, torch.cat([quiet, loud]), other), 1)
    torch.testing.assert_close(
        again.clamp(min=floor_then), then.clamp(min=floor_then), atol=1e-5, rtol=0
    )


def test_silence_after_speech_lies_on_the_floor() -> None:
    mel = Mel(80)
    sizes = [700]
    frames = torch.cat(streamed(mel, torch.cat([noise(8000), torch.zeros(8000)]), sizes), 1)
    assert set(frames[:, -40:].flatten().tolist()) == {float(frames.max()) - RANGE / 4}


def test_no_frame_before_its_samples() -> None:
    mel, state = Mel(80), Mel(80).open()
    pcm, heard, left = noise(4000), 0, 0
    for n in range(0, 4000, 40):
        frames, state = mel.stream(pcm[n : n + 40], state, final=False)
        heard, left = heard + 40, left + frames.shape[1]
        # frame k is centred on sample 160 k and reaches 200 further, and the one before the
        # last must not yet be known as the last
        assert left == max((heard - 201) // HOP + 1, 0)
        assert len(state.samples) <= 401


def test_a_long_stream_keeps_little() -> None:
    mel = Mel(80)
    state = mel.open()
    for _ in range(50):
        _, state = mel.stream(noise(16_000), state, final=False)
    assert len(state.samples) <= 401
    assert state.frames == 50 * 100 - 1  # the last one reaches past the end
