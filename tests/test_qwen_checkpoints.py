"""Reading Qwen3-ASR in every layout, and refusing what is damaged or doesn't fit together."""

import json
import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from qwen_models import (
    REAL,
    Tensors,
    decoder_of,
    official_config,
    save_causal,
    save_hf,
    save_official,
    tiny_aligner,
    tiny_qwen,
    tower_of,
)
from qwen_vocabulary import SMALL
from safetensors.torch import load_file, save_file

from livecap.checkpoints import (
    Checkpoint,
    Qwen3AsrCheckpoint,
    Qwen3AudioDims,
    Qwen3TextDims,
    load_qwen3_asr,
    resolve,
)
from livecap.checkpoints.lazy_tensors import Lazy, stored_in
from livecap.checkpoints.qwen3_asr_form import decoder_shapes, tower_shapes
from livecap.errors import CorruptModel, LivecapError, ModelError, ModelNotFound

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without models."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("LIVECAP_HOME", str(tmp_path / "livecap"))
    return tmp_path


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_qwen()


def load(folder: Path) -> Qwen3AsrCheckpoint:
    return load_qwen3_asr(resolve(str(folder)))


def assert_same(read: Mapping[str, torch.Tensor], expected: Tensors, dtype: torch.dtype) -> None:
    assert read.keys() == expected.keys()
    for name, tensor in expected.items():
        assert read[name].dtype == dtype
        assert torch.equal(read[name], tensor.to(dtype)), name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("head", [True, False])
def test_the_official_layout(
    tmp_path: Path, model: Any, dtype: torch.dtype, shards: int, head: bool
) -> None:
    save_official(model, tmp_path / "m", dtype=dtype, shards=shards, head=head)
    assert len(list((tmp_path / "m").glob("*.safetensors"))) == shards
    read = load(tmp_path / "m")
    assert (read.name, read.kind) == (str(tmp_path / "m"), "windowed")
    assert_same(read.tower, tower_of(model), dtype)
    assert_same(read.decoder, decoder_of(model), dtype)
    assert "lm_head.weight" not in read.decoder


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shard", [None, 50_000])
def test_the_layout_of_transformers(
    tmp_path: Path, model: Any, dtype: torch.dtype, shard: int | None
) -> None:
    save_hf(model, tmp_path, dtype=dtype, shard=shard)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == bool(shard)
    read = load(tmp_path)
    assert read.kind == "windowed"
    assert_same(read.tower, tower_of(model), dtype)
    assert_same(read.decoder, decoder_of(model), dtype)


@pytest.mark.parametrize(
    ("audio_sizes", "text_sizes", "millions"),
    [
        ((18, 896, 14, 3584, 1024), (28, 1024, 3072, 151936), (186.4, 596.0)),
        ((24, 1024, 16, 4096, 2048), (28, 2048, 6144, 151936), (317.5, 1720.6)),
        ((24, 1024, 16, 4096, 1024), (28, 1024, 3072, 152064), (316.4, 596.2)),
    ],
)
def test_the_published_models_have_the_published_sizes(
    audio_sizes: tuple[int, int, int, int, int],
    text_sizes: tuple[int, int, int, int],
    millions: tuple[float, float],
) -> None:
    layers, hidden, inner, vocab = text_sizes
    audio = Qwen3AudioDims(*audio_sizes, channels=480, window=8)
    text = Qwen3TextDims(layers, hidden, inner, 16, 8, 128, vocab, 65536, 1e6, 1e-6)
    for shapes, expected in zip((tower_shapes(audio), decoder_shapes(text)), millions, strict=True):
        assert round(sum(map(math.prod, shapes.values())) / 1e6, 1) == expected


def test_both_layouts_tell_the_same(tmp_path: Path) -> None:
    model = tiny_qwen(window=4)
    ours, theirs = (save(model, tmp_path / save.__name__) for save in (save_official, save_hf))
    official, native = load_qwen3_asr(ours), load_qwen3_asr(theirs)
    assert official.audio == native.audio
    assert official.text == native.text
    assert official.ends == native.ends == {SMALL, SMALL + 2}
    assert official.tokenizer.encode(" Hello") == native.tokenizer.encode(" Hello")
    audio, text = official.audio, official.text
    assert (audio.layers, audio.width, audio.heads, audio.hidden) == (2, 24, 4, 48)
    assert (audio.output, audio.channels, audio.window) == (32, 8, 4)
    assert (text.layers, text.hidden, text.inner, text.vocab) == (2, 32, 64, SMALL + 40)
    assert (text.heads, text.kv_heads, text.head_dim) == (4, 2, 16)
    assert (text.positions, text.theta, text.eps) == (65536, 1e6, 1e-6)


@pytest.mark.parametrize("save", [save_official, save_hf])
def test_the_real_vocabulary(tmp_path: Path, save: Any) -> None:
    read = load_qwen3_asr(save(tiny_qwen(count=REAL), tmp_path))
    assert read.text.vocab == 151936
    assert read.decoder["embed_tokens.weight"].shape == (151936, 32)
    assert read.ends == {151643, 151645}
    assert read.tokenizer.specials.asr_text == 151704
    assert read.tokenizer.encode("system") == [8948]


@pytest.mark.parametrize("save", [save_official, save_hf])
def test_a_projection_of_its_own(tmp_path: Path, save: Any) -> None:
    model = tiny_qwen(tied=False)
    read = load_qwen3_asr(save(model, tmp_path))
    assert_same(read.decoder, decoder_of(model), torch.float32)
    assert not torch.equal(read.decoder["lm_head.weight"], read.decoder["embed_tokens.weight"])


@pytest.mark.parametrize("save", [save_official, save_hf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_forced_aligner(tmp_path: Path, save: Any, dtype: torch.dtype) -> None:
    model = tiny_aligner(classes=50)
    read = load_qwen3_asr(save(model, tmp_path, dtype=dtype))
    assert read.kind == "aligner"
    assert_same(read.tower, tower_of(model), dtype)
    assert_same(read.decoder, decoder_of(model), dtype)
    assert read.decoder["score.weight"].shape == (50, 32)
    assert "lm_head.weight" not in read.decoder
    assert read.tokenizer.specials.timestamp == SMALL + 7


def test_an_aligner_has_as_many_classes_as_its_head(tmp_path: Path) -> None:
    save_official(tiny_aligner(classes=7), tmp_path)
    change(tmp_path, {"thinker_config": {"classify_num": 5000}})
    assert load(tmp_path).decoder["score.weight"].shape == (7, 32)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_tensor_is_read_each_time_and_not_kept(tmp_path: Path) -> None:
    save_file({f"t{n}": torch.ones(4, 1 << 20) for n in range(8)}, tmp_path / "big.safetensors")
    code = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from livecap.checkpoints.lazy_tensors import Lazy, stored_in\n"
        "tensors = Lazy(stored_in(Path(sys.argv[1])))\n"
        "assert tensors.shapes == {f't{n}': (4, 1 << 20) for n in range(8)}\n"
        "def mapped(): return sys.argv[1] in Path('/proc/self/maps').read_text()\n"
        "print(mapped())\n"
        "one = tensors['t1']\nprint(mapped())\ndel one\n"
        "def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = most()\n"
        "total = sum(float(tensors[name].double().sum()) for name in tensors)\n"
        "print(total / (1 << 25), mapped())\n"
        "print(most() - before < 100_000)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "big.safetensors")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout.split(), done.stderr) == (
        ["False", "True", "1.0", "False", "True"],
        "",
    )


def test_asking_what_is_there_reads_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    save_file({"a": torch.ones(2, 3)}, file)
    tensors = Lazy(stored_in(file))
    file.unlink()
    assert ("a" in tensors, "b" in tensors, list(tensors), len(tensors)) == (True, False, ["a"], 1)
    assert tensors.shapes == {"a": (2, 3)}
    assert tensors.get("b") is None
    with pytest.raises(KeyError):
        tensors["b"]
    with pytest.raises(CorruptModel, match="can't be read any more"):
        tensors["a"]


def test_what_is_read_can_be_changed_and_the_file_stays(tmp_path: Path, model: Any) -> None:
    read = load_qwen3_asr(save_official(model, tmp_path))
    read.tower["proj1.bias"].zero_()
    assert torch.equal(read.tower["proj1.bias"], tower_of(model)["proj1.bias"])


def test_values_that_are_left_out(tmp_path: Path) -> None:
    model = tiny_qwen(count=REAL)
    save_official(model, tmp_path)
    config = official_config(model)
    for name in ("n_window", "n_window_infer", "num_mel_bins", "downsample_hidden_size"):
        del config["thinker_config"]["audio_config"][name]
    for name in ("vocab_size", "rms_norm_eps", "max_position_embeddings", "tie_word_embeddings"):
        del config["thinker_config"]["text_config"][name]
    config["thinker_config"]["audio_config"]["downsample_hidden_size"] = 8
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    (tmp_path / "generation_config.json").unlink()
    read = load(tmp_path)
    assert (read.audio.window, read.text.vocab, read.text.positions) == (8, 151936, 65536)
    assert read.text.eps == 1e-6
    assert "lm_head.weight" not in read.decoder
    assert read.ends == {151643, 151645}


def test_the_rotary_base_in_either_place(tmp_path: Path, model: Any) -> None:
    save_official(model, tmp_path)
    change(tmp_path, {"thinker_config": {"text_config": {"rope_theta": 5e5}}})
    assert load(tmp_path).text.theta == 5e5
    change(
        tmp_path,
        {"thinker_config": {"text_config": {"rope_theta": None, "rope_scaling": None}}},
    )
    parameters = {"rope_theta": 10000, "rope_type": "default"}
    change(tmp_path, {"thinker_config": {"text_config": {"rope_parameters": parameters}}})
    assert load(tmp_path).text.theta == 10000


def test_end_tokens_that_the_files_list(tmp_path: Path, model: Any) -> None:
    save_official(model, tmp_path)
    ends = tmp_path / "generation_config.json"
    for listed, more in ((SMALL + 1, {SMALL + 1}), ([5, SMALL, 10**9], set()), (None, set())):
        ends.write_text(json.dumps({"eos_token_id": listed}), "utf-8")
        assert load(tmp_path).ends == {SMALL, SMALL + 2} | more
    ends.write_text('{"eos_token_id": "<|im_end|>"}', "utf-8")
    with pytest.raises(CorruptModel, match="ids under 'eos_token_id'"):
        load(tmp_path)


def change(folder: Path, facts: dict[str, Any]) -> None:
    """Change values deep in a config.json; None deletes one."""

    def merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        for key, value in new.items():
            if isinstance(value, dict) and isinstance(old.get(key), dict):
                merge(old[key], value)
            elif value is None:
                old.pop(key, None)
            else:
                old[key] = value
        return old

    file = folder / "config.json"
    merged = merge(json.loads(file.read_text("utf-8")), facts)
    file.write_text(json.dumps(merged), "utf-8")


def audio(**values: object) -> dict[str, Any]:
    return {"thinker_config": {"audio_config": values}}


def text(**values: object) -> dict[str, Any]:
    return {"thinker_config": {"text_config": values}}


@pytest.mark.parametrize(
    ("facts", "kind", "said"),
    [
        (text(rope_theta=None), CorruptModel, "lacks rope_theta"),
        (text(rope_theta="1e6"), CorruptModel, "a number under 'rope_theta'"),
        (text(rope_scaling={"rope_type": "yarn"}), ModelError, "of the type 'yarn'"),
        (text(hidden_size=None), CorruptModel, "an integer under 'hidden_size'"),
        (text(num_hidden_layers=3), CorruptModel, r"it lacks language_model\.layers\.2"),
        (text(num_hidden_layers=1), CorruptModel, r"no Qwen3-ASR model: language_model\.layers\.1"),
        (text(num_hidden_layers=10**9), CorruptModel, "no Qwen3-ASR decoder has"),
        (text(num_key_value_heads=3), CorruptModel, "no Qwen3-ASR decoder has"),
        (text(head_dim=8), CorruptModel, r"wrong shape: .*\[64, 32\] instead of \[32, 32\]"),
        (text(vocab_size=700), CorruptModel, r"wrong shape: .*\[640, 32\] instead of \[700"),
        (text(hidden_act="gelu"), ModelError, "its hidden_act isn't silu"),
        (text(attention_bias=True), ModelError, "its attention_bias isn't False"),
        (audio(d_model=16), CorruptModel, "wrong shape: audio_tower"),
        (audio(encoder_layers=None, num_hidden_layers=None), CorruptModel, "'encoder_layers'"),
        (audio(n_window=100), CorruptModel, "no Qwen3-ASR tower has"),
        (audio(n_window_infer=850), CorruptModel, "no Qwen3-ASR tower has"),
        (audio(num_mel_bins=80), CorruptModel, "no Qwen3-ASR tower has"),
        (audio(encoder_attention_heads=0), CorruptModel, "no Qwen3-ASR tower has"),
        (audio(activation_function="relu"), ModelError, "its activation_function isn't gelu"),
        ({"thinker_config": {"audio_config": None}}, CorruptModel, "object under 'audio_config'"),
        ({"thinker_config": None}, CorruptModel, "object under 'audio_config'"),
        ({"model_type": "llama"}, ModelError, "of type 'llama'"),
    ],
)
def test_configs_that_are_refused(
    tmp_path: Path, model: Any, facts: dict[str, Any], kind: type[LivecapError], said: str
) -> None:
    save_official(model, tmp_path)
    change(tmp_path, facts)
    with pytest.raises(kind, match=said) as caught:
        load(tmp_path)
    assert type(caught.value) is kind
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "cut", "said"),
    [
        ("model-00002-of-00003.safetensors", None, "lacks model-00002-of-00003.safetensors"),
        ("model-00002-of-00003.safetensors", 1, "no safetensors file"),
        ("model-00003-of-00003.safetensors", 10**9, "no safetensors file"),
        ("model.safetensors.index.json", 5, "not valid JSON"),
        ("config.json", 5, "not valid JSON"),
        ("config.json", None, "lacks a config.json"),
        ("vocab.json", None, "has no vocabulary"),
        ("merges.txt", None, "has no merges.txt"),
    ],
)
def test_damaged_files(tmp_path: Path, model: Any, name: str, cut: int | None, said: str) -> None:
    save_official(model, tmp_path, shards=3)
    file = tmp_path / name
    file.unlink() if cut is None else file.write_bytes(file.read_bytes()[:-cut])
    with pytest.raises(CorruptModel, match=said) as caught:
        load(tmp_path)
    assert "livecap pull" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "tensor", "kind", "said"),
    [
        ("thinker.audio_tower.layers.1.fc1.bias", None, CorruptModel, r"lacks audio_tower\.layers"),
        ("thinker.model.norm.weight", None, CorruptModel, r"lacks language_model\.norm\.weight"),
        ("thinker.model.norm.weight", torch.ones(31), CorruptModel, r"\[31\] instead of \[32\]"),
        ("thinker.lm_head.weight", torch.ones(3, 32), CorruptModel, r"\[3, 32\] instead of"),
        ("thinker.audio_tower.extra", torch.ones(1), CorruptModel, "audio_tower.extra"),
        ("other.weight", torch.ones(1), CorruptModel, "no Qwen3-ASR model: other.weight"),
        (
            "thinker.model.norm.weight",
            torch.ones(32, dtype=torch.int8),
            ModelError,
            "stores thinker.model.norm.weight as I8",
        ),
    ],
)
def test_tensors_that_are_refused(
    tmp_path: Path,
    model: Any,
    name: str,
    tensor: torch.Tensor | None,
    kind: type[LivecapError],
    said: str,
) -> None:
    save_official(model, tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = {name: one.clone() for name, one in load_file(file).items()}  # it is mapped
    tensors.pop(name, None)
    save_file(tensors if tensor is None else tensors | {name: tensor}, file)
    with pytest.raises(kind, match=said) as caught:
        load(tmp_path)
    assert type(caught.value) is kind
    assert caught.value.remedy


def test_an_aligner_without_its_token(tmp_path: Path) -> None:
    save_official(tiny_aligner(count=REAL), tmp_path)
    facts = json.loads((tmp_path / "tokenizer_config.json").read_text("utf-8"))
    del facts["added_tokens_decoder"]["151705"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(facts), "utf-8")
    with pytest.raises(CorruptModel, match="no <timestamp> in its vocabulary"):
        load(tmp_path)


def test_pickles_are_refused(tmp_path: Path, model: Any) -> None:
    save_official(model, tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin, which isn't read"):
        load(tmp_path)


def test_other_families_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a whisper model, not Qwen3-ASR"):
        load_qwen3_asr(Checkpoint("w", tmp_path, "huggingface", "whisper"))


@pytest.mark.parametrize("file", ["model.safetensors", "tower_step_60000.safetensors"])
def test_a_causal_tower_with_its_decoder_below_it(tmp_path: Path, model: Any, file: str) -> None:
    save_causal(model, tmp_path / "t", file=file)
    (tmp_path / "t" / "z.safetensors").write_bytes(b"not read")
    found = resolve(str(tmp_path / "t"))
    assert (found.layout, found.family) == ("tower", "qwen3-asr")
    assert found.decoder == tmp_path / "t" / "decoder"
    read = load_qwen3_asr(found)
    assert (read.name, read.kind) == (str(tmp_path / "t"), "causal")
    assert_same(read.tower, tower_of(model), torch.float32)
    assert_same(read.decoder, decoder_of(model), torch.float32)
    assert (read.audio.heads, read.audio.output, read.text.hidden) == (4, 32, 32)
    assert read.tokenizer.specials.im_end == SMALL + 2


def test_a_causal_tower_takes_its_own_weights(tmp_path: Path, model: Any) -> None:
    other = tiny_qwen(seed=7)
    save_causal(model, tmp_path / "t")
    save_official(other, tmp_path / "t" / "decoder")
    read = load(tmp_path / "t")
    assert_same(read.tower, tower_of(model), torch.float32)
    assert_same(read.decoder, decoder_of(other), torch.float32)


def test_a_causal_tower_finds_its_decoder_on_this_machine(home: Path, model: Any) -> None:
    tower = home / "livecap" / "models" / "qwen3-asr-0.6b-causal"
    save_causal(model, tower, decoder=False)
    for name in ("qwen3-asr-0.6b-causal", str(tower)):
        with pytest.raises(ModelNotFound, match="needs the decoder of Qwen3-ASR") as caught:
            resolve(name)
        assert "livecap pull qwen3-asr-0.6b`" in caught.value.remedy
        assert str(tower / "decoder") in caught.value.remedy
    with pytest.raises(ModelNotFound, match="needs the decoder"):
        load_qwen3_asr(Checkpoint("t", tower, "tower", "qwen3-asr"))
    whole = home / "hf" / "hub" / "models--Qwen--Qwen3-ASR-0.6B" / "snapshots" / ("c" * 40)
    save_hf(model, whole)
    found = resolve("qwen3-asr-0.6b-causal")
    assert found.decoder == whole
    assert load_qwen3_asr(found).kind == "causal"


def test_a_config_beside_a_causal_tower_changes_nothing(tmp_path: Path, model: Any) -> None:
    save_causal(model, tmp_path / "t")
    config = tmp_path / "t" / "config.json"
    for facts in ({"block_frames": 192}, {"model_type": "qwen3_asr"}):
        config.write_text(json.dumps(facts), "utf-8")
        assert load(tmp_path / "t").kind == "causal"


def test_a_causal_tower_only_fits_its_own_decoder(tmp_path: Path, model: Any) -> None:
    tower = tmp_path / "t"
    save_causal(model, tower)
    for number, whole in enumerate((tiny_qwen(hidden=64), tiny_aligner())):
        save_official(whole, tmp_path / f"d{number}")
        found = Checkpoint("t", tower, "tower", "qwen3-asr", decoder=tmp_path / f"d{number}")
        with pytest.raises(ModelError, match=r"only fits Qwen3-ASR-0\.6B") as caught:
            load_qwen3_asr(found)
        assert "livecap pull qwen3-asr-0.6b" in caught.value.remedy
    itself = Checkpoint("t", tower, "tower", "qwen3-asr", decoder=tower)
    with pytest.raises(ModelError, match=r"only fits Qwen3-ASR-0\.6B"):
        load_qwen3_asr(itself)


def test_damaged_causal_towers(tmp_path: Path, model: Any) -> None:
    tower = tmp_path / "t"
    save_causal(model, tower)
    file = tower / "tower.safetensors"
    whole, tensors = file.read_bytes(), tower_of(model)
    file.write_bytes(whole[:-1])
    with pytest.raises(CorruptModel, match=r"tower\.safetensors is damaged"):
        load(tower)
    file.write_bytes(whole[:100])  # not even its header is left
    with pytest.raises(CorruptModel, match="holds no tower of Qwen3-ASR"):
        load(tower)
    save_file({name: one for name, one in tensors.items() if "layers.1" not in name}, file)
    with pytest.raises(CorruptModel, match=r"lacks layers\.1\.fc1\.bias"):
        load(tower)
    save_file(tensors | {"layers.0.fc1.bias": torch.ones(3)}, file)
    with pytest.raises(CorruptModel, match=r"\[3\] instead of \[48\]"):
        load(tower)
    save_file(tensors, file)
    (tower / "decoder" / "model.safetensors").unlink()
    with pytest.raises(CorruptModel, match="decoder is incomplete"):
        resolve(str(tower))


def test_the_error_of_a_tower_that_went_away(tmp_path: Path, model: Any) -> None:
    found = save_causal(model, tmp_path)
    (tmp_path / "tower.safetensors").unlink()
    with pytest.raises(CorruptModel, match="lacks the safetensors file of a tower"):
        load_qwen3_asr(found)
