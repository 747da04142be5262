"""The windowed tower of Qwen3-ASR against transformers', whole and in pieces."""

import pytest
import torch
from torch import Tensor
from transformers.models.qwen3_asr.configuration_qwen3_asr import (
    Qwen3ASRConfig,
    Qwen3ASREncoderConfig,
)
from transformers.models.qwen3_asr.modeling_qwen3_asr import (
    Qwen3ASREncoder,
    Qwen3ASRMultiModalProjector,
)

from towers.layers import dense
from towers.qwen3_windowed import CHUNK, Rows, WindowedTower, rows_of

BINS, OUTPUT = 128, 24


class Oracle:
    """transformers' encoder and projector with random weights, and ours with the same."""

    def __init__(self, window: int = 8) -> None:
        torch.manual_seed(11)
        config = Qwen3ASREncoderConfig(
            encoder_layers=2,
            encoder_attention_heads=2,
            encoder_ffn_dim=64,
            d_model=32,
            output_dim=OUTPUT,
            n_window_infer=window * CHUNK,
            downsample_hidden_size=6,
        )
        self.encoder = Qwen3ASREncoder(config).eval()
        whole = Qwen3ASRConfig(audio_config=config)
        self.projector = Qwen3ASRMultiModalProjector(whole).eval()
        for module in (self.encoder, self.projector):
            for parameter in module.parameters():
                torch.nn.init.normal_(parameter, std=0.2)
        self.tensors = tensors = dict(self.encoder.state_dict())
        for ours, theirs in (("proj1", "linear_1"), ("proj2", "linear_2")):
            for part in ("weight", "bias"):
                tensors[f"{ours}.{part}"] = self.projector.state_dict()[f"{theirs}.{part}"]
        self.tower = WindowedTower(tensors, heads=2, make=dense(torch.float32), window=window)

    @torch.inference_mode()
    def rows(self, mel: Tensor) -> Tensor:
        """Mel [bins, frame] of one clip -> what transformers makes of it [row, OUTPUT]."""
        frames = mel.shape[1]
        padded = torch.nn.functional.pad(mel, (0, -frames % CHUNK))[None]
        mask = (torch.arange(padded.shape[2]) < frames).long()[None]
        rows: Tensor = self.projector(self.encoder(padded, mask).last_hidden_state)
        return rows


@pytest.fixture(scope="module", params=[8, 4, 2])
def oracle(request: pytest.FixtureRequest) -> Oracle:
    return Oracle(request.param)


def mel_of(frames: int, seed: int = 0) -> Tensor:
    return torch.randn(BINS, frames, generator=torch.Generator().manual_seed(seed + frames))


def whole(tower: WindowedTower, mel: Tensor) -> Tensor:
    ((rows, _),) = tower.encode([tower.open()], [mel], final=True)
    assert not len(rows.provisional)
    assert len(rows.block_ids) == len(rows.stable)
    return rows.stable


def test_rows_of_the_published_table() -> None:
    table = {1: 1, 8: 1, 9: 2, 50: 7, 99: 13, 100: 13, 101: 14, 150: 20, 800: 104, 3000: 390}
    assert {frames: rows_of(frames) for frames in table} == table


@pytest.mark.parametrize("frames", [1, 7, 8, 9, 50, 93, 99, 100, 101, 199, 800, 801, 1650, 2405])
def test_a_clip_equals_transformers(oracle: Oracle, frames: int) -> None:
    mel = mel_of(frames)
    ours, theirs = whole(oracle.tower, mel), oracle.rows(mel)
    assert ours.shape == theirs.shape == (rows_of(frames), OUTPUT)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("step", [1, 37, 100, 192, 799, 5000])
def test_pieces_give_the_rows_of_the_whole(oracle: Oracle, step: int) -> None:
    tower, mel = oracle.tower, mel_of(1777 if step > 1 else 230)
    expected = whole(tower, mel)
    state = tower.open()
    stable: list[Tensor] = []
    ids: list[int] = []
    for start in range(0, mel.shape[1], step):
        final = start + step >= mel.shape[1]
        ((rows, state),) = tower.encode([state], [mel[:, start : start + step]], final=final)
        stable.append(rows.stable)
        ids += rows.block_ids
        heard = whole(tower, mel[:, : start + step])
        shown = torch.cat([*stable, rows.provisional])
        torch.testing.assert_close(shown, heard, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.cat(stable), expected, rtol=1e-4, atol=1e-5)
    assert ids == sorted(ids)
    assert not state.frames.shape[1] or state.frames.shape[1] < CHUNK


def test_finished_windows_are_not_run_again(oracle: Oracle) -> None:
    tower = oracle.tower
    first = mel_of(tower.window * CHUNK * 2 + 30)
    ((rows, state),) = tower.encode([tower.open()], [first], final=False)
    assert set(rows.block_ids) == {0, 1}
    ((after, state),) = tower.encode([state], [mel_of(10)], final=False)
    assert not len(after.stable)
    assert len(after.provisional) == rows_of(40)
    assert state.windows == 2


def test_many_streams_together_are_as_each_alone(oracle: Oracle) -> None:
    tower = oracle.tower
    mels = [mel_of(frames, seed=3) for frames in (5, 100, 830, 1999, 0)]
    firsts = [mel[:, : mel.shape[1] // 2] for mel in mels]
    together = tower.encode([tower.open() for _ in mels], firsts, final=False)
    rests = [mel[:, mel.shape[1] // 2 :] for mel in mels]
    ends = tower.encode([state for _, state in together], rests, final=True)
    for mel, (start, _), (end, _) in zip(mels, together, ends, strict=True):
        assert isinstance(start, Rows)
        joined = torch.cat([start.stable, end.stable])
        torch.testing.assert_close(joined, whole(tower, mel), rtol=1e-4, atol=1e-5)


def test_all_of_it_is_where_the_weights_are(oracle: Oracle) -> None:
    """Another device shows what stays behind: "meta" takes part in nothing of the CPU's."""
    tensors = {name: tensor.to("meta") for name, tensor in oracle.tensors.items()}
    tower = WindowedTower(tensors, heads=2, make=dense(torch.float32))
    state = tower.open()
    for frames, final in ((250, False), (900, True)):
        mel = torch.zeros(BINS, frames, device="meta")
        ((rows, state),) = tower.encode([state], [mel], final=final)
        assert rows.stable.device.type == rows.provisional.device.type == "meta"
