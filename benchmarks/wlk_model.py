"""The embedded tiny.en for WhisperLiveKit: `python benchmarks/wlk_model.py FOLDER`.

FOLDER gets links to the CTranslate2 files, which its LocalAgreement and its encoder read, and the
same weights once more in openai-whisper's form, `tiny.en.pt`, which its AlignAtt decoder reads.
Needs livecap; `wlk_peer.py` then runs without it.
"""

import argparse
from pathlib import Path

import torch
from systems import _openai_name

from livecap.checkpoints import load_whisper, resolve


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    checkpoint = resolve("tiny.en")
    folder.mkdir(parents=True, exist_ok=True)
    for file in checkpoint.folder.iterdir():
        link = folder / file.name
        link.unlink(missing_ok=True)
        link.symlink_to(file.resolve())
    found = load_whisper(checkpoint)
    sizes = found.dims
    dims = {
        "n_mels": sizes.mels,
        "n_vocab": sizes.vocab,
        "n_audio_ctx": sizes.audio_positions,
        "n_audio_state": sizes.width,
        "n_audio_head": sizes.encoder_heads,
        "n_audio_layer": sizes.encoder_layers,
        "n_text_ctx": sizes.text_positions,
        "n_text_state": sizes.width,
        "n_text_head": sizes.decoder_heads,
        "n_text_layer": sizes.decoder_layers,
    }
    state = {
        _openai_name(name): tensor.to(torch.float16, copy=True)  # as OpenAI's own file has them
        for name, tensor in found.tensors.items()
    }
    torch.save({"dims": dims, "model_state_dict": state}, folder / "tiny.en.pt")


if __name__ == "__main__":
    main()
