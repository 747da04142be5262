"""The embedded tiny.en where speaches looks for models: `python benchmarks/speaches_model.py DIR`.

DIR becomes a cache of a model hub, with one model in it: links to the CTranslate2 files, and the
card and the preprocessor's settings that speaches wants beside them. Needs livecap.
"""

import argparse
from pathlib import Path

from livecap.checkpoints import resolve

NAME = "Systran/faster-whisper-tiny.en"  # what is asked for; the weights are the embedded ones
REVISION = "0" * 40
CARD = """---
library_name: ctranslate2
pipeline_tag: automatic-speech-recognition
language: [en]
license: mit
---
"""
SETTINGS = '{"feature_size": 80, "sampling_rate": 16000, "hop_length": 160, "n_fft": 400}\n'


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    model = parser.parse_args().folder / "hub" / f"models--{NAME.replace('/', '--')}"
    blobs, snapshot = model / "blobs", model / "snapshots" / REVISION
    for folder in (blobs, snapshot, model / "refs"):
        folder.mkdir(parents=True, exist_ok=True)
    (model / "refs" / "main").write_text(REVISION)
    for file in resolve("tiny.en").folder.iterdir():
        link = snapshot / file.name
        link.unlink(missing_ok=True)
        link.symlink_to(file.resolve())
    (snapshot / "README.md").write_text(CARD)
    (snapshot / "preprocessor_config.json").write_text(SETTINGS)


if __name__ == "__main__":
    main()
