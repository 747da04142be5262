"""Where outputs go: a table of names, and that none meets another or an input."""

import os
from pathlib import Path

import pytest

from livecap.errors import ConfigError
from livecap.output import FORMATS, NamedInput, open_writer, plan


def names(
    paths: list[str], output: str | None = None, formats: str = "srt", language: str | None = None
) -> list[str]:
    """The outputs of one format, or of several joined."""
    planned = plan(
        [NamedInput(p) for p in paths], formats.split(), output=output, language=language
    )
    return [" ".join(str(path) for path in outputs.values()) for outputs in planned]


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("talk.v2.mp3", None, "talk.v2.srt"),
        ("a/talk.mp4", None, "a/talk.srt"),
        ("talk", None, "talk.srt"),
        ("Dr. Smith speaks", None, "Dr. Smith speaks.srt"),
        (".mp3", None, ".mp3.srt"),
        ("../x.wav", "out/", "out/x.srt"),
        ("a\nb.wav", "out/", "out/a\nb.srt"),
        ("🎉.wav", "out/", "out/🎉.srt"),
        ("-rf.wav", "out/", "out/-rf.srt"),
        ("a/..", "out/", "out/_.srt"),
        ("talk.srt", None, "talk.srt.srt"),
        ("talk.mp3", "-", "None"),
        ("-", None, "None"),
        ("-", "out/", "out/stdin.srt"),
        ("talk.mp3", "o/{stem}.{lang}.{ext}", "o/talk.und.srt"),
        ("d/talk.mp3", "{name}-{track}.{ext}", "talk.mp3-0.srt"),
        ("talk.mp3", "notes", "notes.srt"),
        ("talk.mp3", "notes.srt", "notes.srt"),
        ("talk.mp3", "Dr. Smith speaks", "Dr. Smith speaks.srt"),
        ("talk.mp3", "/dev/null", "/dev/null"),
    ],
)
def test_names(source: str, output: str | None, expected: str) -> None:
    assert names([source], output) == [expected]


def test_names_of_several_formats_and_inputs(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert names(["a.mp3"], "x", "srt vtt") == ["x.srt x.vtt"]
    assert names(["a.mp3"], "x.srt", "srt vtt") == ["x.srt x.vtt"]
    assert names(["talk.mp3", "b/talk.mp3"]) == ["talk.srt", "b/talk.srt"]
    assert names(["talk.mp3", "talk.wav"]) == ["talk.mp3.srt", "talk.wav.srt"]
    assert names(["talk.mp3", "TALK.wav"]) == ["talk.mp3.srt", "TALK.wav.srt"]
    assert names(["a/talk.mp3", "b/talk.mp3", "c/talk.mp3"], folder) == [
        f"{folder}/{name}.srt" for name in ("talk.mp3", "talk.mp3-2", "talk.mp3-3")
    ]
    assert names(["talk.mp3", "talk.json"], None, "json") == ["talk.mp3.json", "talk.json.json"]
    assert names(["a.mp3", "b.mp3"], "-", "txt") == ["None", "None"]
    assert names(["a.mp3", "b.mp3"], "{stem}.{lang}.{ext}", language="de") == [
        "a.de.srt",
        "b.de.srt",
    ]
    tracks = plan([NamedInput("a.mkv", 0), NamedInput("a.mkv", 1)], ["srt"])
    assert [str(found["srt"]) for found in tracks] == ["a.mkv.track0.srt", "a.mkv.track1.srt"]


@pytest.mark.parametrize(
    ("sources", "output", "formats", "message"),
    [
        (["a", "b"], "talk", "srt", "2 inputs.*-o talk/"),
        (["a"], "talk.vtt", "srt", "named as vtt.*-f vtt"),
        (["a"], "{stem}.{foo}", "srt", "{foo}.*{stem}, {ext}, {lang}"),
        (["a"], "{stem.x}.{ext}", "srt", "Known are"),
        (["a"], "{stem!r}", "srt", "Known are"),
        (["a"], "{0}{}", "srt", "Known are"),
        (["a"], "{stem", "srt", "can't be read"),
        (["a"], "{stem}", "srt vtt", "srt and vtt.*{ext}"),
        (["a", "b"], "x.{ext}", "srt", "written twice"),
        (["a", "b"], "-", "srt", "standard output holds"),
        (["a"], "-", "srt vtt", "standard output holds"),
        (["-"], None, "srt vtt", "-o out/"),
        (["a", "-"], None, "txt", "-o out/"),
        (["talk.srt"], "talk.srt", "srt", "is the input"),
        (["a"], "", "srt", "names nothing"),
        (["a"], "z.mp3", "srt", r"z\.mp3 ends in \.mp3.*\.txt, \.srt"),
        (["a"], "x.ass", "srt", r"x\.ass ends in \.ass"),
        (["a"], "x.ass", "srt vtt", r"ends in \.ass"),
        (["a"], "out/{stem}.mp3", "srt", r"ends in \.mp3"),
        (["a"], "{stem}.{lang}", "srt", r"does not end in srt.*\.{ext}"),
        (["a"], "out/{name}", "srt", r"does not end in srt.*\.{ext}"),
    ],
)  # fmt: skip
def test_names_that_can_not_serve(
    sources: list[str], output: str | None, formats: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        names(sources, output, formats)


@pytest.mark.parametrize("stem", ["x" * 250, "é" * 125, "🎉" * 62, "x" * 251 + "ü"])
def test_long_names_are_cut_and_stay_apart(stem: str, tmp_path: Path) -> None:
    twin = stem[:-1] + "y"
    planned = plan(
        [NamedInput(f"in/{stem}"), NamedInput(f"in/{twin}")], FORMATS, output=f"{tmp_path}/"
    )
    for outputs in planned:
        assert len({Path(str(path)).stem for path in outputs.values()}) == 1
        for format, path in outputs.items():
            assert path is not None
            assert path.parent == tmp_path
            open_writer(format, path).close()
    assert len(os.listdir(tmp_path)) == 2 * len(FORMATS)
