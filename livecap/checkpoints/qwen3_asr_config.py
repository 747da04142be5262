"""config.json and its like of Qwen3-ASR -> sizes and facts, in either layout."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from livecap.checkpoints.files import integer, read_object, read_objects
from livecap.checkpoints.qwen3_asr_form import MELS, Qwen3AudioDims, Qwen3TextDims
from livecap.checkpoints.spec import MOST_LAYERS, MOST_ROWS, damaged
from livecap.errors import ModelError

GENERATION = "generation_config.json"
PREPROCESSOR = "preprocessor_config.json"
CHUNK, LEAST = 30, 2  # seconds: `chunk_length` of the published models, and the least
TIED = "tie_word_embeddings"
HALF_CHUNK = 50  # mel frames in half a chunk of 1 s, as n_window counts
# Names that transformers' own layout may have instead.
ALSO = {
    "d_model": "hidden_size",
    "encoder_layers": "num_hidden_layers",
    "encoder_attention_heads": "num_attention_heads",
    "encoder_ffn_dim": "intermediate_size",
}
# What a model of another make would say; nothing said means the same as this.
PLAIN_AUDIO = {"activation_function": "gelu", "scale_embedding": False}
PLAIN_TEXT = {"hidden_act": "silu", "attention_bias": False, "use_sliding_window": False}
PLAIN_ROPE = ("default", "mrope")  # with one clock for all positions, these two are the same


@dataclass(frozen=True, slots=True)
class Facts:
    """What the configs say."""

    audio: Qwen3AudioDims
    text: Qwen3TextDims
    is_aligner: bool
    is_tied: bool  # the embedding is the output projection as well
    ends: frozenset[int]  # ids that end a text, as listed
    chunk: int  # seconds of audio at once that suit it: `chunk_length`


def read_facts(folder: Path) -> Facts:
    """A folder -> what its configs say.

    The official layout nests everything under `thinker_config`, transformers' own doesn't. Where a
    file leaves a value out, it is that of the published models: 128 mel bins, 480 channels, chunks
    of 1 s, windows of 8 s, heads of 64 in the tower and 128 in the decoder, 151936 rows, 65536
    positions, eps 1e-6, tied embeddings, 30 s at once. All other sizes and the rotary base must be
    there. Raises CorruptModel, and ModelError for a model that isn't plain Qwen3-ASR.
    """
    file = folder / "config.json"
    config = read_object(file)
    thinker = _object(config, "thinker_config", file) if "thinker_config" in config else config
    audio, text = (_object(thinker, key, file) for key in ("audio_config", "text_config"))
    # the one that transformers goes by comes first
    flags = [text, thinker, config] if thinker is not config else [config, text]
    payload = read_objects(folder / GENERATION)
    kinds = (str(thinker.get("model_type")), *map(str, config.get("architectures") or ()))
    return Facts(
        audio=_audio(audio, file),
        text=_text(text, file),
        is_aligner="classify_num" in thinker
        or any("forced_aligner" in kind or "TokenClassification" in kind for kind in kinds),
        is_tied=next((one[TIED] for one in flags if one.get(TIED) is not None), True) is not False,
        ends=frozenset(
            number
            for one, path in ((payload, folder / GENERATION), (config, file), (thinker, file))
            for number in _ends(one, path)
        ),
        chunk=chunk_length(folder),
    )


def chunk_length(folder: Path) -> int:
    """A folder -> the most seconds at once that suit its model. Raises CorruptModel."""
    file = folder / PREPROCESSOR
    chunk = integer(read_objects(file), "chunk_length", file, CHUNK)
    if chunk < LEAST:
        raise damaged(file, f"gives a chunk_length of {chunk} s")
    return chunk


def _audio(config: dict[str, Any], file: Path) -> Qwen3AudioDims:
    config = {name: config[other] for name, other in ALSO.items() if other in config} | config
    _check_plain(config, PLAIN_AUDIO, file)
    width = integer(config, "d_model", file)
    half, window = (
        integer(config, key, file, default)
        for key, default in (("n_window", HALF_CHUNK), ("n_window_infer", 16 * HALF_CHUNK))
    )
    dims = Qwen3AudioDims(
        layers=integer(config, "encoder_layers", file),
        width=width,
        heads=integer(config, "encoder_attention_heads", file, max(width // 64, 1)),
        hidden=integer(config, "encoder_ffn_dim", file),
        output=integer(config, "output_dim", file),
        channels=integer(config, "downsample_hidden_size", file, 480),
        window=window // (2 * HALF_CHUNK),
    )
    mels = integer(config, "num_mel_bins", file, MELS)
    fits = (
        (mels, half, window % (2 * HALF_CHUNK)) == (MELS, HALF_CHUNK, 0)
        and 1 <= dims.layers <= MOST_LAYERS
        and all(1 <= n <= MOST_ROWS for n in (width, dims.hidden, dims.output, dims.channels))
        and dims.heads >= 1
        and width % dims.heads == width % 2 == 0
        and dims.window >= 1
    )
    if not fits:
        what = f"gives sizes that no Qwen3-ASR tower has: {dims}, {mels} mel bins, n_window {half}"
        raise damaged(file, what)
    return dims


def _text(config: dict[str, Any], file: Path) -> Qwen3TextDims:
    _check_plain(config, PLAIN_TEXT, file)
    dims = Qwen3TextDims(
        layers=integer(config, "num_hidden_layers", file),
        hidden=integer(config, "hidden_size", file),
        inner=integer(config, "intermediate_size", file),
        heads=integer(config, "num_attention_heads", file),
        kv_heads=integer(config, "num_key_value_heads", file),
        head_dim=integer(config, "head_dim", file, 128),
        vocab=integer(config, "vocab_size", file, 151936),
        positions=integer(config, "max_position_embeddings", file, 65536),
        theta=_theta(config, file),
        eps=_number(config, "rms_norm_eps", file, 1e-6),
    )
    rows = (dims.hidden, dims.inner, dims.heads, dims.head_dim, dims.vocab, dims.positions)
    fits = (
        1 <= dims.layers <= MOST_LAYERS
        and all(1 <= count <= MOST_ROWS for count in rows)
        and dims.kv_heads >= 1
        and dims.heads % dims.kv_heads == 0
        and dims.head_dim % 2 == 0
        and dims.theta > 1
        and 0 < dims.eps < 1
    )
    if not fits:
        raise damaged(file, f"gives sizes that no Qwen3-ASR decoder has: {dims}")
    return dims


def _theta(config: dict[str, Any], file: Path) -> float:
    """The base of the rotary positions. No default: each version of the libraries has its own."""
    found: dict[str, Any] = {}
    for key in ("rope_scaling", "rope_parameters"):
        if config.get(key) is not None:
            found |= _object(config, key, file)
    kind = found.get("rope_type", found.get("type", "default"))
    if kind not in PLAIN_ROPE:
        what = f"{file} asks for rotary positions of the type {kind!r}, which can't be used here"
        raise ModelError(what, remedy="Name the published model.")
    if "rope_theta" not in found and "rope_theta" not in config:
        raise damaged(file, "lacks rope_theta, the base of the rotary positions", incomplete=True)
    return _number(config | found, "rope_theta", file)


def _check_plain(config: dict[str, Any], plain: dict[str, object], file: Path) -> None:
    for key, value in plain.items():
        if config.get(key, value) not in (value, None):
            what = f"{file} describes no plain Qwen3-ASR model: its {key} isn't {value}"
            raise ModelError(what, remedy="Name another model.")


def _object(facts: dict[str, Any], key: str, file: Path) -> dict[str, Any]:
    value = facts.get(key)
    if not isinstance(value, dict):
        raise damaged(file, f"should hold an object under {key!r}")
    return value


def _number(facts: dict[str, Any], key: str, file: Path, default: float | None = None) -> float:
    value = facts.get(key, default)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise damaged(file, f"should hold a number under {key!r}")
    return float(value)


def _ends(facts: dict[str, Any], file: Path) -> list[int]:
    value = facts.get("eos_token_id")
    numbers = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(number) is int for number in numbers):
        raise damaged(file, "should hold ids under 'eos_token_id'")
    return numbers
