"""Speed beside the peers: `python benchmarks/throughput.py FOLDER [--rounds 5]`.

FOLDER holds NAME.flac and NAME.txt. Every system is loaded and warm; each round runs all of them in
turn, from the file on disk to the text, so that a machine that drifts does so for all.
"""

import argparse
import tempfile
from pathlib import Path

from compare import compare, join, keep, machine, write_table
from systems import SYSTEMS


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=list(SYSTEMS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus = join(options.folder, Path(folder) / "joined.wav")
        results = list(
            compare(options.only, corpus, threads=options.threads, rounds=options.rounds)
        )
    peers = [result for result in results if not result.name.startswith("livecap")]
    fastest = min(peers, key=lambda result: result.median) if peers else results[0]
    rows = []
    for result in results:
        ratios = sorted(
            theirs / ours for theirs, ours in zip(fastest.seconds, result.seconds, strict=True)
        )
        rows.append(
            f"| {result.name} | {result.median:.2f} | {min(result.seconds):.2f} to "
            f"{max(result.seconds):.2f} | {corpus.seconds / result.median:.1f} | "
            f"{ratios[len(ratios) // 2]:.2f} |"
        )
    head = (
        f"{machine(options.threads)}; {corpus.seconds:.0f} s of audio, "
        f"{options.rounds} rounds in turn.\n\n"
        f"| system | median s | min to max | times real time | speed against {fastest.name} |\n"
        "|---|---|---|---|---|"
    )
    write_table("throughput", "\n".join([head, *rows]))
    keep(
        "throughput", [{"system": r.name, "seconds": r.seconds, "texts": r.texts} for r in results]
    )


if __name__ == "__main__":
    main()
