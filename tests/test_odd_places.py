"""Hostile names and places that take nothing (rows 41 and 42), and a console that can't show it."""

import errno
import json
import os
import tempfile
from functools import cache
from io import BytesIO, FileIO, TextIOWrapper
from pathlib import Path

import pytest
from command import Command, plain
from media import wav
from oddities import FOX, fox, quiet
from strict import parse_srt, said_in

from livecap.output import FORMATS, files
from livecap.vad import silero as vad

silero = cache(vad.load)
ROOT_WRITES = os.name == "posix" and os.geteuid() == 0


@pytest.fixture
def livecap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.setattr(vad, "load", silero)
    return Command(monkeypatch, tmp_path)


def cues(path: str | Path) -> str:
    """What a SubRip file says."""
    found = parse_srt(Path(path).read_text("utf-8"))
    return plain(" ".join(text for _, _, text in found))


NAMES = {  # name -> its output
    "talk.v2.mp3": "talk.v2.srt",
    "a.b.c.mp3": "a.b.c.srt",
    "no suffix": "no suffix.srt",
    ".hidden": ".hidden.srt",
    "two\nlines.wav": "two\nlines.srt",
    "\x1b[31mred\x07.wav": "\x1b[31mred\x07.srt",
    "party \N{PARTY POPPER} 漢字.wav": "party \N{PARTY POPPER} 漢字.srt",
    "-dash.wav": "-dash.srt",
    "--quiet": "--quiet.srt",
    "[bold]x[bold].wav": "[bold]x[bold].srt",
    "*.wav": "*.srt",
    "{stem}.wav": "{stem}.srt",
    "%s %d $HOME `id` ; rm.wav": "%s %d $HOME `id` ; rm.srt",
    "quote'\"\\.wav": "quote'\"\\.srt",
    "x" * 251 + ".wav": None,
    "漢" * 83 + ".wav": None,
    os.fsdecode(b"latin \xe9.wav"): os.fsdecode(b"latin \xe9.srt"),
    " .wav": " .srt",
    "con.wav": "con.srt",
    "...wav": None,
}


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:30])
def test_hostile_names(name: str, livecap: Command, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    livecap.patch.chdir(folder)
    try:
        Path(name).write_bytes(wav(quiet(0.1)))  # silent: the name is what counts
    except (OSError, UnicodeError):
        pytest.skip("this file system takes no such name")
    done = livecap("file", "--", name)
    assert done.status == 0, done.err
    made = sorted(set(os.listdir(folder)) - {name})
    assert len(made) == 1
    assert NAMES[name] in (None, made[0])
    assert len(os.fsencode(made[0])) <= 255
    assert sorted(os.listdir(tmp_path)) == ["in"]
    assert done.err.count("\n") == 2  # the model, and the file on one line
    assert done.err.replace("\n", "").isprintable()


def test_a_name_cannot_leave_its_folder(livecap: Command, tmp_path: Path) -> None:
    (tmp_path / "x.wav").write_bytes(wav(quiet(0.1)))
    (tmp_path / "in").mkdir()
    livecap.patch.chdir(tmp_path / "in")
    assert livecap("file", "../x.wav", "-o", "out/").status == 0
    assert livecap("file", "../x.wav", "-o", "{name}-{stem}.{ext}").status == 0
    assert sorted(os.listdir(tmp_path / "in")) == ["out", "x.wav-x.srt"]
    assert os.listdir(tmp_path / "in/out") == ["x.srt"]


@pytest.mark.parametrize("name", ["y" * 300 + ".wav", "", "/", "no/such/folder.wav"])
def test_names_that_cannot_be(name: str, livecap: Command, tmp_path: Path) -> None:
    Path("good.wav").write_bytes(wav(quiet(0.1)))
    done = livecap("file", "good.wav", "--", name) if name != "/" else livecap("file", "/dev/null")
    assert done.status == 1
    (line,) = [line for line in done.err.splitlines() if line.startswith("livecap: ")]
    assert line.count(". ") >= 1  # what is wrong, and then what to do
    assert line.isprintable()


def test_names_on_a_console_of_ascii(livecap: Command, tmp_path: Path) -> None:
    name = "na\u00efve \N{PARTY POPPER}" + os.fsdecode(b"\xff") + ".wav"
    Path(name).write_bytes(wav(fox()))
    Path("bad " + name).write_bytes(b"")
    with livecap.patch.context() as patch:
        patch.setattr("command.io.TextIOWrapper", lambda *_: TextIOWrapper(BytesIO(), "ascii"))
        done = livecap("file", name, "bad " + name, "--json-lines")
    assert done.status == 1
    assert "na\\xefve \\U0001f389\\udcff.wav" in done.err
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert plain("".join(line.get("text", "") for line in lines)) == FOX
    ends = {line["state"] for line in lines if line["type"] == "end"}
    assert ends == {"finished", "failed"}


# -- places ------------------------------------------------------------------------------------


@pytest.mark.skipif(ROOT_WRITES, reason="root may write anywhere; a file stands in below")
def test_a_read_only_folder(livecap: Command, tmp_path: Path) -> None:
    Path("talk.wav").write_bytes(wav(fox()))
    tmp_path.chmod(0o500)
    done = livecap("file", "talk.wav")
    tmp_path.chmod(0o700)
    assert done.status == 1
    assert "Permission denied. Choose another place" in done.err


def test_a_file_in_place_of_the_folder(livecap: Command, tmp_path: Path) -> None:
    """Refused before anything is decoded; the other inputs go on."""
    (tmp_path / "in").mkdir()
    for name in ("in/talk.wav", "talk.wav"):
        Path(name).write_bytes(wav(fox()))
    Path("in/out").write_text("mine")
    done = livecap("file", "in/talk.wav", "talk.wav", "-f", "srt", "-o", "{name}")
    assert done.status == 2, done.err  # over its own input
    done = livecap("file", "talk.wav", "-o", "in/out/")
    assert done.status == 1
    assert "in/out is no folder. Choose another place with -o" in done.err
    assert Path("in/out").read_text() == "mine"


class FullDisk(FileIO):
    """A file on a disk with room for so many bytes."""

    room = 0

    def write(self, data: object) -> int:
        assert isinstance(data, bytes)
        left = self.room - self.tell()
        if left <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data[:left])


@pytest.mark.parametrize("format", FORMATS)
def test_a_disk_that_fills_up(format: str, livecap: Command, tmp_path: Path) -> None:
    """At the last words: they are kept, in a folder that is named, and the status says so."""
    Path("talk.wav").write_bytes(wav(fox()))
    spare = tmp_path / "spare"
    spare.mkdir()
    place = (tmp_path / "out").resolve()

    class Disk(FullDisk):
        room = 40

    def open_raw(path: Path, mode: str) -> FileIO:
        return Disk(path, mode) if place in path.parents else FileIO(path, mode)

    livecap.patch.setattr(files, "open_raw", open_raw)
    livecap.patch.setattr(tempfile, "tempdir", str(spare))
    done = livecap("file", "talk.wav", "-f", format, "-o", "out/")
    assert done.status == 1
    assert "No space left on device" in done.err
    assert "Move it from there" in done.err
    (kept,) = spare.rglob("talk.*")
    assert str(kept) in done.err
    assert plain(said_in(format, kept.read_bytes())) == FOX.replace(" ", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_device(livecap: Command, tmp_path: Path) -> None:
    Path("talk.wav").write_bytes(wav(fox()))
    livecap.patch.setattr(tempfile, "tempdir", str(tmp_path))
    done = livecap("file", "talk.wav", "-f", "txt", "-o", "/dev/full", "--overwrite")
    assert done.status == 1
    assert "No space left on device" in done.err
    (kept,) = tmp_path.glob("livecap-*/*")
    assert plain(kept.read_text("utf-8")) == FOX


def test_a_batch_of_all_kinds(livecap: Command, tmp_path: Path) -> None:
    """Each bad one costs one line; the good ones are captioned; the status is the worst."""
    bad = {"empty.wav": b"", "text.wav": b"No sound.\n" * 99, "header.wav": wav(quiet(0))}
    good = {"talk.wav": wav(fox()), "silence.wav": wav(quiet(5)), "talk.mp3": wav(fox(), 32_000)}
    for name, data in (bad | good).items():
        Path(name).write_bytes(data)
    done = livecap("file", "none.wav", *bad, *good, "empty.wav", "none?.wav")
    assert done.status == 1
    lines = [line for line in done.err.splitlines() if line.startswith("livecap: ")]
    assert len(lines) == len(bad) + 2
    assert cues("silence.srt") == ""
    assert cues("talk.wav.srt") == FOX
    assert Path("talk.mp3.srt").exists()
    assert not any(Path(name).with_suffix(".srt").exists() for name in bad)
