"""Word error rate beside the peers: `python benchmarks/wer.py FOLDER [--rounds 3] [--reuse]`.

With `--reuse`, what the systems said in the last run of throughput.py is scored. FOLDER holds
NAME.flac and NAME.txt. Scored with whisper-normalizer's English normaliser and jiwer.
"""

import argparse
import tempfile
from pathlib import Path

import jiwer
from compare import compare, join, keep, last, machine, write_table
from systems import SYSTEMS
from whisper_normalizer.english import EnglishTextNormalizer


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reuse", action="store_true")
    parser.add_argument("--only", nargs="*", default=list(SYSTEMS))
    options = parser.parse_args()
    normalise = EnglishTextNormalizer()
    rows: list[str] = []
    kept: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        corpus = join(options.folder, Path(folder) / "joined.wav")
        results = (
            last(len(SYSTEMS))
            if options.reuse
            else compare(options.only, corpus, threads=options.threads, rounds=options.rounds)
        )
        for result in results:
            scores = [
                jiwer.process_words(normalise(corpus.reference), normalise(text))
                for text in result.texts
            ]
            rates = sorted(100 * score.wer for score in scores)
            middle = next(s for s in scores if 100 * s.wer == rates[len(rates) // 2])
            span = f"{rates[0]:.2f} to {rates[-1]:.2f}" if rates[0] != rates[-1] else "the same"
            rows.append(
                f"| {result.name} | {rates[len(rates) // 2]:.2f} | {span} | "
                f"{middle.substitutions} | {middle.deletions} | {middle.insertions} |"
            )
            kept.append({"system": result.name, "wer": rates, "text": result.texts[0]})
    head = (
        f"{machine(options.threads)}; {corpus.seconds:.0f} s of audio, "
        f"median of the rounds.\n\n"
        "| system | WER % | rounds | substitutions | deletions | insertions |\n"
        "|---|---|---|---|---|---|"
    )
    write_table("wer", "\n".join([head, *rows]))
    keep("wer", kept)


if __name__ == "__main__":
    main()
