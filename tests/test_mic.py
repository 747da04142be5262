"""`livecap mic`: its flags, what it reads, and what its sources do to it. In this process."""

import io
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from command import Command, Done, plain
from media import Drip, Sound, mux, pack, wav
from noises import RATE
from oddities import FOX, fox, fox_at, quiet
from sound_system import SoundSystem
from strict import said_in

from livecap.audio import RawFormat, capture
from livecap.audio.file_source import PIECE, Recorded
from livecap.audio.live_source import Chunk, Heard, Notice
from livecap.audio.prefetch import Pump, ReadConfig
from livecap.commands import mic, sources
from livecap.errors import AudioError, EngineFault, LivecapError
from livecap.events import Caption, Event
from livecap.output.terminal import Status
from livecap.runtime.batcher import Batcher
from livecap.vad import silero as vad

silero = cache(vad.load)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setattr(vad, "load", silero)
    return Command(monkeypatch, tmp_path)


def captions(out: str) -> list[dict[str, object]]:
    return [line for line in map(json.loads, out.splitlines()) if line["type"] == "caption"]


# -- flags --------------------------------------------------------------------------------------

LISTEN = "--from talk.wav --speed 0"


@dataclass(frozen=True)
class Flags:
    """One command line after `livecap mic`, and how it is refused."""

    words: str
    told: str  # what the error says
    status: int = 2
    loads: bool = False  # whether that is known only once the model is


REFUSED: dict[str, Flags] = {
    case.words: case
    for case in (
        Flags(f"{LISTEN} --policy rollback", "It has: auto, align-att, local-agreement", 2, True),
        Flags(f"{LISTEN} --policy wait-k", "tiny.en has no 'wait-k'", 2, True),
        Flags(f"{LISTEN} --update 0.1", "--update can't be 0.1. Use 0.2 to 30"),
        Flags(f"{LISTEN} --update 31", "--update can't be 31"),
        Flags(f"{LISTEN} --update nan", "--update can't be nan"),
        Flags(f"{LISTEN} --update -1", "--update"),
        Flags(f"{LISTEN} --pause 299", "--pause can't be 299. Use 300 to 10000"),
        Flags(f"{LISTEN} --pause 10001", "--pause can't be 10001"),
        Flags(f"{LISTEN} --carry 101", "--carry can't be 101. Use 0 to 100"),
        Flags(f"{LISTEN} --carry -1", "--carry"),
        Flags("--from talk.wav --device 0", "Leave out --device and --loopback"),
        Flags("--from talk.wav --loopback", "Leave out --device and --loopback"),
        Flags("--speed 4", "--speed and --raw are for recordings"),
        Flags("--raw s16le:16000:1", "--speed and --raw are for recordings"),
        Flags("--from talk.wav --speed 0.01", "--speed can't be 0.01. Use 0.1 to 100, or 0"),
        Flags("--from talk.wav --speed 101", "--speed can't be 101"),
        Flags("--from talk.wav --speed nan", "--speed can't be nan"),
        Flags("--from talk.wav --speed -1", "--speed"),
        Flags("--from talk.wav --speed fast", "Try: livecap --help"),
        Flags(f"{LISTEN} --raw mp3", "mp3"),
        Flags(f"{LISTEN} -f srt", "-f srt has no place to go. Name one"),
        Flags(f"{LISTEN} -o -", "standard output already"),
        Flags(f"{LISTEN} -f txt -o -", "standard output already"),
        Flags(f"{LISTEN} -f pdf -o out", "There is no format 'pdf'"),
        Flags(f"{LISTEN} --preset hollywood -o out.srt", "hollywood"),
        Flags(f"{LISTEN} --language de", "tiny.en", 2, True),
        Flags(f"{LISTEN} --language xx", "xx"),
        Flags(f"{LISTEN} --task translate", "tiny.en", 2, True),
        Flags(f"{LISTEN} --vad-threshold 1.5", "--vad-threshold can't be 1.5"),
        Flags("talk.wav", "Try: livecap --help"),
        Flags("--from", "Try: livecap --help"),
    )
}


@pytest.mark.parametrize("words", REFUSED)
def test_flags_that_are_refused(words: str, run: Command, tmp_path: Path) -> None:
    case = REFUSED[words]
    (tmp_path / "talk.wav").write_bytes(wav(fox()))
    done = run("mic", *words.split())
    assert (done.status, done.out) == (case.status, "")
    assert case.told in done.err
    assert "Traceback" not in done.err
    assert run.loads == case.loads
    assert [path.name for path in tmp_path.iterdir()] == ["talk.wav"]


WORKING = (
    "--no-vad --no-partials --speed 0",
    "--policy local-agreement --speed 0",
    "--policy align-att --update 0.5 --pause 300 --carry 20 --speed 0",
    "--hotwords Fox,Dog --language English --speed 100",
)


@pytest.mark.parametrize("flags", WORKING)
def test_flags_that_work(flags: str, run: Command, tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(wav(fox()))
    done = run("mic", "--from", "talk.wav", *flags.split())
    assert (done.status, plain(done.out)) == (0, FOX), done.err
    assert "0:00:02 captured" in done.err


def test_quiet_leaves_the_text_alone(run: Command, tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(wav(fox()))
    done = run("mic", *LISTEN.split(), "-q")
    assert (done.status, plain(done.out), done.err) == (0, FOX, "")


def test_json_lines_have_the_text_of_the_file(run: Command, tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(wav(fox()))
    done = run("mic", *LISTEN.split(), "--json-lines", "-f", "txt,jsonl", "-o", "out")
    assert done.status == 0
    assert done.out == (tmp_path / "out.jsonl").read_text("utf-8")
    joined = "".join(str(caption["text"]) for caption in captions(done.out))
    assert plain(joined) == FOX
    assert "".join(joined.split()) == said_in("txt", (tmp_path / "out.txt").read_bytes())
    assert captions(done.out)[-1]["final"] is True


def test_complete_outputs_are_refused(run: Command, tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(wav(fox()))
    words = ("mic", *LISTEN.split(), "-f", "txt,srt", "-o", "out")
    (tmp_path / "out.srt").write_text("mine")
    refused = run(*words)
    assert (refused.status, run.loads) == (1, 0)
    assert "out.srt exists" in refused.err
    assert (tmp_path / "out.srt").read_text() == "mine"
    done = run(*words, "--overwrite")
    assert done.status == 0
    assert "out.srt was not written by livecap" in done.err  # it is named, ours is not
    assert FOX in plain((tmp_path / "out.srt").read_text("utf-8"))
    assert "not written by livecap" not in run(*words, "--overwrite").err
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == ["out.srt", "out.srt.oldcopy", "out.txt", "talk.wav"]
    assert (tmp_path / "out.srt.oldcopy").read_text() == "mine"


def test_what_is_named_decides_the_format(run: Command, tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(wav(fox()))
    (tmp_path / "out").mkdir()
    assert run("mic", *LISTEN.split(), "-o", "talk.vtt", "-q").status == 0
    (tmp_path / "talk.wav").write_bytes(wav(quiet(0.1)))
    assert said_in("vtt", (tmp_path / "talk.vtt").read_bytes())
    assert run("mic", *LISTEN.split(), "-o", "out").status == 0
    (path,) = (tmp_path / "out").iterdir()
    assert path.name.startswith("live-2")
    assert path.suffix == ".srt"


def test_the_final_name_has_the_language(run: Command, tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(wav(fox()))
    words = ("-f", "srt,txt", "-o", "talk.{lang}.{ext}")
    assert run("mic", *LISTEN.split(), *words).status == 0
    assert {path.name for path in tmp_path.glob("talk.*.*")} == {"talk.en.srt", "talk.en.txt"}


@pytest.mark.parametrize("cause", ["no file", "policy"])
def test_what_can_not_begin_leaves_outputs_alone(cause: str, run: Command, tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("mine")
    if cause == "policy":
        (tmp_path / "talk.wav").write_bytes(wav(fox()))
    words = ("--policy", "rollback") if cause == "policy" else ()
    done = run("mic", *LISTEN.split(), *words, "-o", "out.txt", "--overwrite")
    assert done.status > 0
    assert (tmp_path / "out.txt").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} <= {"out.txt", "talk.wav"}


# -- recordings ---------------------------------------------------------------------------------


def stereo() -> bytes:
    rows = np.stack([fox_at(44_100), 0.5 * fox_at(44_100)])
    return mux(Sound(rows, 44_100, "aac"), form="mp4", video=True)


READ: dict[str, tuple[Callable[[], bytes], str]] = {  # name -> content, error
    "film.mp4": (stereo, ""),
    "talk.ogg": (lambda: mux(Sound(fox_at(48_000), 48_000, "libopus"), form="ogg"), ""),
    "late.mkv": (lambda: mux(Sound(fox(), RATE, start=2.5), form="matroska"), ""),
    "gone.wav": (lambda: b"", "gone.wav"),
    "text.wav": (lambda: b"this is no audio, but a text\n" * 99, "text.wav"),
    "empty.wav": (lambda: b"", "empty.wav"),
    "head.wav": (lambda: wav(np.zeros(0, np.float32)), "head.wav"),
}


@pytest.mark.parametrize("name", READ)
def test_recordings(name: str, run: Command, tmp_path: Path) -> None:
    make, error = READ[name]
    if name != "gone.wav":
        (tmp_path / name).write_bytes(make())
    done = run("mic", "--from", name, "--speed", "0", "--json-lines")
    assert "Traceback" not in done.err
    if error:
        assert (done.status, done.out) == (1, "")
        assert error in done.err.splitlines()[-1]
        return
    assert done.status == 0, done.err
    said = captions(done.out)
    assert "quick brown fox" in plain("".join(str(caption["text"]) for caption in said))
    late = 2.5 if name == "late.mkv" else 0.0
    assert said[0]["start"] == pytest.approx(late, abs=0.3)


@pytest.mark.parametrize("form", ["wav", "raw"])
def test_standard_input_that_ends(form: str, run: Command) -> None:
    raw = ("--raw", "s16le:16000:1") if form == "raw" else ()
    done = run("mic", "--from", "-", *raw, stdin=pack(fox()) if raw else wav(fox()))
    assert (done.status, plain(done.out)) == (0, FOX)
    assert "listening to standard input" in done.err
    nothing = run("mic", "--from", "-", *raw)
    assert (nothing.status, nothing.out) == (1, "")


# -- no microphone ------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["package", "library", "devices"])
def test_no_microphone(
    missing: str, run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remedy = "pip install 'livecap[mic]'"
    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    if missing == "package":
        monkeypatch.setitem(sys.modules, "sounddevice", None)
    elif missing == "library":
        (tmp_path / "sounddevice.py").write_text("raise OSError('PortAudio library not found')")
        monkeypatch.syspath_prepend(tmp_path)
        remedy = "apt-get install libportaudio2" if sys.platform == "linux" else "sounddevice"
    else:
        monkeypatch.setattr(capture, "load_portaudio", lambda: SoundSystem([]))
        remedy = "microphone"
    done = run("mic")
    assert (done.status, done.out) == (1, "")
    assert remedy in done.err.splitlines()[-1]
    assert "Traceback" not in done.err


# -- what a source does -------------------------------------------------------------------------


class Idle:
    """Nothing comes until something has been done."""

    def __init__(self, until: Callable[[], bool], most: int = 15) -> None:
        self.until = until
        self.most = most  # times that it is asked
        self.pause = threading.Event()  # which never comes


Step = Chunk | Notice | LivecapError | Idle


class Fake:
    """An AudioIn that does as it is told."""

    name = "the fake"

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = list(steps)
        self.closed = 0

    def take(self, timeout: float) -> list[Heard] | None:
        if not self.steps:
            return None
        step = self.steps[0]
        if isinstance(step, Idle) and not step.until() and step.most:
            step.most -= 1
            step.pause.wait(timeout)
            return []
        self.steps.pop(0)
        if isinstance(step, LivecapError):
            raise step
        return [] if isinstance(step, Idle) else [step]

    def stop(self) -> None:
        self.steps = []

    def close(self) -> None:
        self.closed += 1


def listen(run: Command, fake: Fake, *words: str) -> Done:
    run.patch.setattr(sources, "source_of", lambda *_, **__: lambda: fake)
    return run("mic", "-f", "txt,jsonl", "-o", "out", *words)


def times(out: str, kind: str) -> list[tuple[float, float, str]]:
    found = [event for event in map(json.loads, out.splitlines()) if event["type"] == kind]
    return [(event["start"], event["end"], event["reason"]) for event in found]


END = len(fox())
LATER = END + 3 * RATE


def test_gaps_have_their_reasons_and_words_their_times(run: Command) -> None:
    """One gap that is filled, being short, and two that end a segment."""
    half = END // 2 // 8 * 8
    fake = Fake(
        [
            Chunk(RATE, fox()[:half], "it was late"),
            Chunk(RATE + half + 80, fox()[half:], "a packet was lost"),
            Chunk(RATE + LATER, fox(), "the cable was out"),
            Chunk(RATE + 2 * LATER, fox()),
        ]
    )
    done = listen(run, fake, "--json-lines")
    assert (done.status, fake.closed >= 1) == (0, True)
    ends = [(RATE + END + 80) / RATE, (RATE + LATER) / RATE, (RATE + LATER + END) / RATE]
    assert [reason for *_, reason in times(done.out, "gap")] == [
        "it was late",
        "a packet was lost",
        "the cable was out",
        "the source has no audio here",
    ]
    edges = [edge for start, end, _ in times(done.out, "gap") for edge in (start, end)]
    cut = (RATE + half) / RATE
    assert edges == pytest.approx(
        [0, 1, cut, cut + 0.005, *ends, (RATE + 2 * LATER) / RATE], abs=0.001
    )
    assert "4 gaps" in done.err
    said = captions(done.out)
    assert plain("".join(str(one["text"]) for one in said)) == f"{FOX} {FOX} {FOX}"
    starts = [one["start"] for one in said if str(one["text"]).lstrip().startswith("The")]
    assert starts == pytest.approx([1, 1 + LATER / RATE, 1 + 2 * LATER / RATE], abs=0.3)


def test_notices_are_shown(run: Command) -> None:
    steps: list[Step] = [Notice("the fake is gone; plug it in again"), Notice("it is back")]
    done = listen(run, Fake([*steps, Chunk(0, fox())]))
    assert (done.status, plain(done.out)) == (0, FOX)
    lines = done.err.splitlines()
    assert lines.index("the fake is gone; plug it in again") < lines.index("it is back")
    assert listen(run, Fake(steps), "-q", "--overwrite").err == ""


def test_a_source_that_fails_midway(run: Command, tmp_path: Path) -> None:
    fault = AudioError("the cable is out", remedy="Plug it in again, please.")
    done = listen(run, Fake([Chunk(0, fox()), fault]))
    assert (done.status, plain(done.out)) == (1, FOX)
    assert done.err.count("the cable is out") == 1
    assert "Plug it in again" in done.err
    assert "captured, 9 words" in done.err
    for name in ("txt", "jsonl"):
        assert plain(said_in(name, (tmp_path / f"out.{name}").read_bytes())) == FOX.replace(" ", "")
        assert (tmp_path / f"out.{name}.partial").exists()


@pytest.mark.parametrize("steps", [[], [Chunk(0, np.zeros(0, np.float32))]], ids=["none", "empty"])
def test_a_source_without_audio(steps: list[Step], run: Command, tmp_path: Path) -> None:
    done = listen(run, Fake(steps))
    assert (done.status, done.out) == (0, "")
    assert "0:00:00 captured, 0 words" in done.err
    assert not (tmp_path / "out.txt.partial").exists()


def test_a_gap_that_goes_on_is_told_and_ends_the_speech_before_it(
    run: Command, tmp_path: Path
) -> None:
    """The device is gone: that is stated, and what was said just before is text, at once."""
    jsonl = tmp_path / "out.jsonl"
    seen: list[str] = []

    def told() -> bool:
        seen[:] = [jsonl.read_text("utf-8")]
        return '"type":"gap"' in seen[0] and "dog" in seen[0]

    gone = Chunk(LATER, np.zeros(0, np.float32), "the fake was gone")
    heard = Idle(lambda: "quick" in jsonl.read_text("utf-8"), 600)
    fake = Fake([Chunk(0, fox()), heard, gone, Idle(told)])
    assert listen(run, fake).status == 0
    assert "the fake was gone" in seen[0]
    assert "dog" in seen[0]


class Watcher:
    """A terminal that looks whether what it is to show is in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = ""
        self.early: list[str] = []  # what was not there yet

    def event(self, event: Event) -> None:
        if isinstance(event, Caption):
            self.text += "".join(event.text.split())
            if said_in("txt", self.path.read_bytes()) != self.text:
                self.early.append(event.text)

    def status(self, status: Status) -> None:
        pass

    def notice(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


def test_what_is_shown_is_on_disk(run: Command, tmp_path: Path) -> None:
    """So that a kill at any moment, or a reader that goes away, takes nothing that was shown."""
    watcher = Watcher(tmp_path / "out.txt")
    run.patch.setattr(mic, "open_terminal", lambda **_: watcher)
    assert listen(run, Fake([Chunk(0, fox())])).status == 0
    assert plain(watcher.text) == FOX.replace(" ", "")
    assert watcher.early == []


def test_an_engine_that_breaks_off_is_reported_once(run: Command, tmp_path: Path) -> None:
    """What was said before it is on disk; the source is closed."""
    jsonl = tmp_path / "out.jsonl"

    def broken(batcher: object) -> None:
        raise EngineFault("out of memory", remedy="Use a smaller model, please.")

    def after_some() -> bool:
        if "quick" not in jsonl.read_text("utf-8"):
            return False
        run.patch.setattr(Batcher, "step", broken)
        return True

    fake = Fake([Chunk(0, fox()), Idle(after_some, 600), Chunk(END, fox()), Idle(lambda: False)])
    done = listen(run, fake)
    assert (done.status, fake.closed > 0) == (1, True)
    assert "quick brown" in jsonl.read_text("utf-8")
    assert done.err.count("out of memory") == 1


# -- recordings as if they were said now --------------------------------------------------------


class Clock:
    """Time that goes on only where it is waited for."""

    def __init__(self) -> None:
        self.now = 1000.0  # seconds

    def wait(self, seconds: float) -> None:
        assert 0 < seconds <= 0.1
        self.now += seconds


@contextmanager
def recorded(path: Path, speed: float, clock: Clock) -> Iterator[Recorded]:
    """The sentence, three times over, as it is said by that clock."""
    path.write_bytes(wav(np.tile(fox(), 3)))
    pump = Pump(str(path), ReadConfig())
    found = Recorded(pump, speed=speed, now=lambda: clock.now, wait=clock.wait)
    try:
        yield found
    finally:
        found.close()


def chunks(heard: list[Heard] | None) -> list[Chunk]:
    return [item for item in heard or [] if isinstance(item, Chunk)]


def drained(source: Recorded, clock: Clock) -> list[tuple[float, Chunk]]:
    """All that comes, with the time at which it did."""
    found = []
    while (heard := source.take(0.1)) is not None:
        found += [(clock.now, chunk) for chunk in chunks(heard)]
    assert source.take(0.1) is None, "it stays at its end"
    return found


def assert_whole(found: Sequence[tuple[float, Chunk]], samples: int) -> None:
    ends = [0, *(chunk.start + len(chunk.pcm) for _, chunk in found)]
    assert [chunk.start for _, chunk in found] == ends[:-1]
    assert ends[-1] == samples


@pytest.mark.parametrize("speed", [1.0, 4.0])
def test_a_recording_is_paced(speed: float, tmp_path: Path) -> None:
    """No sample comes before it would have been said, and none later than that."""
    clock = Clock()
    with recorded(tmp_path / "talk.wav", speed, clock) as source:
        found = drained(source, clock)
    assert_whole(found, 3 * END)
    for now, chunk in found:
        said = (chunk.start + len(chunk.pcm)) / RATE / speed
        assert now - 1000 == pytest.approx(said, abs=1e-6)
        assert len(chunk.pcm) <= PIECE


def test_without_speed_nothing_is_waited_for(tmp_path: Path) -> None:
    clock = Clock()
    with recorded(tmp_path / "talk.wav", 0, clock) as source:
        found = drained(source, clock)
        assert source.name.endswith("talk.wav")
    assert_whole(found, 3 * END)
    assert clock.now == 1000


@pytest.mark.parametrize("away", [0.0, 0.01, 0.25, 2.5])
@pytest.mark.parametrize("speed", [1.0, 4.0])
def test_stop_leaves_out_what_was_not_said_yet(away: float, speed: float, tmp_path: Path) -> None:
    """After so many seconds in which nobody took what came."""
    clock = Clock()
    with recorded(tmp_path / "talk.wav", speed, clock) as source:
        found = []
        while clock.now < 1000 + 1.0 / speed:
            found += [(clock.now, chunk) for chunk in chunks(source.take(0.1))]
        clock.now += away / speed
        source.stop()
        found += drained(source, clock)
    said = sum(len(chunk.pcm) for _, chunk in found)
    assert_whole(found, said)
    assert 0 <= (1.0 + away) * RATE + 0.01 - said < PIECE + 1


def test_stop_at_the_start_and_twice(tmp_path: Path) -> None:
    clock = Clock()
    with recorded(tmp_path / "talk.wav", 1.0, clock) as source:
        source.stop()
        source.stop()
        assert drained(source, clock) == []
        source.close()


def test_an_error_comes_after_all_the_audio_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Drip(pack(fox()), error=OSError(5, "the disk is gone"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(data)))
    source = Recorded(Pump("-", ReadConfig(raw=RawFormat.parse("s16le:16000:1"))), speed=0)
    found = list[Chunk]()

    def take_all() -> None:
        while (heard := source.take(0.1)) is not None:
            found.extend(chunks(heard))

    with pytest.raises(AudioError, match="the disk is gone"):
        take_all()
    assert_whole([(0.0, chunk) for chunk in found], END)
    assert source.take(0.1) is None
    source.close()


def test_all_that_a_stalled_pipe_gave_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    give, take = os.pipe()[::-1]
    with open(give, "wb", 0) as pipe, open(take, encoding="latin-1") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        pipe.write(pack(fox()[: 7 * RATE // 20]))
        source = Recorded(Pump("-", ReadConfig(raw=RawFormat.parse("s16le:16000:1"))), speed=0)
        found = list[Chunk]()
        for _ in range(3):
            found += chunks(source.take(0.1))
        source.stop()
        found += chunks(source.take(0.1))
        pipe.close()
        source.close()
    held = 7 * RATE // 20 - sum(len(chunk.pcm) for chunk in found)
    assert held <= 30 * RATE // 1000  # what the mix to one channel looks ahead
