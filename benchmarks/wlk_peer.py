"""WhisperLiveKit in real time: `python benchmarks/wlk_peer.py WAV POLICY --model DIR`.

Runs in an environment of its own (`pip install whisperlivekit==0.2.26 'torch>=2.9,<2.14'`), without
livecap. POLICY is `localagreement` or `simulstreaming`; DIR comes from `wlk_model.py`. WAV, 16 kHz
mono, goes at --speed, 100 ms at a time, into what the server runs behind its websocket, set up by
its own command line: all but the policy, the paths and PCM instead of WebM is its default. A short
session before warms it up. Prints one line of JSON: when each piece of text was committed, in
seconds since the audio began, the whole text, and the processor time of the measured session.
"""

import argparse
import asyncio
import json
import logging
import os
import resource
import sys
import time
import wave
from importlib.metadata import version
from pathlib import Path
from typing import Any

RATE = 16000
PIECE = RATE // 10 * 2  # bytes of 100 ms
WARM_UP = 10 * RATE * 2  # bytes of audio

Commits = list[tuple[float, str]]


def read(path: Path) -> bytes:
    """A WAV file -> its samples, s16le."""
    with wave.open(str(path), "rb") as opened:
        shape = (opened.getframerate(), opened.getnchannels(), opened.getsampwidth())
        if shape != (RATE, 1, 2):
            raise SystemExit(f"{path} isn't 16 kHz mono in 16 bits: {shape}")
        return opened.readframes(opened.getnframes())


def arguments(policy: str, folder: Path) -> list[str]:
    """The server's command line for local weights."""
    common = ["--model", "tiny.en", "--lan", "en", "--pcm-input", "--backend-policy", policy]
    common += ["--warmup-file", ""]  # it would download one
    if policy == "localagreement":
        return [*common, "--model-path", str(folder)]
    from whisperlivekit.whisper import _ALIGNMENT_HEADS

    heads: bytes = _ALIGNMENT_HEADS["tiny.en"]
    return [
        *common,
        *("--encoder-model-path", str(folder)),
        *("--decoder-model-path", str(folder / "tiny.en.pt")),
        *("--custom-alignment-heads", heads.decode()),  # looked up by name, and this is a path
    ]


def load(policy: str, folder: Path) -> Any:
    """What the server loads once."""
    from whisperlivekit import TranscriptionEngine, parse_args

    given = sys.argv
    sys.argv = ["whisperlivekit-server", *arguments(policy, folder)]
    engine: Any = TranscriptionEngine(config=parse_args())
    sys.argv = given
    expected = "faster-whisper"
    asr = engine.asr
    found = asr.backend_choice if policy == "localagreement" else asr.encoder_backend
    if found != expected or engine.config.backend_policy != policy:
        raise SystemExit(f"{policy} runs on {found}, not on {expected}")
    return engine


async def session(engine: Any, pcm: bytes, speed: float) -> Commits:
    """One client's session, from its first audio until the last result."""
    from whisperlivekit import AudioProcessor

    processor: Any = AudioProcessor(transcription_engine=engine)
    results = await processor.create_tasks()
    begun = time.perf_counter()
    reader = asyncio.create_task(committed(results, begun))
    for start in range(0, len(pcm), PIECE):
        piece = pcm[start : start + PIECE]
        due = begun + (start + len(piece)) / (RATE * 2) / speed  # once it has been spoken
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await processor.process_audio(piece)
    await processor.process_audio(b"")  # what its client sends at the end
    commits = await reader
    await processor.cleanup()
    return commits


async def committed(results: Any, begun: float) -> Commits:
    """Results as they'd go to the client -> what is new in their lines, and when it came."""
    commits: Commits = []
    text = ""
    async for result in results:
        if result.error:
            raise SystemExit(result.error)
        lines = "".join(line.text or "" for line in result.lines)
        if not lines.startswith(text):
            raise SystemExit(f"took back committed text: {text!r}, now {lines!r}")
        if lines != text:
            commits.append((time.perf_counter() - begun, lines[len(text) :]))
        text = lines
    return commits


def core_seconds() -> float:
    """Processor time of this process and its children so far."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


async def measure(engine: Any, pcm: bytes, speed: float) -> dict[str, object]:
    """A short session to warm up, then the measured one, in one event loop as in the server."""
    await session(engine, pcm[:WARM_UP], speed=4.0)
    used, begun = core_seconds(), time.perf_counter()
    commits = await session(engine, pcm, speed)
    wall = time.perf_counter() - begun
    return {
        "commits": [[round(at, 3), text] for at, text in commits],
        "text": "".join(text for _, text in commits).strip(),
        "audio": len(pcm) / (RATE * 2),
        "core_seconds": core_seconds() - used,
        "wall": wall,
    }


def main() -> None:
    """Load, warm up, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wav", type=Path)
    parser.add_argument("policy", choices=("localagreement", "simulstreaming"))
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--speed", type=float, default=1.0)
    options = parser.parse_args()
    # CTranslate2 and torch both read it when they are loaded.
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(options.threads)}
    import torch

    torch.set_num_threads(options.threads)
    engine = load(options.policy, options.model)
    logging.getLogger().setLevel(logging.WARNING)  # as the server does
    pcm = read(options.wav)
    found = asyncio.run(measure(engine, pcm, options.speed))
    print(json.dumps(found | {"version": version("whisperlivekit")}, ensure_ascii=False))


if __name__ == "__main__":
    main()
