"""Odd inputs and flags, through the whole command: the right text or a named error."""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command import FORMATS, Command, Done, plain
from media import Sound, mux, wav
from noises import RATE
from oddities import ANYTHING, Fails, Result, Says, fox, speech
from oddity_files import FILES
from oddity_flags import FLAGS
from oddity_signals import SIGNALS
from strict import parse_srt, parse_vtt, said_in

from livecap.errors import LivecapError
from livecap.vad import silero as vad

CASES = {**FILES, **SIGNALS}
LABEL = re.compile("(left|right):")  # which txt, srt and vtt show
EXACT = 0.3  # seconds by which a caption may be early or late
silero = cache(vad.load)


@dataclass
class Run:
    """A command that has ended, and the errors that it printed."""

    done: Done
    errors: list[LivecapError]


class Runner:
    """Runs `livecap file` in a folder of its own, and sees which errors are turned into text."""

    def __init__(self, command: Command, patch: pytest.MonkeyPatch) -> None:
        self.command = command
        self.printed: list[LivecapError] = []
        write = LivecapError.__str__

        def keep(error: LivecapError) -> str:
            self.printed.append(error)
            return write(error)

        patch.setattr(LivecapError, "__str__", keep)
        patch.setattr(vad, "load", silero)

    def __call__(self, *words: str, stdin: bytes = b"") -> Run:
        self.printed.clear()
        done = self.command("file", *words, stdin=stdin)
        assert "Traceback" not in done.err
        return Run(done, list(self.printed))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(Command(monkeypatch, tmp_path), monkeypatch)


def judge(result: Result, said: str, run: Run) -> None:
    """What came out against what has to."""
    err = run.done.err
    if isinstance(result, Fails):
        assert run.done.status == result.status, err
        if result.code == "usage":
            assert "Try: livecap --help" in err
            return
        assert [error.code for error in run.errors][:1] == [result.code], err
        assert run.errors[0].remedy in err
        assert len(run.errors[0].remedy) > 10
        return
    assert (run.done.status, run.errors) == (0, []), err
    if isinstance(result, Says):
        assert plain(said) == result.words.strip()
    elif result is ANYTHING:
        assert said.strip() or "speech without text" in err
    else:
        assert result.words in plain(said)


def text_in(folder: Path) -> str:
    """The text of a run's outputs: all formats are there, parse strictly and agree."""
    (base,) = {path.stem for path in folder.iterdir()}
    contents = {form: (folder / f"{base}.{form}").read_bytes() for form in FORMATS}
    texts = {LABEL.sub("", said_in(form, content)) for form, content in contents.items()}
    assert len(texts) == 1
    found = json.loads(contents["json"])
    ends = [0.0, *(time for part in found["segments"] for time in (part["start"], part["end"]))]
    assert max(ends) <= found["duration"] + 0.001
    text: str = found["text"]
    return text


def marked(name: str) -> Any:
    """The case, expected to fail where that is known."""
    why = CASES[name].pending
    expected = pytest.mark.xfail(reason=why, raises=AssertionError)
    return pytest.param(name, marks=expected) if why else name


@pytest.mark.parametrize("name", [marked(name) for name in CASES])
def test_an_odd_input(name: str, run: Runner, tmp_path: Path) -> None:
    case = CASES[name]
    data = case.make()
    source = "-" if case.piped else case.name
    if not case.piped:
        Path(case.name).write_bytes(data)
    ran = run(
        source,
        "--format=" + ",".join(FORMATS),
        "--output=out/",
        *case.flags,
        stdin=data if case.piped else b"",
    )
    failed = isinstance(case.result, Fails)
    said = "" if failed else text_in(tmp_path / "out")
    judge(case.result, said, ran)
    assert case.said in ran.done.err
    if failed:
        assert ran.done.err.count("\n") == 1 + ran.done.err.startswith("model:")
        assert not (tmp_path / "out").exists()
    if case.starts is not None:
        (srt,) = (tmp_path / "out").glob("*.srt")
        assert parse_srt(srt.read_text("utf-8"))[0][0] / 1000 == pytest.approx(
            case.starts, abs=EXACT
        )


def test_the_table_is_long_and_has_every_row() -> None:
    assert len(CASES) + len(FLAGS) >= 80
    elsewhere = {41, 42}  # names and outputs, below
    assert {case.row for case in CASES.values()} - {0} == set(range(1, 43)) - elsewhere


# -- flags -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def media() -> dict[str, bytes]:
    """What every folder holds in which flags are tried."""
    film = mux(
        Sound(fox(), RATE, language="eng"),
        Sound(speech()[:RATE], RATE, language="ger"),
        form="matroska",
        video=True,
    )
    return {"talk.wav": wav(fox()), "film.mkv": film}


@pytest.mark.parametrize("words", FLAGS)
def test_odd_flags(words: str, run: Runner, media: dict[str, bytes], tmp_path: Path) -> None:
    case = FLAGS[words]
    for name, data in media.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "empty").mkdir()
    given = words.split()
    if words.endswith("--prompt"):
        given.append("We met on Tuesday, as always. " * 300)  # far more than a model can hold
    raw = media["talk.wav"][44:] if "--raw" in words else media["talk.wav"]
    ran = run(*given, stdin=raw if case.stdin else b"")
    made = sorted(path.name for path in tmp_path.iterdir())
    left = [name for name in made if name not in (*media, "empty", case.outputs)]
    assert left == []
    if isinstance(case.result, Fails):
        assert case.outputs not in made
        judge(case.result, "", ran)
        return
    assert (case.outputs in made) == bool(case.outputs)
    judge(case.result, written(tmp_path / case.outputs, ran.done.out), ran)


def written(place: Path, out: str) -> str:
    """The text that was written, to a place or to standard output."""
    if out.startswith("{"):
        lines = [json.loads(line) for line in out.splitlines()]
        return "".join(line.get("text", "") for line in lines)
    if out:
        return out
    (path,) = [place] if place.is_file() else place.glob("*.srt")
    parse = parse_vtt if path.suffix == ".vtt" else parse_srt
    return " ".join(text for _, _, text in parse(path.read_text("utf-8")))
