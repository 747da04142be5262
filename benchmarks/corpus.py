"""Speech with exact references, from packages alone: `python benchmarks/corpus.py FOLDER`.

Synthesizers read varied prose, talks and film dialogue, with hesitations inside sentences, noise,
music and rooms, at two levels. No voice and no text is in both parts: `tune` is for choosing
thresholds, `report` only for reporting. FOLDER gets NAME.flac and NAME.txt of 40 to 90 s each, and
manifest.jsonl. The same texts, pauses and mixtures each time.

Needs `pip install 'livecap[bench]'` and `apt install flite festival espeak-ng festvox-kallpc16k
festvox-kdlpc16k festvox-us-slt-hts fortunes fortunes-min`.
"""

import argparse
import json
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes are as many as there are jobs

import av
import numpy as np
from corpus_plan import FILLERS, PARTS, Noise, Plan, plans
from corpus_sound import babble, levelled, mixed, music, pink, reverberant, white
from corpus_text import MissingTexts, texts
from corpus_voices import VOICES, MissingVoice, Part, Pcm, Voice, check, open_voice

from livecap.events import RATE

BEFORE = 0.4  # seconds of silence, or noise, before the first word
TALKERS = 6  # of babble


@dataclass(frozen=True, slots=True)
class Maker:
    """Where recordings go, and what people in the background say."""

    folder: Path
    background: Mapping[Part, Sequence[Pcm]]

    def make(self, plan: Plan) -> dict[str, object]:
        """One recording -> its files, and its row of the manifest."""
        pcm = heard(speech(plan), plan, self.background[plan.part])
        write_flac(self.folder / f"{plan.name}.flac", pcm)
        (self.folder / f"{plan.name}.txt").write_text(plan.reference + "\n", "utf-8")
        return row(plan, len(pcm) / RATE)


def row(plan: Plan, seconds: float) -> dict[str, object]:
    """What the manifest says; fillers are no words, as Whisper's normaliser has it."""
    spoken = plan.reference.casefold().replace(",", "").split()
    readers = dict.fromkeys(piece.voice for piece in plan.pieces)
    own = plan.heard
    return {
        "name": plan.name, "part": plan.part, "kind": plan.kind,
        "voices": [f"{voice.synthesizer}/{voice.name}" for voice in readers],
        "seconds": round(seconds, 2), "words": sum(word not in FILLERS for word in spoken),
        "noise": own.noise, "snr": _rounded(own.snr), "rt60": _rounded(own.rt60),
        "direct": _rounded(own.direct), "level": own.level, "hesitations": plan.hesitations,
    }  # fmt: skip


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def speech(plan: Plan) -> Pcm:
    """The pieces with their pauses, all voices equally loud."""
    said: dict[int, Pcm] = {}
    for voice in dict.fromkeys(piece.voice for piece in plan.pieces):
        own = [n for n, piece in enumerate(plan.pieces) if piece.voice == voice]
        say = open_voice(voice, speed=plan.speed, seed=plan.seed)
        spoken = say([plan.pieces[n].text for n in own])
        if not all(map(len, spoken)):
            raise ValueError(f"{plan.name}: {voice.name} said nothing")
        ends = np.cumsum([len(pcm) for pcm in spoken])[:-1]
        said |= zip(own, np.split(levelled(np.concatenate(spoken), 0.0), ends), strict=True)
    parts = [_silence(BEFORE)]
    for number, piece in enumerate(plan.pieces):
        parts += [said[number], _silence(piece.after)]
    return np.concatenate(parts)


def _silence(seconds: float) -> Pcm:
    return np.zeros(round(seconds * RATE), np.float32)


def heard(pcm: Pcm, plan: Plan, talkers: Sequence[Pcm]) -> Pcm:
    """Speech in its room, level and noise."""
    own = plan.heard
    generator = np.random.default_rng(plan.seed)
    if own.rt60 is not None and own.direct is not None:
        pcm = reverberant(pcm, own.rt60, own.direct, generator)
    pcm = levelled(pcm, own.level)
    if own.noise and own.snr is not None:
        pcm = mixed(pcm, noise(own.noise, len(pcm), talkers, generator), own.snr)
    return pcm


def noise(kind: Noise, samples: int, talkers: Sequence[Pcm], generator: np.random.Generator) -> Pcm:
    """So much of a kind."""
    match kind:
        case "white":
            return white(samples, generator)
        case "pink":
            return pink(samples, generator)
        case "babble":
            return babble(samples, talkers, generator)
    return music(samples, generator)


def background(part: Part, spoken: Sequence[str]) -> list[Pcm]:
    """What the people in a part's background say: texts of their own, in the part's voices."""
    voices = [voice for voice in VOICES if voice.part == part]
    found = []
    for number in range(TALKERS):
        voice: Voice = voices[number % len(voices)]
        say = open_voice(voice, speed=1.0 + 0.03 * number, seed=number)
        found.append(np.concatenate(say(list(spoken[number::TALKERS]))))
    return found


def write_flac(path: Path, pcm: Pcm) -> None:
    """16 kHz mono, 16 bit; what is beyond full scale is clipped."""
    samples = (pcm.clip(-1, 32767 / 32768) * 32768).round().astype(np.int16)
    with av.open(str(path), "w") as file:
        stream = file.add_stream("flac", rate=RATE, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples[None], "s16", "mono")
        frame.sample_rate = RATE
        fifo = av.AudioFifo()
        fifo.write(frame)
        while block := fifo.read(4096) or fifo.read(0, partial=True):
            file.mux(stream.encode(block))
        file.mux(stream.encode(None))


def kept(path: Path, without: Sequence[Part]) -> Iterator[dict[str, object]]:
    """Rows of a manifest of other parts."""
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        found: dict[str, object] = json.loads(line)
        if found["part"] not in without:
            yield found


def main() -> None:
    """Make it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hours", type=float, default=2.0, help="of both parts together")
    parser.add_argument("--part", choices=("tune", "report", "all"), default="all")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    wanted: Literal["tune", "report", "all"] = options.part
    parts: list[Part] = [part for part in PARTS if wanted in (part, "all")]
    try:
        check([voice for voice in VOICES if voice.part in parts])
        reading = {part: texts(part) for part in parts}
    except (MissingVoice, MissingTexts) as error:
        raise SystemExit(str(error)) from error
    options.folder.mkdir(parents=True, exist_ok=True)
    todo = [plan for part in parts for plan in plans(part, reading[part], options.hours)]
    maker = Maker(options.folder, {part: background(part, reading[part].babble) for part in parts})
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, context) as pool:
        rows = list(pool.map(partial(Maker.make, maker), todo))
    manifest = options.folder / "manifest.jsonl"
    rows = [*kept(manifest, parts), *rows]
    manifest.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    seconds, words = (sum(float(str(one[key])) for one in rows) for key in ("seconds", "words"))
    print(f"{len(rows)} recordings, {seconds / 3600:.2f} h, {words:.0f} words")


if __name__ == "__main__":
    main()
