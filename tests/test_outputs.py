"""What was written is never lost: killed processes, full disks, places that take nothing."""

import errno
import json
import os
import re
import subprocess
import sys
import tempfile
from io import FileIO
from pathlib import Path

import pytest
from strict import TALK, WORDS, caption, feed, letters, parse_json, said_in

import livecap
from livecap.errors import OutputError
from livecap.events import Caption, Event
from livecap.output import FORMATS, files, is_complete, open_writer, provenance

HOME = Path(livecap.__file__).parents[1]


def test_a_killed_process_leaves_files_that_parse(tmp_path: Path) -> None:
    script = (
        "import itertools, sys\n"
        "from livecap.events import Caption, Word\n"
        "from livecap.output import FORMATS, open_writer\n"
        "writers = [open_writer(f, f'{sys.argv[1]}/talk.{f}') for f in FORMATS]\n"
        "for n in itertools.count():\n"
        "    words = (Word(f' word{n}', n * 8000, n * 8000 + 7000),)\n"
        "    for writer in writers:\n"
        "        writer.write(Caption(n // 9, n * 8000, n * 8000 + 8000, words))\n"
        "    print(n, flush=True)\n"
    )
    for stop in (1, 17, 90):
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=HOME,
        )
        assert child.stdout is not None
        while int(child.stdout.readline()) < stop:
            pass
        child.kill()
        child.stdout.close()
        child.wait()
        expected = "".join(f"word{n}" for n in range(stop + 1))
        for format in FORMATS:
            path = tmp_path / f"talk.{format}"
            assert said_in(format, path.read_bytes()).startswith(expected)
            assert not is_complete(path)


def test_an_abandoned_output_stays_marked(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    writer = open_writer("json", path)
    feed(writer, TALK)
    writer.close(complete=False)
    assert not is_complete(path)
    assert json.loads(path.read_text("utf-8"))["livecap"]["complete"] is False
    open_writer("json", path).close()  # incomplete: may be written again
    assert is_complete(path)


def test_complete_outputs_are_not_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "talk.srt"
    path.write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        open_writer("srt", path)
    assert path.read_text() == "mine"
    assert is_complete(path)
    open_writer("srt", path, overwrite=True).close()
    assert path.read_text() == ""


def test_what_is_overwritten_stays(tmp_path: Path) -> None:
    path, before = tmp_path / "talk.srt", tmp_path / "talk.srt.oldcopy"
    path.write_text("mine")
    path.chmod(0o640)
    linked = tmp_path / "linked"
    os.link(path, linked)
    stopped = open_writer("srt", path, overwrite=True)
    with pytest.raises(OutputError, match="another process is writing it"):
        open_writer("srt", path, overwrite=True)
    assert before.read_text() == "mine"
    assert path.read_text() == ""
    assert not is_complete(path)
    stopped.close(complete=False)
    again = open_writer("srt", path, overwrite=True)
    assert before.read_text() == "mine", "what is incomplete takes no one's place"
    feed(again, TALK)
    assert before.exists()
    again.close(complete=False)
    assert before.read_text() == "mine"
    last = open_writer("srt", path)
    feed(last, TALK)
    last.close()
    assert sorted(os.listdir(tmp_path)) == ["linked", "talk.srt", "talk.srt.oldcopy"]
    assert before.read_text() == "mine", "until its owner takes it away"
    assert path.stat().st_mode & 0o777 == 0o640
    assert linked.read_text() == "mine"


def test_a_persons_text_is_never_lost_by_overwriting_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "talk.srt"

    def overwrite(*events: Event) -> None:
        writer = open_writer("srt", path, overwrite=True)
        feed(writer, list(events))
        writer.close()
        provenance.remember(path)

    def kept() -> dict[str, str]:
        return {found.name[8:]: found.read_text("utf-8") for found in folder.iterdir()}

    path.write_text("by hand")
    for said in (" one", " two", " three"):
        overwrite(caption(said, 0.0, 0))
    assert set(kept()) == {"", ".oldcopy", ".oldcopy2"}
    assert kept()[".oldcopy"] == "by hand"
    assert "two" in kept()[".oldcopy2"], "the last of our own"
    overwrite(caption(" three", 0.0, 0))
    assert set(kept()) == {"", ".oldcopy"}, "the same text again needs no copy"
    path.write_text("by hand again")
    overwrite(caption(" four", 0.0, 0))
    assert set(kept()) == {"", ".oldcopy", ".oldcopy2"}
    assert (kept()[".oldcopy"], kept()[".oldcopy2"]) == ("by hand", "by hand again")


@pytest.mark.parametrize("name", ["talk.srt", "talk.txt"])
@pytest.mark.parametrize(
    "media", [b"ID3\x04\0\0\0\0\0\0\xff\xfb", b"RIFF\x24\0\0\0WAVE", b"\xff\xfb\x90\x64\x01"]
)
def test_media_is_never_written_over(name: str, media: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(media)
    with pytest.raises(OutputError, match="no text, and is not written over"):
        open_writer(name[-3:], path, overwrite=True)
    assert path.read_bytes() == media
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("coding", ["utf-16", "utf-32", "latin-1"])
def test_a_subtitle_in_another_coding_is_text(coding: str, tmp_path: Path) -> None:
    path = tmp_path / "talk.srt"
    path.write_text("Schöne Grüße.\n", coding)
    open_writer("srt", path, overwrite=True).close()
    assert (tmp_path / "talk.srt.oldcopy").read_text(coding) == "Schöne Grüße.\n"


def test_places_that_can_not_be_written_are_refused_at_once(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    for bad in (tmp_path, blocker / "talk.srt", tmp_path / ("x" * 300), tmp_path / "a\0b"):
        with pytest.raises(OutputError, match=r"can't be written.*Choose another place"):
            open_writer("srt", bad, overwrite=True)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_refused_at_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="Permission denied"):
        open_writer("srt", tmp_path / "talk.srt")


class FullDisk(FileIO):
    """A file on a disk with room for so many bytes a file."""

    room = 0

    def write(self, data: object) -> int:
        assert isinstance(data, bytes)
        left = self.room - self.tell()
        if left <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data[:left])


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("room", [40, 130, 200, 700, 20_500])
def test_a_full_disk_loses_nothing(
    format: str, room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Disk(FullDisk):
        pass

    Disk.room = room
    place = tmp_path / "full"
    spare = tmp_path / "spare"
    spare.mkdir()

    def open_raw(path: Path, mode: str) -> FileIO:
        return Disk(path, mode) if place in path.parents else FileIO(path, mode)

    monkeypatch.setattr(files, "open_raw", open_raw)
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    path = place / f"talk.{format}"
    writer = open_writer(format, path)
    many: list[Event] = [caption(f" number {n} of many", n * 2.0, n) for n in range(60)]
    feed(writer, many)
    said = letters("".join(event.text for event in many if isinstance(event, Caption)))
    if room == 20_500 and not any(spare.iterdir()):  # the format needs no more
        writer.close()
        assert said_in(format, path.read_bytes()) == said
        return
    with pytest.raises(OutputError, match=f"No space left.*{re.escape(str(spare))}.*Move it"):
        writer.close()
    (found,) = spare.rglob("talk.*")
    assert said_in(format, found.read_bytes()) == said
    assert not is_complete(path)
    if format != "json" or path.stat().st_size:
        said_in(format, path.read_bytes() or (b"start\tend\ttext\n" if format == "tsv" else b""))


def test_an_output_that_is_taken_away_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "talk.txt"
    writer = open_writer("txt", path)
    feed(writer, TALK)
    path.unlink()
    with pytest.raises(OutputError, match="taken away"):
        writer.close()
    (found,) = tmp_path.glob("livecap-*/talk.txt")
    assert said_in("txt", found.read_bytes()) == letters(WORDS)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("format", FORMATS)
def test_a_stream_that_takes_no_more_goes_to_a_file(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    writer = open_writer(format, "/dev/full")
    feed(writer, TALK)
    with pytest.raises(OutputError, match="No space left"):
        writer.close()
    (found,) = tmp_path.glob("livecap-*/rest")
    expected = letters(WORDS).replace("-->", "->" if format == "srt" else "-->")
    assert said_in(format, found.read_bytes()) == expected


def test_a_reader_that_went_away_is_not_our_failure() -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb", buffering=0) as stream, pytest.raises(BrokenPipeError):
        feed(open_writer("txt", stream), TALK)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    writer = open_writer("json", tmp_path / "link.json")
    feed(writer, TALK)
    writer.close()
    assert (tmp_path / "link.json").is_symlink()
    parse_json((tmp_path / "real.json").read_text("utf-8"))
