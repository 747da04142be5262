"""Cues of several who speak at once: together, readable or counted, and in order."""

import random
import re
from pathlib import Path

import numpy as np
import pytest
from command import Command, clip
from hypothesis import given, settings
from hypothesis import strategies as st
from media import wav
from strict import parse_srt, parse_vtt
from test_cues import captions, letters, lint, spoken

from livecap.captions import PRESETS, Cue, Layout, Unmet, Voices, columns, preset
from livecap.commands.stats import hurried
from livecap.events import RATE, Caption, Event, Gap, Silence, Word
from livecap.output.subtitles import Srt, Vtt

LEFT = "I would like to know whether the parcel has arrived, since it was sent a week ago."
RIGHT = "Let me have a look at that for you, it should have been there on Tuesday at the latest."


def by(speaker: str, text: str, *, start: float = 0.0, each: float = 0.3) -> Caption:
    found = spoken(f" {text}", start=start, each=each)
    later = found.processed_until + 3 * RATE  # the stream has gone on
    return Caption(found.segment, found.start, later, found.words, speaker=speaker)


def shape(feed: list[Caption], layout: Layout, *, label: bool = True) -> tuple[list[Cue], int]:
    voices = Voices(layout, label=label)
    cues = [cue for caption in feed for cue in voices.feed(caption)]
    return cues + voices.close(), voices.fast


def said_by(cues: list[Cue], speaker: str) -> str:
    """What stands in the lines of a speaker, without labels."""
    return " ".join(
        line.removeprefix(f"{speaker}: ")
        for cue in cues
        for who, line in zip(
            cue.speakers or (cue.speaker,) * len(cue.lines), cue.lines, strict=True
        )
        if who == speaker
    )


def read_in_time(cue: Cue, layout: Layout) -> bool:
    width = sum(map(columns, cue.lines)) + len(cue.lines) - 1
    return width * RATE <= layout.max_speed * (cue.end - cue.start)


@pytest.mark.parametrize("name", [name for name in PRESETS if PRESETS[name].together == "lines"])
def test_two_at_once_share_a_cue(name: str) -> None:
    layout = preset(name)
    cues, fast = shape([by("left", LEFT), by("right", RIGHT, start=0.2)], layout)
    lint(cues, layout)
    assert said_by(cues, "left") == LEFT
    assert said_by(cues, "right") == RIGHT
    assert any(set(cue.speakers) == {"left", "right"} for cue in cues)
    assert fast == sum(cue.fast for cue in cues)
    assert all(cue.fast or read_in_time(cue, layout) for cue in cues)
    assert all(cue.end - cue.start >= layout.min_duration for cue in cues)
    last = max(word.end or 0 for text in (LEFT, RIGHT) for word in spoken(text, start=0.2).words)
    assert cues[-1].start < last  # nobody is put off until the others are done


def test_two_at_once_have_cues_that_overlap() -> None:
    layout = preset("dcmp")
    cues, _ = shape([by("left", LEFT), by("right", RIGHT, start=0.2)], layout)
    assert [cue.start for cue in cues] == sorted(cue.start for cue in cues)
    assert said_by(cues, "left") == LEFT
    assert said_by(cues, "right") == RIGHT
    for speaker in ("left", "right"):
        lint([cue for cue in cues if cue.speaker == speaker], layout)
    rights = [cue for cue in cues if cue.speaker == "right"]
    assert abs(rights[0].start - round(0.2 * RATE)) <= layout.lead


@pytest.mark.parametrize("name", PRESETS)
def test_those_who_take_turns_have_cues_of_their_own(name: str) -> None:
    layout = preset(name)
    feed = [
        by("left", "How are you?"),
        by("right", "I am fine, thank you.", start=2.5),
        by("left", "Good.", start=6.0),
    ]
    cues, fast = shape(feed, layout)
    assert [(cue.speaker, cue.speakers) for cue in cues] == [
        ("left", ()),
        ("right", ()),
        ("left", ()),
    ]
    assert fast == 0


def test_a_quick_answer_does_not_make_the_question_flash_by() -> None:
    layout = Layout()
    question = by("left", "Shall we go to the cinema?", each=0.1)
    (cue,), fast = shape([question, by("right", "Yes.", start=0.7)], layout)
    assert cue.speakers == ("left", "right")
    assert cue.lines[1] == "right: Yes."
    assert read_in_time(cue, layout)
    assert fast == 0


@settings(max_examples=80, deadline=None)
@given(st.lists(captions(), max_size=6), st.sampled_from(sorted(PRESETS)))
def test_any_captions_of_any_speakers(feed: list[Caption], name: str) -> None:
    layout = preset(name)
    voices = Voices(layout)
    cues: list[Cue] = []
    said = ""
    for caption in feed:
        cues += voices.feed(caption)
        draft = voices.draft()
        assert voices.draft() == draft
        said += caption.text
        whole = letters("".join(line for cue in [*cues, *draft] for line in cue.lines))
        assert len(whole) == len(letters(said))
    cues += voices.close()
    assert voices.draft() == voices.close() == []
    starts = [cue.start for cue in cues]
    assert starts == sorted(starts)
    if layout.together == "lines":
        lint(cues, layout)
    assert voices.fast == sum(cue.fast for cue in cues)


def test_a_silence_of_one_settles_what_that_one_said() -> None:
    voices = Voices(Layout())
    voices.feed(by("left", "We will go."))
    assert voices.pause(RATE, 9 * RATE, "right") == []
    assert voices.pause(RATE, 9 * RATE, "left") == []  # the other may speak at once
    assert [cue.speaker for cue in voices.pause(9 * RATE, 10 * RATE, "right")] == ["left"]


@pytest.mark.parametrize("seed", range(5))
def test_a_long_call_never_falls_behind(seed: int) -> None:
    """Both speak all the time: cues stay with their words, however long that goes on."""
    rng, layout = random.Random(seed), Layout()
    voices, cues, words = Voices(layout, label=True), list[Cue](), 0
    at = {"left": 0.0, "right": 0.5}
    for _ in range(120):
        speaker = min(at, key=lambda name: at[name])
        text = " ".join(rng.choice(["yes", "certainly", "no", "perhaps."]) for _ in range(12))
        caption = by(speaker, text, start=at[speaker], each=0.25)
        cues += voices.feed(caption)
        at[speaker] = caption.processed_until / RATE - 3 + rng.choice([0.1, 0.6])
        words += 12
    cues += voices.close()
    lint(cues, layout)
    assert sum(len(cue.lines) for cue in cues) > 100
    said = " ".join(line.split(": ", 1)[-1] for cue in cues for line in cue.lines)
    assert len(said.split()) == words
    assert cues[-1].start / RATE == pytest.approx(max(at.values()), abs=5)


def test_files_hold_both_in_one_cue() -> None:
    srt, vtt = Srt(Layout()), Vtt(Layout())
    events: list[Event] = [
        by("left", "I am talking now.", each=0.4),
        by("right", "Me too, me too.", start=0.3, each=0.4),
        Silence(5 * RATE, 20 * RATE, "left"),
        Silence(5 * RATE, 20 * RATE, "right"),
        Gap(20 * RATE, 21 * RATE, "lost"),
    ]
    text = srt.head() + "".join(map(srt.feed, events)) + srt.draft()
    ((_, _, lines),) = parse_srt(text)
    assert lines == "left: I am talking now.\nright: Me too, me too."
    text = vtt.head() + "".join(map(vtt.feed, events)) + vtt.draft()
    assert "<v left>I am talking now.\n<v right>Me too, me too.\n" in text
    parse_vtt(text)


def test_what_could_not_be_met_is_told() -> None:
    voices = Voices(Layout())
    quick = Caption(0, 0, RATE, (Word(" Said in no time at all, by somebody.", 0, RATE // 2),))
    brief = Caption(1, RATE, RATE + RATE // 5, (Word(" Yes.", RATE, RATE + RATE // 8),))
    for caption in (quick, brief):
        voices.feed(caption)
    assert voices.unmet == Unmet(2, 1)
    voices.close()
    assert voices.unmet == Unmet(2, 1), "once, whether final or not"
    assert hurried([Unmet(), voices.unmet], Layout()) == (
        ", 2 captions are faster than 20 characters a second, 1 caption is shorter than 0.83 s"
    )
    assert hurried([Unmet(0, 2)], Layout()) == ", 2 captions are shorter than 0.83 s"
    assert hurried([Unmet()], Layout()) == hurried([], Layout()) == ""


def test_the_breach_is_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a call of two who speak at once, quickly."""
    livecap = Command(monkeypatch, tmp_path)
    left, right = clip("quick_brown_fox"), clip("counting")
    stereo = np.zeros((2, max(len(left), len(right))), np.float32)
    stereo[0, : len(left)], stereo[1, : len(right)] = left, right
    (tmp_path / "call.wav").write_bytes(wav(np.tile(stereo, 2)))
    done = livecap("file", "call.wav", "--channels", "split", "-f", "srt")
    assert done.status == 0
    cues = parse_srt((tmp_path / "call.srt").read_text("utf-8"))
    fast = sum(
        columns(text.replace("\n", " ")) * 1000 > 20 * (end - start) + 20
        for start, end, text in cues
    )
    found = re.search(r"(\d+) captions? (is|are) faster than 20 characters a second", done.err)
    assert fast == (int(found[1]) if found else 0)
