"""What a run over files takes up, skips and names: patterns, folders, outputs, languages."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from command import JFK, Command, speechless
from media import Sound, mux, wav

from livecap.commands.file_batch import BatchConfig, run_batch
from livecap.commands.inputs import expand
from livecap.commands.targets import settle, targets_of
from livecap.config import DecodeConfig, OutputConfig
from livecap.events import RATE, Caption, Word
from livecap.output import NamedInput, open_writer, provenance
from livecap.runtime.runs import Progress, Report

FFMPEG = shutil.which("ffmpeg")
SILENCE = np.zeros(1600, np.float32)


@pytest.fixture
def livecap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    return Command(monkeypatch, tmp_path)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path.parent / "state"))
    return tmp_path


def put(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"a")


# Patterns and folders


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("Show [2020]/*.wav", ["Show [2020]/a.wav", "Show [2020]/b [1].wav"]),
        ("Sh?w [2020]/a.wav", ["Show [2020]/a.wav"]),
        ("Show [2020]/* [1].wav", ["Show [2020]/b [1].wav"]),
        ("Show [23]/*.wav", ["Show 2/c.wav"]),  # no such name: a set of characters
        ("**/[bc]*.wav", ["Show 2/c.wav", "Show [2020]/b [1].wav"]),
        ("Show*/*", ["Show 2/c.wav", "Show [2020]/a.wav", "Show [2020]/b [1].wav"]),
    ],
)
def test_a_name_that_is_there_wins_over_a_pattern(
    pattern: str, found: list[str], here: Path
) -> None:
    put(here, "Show [2020]/a.wav", "Show [2020]/b [1].wav", "Show 2/c.wav", "Show 0/other.txt")
    (here / "Show 0/other.txt").unlink()
    assert list(expand([pattern])) == found
    assert list(expand([str(here / pattern)])) == [str(here / name) for name in found]


SIDE = ("@eaDir/x.wav", ".Trash-1000/x.wav", "#recycle/x.wav", ".hidden/x.wav", "._a.wav")


@pytest.mark.parametrize("named", ["talks", "talks/", "talks/**/*.wav", "talks/**"])
def test_side_folders_are_left_out(named: str, here: Path) -> None:
    put(here, "talks/a.wav", "talks/more/b.wav")
    put(here, *(f"talks/{name}" for name in SIDE), *(f"talks/more/{name}" for name in SIDE))
    assert list(expand([named])) == ["talks/a.wav", "talks/more/b.wav"]
    assert list(expand(["talks/@eaDir"])) == ["talks/@eaDir/x.wav"]  # unless they are named


@pytest.mark.parametrize("named", ["talks", "talks/**/*.wav"])
def test_folders_that_are_linked_to_are_followed_once(named: str, here: Path) -> None:
    put(here, "talks/a.wav", "talks/more/b.wav", "disk/c.wav", "disk/deep/d.wav")
    for link, to in {
        "first": "disk",
        "second": "disk",
        "third": "disk/deep",
        "same": "talks/more",
        "more/circle": "talks",
        "more/above": ".",
        "broken": "nowhere",
    }.items():
        os.symlink(here / to, here / "talks" / link)
    inside = ["talks/a.wav", "talks/first/c.wav", "talks/first/deep/d.wav", "talks/more/b.wav"]
    assert list(expand([named])) == inside


@pytest.mark.parametrize(
    ("named", "made"),
    [
        ("talks", ["out/a/x.srt", "out/b/c/x.srt", "out/y.srt"]),
        ("talks/", ["out/a/x.srt", "out/b/c/x.srt", "out/y.srt"]),
        ("./talks", ["out/a/x.srt", "out/b/c/x.srt", "out/y.srt"]),
        ("talks/**/*.wav", ["out/a/x.srt", "out/b/c/x.srt", "out/y.srt"]),
        ("talks/b", ["out/c/x.srt"]),
        ("talks/a/x.wav", ["out/x.srt"]),
    ],
)
def test_a_folder_of_outputs_has_the_tree_of_the_inputs(
    named: str, made: list[str], here: Path
) -> None:
    put(here, "talks/y.wav", "talks/a/x.wav", "talks/b/c/x.wav")
    for typed in (named, str(here / named)):
        found = expand([typed])
        sources = [NamedInput(path, folder=below) for path, below in found.items()]
        targets = targets_of(sources, OutputConfig(format="srt", output="out/"), None)
        assert sorted(str(found.planned["srt"]) for found in targets.values()) == made


def test_two_trees_with_the_same_names(here: Path) -> None:
    put(here, "one/a/x.wav", "two/a/x.wav")
    sources = [NamedInput(path, folder=below) for path, below in expand(["one", "two"]).items()]
    targets = targets_of(sources, OutputConfig(format="srt", output="out/"), None)
    names = [str(found.planned["srt"]) for found in targets.values()]
    assert names == ["out/a/x.wav.srt", "out/a/x.wav-2.srt"]


# Earlier outputs


def test_a_source_that_has_grown_since_is_captioned_again(livecap: Command, tmp_path: Path) -> None:
    (path,) = speechless(1, tmp_path)
    assert livecap("file", path).status == 0
    assert "captioned already" in livecap("file", path).err
    written = (tmp_path / "00.srt").stat().st_mtime_ns
    os.utime(path, ns=(written, written + 1))
    again = livecap("file", path)
    assert "00.wav is newer than" in again.err
    assert "captioned again" in again.err
    assert livecap.loads == 2
    assert (tmp_path / "00.srt").stat().st_mtime_ns > written


def test_a_file_that_grows_while_it_is_read_is_said(livecap: Command, tmp_path: Path) -> None:
    (path,) = speechless(1, tmp_path)
    real = open_writer

    def growing(*words: object, **options: object) -> object:
        with path.open("ab") as out:
            out.write(bytes(3200))
        return real(*words, **options)  # type: ignore[arg-type]

    with livecap.patch.context() as patch:
        patch.setattr("livecap.commands.file_batch.open_writer", growing)
        done = livecap("file", path)
    assert done.status == 0
    assert "00.wav changed while it was read" in done.err
    assert livecap("file", path).status == 0  # it is not called captioned
    assert livecap.loads == 2
    assert "captioned already" in livecap("file", path).err


def test_a_subtitle_of_somebody_else_is_known(livecap: Command, tmp_path: Path) -> None:
    (path,) = speechless(1, tmp_path)
    mine = tmp_path / "00.srt"
    mine.write_text("1\n00:00:00,000 --> 00:00:01,000\nBy hand.\n\n")
    skipped = livecap("file", path, "-f", "srt,txt")
    assert f"{mine} was not written by livecap" in skipped.err
    assert "By hand." in mine.read_text("utf-8")
    assert (tmp_path / "00.txt").exists()

    both = livecap("file", path, "-f", "srt,txt")
    assert f"{mine} was not written by livecap" in both.err
    assert f"captioned already in {tmp_path / '00.txt'}" in both.err
    assert livecap.loads == 1

    replaced = livecap("file", path, "-f", "srt,txt", "--overwrite", "-q")
    (line,) = replaced.err.splitlines()  # its own text is replaced without a word
    assert f"{mine} was not written by livecap" in line
    assert "replaced" in line
    assert f"kept as {mine}.oldcopy" in line
    assert mine.read_text("utf-8") == ""
    assert "By hand." in (tmp_path / "00.srt.oldcopy").read_text("utf-8")
    assert livecap("file", path, "-f", "srt,txt", "--overwrite", "-q").err == ""


def test_media_under_the_name_of_an_output_is_refused(livecap: Command, tmp_path: Path) -> None:
    (path,) = speechless(1, tmp_path)
    media = path.read_bytes()
    (tmp_path / "00.srt").write_bytes(media)
    done = livecap("file", path, "--overwrite", "-q")
    assert done.status == 1
    (line,) = done.err.splitlines()
    assert "is no text, and is not written over" in line
    assert (tmp_path / "00.srt").read_bytes() == media


def test_an_output_that_was_changed_by_hand_is_a_persons(livecap: Command, tmp_path: Path) -> None:
    assert livecap("file", JFK, "-o", "jfk.srt").status == 0
    text = (tmp_path / "jfk.srt").read_text("utf-8")
    (tmp_path / "jfk.srt").write_text(text.replace("fellow", "Fellow"), "utf-8")
    assert (
        "jfk.srt was not written by livecap, or has been changed"
        in livecap("file", JFK, "-o", "jfk.srt").err
    )
    (tmp_path / "jfk.srt").write_text(text, "utf-8")  # and back
    assert "captioned already" in livecap("file", JFK, "-o", "jfk.srt").err


def test_outputs_of_other_options_are_named(livecap: Command, tmp_path: Path) -> None:
    assert livecap("file", JFK, "-f", "srt,txt", "-o", "out/").status == 0
    asked = ("file", JFK, "-o", "out/", "--preset", "bbc", "--max-lines", "1")
    told = livecap(*asked).err
    srt = Path("out/jfk.srt")
    assert f"captioned already in {srt}, but without --preset bbc, without --max-lines 1;" in told
    assert "--overwrite does it again as asked now" in told
    assert ", but" not in livecap("file", JFK, "-o", "out/", "-f", "txt", "--preset", "bbc").err
    assert livecap.loads == 1
    assert livecap(*asked, "--overwrite").status == 0
    assert "captioned already in out/jfk.srt; --overwrite" in livecap(*asked).err
    told = livecap("file", JFK, "-o", "out/", "--preset", "dcmp", "--prompt", "Mr. Kennedy.").err
    assert "but with --preset bbc, with --max-lines 1, without --prompt;" in told
    told = livecap("file", JFK, "-f", "srt,txt", "-o", "out/", "--language", "en").err
    assert told.count("without --language en") == 2, "each where they differ"


def test_a_record_of_before_names_no_options(livecap: Command, tmp_path: Path) -> None:
    assert livecap("file", JFK, "-o", "out/").status == 0
    (record,) = tmp_path.parent.rglob(f"{tmp_path.name}-state/livecap/outputs")
    lines = record.read_text("ascii").splitlines()
    record.write_text("".join(line.split(" ")[0] + "\n" for line in lines), "ascii")
    told = livecap("file", JFK, "-o", "out/", "--preset", "bbc").err
    assert "captioned already in out/jfk.srt; --overwrite" in told


def test_other_tracks_inside_are_named(livecap: Command, tmp_path: Path) -> None:
    sounds = [Sound(SILENCE, codec="aac", language=code) for code in ("eng", "fra")]
    (tmp_path / "film.mkv").write_bytes(mux(*sounds, form="matroska"))
    done = livecap("file", "film.mkv")
    assert "audio track 0 is captioned, not track 1: aac" in done.err
    assert "fra" in done.err
    assert "is captioned, not" not in livecap("file", "film.mkv", "--track", "1", "-f", "txt").err


@pytest.mark.skipif(FFMPEG is None, reason="nothing here can mux subtitles")
def test_subtitles_inside_are_named(livecap: Command, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wav(SILENCE))
    (tmp_path / "a.srt").write_text("1\n00:00:00,000 --> 00:00:00,100\nBy hand.\n\n")
    made = f"{FFMPEG} -v error -i a.wav -i a.srt -metadata:s:s language=eng film.mkv"
    subprocess.run(made.split(), check=True, cwd=tmp_path)
    done = livecap("file", "film.mkv")
    assert "has subtitles of its own inside (eng)" in done.err
    assert (tmp_path / "film.srt").exists()


# The language in a name


def test_the_final_name_has_the_language(livecap: Command, tmp_path: Path) -> None:
    words = ("file", JFK, "-f", "srt,txt", "-o", "{stem}.{lang}.{ext}")
    done = livecap(*words)
    assert done.status == 0
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {"jfk.en.srt", "jfk.en.txt"}
    assert "-> jfk.en.srt, jfk.en.txt" in done.err
    assert "captioned already" in livecap(*words).err
    assert livecap.loads == 1
    assert livecap(*words, "--overwrite", "-q").err == ""
    assert {path.name for path in tmp_path.iterdir()} == made


def test_a_translation_is_named_english(here: Path) -> None:
    class Translated:
        is_opening = False

        def __init__(self, open_outputs: Callable[[str], None]) -> None:
            self.open_outputs = open_outputs

        def run(self, paths: Sequence[str]) -> Iterator[Report]:
            for path in paths:
                self.open_outputs(path)
                yield path, Caption(0, 0, RATE, (Word(" Yes.", 0, RATE),), language="de")
                yield Progress(path, RATE, RATE, discarded=0.0, state="finished")

        def stop(self) -> None: ...

    def start(
        config: BatchConfig,
        open_outputs: Callable[[str], None],
        say: Callable[[str], None],
        *,
        times: bool,
    ) -> Translated:
        return Translated(open_outputs)

    output = OutputConfig(format="srt", output="{stem}.{lang}.{ext}", quiet=True)
    (here / "talk.wav").write_bytes(wav(SILENCE))
    for task, code in (("transcribe", "de"), ("translate", "en")):
        decode = DecodeConfig(task=task)  # type: ignore[arg-type]
        assert run_batch(["talk.wav"], BatchConfig(decode=decode, output=output), start) == 0
        assert sorted(path.name for path in here.glob("*.srt")) == [f"talk.{code}.srt"]
        (here / f"talk.{code}.srt").unlink()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_persons_file_under_the_final_name(here: Path, overwrite: bool) -> None:
    output = OutputConfig(format="srt", output="{stem}.{lang}.{ext}", overwrite=overwrite)
    (here / "talk.wav").write_bytes(wav(SILENCE))
    (here / "talk.de.srt").write_text("by hand")
    targets = targets_of([NamedInput("talk.wav")], output, None)["talk.wav"]
    assert targets.todo == {"srt": Path("talk.und.srt")}  # others' translations are no captions
    open_writer("srt", "talk.und.srt").close()
    (name,), (warning,) = settle(targets, output, "de")
    assert "talk.de.srt was not written by livecap" in warning
    assert name == Path("talk.de.srt" if overwrite else "talk.und.srt")
    assert (here / "talk.de.srt").read_text("utf-8") == ("" if overwrite else "by hand")
    if overwrite:
        assert (here / "talk.de.srt.oldcopy").read_text("utf-8") == "by hand"
    assert not provenance.is_foreign(name, provenance.known())


def test_the_record_of_outputs_does_not_grow_for_ever(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "state"))
    monkeypatch.setattr(provenance, "MAX_RECORD", 65 * 10)
    for number in range(50):
        (here / "out").write_text(str(number))
        provenance.remember(here / "out")
        assert not provenance.is_foreign(here / "out", provenance.known())
    assert (here / "state/livecap/outputs").stat().st_size <= 65 * 12
