"""Which cross-attention heads follow the audio: from the checkpoint, else the published tables.

Source of the tables: OpenAI's whisper/__init__.py (_ALIGNMENT_HEADS), decoded.
"""

from pathlib import Path

from livecap.checkpoints.spec import WhisperDims, damaged

Heads = tuple[tuple[int, int], ...]
Size = tuple[int, int, int, int]  # encoder layers, decoder layers, width, vocabulary

# (layer, head) of the decoder, written "layer:head head ..."
TABLES = (
    ("tiny.en", (4, 4, 384, 51864), "1:0 2:0,5 3:0,1,2,3,4"),
    ("tiny", (4, 4, 384, 51865), "2:2 3:0,2,3,4,5"),
    ("base.en", (6, 6, 512, 51864), "3:3 4:7 5:1,5,7"),
    ("base", (6, 6, 512, 51865), "3:1 4:2,3,7 5:1,2,4,6"),
    (
        "small.en",
        (12, 12, 768, 51864),
        "6:6 7:0,3,8 8:2,5,7 9:0,4,8,10 10:0,1,2,3,6,11 11:2,4",
    ),
    ("small", (12, 12, 768, 51865), "5:3,9 8:0,4,7,8 9:0,7,9 10:5"),
    (
        "medium.en",
        (24, 24, 1024, 51864),
        "11:4 14:1,12,14 15:4 16:0,4,9 17:12,14 18:7,10,15 20:0,3,9,14 21:12",
    ),
    ("medium", (24, 24, 1024, 51865), "13:15 15:4,15 16:1 20:0 23:4"),
    ("large-v1", (32, 32, 1280, 51865), "9:19 11:2,4,17 22:7,11,17 23:2,15"),
    (
        "large-v2",
        (32, 32, 1280, 51865),
        "10:12 13:17 16:11,12,13 17:15,16 18:4,11,19 19:11 21:2,3 22:3,9,12 23:5,7,13 25:5 "
        "26:1,12 27:15",
    ),
    ("large-v3", (32, 32, 1280, 51866), "7:0 10:17 12:18 13:12 16:1 17:14 19:11 21:4 24:1 25:6"),
    ("large-v3-turbo", (32, 4, 1280, 51866), "2:4,11 3:3,6,11,14"),
)


def alignment_heads(stored: object, *, dims: WhisperDims, name: str, file: Path) -> Heads | None:
    """What the checkpoint says, else what is known of a model of this name or these sizes.

    None if neither knows. Raises CorruptModel if `stored` is no list of (layer, head) pairs of
    this decoder.
    """
    if not stored:
        return _known(dims, name)
    if not isinstance(stored, list) or not all(_fits(pair, dims) for pair in stored):
        raise damaged(file, "should hold (layer, head) pairs of the decoder as alignment_heads")
    return tuple((layer, head) for layer, head in stored)


def _fits(pair: object, dims: WhisperDims) -> bool:
    if not isinstance(pair, list) or [type(part) for part in pair] != [int, int]:
        return False
    return pair[0] in range(dims.decoder_layers) and pair[1] in range(dims.decoder_heads)


def _known(dims: WhisperDims, name: str) -> Heads | None:
    size = (dims.encoder_layers, dims.decoder_layers, dims.width, dims.vocab)
    same = [(one, heads) for one, its_size, heads in TABLES if its_size == size]
    if len(same) > 1:  # large-v1 and large-v2 differ in nothing but their name
        same = [(one, heads) for one, heads in same if one in name]
    return _parse(same[0][1]) if len(same) == 1 else None


def _parse(table: str) -> Heads:
    layers = (entry.split(":") for entry in table.split())
    return tuple((int(layer), int(head)) for layer, heads in layers for head in heads.split(","))
