"""What every format writes parses at every moment and reads back as it was said."""

import io
import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strict import TALK, caption, feed, letters, parse_srt, said_in

from livecap.captions import Layout
from livecap.errors import ConfigError
from livecap.events import (
    RATE,
    Caption,
    Event,
    Gap,
    Language,
    Scores,
    Silence,
    Stalled,
    Unrecognised,
    Word,
)
from livecap.output import FORMATS, Options, format_of, is_complete, marker, open_writer
from livecap.output.lines import record
from livecap.output.times import clock, milliseconds


@pytest.mark.parametrize("format", FORMATS)
def test_the_file_parses_after_every_event_and_holds_all_text(format: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / f"talk.{format}"
    writer = open_writer(format, path, options=Options(words=True, marked=True))
    said = ""
    for event in TALK:
        writer.write(event)
        said += event.text if isinstance(event, Caption) else ""
        expected = letters(said).replace("-->", "->" if format == "srt" else "-->")
        assert said_in(format, path.read_bytes()) == expected
        assert marker(path).exists()
        assert not is_complete(path)
    writer.close()
    assert said_in(format, path.read_bytes()) == expected
    assert is_complete(path)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("format", FORMATS)
def test_a_stream_gets_what_a_file_gets(format: str, tmp_path: Path) -> None:
    path, stream = tmp_path / "talk", io.BytesIO()
    for target in (path, stream):
        writer = open_writer(format, target)
        feed(writer, TALK)
        writer.close()
    assert stream.getvalue() == path.read_bytes()


texts = st.text(
    st.one_of(
        st.sampled_from(list("ab <>&-\"'\\{}\t\n\r\x00\u2028\x85\u00a0漢。")), st.characters()
    ),
    max_size=20,
)
moments = st.one_of(st.none(), st.integers(0, 100 * RATE))
numbers = st.floats()
spans = st.tuples(st.integers(0, 50 * RATE), st.integers(0, 50 * RATE)).map(
    lambda pair: (min(pair), max(pair))
)
events = st.one_of(
    st.builds(
        lambda words, span, scores, speaker, final: Caption(
            0, span[0], span[1], tuple(words), final=final, speaker=speaker, scores=scores
        ),
        st.lists(st.builds(Word, texts, moments, moments, numbers), max_size=4),
        spans,
        st.none() | st.builds(Scores, st.just((1, 2)), numbers, numbers, numbers, numbers),
        st.none() | texts,
        st.booleans(),
    ),
    st.builds(lambda span, speaker: Silence(span[0], span[1], speaker), spans, st.none() | texts),
    st.builds(lambda span, reason: Gap(span[0], span[1], reason), spans, texts),
    st.builds(lambda span, reason: Unrecognised(span[0], span[1], reason), spans, texts),
    st.builds(
        lambda span, voiced: Stalled(span[0], span[1], voiced), spans, st.integers(0, 50 * RATE)
    ),
    st.builds(Language, texts, numbers),
)


def test_a_stall_is_told_to_programs_alone() -> None:
    """It says nothing of what was said: captions may follow."""
    stall = Stalled(RATE, 25 * RATE, 21 * RATE, "Ada")
    assert record(stall) == {
        "type": "stalled", "start": 1.0, "end": 25.0, "voiced": 21.0, "speaker": "Ada"
    }  # fmt: skip
    for format in set(FORMATS) - {"jsonl"}:
        streams = io.BytesIO(), io.BytesIO()
        silence = Silence(0, 25 * RATE)
        told: tuple[list[Event], ...] = ([stall, silence], [silence])
        for stream, some in zip(streams, told, strict=True):
            writer = open_writer(format, stream)
            feed(writer, some)
            writer.close()
        assert streams[0].getvalue() == streams[1].getvalue()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(FORMATS), st.lists(events, max_size=6))
def test_any_events_parse(format: str, given: list[Event]) -> None:
    stream = io.BytesIO()
    writer = open_writer(format, stream, options=Options(words=True, marked=True))
    feed(writer, given)
    writer.close()
    said = said_in(format, stream.getvalue())
    if all(event.speaker is None for event in given if isinstance(event, Caption)):
        whole = letters("".join(event.text for event in given if isinstance(event, Caption)))
        whole = whole.encode("utf-8", "replace").decode()
        if format == "srt":
            assert said == letters(whole.replace("-->", "->"))
        elif format not in {"jsonl"}:
            assert said == whole


@settings(max_examples=40, deadline=None)
@given(given=st.lists(events, max_size=6), format=st.sampled_from(FORMATS))
def test_any_events_parse_on_disk_after_each(
    tmp_path_factory: pytest.TempPathFactory, format: str, given: list[Event]
) -> None:
    path = tmp_path_factory.mktemp("any") / "talk"
    writer = open_writer(format, path)
    said_in(format, path.read_bytes())
    for event in given:
        writer.write(event)
        said_in(format, path.read_bytes())
    writer.close()
    said_in(format, path.read_bytes())


def test_json_grows_in_place_and_ends_compact(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    writer = open_writer("json", path, options=Options(words=True, language="de"))
    swaps, inode = 0, path.stat().st_ino
    for n in range(400):
        writer.write(caption(f" number {n} of many", n * 2.0, n))
        swaps += path.stat().st_ino != inode
        inode = path.stat().st_ino
    assert swaps < 30  # whole rewrites; the rest were small writes in place
    writer.close()
    data = json.loads(path.read_text("utf-8"))
    assert path.read_bytes() == path.read_bytes().strip() + b"\n"
    assert b"  " not in path.read_bytes()
    assert len(data["segments"]) == 400
    assert len(data["words"]) == 1600
    assert data["language"] == "de"
    assert data["duration"] == 799.2
    assert data["livecap"] == {"complete": True, "gaps": [], "unrecognised": []}
    assert data["text"].startswith("number 0 of many number 1")


def test_json_in_full(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    writer = open_writer("json", path, options=Options(words=True))
    scores = Scores((7, 8), 0.0, float("nan"), 1.25, float("inf"))
    words = (Word(" Hello", 8000, 12000, 0.5), Word(" you.", 12000, 20001, float("nan")))
    writer.write(Caption(0, 8000, 24000, words, language="en", speaker="left", scores=scores))
    writer.write(Gap(24000, 32000, "lost"))
    writer.close()
    assert json.loads(path.read_text("utf-8")) == {
        "task": "transcribe",
        "language": "en",
        "duration": 2.0,
        "text": "Hello you.",
        "segments": [
            {
                "id": 0,
                "seek": 50,
                "start": 0.5,
                "end": 1.25,
                "text": " Hello you.",
                "tokens": [7, 8],
                "temperature": 0.0,
                "avg_logprob": 0.0,
                "compression_ratio": 1.25,
                "no_speech_prob": 0.0,
                "speaker": "left",
            }
        ],
        "words": [
            {"word": "Hello", "start": 0.5, "end": 0.75, "probability": 0.5},
            {"word": "you.", "start": 0.75, "end": 1.25, "probability": None},
        ],
        "livecap": {
            "complete": True,
            "gaps": [{"start": 1.5, "end": 2.0, "reason": "lost"}],
            "unrecognised": [],
        },
    }


def test_json_has_words_only_if_timed_and_asked_for() -> None:
    for asked, events, there in (
        (True, [TALK[8]], False),
        (False, [TALK[1]], False),
        (True, [TALK[1]], True),
    ):
        stream = io.BytesIO()
        writer = open_writer("json", stream, options=Options(words=asked))
        feed(writer, events)
        writer.close()
        assert ("words" in json.loads(stream.getvalue())) is there


def test_json_sets_segments_apart() -> None:
    stream = io.BytesIO()
    writer = open_writer("json", stream)
    for segment, text in enumerate(["One.", "Two", "漢", "字"]):
        writer.write(Caption(segment, 0, RATE, (Word(text),)))
    writer.close()
    assert json.loads(stream.getvalue())["text"] == "One. Two漢字"


def test_subtitles_in_full() -> None:
    events: list[Event] = [
        Caption(0, 0, RATE, (Word(" Yes & no.", 160, 16000),), speaker="Ann <A>"),
        Silence(RATE, 6 * RATE),
        Caption(1, 6 * RATE, 8 * RATE, (Word(" Perhaps."),)),
    ]
    outputs = {}
    for format in ("srt", "vtt", "txt", "tsv"):
        stream = io.BytesIO()
        writer = open_writer(format, stream)
        feed(writer, events)
        writer.close()
        outputs[format] = stream.getvalue().decode()
    assert outputs["srt"] == (
        "1\n00:00:00,010 --> 00:00:01,000\nAnn <A>: Yes & no.\n\n"
        "2\n00:00:06,000 --> 00:00:08,000\nPerhaps.\n\n"
    )
    assert outputs["vtt"] == (
        "WEBVTT\n\n00:00:00.010 --> 00:00:01.000\n<v Ann &lt;A&gt;>Yes &amp; no.\n\n"
        "NOTE times from here on are estimated\n\n00:00:06.000 --> 00:00:08.000\nPerhaps.\n\n"
    )
    assert outputs["txt"] == "Ann <A>: Yes & no.\nPerhaps.\n"
    assert outputs["tsv"] == "start\tend\ttext\n10\t1000\tYes & no.\n6000\t8000\tPerhaps.\n"


def test_vtt_has_the_times_of_words_if_asked_for() -> None:
    words = (
        Word(" One", 0, 4000),
        Word(" two", 8000, 12000),
        Word(" & <three>", 12000, 15000),
        Word(" and many", None, None),
        Word(" more of four.", 24000, 32000),
    )
    events: list[Event] = [Caption(0, 0, 2 * RATE, words, speaker="A")]
    texts = {}
    for marked in (False, True):
        stream = io.BytesIO()
        writer = open_writer("vtt", stream, options=Options(marked=marked))
        feed(writer, events)
        writer.close()
        texts[marked] = stream.getvalue().decode()
    head = "WEBVTT\n\n00:00:00.000 --> 00:00:02.000\n<v A>"
    assert texts[False] == f"{head}One two &amp; &lt;three&gt; and many more of four.\n\n"
    assert texts[True] == (
        f"{head}One <00:00:00.500>two <00:00:00.750>&amp; &lt;three&gt; and many "
        "<00:00:01.500>more of four.\n\n"
    )


def test_text_goes_on_in_its_line_until_the_stretch_is_final() -> None:
    stream = io.BytesIO()
    writer = open_writer("txt", stream)
    seen = []
    for event in (
        caption(" One", 0, final=False),
        caption(" two", 1),
        caption(" three", 2, 1, final=False),
        caption(" four", 3, 2, final=False),
        Caption(2, RATE, RATE, (), final=True),
    ):
        writer.write(event)
        seen.append(stream.getvalue().decode())
    writer.close()
    assert seen == ["One", "One two\n", "One two\nthree", "One two\nthree\nfour", seen[3] + "\n"]
    assert stream.getvalue().decode() == seen[4]


def test_json_lines_name_every_event() -> None:
    stream = io.BytesIO()
    writer = open_writer("jsonl", stream)
    feed(writer, TALK)
    writer.close()
    records = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [record["type"] for record in records] == [
        *("language", "caption", "caption", "silence", "caption", "caption", "gap"),
        *("unrecognised", "caption", "caption"),
    ]
    assert records[4]["tail"] == " maybe"
    assert records[6] == {"type": "gap", "start": 10.0, "end": 11.0, "reason": "packet lost"}


@given(st.integers(0, 10**13))
def test_times_round_once(samples: int) -> None:
    milli = milliseconds(samples)
    assert abs(milli * RATE - samples * 1000) * 2 <= RATE
    found = re.fullmatch(r"(\d{2,}):([0-5]\d):([0-5]\d),(\d{3})", clock(samples, ","))
    assert found
    h, m, s, f = map(int, found.groups())
    assert ((h * 60 + m) * 60 + s) * 1000 + f == milli


def test_times_at_the_edges() -> None:
    assert clock(RATE - 1, ",") == "00:00:01,000"
    assert clock(100 * 3600 * RATE, ".") == "100:00:00.000"


def test_options_reach_the_cues() -> None:
    stream = io.BytesIO()
    writer = open_writer("srt", stream, options=Options(layout=Layout(max_line_width=10)))
    feed(writer, TALK)
    writer.close()
    assert all(len(line) <= 10 for _, _, text in parse_srt(stream.getvalue().decode())
               for line in text.split("\n"))  # fmt: skip


def test_unknown_formats_list_the_known() -> None:
    with pytest.raises(ConfigError, match="txt, srt, vtt, json, jsonl, tsv"):
        open_writer("docx", io.BytesIO())
    assert format_of("a/b.VTT") == "vtt"
    assert format_of("a/b.mp3") is format_of("srt") is None
