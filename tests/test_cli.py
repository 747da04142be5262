"""The command line, one command at a time: exit statuses, what goes where, and what is refused."""

import os
from pathlib import Path

import numpy as np
import pytest
from command import FORMATS, JFK, SPEECH, Command, clip, jfk, plain, speechless, strict
from media import pack, wav
from strict import parse_srt, parse_vtt, said_in

from livecap.audio import AudioReader, prefetch
from livecap.cli import SHORT


@pytest.fixture
def livecap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    return Command(monkeypatch, tmp_path)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The inputs that are opened, as they are."""
    names: list[str] = []

    class Spy(AudioReader):
        def __init__(self, *sources: Path, **options: object) -> None:
            names.append(str(options["name"]))
            super().__init__(*sources, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(prefetch, "AudioReader", Spy)
    return names


def test_every_format_of_one_run_says_the_same(livecap: Command, tmp_path: Path) -> None:
    done = livecap("file", JFK, "-f", ",".join(FORMATS), "-o", "out/", "--words")
    assert (done.status, done.out) == (0, "")
    assert "jfk.flac -> out/jfk.txt" in done.err
    said = {name: said_in(name, (tmp_path / f"out/jfk.{name}").read_bytes()) for name in FORMATS}
    assert len(set(said.values())) == 1
    assert plain(said["txt"]) == SPEECH.replace(" ", "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        f"jfk.{name}" for name in FORMATS
    )


def test_captions_alone_on_standard_output(livecap: Command, tmp_path: Path) -> None:
    done = livecap("file", JFK, "-f", "srt", "-o", "-")
    assert done.status == 0
    assert plain(" ".join(text for _, _, text in parse_srt(done.out))) == SPEECH
    assert "tiny.en" in done.err
    assert "0:00:11" in done.err
    assert list(tmp_path.iterdir()) == []
    text = livecap("file", JFK, "-o", "-", "--quiet")
    assert (text.status, plain(text.out), text.err) == (0, SPEECH, "")


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([], ["talk.v2.srt"]),
        (["-f", "txt,vtt"], ["talk.v2.txt", "talk.v2.vtt"]),
        (["-o", "new/deep/"], ["new/deep/talk.v2.srt"]),
        (["-o", "caps.vtt"], ["caps.vtt"]),
        (["-o", "{ext}/{stem}.{lang}.{ext}", "-l", "English"], ["srt/talk.v2.en.srt"]),
        (["-o", "{name}.{track}.tsv", "-f", "tsv"], ["talk.v2.wav.0.tsv"]),
    ],
)
def test_output_names(
    options: list[str], names: list[str], livecap: Command, tmp_path: Path
) -> None:
    speechless(1, tmp_path)[0].rename("talk.v2.wav")
    assert livecap("file", "talk.v2.wav", *options).status == 0
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"talk.v2.wav", *names}


def test_a_second_run_decodes_none(livecap: Command, tmp_path: Path, opened: list[str]) -> None:
    files = speechless(20, tmp_path)
    assert livecap("file", *files).status == 0
    assert opened == [str(path) for path in files]
    assert livecap.loads == 1

    again = livecap("file", *files)
    assert again.status == 0
    assert again.err.count("captioned already") == 20
    assert (len(opened), livecap.loads) == (20, 1)

    (tmp_path / "05.srt").unlink()
    (tmp_path / "07.srt.partial").touch()  # as a killed run leaves it
    assert livecap("file", *files).status == 0
    assert opened[20:] == [str(files[5]), str(files[7])]
    assert not (tmp_path / "07.srt.partial").exists()

    assert livecap("file", *files, "-f", "srt,txt").status == 0  # txt is new everywhere
    assert len(opened) == 42
    assert livecap("file", *files, "--overwrite", "-q").err == ""
    assert len(opened) == 62


def test_a_device_is_never_done_with(livecap: Command, tmp_path: Path) -> None:
    (path,) = speechless(1, tmp_path)
    for _ in range(2):
        done = livecap("file", path, "-f", "srt", "-o", os.devnull)
        assert done.status == 0
        assert "captioned already" not in done.err


def test_one_bad_file_costs_one_line(livecap: Command, tmp_path: Path) -> None:
    first, second = speechless(2, tmp_path)
    (tmp_path / "bad.mp3").write_text("this is no sound")
    (tmp_path / "none.mp3").touch()
    (tmp_path / "empty").mkdir()
    names = ["bad.mp3", "gone.mp3", "none.mp3", "*.ogg", "empty"]
    done = livecap("file", first, *names, second, "-q")
    assert (done.status, done.out) == (1, "")
    lines = done.err.splitlines()
    assert len(lines) == len(names)
    for line, name in zip(lines, names, strict=True):
        assert line.startswith("livecap: ")
        assert name in line
    outputs = {path.name for path in tmp_path.iterdir() if path.suffix in (".srt", ".partial")}
    assert outputs == {"00.srt", "01.srt"}


def test_json_lines(livecap: Command, tmp_path: Path) -> None:
    (tmp_path / "bad.wav").write_bytes(b"RIFF")
    done = livecap("file", JFK, "bad.wav", "--json-lines", "--words")
    assert done.status == 1
    records = [strict(line) for line in done.out.splitlines()]
    of_talk = [record for record in records if record["file"] == str(JFK)]
    captions = [record for record in of_talk if record["type"] == "caption"]
    assert plain("".join(record["text"] for record in captions)) == SPEECH
    words = [word for record in captions for word in record["words"]]
    assert all(0 <= word["start"] < word["end"] <= 11 for word in words)
    assert of_talk[-1]["state"] == "finished"
    (bad,) = [record for record in records if record["file"] == "bad.wav"]
    assert (bad["type"], bad["state"]) == ("end", "failed")
    assert bad["error"]["code"] in ("not_audio", "empty_audio")
    assert not (tmp_path / "jfk.srt").exists()


def test_standard_input(livecap: Command, tmp_path: Path) -> None:
    done = livecap("file", "-", stdin=JFK.read_bytes())
    assert (done.status, plain(done.out)) == (0, SPEECH)
    raw = livecap("file", "-", "--raw", "s16le:16000:1", "-q", stdin=pack(jfk()))
    assert (raw.status, plain(raw.out), raw.err) == (0, SPEECH, "")
    named = livecap("file", "-", "-o", "out/", "-q", stdin=JFK.read_bytes())
    assert (named.status, named.out) == (0, "")
    assert plain(said_in("srt", (tmp_path / "out/stdin.srt").read_bytes()))
    nothing = livecap("file", "-", "-q")
    assert nothing.status == 1
    assert "no bytes" in nothing.err


def test_the_help_names_short_options(livecap: Command) -> None:
    told = livecap("file", "--help").out
    assert all(f"Short: {short}." in " ".join(told.split()) for short in SHORT)


REFUSED = [
    (["file"], "Name files or folders"),
    (["file", "--nope", "a.wav"], "--help"),
    (["file", "a.wav", "--nope=3"], "--help"),
    (["file", "a.wav", "-f", "pdf"], "txt, srt, vtt, json, jsonl, tsv"),
    (["file", "a.wav", "-f", "srt,"], "txt, srt"),
    (["file", "a.wav", "-f", "srt", "-o", "x.vtt"], "-f vtt"),
    (["file", "a.wav", "b.wav", "-o", "x.srt"], "-o x.srt/"),
    (["file", "a.wav", "-o", "{nope}.srt"], "{stem}"),
    (["file", "a.wav", "b.wav", "-f", "srt", "-o", "-"], "-o out/"),
    (["file", "a.wav", "--json-lines", "-o", "out/"], "jsonl"),
    (["file", "a.wav", "--preset", "ebu"], "netflix, bbc"),
    (["file", "a.wav", "--words"], "srt can't hold the times of words"),
    (["file", "a.wav", "--words", "-f", "txt,srt"], "txt and srt can't hold"),
    (["file", "a.wav", "--max-line-width", "3"], "between 8"),
    (["file", "a.wav", "--language", "germn"], "Perhaps de (German) or"),
    (["file", "a.wav", "--language", "German"], "It has: en"),
    (["file", "a.wav", "--device", "tpu"], "This machine has: cpu"),
    (["file", "a.wav", "--task", "translate"], "multilingual"),
    (["file", "a.wav", "--task", "sing"], "transcribe"),
    (["file", "a.wav", "--precision", "fp4"], "bf16"),
    (["file", "a.wav", "--temperature", "9"], "0 to 2"),
    (["file", "a.wav", "--vad-threshold", "1"], "between 0 and 1"),
    (["file", "a.wav", "--threads", "-1"], "1 to 1024"),
    (["file", "a.wav", "--batch-size", "999"], "1 to 256"),
    (["file", "a.wav", "--raw", "opus"], "s16le:16000:1"),
    (["file", "a.wav", "--channels", "quad"], "split"),
    (["models", "extra"], "--help"),
    (["pull"], "livecap models"),
    (["caption"], "file, mic"),
]


@pytest.mark.parametrize(("words", "remedy"), REFUSED, ids=lambda value: str(value)[:50])
def test_what_is_refused(words: list[str], remedy: str, livecap: Command, tmp_path: Path) -> None:
    for path in speechless(1, tmp_path):
        path.rename("a.wav")
    done = livecap(*words)
    assert (done.status, done.out) == (2, "")
    assert remedy in done.err
    assert "Traceback" not in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]


def test_what_fails_without_a_file(livecap: Command, tmp_path: Path) -> None:
    for words, remedy in [
        (["file", str(JFK), "--model", "huge"], "large-v3-turbo"),
        (["file", str(JFK), "--model", "small"], "livecap pull small"),
        (["file", str(JFK), "--track", "7", "-o", "x.srt"], "track 0: flac"),
        (["file", str(tmp_path)], "Name the files"),
        (["file", "*.ogg"], "pattern"),
        (["pull", "no such model"], "org/name"),
    ]:
        done = livecap(*words)
        assert (done.status, done.out) == (1, "")
        assert remedy in done.err
    assert list(tmp_path.iterdir()) == []


def test_folders_and_patterns(livecap: Command, tmp_path: Path, opened: list[str]) -> None:
    for name in ("talks/b.wav", "talks/a.MP3", "talks/more/c.ogg", "talks/.d.wav", "talks/e.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wav(np.zeros(1600, np.float32)))
    assert livecap("file", "talks", "-o", "out/").status == 0
    assert opened == ["talks/a.MP3", "talks/b.wav", "talks/more/c.ogg"]
    opened.clear()
    assert livecap("file", "talks/**/*.ogg", "talks/[ab].*", "talks/b.wav", "-f", "txt").status == 0
    assert opened == ["talks/more/c.ogg", "talks/a.MP3", "talks/b.wav"]
    assert (tmp_path / "talks/more/c.txt").exists()


def test_each_channel_under_its_own_label(livecap: Command, tmp_path: Path) -> None:
    left, right = clip("quick_brown_fox"), clip("counting")
    stereo = np.zeros((2, 16_000 + max(len(left), len(right))), np.float32)
    stereo[0, : len(left)] = left
    stereo[1, 16_000 : 16_000 + len(right)] = right
    (tmp_path / "call.wav").write_bytes(wav(stereo))
    done = livecap("file", "call.wav", "--channels", "split", "-f", "txt,vtt,jsonl,srt")
    assert done.status == 0

    lines = (tmp_path / "call.txt").read_text("utf-8").splitlines()
    said = {label: [] for label in ("left", "right")}  # type: dict[str, list[str]]
    for line in lines:
        label, text = line.split(": ", 1)
        said[label].append(text)
    assert "quick brown fox" in plain(" ".join(said["left"]))
    assert "brown" not in plain(" ".join(said["right"]))
    assert plain(" ".join(said["right"]))[:3] in ("one", "1 2", "123")

    vtt = (tmp_path / "call.vtt").read_text("utf-8")
    parse_vtt(vtt)
    assert "<v left>" in vtt
    assert "<v right>" in vtt
    parse_srt((tmp_path / "call.srt").read_text("utf-8"))
    records = [strict(line) for line in (tmp_path / "call.jsonl").read_text("utf-8").splitlines()]
    starts = {r["speaker"]: r["start"] for r in reversed(records) if r["type"] == "caption"}
    assert starts["right"] > starts["left"]


def test_models(livecap: Command) -> None:
    done = livecap("models")
    assert (done.status, done.err) == (0, "")
    rows = {line.split()[0]: line.split() for line in done.out.splitlines()}
    assert rows["tiny.en"][1] == "default"
    assert rows["large-v3-turbo"][1] == "pullable"
    assert rows["large-v3-turbo"][-1] == "openai/whisper-large-v3-turbo"


def test_help_and_version(livecap: Command) -> None:
    assert livecap("--version").out.strip()
    for words in ([], ["--help"], ["file", "--help"], ["doctor", "--help"]):
        done = livecap(*words)
        assert done.status == 0
        assert "Usage: livecap" in done.out


def test_the_language_auto_is_left_to_the_model(livecap: Command) -> None:
    done = livecap("file", str(JFK), "--language", "auto", "-f", "txt", "-o", "-", "-q")
    assert done.status == 0
    assert plain(done.out) == SPEECH
