"""A Qwen3-ASR folder of any layout -> its model; weights stay in their files until asked for."""

from dataclasses import replace
from pathlib import Path

from livecap.checkpoints.causal_tower import find_tower, without_decoder, wrong_decoder
from livecap.checkpoints.inspect import inspect, weight_files
from livecap.checkpoints.lazy_tensors import Lazy, Stored, shapes_of, stored_in
from livecap.checkpoints.qwen3_asr_config import Facts, read_facts
from livecap.checkpoints.qwen3_asr_form import (
    Qwen3AsrCheckpoint,
    decoder_shapes,
    tower_shapes,
)
from livecap.checkpoints.qwen3_vocabulary import read_qwen3_tokenizer
from livecap.checkpoints.spec import Checkpoint, Shapes, check_shapes, damaged
from livecap.errors import ModelError
from livecap.qwen_tokens import Qwen3Tokenizer

FAMILY = "Qwen3-ASR"
TOWER, DECODER = "audio_tower.", "language_model."
# How the names in a file begin, and what they are called here: the official layout, then
# transformers' own, which has the projector apart.
PREFIXES = (
    ("thinker.audio_tower.", TOWER),
    ("thinker.model.", DECODER),
    ("thinker.lm_head.", f"{DECODER}lm_head."),
    ("model.audio_tower.", TOWER),
    ("model.multi_modal_projector.linear_1.", f"{TOWER}proj1."),
    ("model.multi_modal_projector.linear_2.", f"{TOWER}proj2."),
    ("model.language_model.", DECODER),
    ("lm_head.", f"{DECODER}lm_head."),
    ("score.", f"{DECODER}score."),
)
HEAD, SCORE = f"{DECODER}lm_head.weight", f"{DECODER}score.weight"


def read_qwen3_asr(checkpoint: Checkpoint) -> Qwen3AsrCheckpoint:
    """A Qwen3-ASR folder -> its model: names, shapes and small files are read and checked.

    Raises CorruptModel for damaged or incomplete files, ModelError for what is no plain Qwen3-ASR
    model, and ModelNotFound for a causal tower without a decoder.
    """
    if checkpoint.layout == "tower":
        return _read_causal(checkpoint)
    folder = checkpoint.folder
    facts = read_facts(folder)
    stored = _stored(folder)
    is_aligner = facts.is_aligner or SCORE in stored
    if is_aligner and HEAD in stored:  # the official layout calls it that
        stored[SCORE] = stored.pop(HEAD)
    check_shapes(
        shapes_of(stored),
        *_expected(facts, stored, is_aligner=is_aligner),
        file=folder,
        family=FAMILY,
    )
    if facts.is_tied:
        stored.pop(HEAD, None)
    tokenizer = read_qwen3_tokenizer(folder, facts.text.vocab)
    if is_aligner and tokenizer.specials.timestamp is None:
        raise damaged(folder, "has no <timestamp> in its vocabulary", incomplete=True)
    return Qwen3AsrCheckpoint(
        name=checkpoint.name,
        kind="aligner" if is_aligner else "windowed",
        audio=facts.audio,
        text=facts.text,
        tower=Lazy(_below(TOWER, stored)),
        decoder=Lazy(_below(DECODER, stored)),
        tokenizer=tokenizer,
        ends=_ends(facts, tokenizer),
        chunk=facts.chunk,
    )


def _stored(folder: Path) -> dict[str, Stored]:
    """A folder -> its tensors under the names that they have here."""
    files = weight_files(folder)
    foreign = [file.name for file in files if file.suffix != ".safetensors"]
    if foreign:
        what = f"{folder} has its weights in {foreign[0]}, which isn't read for {FAMILY}"
        raise ModelError(what, remedy="Store them as model.safetensors.")
    return {_renamed(name): one for file in files for name, one in stored_in(file).items()}


def _renamed(name: str) -> str:
    for theirs, ours in PREFIXES:
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name


def _expected(
    facts: Facts, stored: dict[str, Stored], *, is_aligner: bool
) -> tuple[Shapes, Shapes]:
    """The tensors that must be there, and those that may be."""
    expected = {TOWER + name: shape for name, shape in tower_shapes(facts.audio).items()}
    expected |= {DECODER + name: shape for name, shape in decoder_shapes(facts.text).items()}
    if not is_aligner:
        return expected, {HEAD: (facts.text.vocab, facts.text.hidden)}
    # As many classes as there are: published configs and papers differ in their number.
    classes = stored[SCORE].shape[0] if SCORE in stored and stored[SCORE].shape else 1
    return expected | {SCORE: (classes, facts.text.hidden)}, {}


def _below(prefix: str, stored: dict[str, Stored]) -> dict[str, Stored]:
    return {name[len(prefix) :]: one for name, one in stored.items() if name.startswith(prefix)}


def _ends(facts: Facts, tokenizer: Qwen3Tokenizer) -> frozenset[int]:
    """The listed ids that end a text, and always both of those that the model was trained with."""
    specials = tokenizer.specials
    listed = {number for number in facts.ends if specials.endoftext <= number < facts.text.vocab}
    return frozenset({specials.endoftext, specials.im_end, *listed})


def _read_causal(checkpoint: Checkpoint) -> Qwen3AsrCheckpoint:
    """A causal tower, and the model whose decoder it goes with -> the model of both."""
    file = find_tower(checkpoint.folder)
    if file is None:
        raise damaged(checkpoint.folder, "lacks the safetensors file of a tower", incomplete=True)
    if checkpoint.decoder is None:
        raise without_decoder(checkpoint)
    decoder = inspect(checkpoint.decoder, checkpoint.name)
    if (decoder.layout, decoder.family) != ("huggingface", "qwen3-asr"):
        raise wrong_decoder(checkpoint)
    whole = read_qwen3_asr(decoder)
    stored = stored_in(file)
    if whole.kind != "windowed" or not _fits(stored, whole):
        raise wrong_decoder(checkpoint)
    check_shapes(shapes_of(stored), tower_shapes(whole.audio), {}, file=file, family=FAMILY)
    return replace(whole, name=checkpoint.name, kind="causal", tower=Lazy(stored))


def _fits(stored: dict[str, Stored], whole: Qwen3AsrCheckpoint) -> bool:
    """Whether a tower is as wide as the one it stands for, and its rows as wide as the decoder."""
    wide = (("proj2.weight", whole.text.hidden), ("conv_out.weight", whole.audio.width))
    return all(stored[name].shape[:1] == (rows,) for name, rows in wide if name in stored)
