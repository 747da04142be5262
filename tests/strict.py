"""Strict parsers of what the sinks write, and a talk for them to write."""

import json
import re
from itertools import pairwise

from livecap.events import RATE, Caption, Event, Gap, Language, Silence, Unrecognised, Word
from livecap.output import Writer

SRT_TIME = re.compile(
    r"(\d{2,}):([0-5]\d):([0-5]\d),(\d{3}) --> (\d{2,}):([0-5]\d):([0-5]\d),(\d{3})"
)
VTT_TIME = re.compile(SRT_TIME.pattern.replace(",(", r"\.("))


def parse_srt(text: str) -> list[tuple[int, int, str]]:
    """SubRip, strictly: numbers from 1, whole fields, a blank line after every cue."""
    if not text:
        return []
    assert text.endswith("\n\n")
    cues = []
    for number, block in enumerate(text[:-2].split("\n\n"), 1):
        head, time, *lines = block.split("\n")
        assert head == str(number)
        cues.append((*_times(SRT_TIME, time), "\n".join(lines)))
        assert lines
        assert all(line.strip() for line in lines)
    return _in_order(cues)


MARK = re.compile(r"<([\d:.]+)>")  # of a word, inside a cue


def parse_vtt(text: str) -> list[tuple[int, int, str]]:
    """WebVTT, strictly: header, notes and cues, every character that needs it escaped."""
    head, *blocks = text.split("\n\n")
    assert head == "WEBVTT"
    assert blocks.pop() == ""
    cues = []
    for block in blocks:
        if block.startswith("NOTE "):
            assert "-->" not in block
            continue
        time, *lines = block.split("\n")
        payload = "\n".join(lines)
        assert lines
        assert "-->" not in payload
        said = re.sub(r"^<v [^<>\n]+>", "", payload, flags=re.MULTILINE)
        start, end = _times(VTT_TIME, time)
        marks = [_times(VTT_TIME, f"{mark} --> {mark}")[0] for mark in MARK.findall(said)]
        assert all(a < b for a, b in pairwise([start, *marks, end]))
        said = MARK.sub("", said)
        assert not re.search(r"[<>]|&(?!amp;|lt;|gt;)", said)
        said = said.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        cues.append((start, end, said))
    return _in_order(cues)


def _times(pattern: re.Pattern[str], line: str) -> tuple[int, int]:
    found = pattern.fullmatch(line)
    assert found, line
    h, m, s, f, *end = (int(field) for field in found.groups())
    start = ((h * 60 + m) * 60 + s) * 1000 + f
    return start, ((end[0] * 60 + end[1]) * 60 + end[2]) * 1000 + end[3]


def _in_order(cues: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    end = 0
    for start, until, _ in cues:
        assert end <= start < until
        end = until
    return cues


def parse_json(text: str) -> str:
    """OpenAI's verbose_json, strictly; its text."""

    def refuse(name: str) -> None:
        raise AssertionError(name)

    data = json.loads(text, parse_constant=refuse)
    assert {"task", "language", "duration", "text", "segments", "livecap"} <= set(data)
    assert [segment["id"] for segment in data["segments"]] == list(range(len(data["segments"])))
    for segment in data["segments"]:
        assert {"seek", "start", "end", "text", "tokens", "temperature"} <= set(segment)
        assert {"avg_logprob", "compression_ratio", "no_speech_prob"} <= set(segment)
    found = data["text"]
    assert isinstance(found, str)
    return found


def said_in(format: str, content: bytes) -> str:
    """The spoken letters of an output, which has to parse."""
    text = content.decode("utf-8")
    assert "\r" not in text
    if format == "srt":
        return letters(" ".join(words for _, _, words in parse_srt(text)))
    if format == "vtt":
        return letters(" ".join(words for _, _, words in parse_vtt(text)))
    if format == "json":
        return letters(parse_json(text))
    assert text == "" or text.endswith("\n")
    lines = text.removesuffix("\n").split("\n")
    if format == "jsonl":
        records = [json.loads(line) for line in lines if line]
        return letters("".join(r["text"] for r in records if r["type"] == "caption"))
    if format == "tsv":
        if not text:
            return ""  # stopped before its first line
        head, *rows = (line.split("\t") for line in lines)
        assert head == ["start", "end", "text"]
        assert all(int(start) <= int(end) for start, end, _ in rows)
        return letters("".join(row[2] for row in rows))
    return letters(text)


def letters(text: str) -> str:
    return "".join(c for c in text if not c.isspace() and c >= " " and not "\x7f" <= c <= "\x9f")


def caption(text: str, start: float, segment: int = 0, *, final: bool = True) -> Caption:
    """Words of 0.3 s each."""
    words = tuple(
        Word(token, round((start + i * 0.3) * RATE), round((start + i * 0.3 + 0.28) * RATE), 0.5)
        for i, token in enumerate(re.findall(r"\s*\S+", text))
    )
    heard = round((start + len(words) * 0.3) * RATE)
    return Caption(segment, round(start * RATE), heard, words, final=final, language="en")


TALK: list[Event] = [
    Language("en", 0.98),
    caption(" So this is <b>how</b> we & they", 0.5, final=False),
    caption(" talk --> here. 漢字も 🎉", 3.2),
    Silence(6 * RATE, 9 * RATE),
    Caption(1, 9 * RATE, 10 * RATE, (), tail=" maybe", final=False),
    caption(" It\tgoes\non.", 9.0, 1),
    Gap(10 * RATE, 11 * RATE, "packet lost"),
    Unrecognised(11 * RATE, 12 * RATE, "repetition"),
    Caption(2, 12 * RATE, 14 * RATE, (Word(" No"), Word(" times."))),
    caption(" The end", 15.0, 3),
]
WORDS = "".join(event.text for event in TALK if isinstance(event, Caption))


def feed(writer: Writer, events: list[Event]) -> None:
    for event in events:
        writer.write(event)
