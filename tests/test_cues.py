"""The shaper's promises, on made-up talks in several scripts."""

import random
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livecap.captions import PRESETS, Cue, Layout, Shaper, columns, preset
from livecap.captions.pieces import cut
from livecap.captions.width import clusters
from livecap.errors import ConfigError
from livecap.events import RATE, Caption, Word

TALK = (
    "Ladies and gentlemen, it is a great pleasure to welcome Professor Angela Merkel to the "
    "University of Cambridge. She has spent the last twenty years thinking about how people "
    "read captions, and why the line breaks that software chooses are so often in the wrong "
    "place. Yes. I know. Let us begin with the question that everyone asks: who decided this?"
)
CHINESE = (
    "今天天气很好，我们去公园散步吧。你觉得怎么样？"
    "我觉得“非常好”，因为昨天下雨了（真的），所以去走走！"
)
THAI = "สวัสดีครับวันนี้เราจะพูดถึงคำบรรยายสดและวิธีที่ผู้คนอ่านคำบรรยายเหล่านั้นในชีวิตประจำวัน"


def spoken(text: str, *, start: float = 0.0, each: float = 0.3, segment: int = 0) -> Caption:
    """A caption whose words take `each` seconds, with a breath after every sentence."""
    words, time = [], start
    for token in re.findall(r"\s*\S+", text):
        words.append(Word(token, round(time * RATE), round((time + each * 0.9) * RATE)))
        time += each + (0.25 if token[-1] in ".?!" else 0)
    return Caption(segment, round(start * RATE), round(time * RATE), tuple(words))


def unspaced(text: str, language: str) -> Caption:
    """One word a character, 0.2 s each."""
    step = RATE // 5
    parts = clusters(text)
    words = tuple(Word(part, i * step, (i + 1) * step) for i, part in enumerate(parts))
    return Caption(0, 0, len(parts) * step, words, language=language)


def shape(captions: Sequence[Caption], layout: Layout) -> list[Cue]:
    shaper = Shaper(layout)
    cues = [cue for caption in captions for cue in shaper.feed(caption)]
    return cues + shaper.close()


def letters(text: str) -> str:
    return "".join(c for c in text if not c.isspace() and (c >= " ") and not "\x7f" <= c <= "\x9f")


def text_of(cues: Sequence[Cue]) -> str:
    return "".join(line for cue in cues for line in cue.lines)


def lint(cues: Sequence[Cue], layout: Layout) -> None:
    """What holds for every input whatever."""
    end = None
    for cue in cues:
        assert 0 <= cue.start < cue.end
        assert cue.end - cue.start <= layout.max_duration
        assert 1 <= len(cue.lines) <= layout.max_lines
        assert all(line.strip() == line != "" for line in cue.lines)
        assert all(columns(line) <= layout.max_line_width for line in cue.lines)
        assert end is None or cue.start >= end + layout.min_gap
        end = cue.end
        speed = columns(" ".join(cue.lines)) * RATE / (cue.end - cue.start)
        assert cue.fast or speed <= layout.max_speed


texts = st.lists(
    st.one_of(
        st.sampled_from(
            list("abc ABC .,!?'\"-–—«»()。，、「」漢字かなっーไทยำ한국어عرب\n\t\u00a0")
        ),
        st.sampled_from(["👩‍👩‍👧", "🇩🇪", "e\u0301", "\u200d", "\ufe0f", "\x00", "\u2028", "न्"]),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=30,
).map("".join)
times = st.one_of(st.none(), st.integers(-RATE, 40 * RATE))


@st.composite
def captions(draw: st.DrawFn) -> Caption:
    """Anything the types allow, ordered or not."""
    words = draw(st.lists(st.builds(Word, texts, times, times), max_size=12))
    start = draw(st.integers(0, 40 * RATE))
    heard = start + draw(st.integers(0, 30 * RATE))
    speaker = draw(st.sampled_from([None, None, "Ann", "Bob"]))
    language = draw(st.sampled_from([None, "en", "de", "zh"]))
    segment, final = draw(st.integers(0, 2)), draw(st.booleans())
    return Caption(segment, start, heard, tuple(words), "", final, language, speaker)


@settings(max_examples=150, deadline=None)
@given(st.lists(captions(), max_size=5), st.integers(8, 42), st.integers(1, 4))
def test_any_captions_make_sound_cues_and_lose_nothing(
    feed: list[Caption], width: int, lines: int
) -> None:
    layout = preset("netflix").with_limits(max_line_width=width, max_lines=lines)
    cues = shape(feed, layout)
    lint(cues, layout)
    assert letters(text_of(cues)) == letters("".join(caption.text for caption in feed))
    spoken_by = [(cue.speaker, letters(text_of([cue]))) for cue in cues]
    for speaker in {speaker for speaker, _ in spoken_by}:
        mine = "".join(text for name, text in spoken_by if name == speaker)
        assert mine == letters("".join(c.text for c in feed if c.speaker == speaker))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(sorted(PRESETS)), st.sampled_from([1, 3, 8, 40]))
def test_a_talk_keeps_to_its_words_in_every_preset(seed: int, name: str, chunk: int) -> None:
    """Whole or a few words at a time: cues start with their first word and end after the last."""
    rng, layout, time = random.Random(seed), preset(name), 0.0
    words: list[Word] = []
    for token in TALK.split():
        length = rng.uniform(0.1, 0.4)
        words.append(Word(" " + token, round(time * RATE), round((time + length) * RATE)))
        time += length + rng.choice([0, 0, 0, 0.05, 0.4, 2.5])
    end = round(time * RATE) + 3 * RATE
    parts = [tuple(words[i : i + chunk]) for i in range(0, len(words), chunk)]
    feed = [Caption(0, p[0].start or 0, p[-1].end or 0, p, final=p is parts[-1]) for p in parts]
    shaper = Shaper(layout)
    cues = [cue for caption in feed for cue in shaper.feed(caption)]
    cues += shaper.pause(feed[-1].processed_until, end)
    assert shaper.draft() == []  # 3 s of silence settle the last one
    lint(cues, layout)
    rest = list(words)
    for cue in cues:
        mine = [rest.pop(0) for _ in " ".join(cue.lines).split()]
        first, last = mine[0].start, mine[-1].end
        assert first is not None
        assert last is not None
        assert 0 <= cue.start - first <= layout.lead
        assert cue.end <= last + layout.hang_over
        assert not cue.estimated
        following = rest[0].start if rest else None
        if following is None or following - cue.start > layout.min_duration + layout.min_gap:
            assert cue.end >= min(cue.start + layout.min_duration, last + layout.hang_over)
    assert not rest


@pytest.mark.parametrize("name", PRESETS)
def test_presets_break_at_sense_units(name: str) -> None:
    cues = shape([spoken(TALK)], preset(name))
    lint(cues, preset(name))
    ends = [line.split()[-1] for cue in cues for line in cue.lines]
    assert not {"the", "a", "of", "to", "and", "Angela"} & set(ends)
    assert "Ladies and gentlemen," in cues[0].lines or cues[0].lines[0].startswith("Ladies")


def test_two_lines_are_balanced_and_heavier_below() -> None:
    (cue,) = shape([spoken("we never thought that it would come to this")], Layout())
    assert cue.lines == ("we never thought", "that it would come to this")


def test_short_text_stays_on_one_line() -> None:
    (cue,) = shape([spoken("Yes, of course. We know.", each=0.2)], Layout())
    assert cue.lines == ("Yes, of course. We know.",)


@pytest.mark.parametrize(("text", "language"), [(CHINESE, "zh"), (THAI, "th")])
def test_scripts_without_spaces(text: str, language: str) -> None:
    layout = preset("live608")
    cues = shape([unspaced(text, language)], layout)
    lint(cues, layout)
    assert text_of(cues) == text
    for cue in cues:
        for line in cue.lines:
            assert line[0] not in "，。？！”）า"
            assert line[-1] not in "“（เแ"


def test_french_punctuation_stays_with_its_word() -> None:
    layout = Layout(max_line_width=12, max_lines=4)
    cues = shape([spoken("Mais comment allez-vous ? « Très bien »")], layout)
    lines = [line for cue in cues for line in cue.lines]
    assert not any(line.startswith(("?", "»")) or line.endswith("«") for line in lines)


def test_a_word_wider_than_a_line_is_broken_hard() -> None:
    cues = shape([spoken("x" * 100)], Layout(max_line_width=20))
    assert text_of(cues) == "x" * 100
    assert all(len(line) <= 20 for cue in cues for line in cue.lines)


def test_silence_stays_empty() -> None:
    words = (Word(" one", 0, 8000), Word(" two", 6 * RATE, 6 * RATE + 8000))
    one, two = shape([Caption(0, 0, 7 * RATE, words)], Layout())
    assert one.end <= 8000 + Layout().hang_over
    assert two.start == 6 * RATE


def test_a_sentence_after_a_pause_begins_a_cue() -> None:
    words = (Word(" Stop.", 0, 8000), Word(" Go", 8000 + RATE // 2, 9000 + RATE // 2))
    assert [cue.lines for cue in shape([Caption(0, 0, RATE, words)], Layout())] == [
        ("Stop.",),
        ("Go",),
    ]


def test_a_cue_stays_long_enough_to_read_but_not_into_the_next() -> None:
    quick = spoken("this is said in no time at all really", each=0.1)
    late = spoken("later", start=4.0)
    first, _ = shape([quick, late], Layout())
    assert not first.fast
    assert first.end - first.start == columns(" ".join(first.lines)) * RATE // 20
    close = spoken("next", start=1.0, segment=1)
    first, second = shape([quick, Caption(1, RATE, 2 * RATE, close.words, speaker="B")], Layout())
    assert first.fast
    assert second.start - first.end == Layout().min_gap


def test_a_fast_cue_borrows_from_the_one_after_it() -> None:
    """The next may begin a little later, and has silence behind it for that."""
    quick = spoken("If anything should try to break in here I can hear it.", each=0.2)
    end = quick.processed_until / RATE
    slow = spoken("Yes.", start=end, segment=1)
    first, second = shape(
        [quick, Caption(1, slow.start, slow.processed_until + RATE, slow.words, speaker="B")],
        Layout(),
    )
    assert not first.fast
    assert quick.processed_until < second.start <= quick.processed_until + Layout().lead
    assert second.end - second.start >= Layout().min_duration


def test_a_cue_does_not_end_inside_a_phrase() -> None:
    phrase = "Why did the Lord give us so much quickness of movement"
    first, second = shape([spoken(f"{phrase} unless it was to avoid responsibility?")], Layout())
    assert " ".join(first.lines) == phrase
    assert second.lines[0].startswith("unless")


def test_small_gaps_are_closed() -> None:
    one = spoken("One sentence that is long enough.", each=0.4)
    two = spoken("And another.", start=one.processed_until / RATE + 0.2, segment=1)
    first, second = shape([one, two], Layout())
    assert second.start - first.end == Layout().min_gap


def test_adjacent_captions_share_a_cue_and_distant_ones_do_not() -> None:
    parts = [spoken("we will go", each=0.3), spoken(" to the sea", start=0.9, each=0.3)]
    assert [cue.lines for cue in shape(parts, Layout())] == [("we will go to the sea",)]
    parts = [parts[0], spoken("to the sea", start=2.0, segment=1)]
    assert [cue.lines for cue in shape(parts, Layout())] == [("we will go",), ("to the sea",)]


def test_a_caption_without_leading_space_is_set_apart_only_across_segments() -> None:
    one, two = spoken("over"), Caption(1, 5000, 9000, (Word("there", 5000, 9000),))
    assert shape([one, two], Layout())[0].lines == ("over there",)
    two = Caption(0, 5000, 9000, (Word("all", 5000, 9000),))
    assert shape([one, two], Layout())[0].lines == ("overall",)


def test_speakers_never_share_a_cue() -> None:
    ann = Caption(0, 0, RATE, (Word(" yes", 0, 8000),), speaker="Ann")
    bob = Caption(1, 0, RATE, (Word(" no", 8000, 16000),), speaker="Bob")
    cues = shape([ann, bob], Layout())
    assert [(cue.speaker, cue.lines) for cue in cues] == [("Ann", ("yes",)), ("Bob", ("no",))]


def test_talk_over_waits_its_turn_and_says_so() -> None:
    ann = Caption(0, 0, 4 * RATE, spoken("I am talking now and for long").words, speaker="Ann")
    bob = Caption(1, 0, 4 * RATE, spoken("me too").words, speaker="Bob")
    first, second = shape([ann, bob], Layout())
    assert first.end - first.start >= Layout().min_duration
    assert second.start == first.end + Layout().min_gap
    assert second.estimated


def test_labels_count_for_the_width() -> None:
    shaper = Shaper(Layout(), label=True)
    words = spoken(TALK).words
    cues = shaper.feed(Caption(0, 0, 30 * RATE, words, speaker="The Right Honourable Speaker"))
    cues += shaper.close()
    lint(cues, Layout())
    assert all(cue.lines[0].startswith("The Right Honourabl: ") for cue in cues)


def test_words_without_times_share_the_span_and_are_marked() -> None:
    words = (Word(" aaaa"), Word(" bb"), Word(" cc"))
    pieces = cut(Caption(0, RATE, 3 * RATE, words), 42)
    assert [(p.start, p.end) for p in pieces] == [
        (RATE, 2 * RATE),
        (2 * RATE, RATE * 5 // 2),
        (RATE * 5 // 2, 3 * RATE),
    ]
    (cue,) = shape([Caption(0, RATE, 3 * RATE, words)], Layout())
    assert cue.estimated
    assert cue.start == RATE


def test_few_untimed_words_do_not_fill_a_long_span() -> None:
    (cue,) = shape([Caption(0, 0, 20 * RATE, (Word(" Thank"), Word(" you.")))], Layout())
    assert cue.end <= 4 * RATE


def test_a_draft_shows_what_is_held_and_changes_nothing() -> None:
    shaper = Shaper(Layout())
    assert shaper.feed(spoken("we will go")) == []
    draft = shaper.draft()
    assert [cue.lines for cue in draft] == [("we will go",)]
    assert shaper.draft() == draft == shaper.close()
    assert shaper.draft() == shaper.close() == []


def test_a_silence_settles_the_held_cue_only_if_it_follows() -> None:
    shaper = Shaper(Layout())
    shaper.feed(spoken("we will go"))
    assert shaper.pause(5 * RATE, 9 * RATE) == []  # what is said before is not known yet
    assert shaper.pause(RATE, RATE * 3 // 2) == []
    assert len(shaper.pause(RATE, 5 * RATE)) == 1


def test_the_last_cue_ends_with_the_media() -> None:
    shaper = Shaper(Layout())
    shaper.feed(Caption(0, 0, 6000, (Word(" bye", 0, 5000),)))
    (cue,) = shaper.close()
    assert cue.end == 6000


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("abc", 3),
        ("漢字", 4),
        ("e\u0301te\u0301", 3),
        ("한국", 4),
        ("\u1112\u1161\u11ab", 2),
        ("👍🏽", 2),
        ("👩‍👩‍👧", 2),
        ("🇩🇪🇫🇷", 4),
        ("❤\ufe0f", 2),
        ("ｱ", 1),
        ("", 0),
    ],
)
def test_display_width(text: str, width: int) -> None:
    assert columns(text) == width


def test_limits_are_checked() -> None:
    assert preset("netflix").with_limits(max_line_width=20, max_lines=1).max_line_width == 20
    assert preset("netflix").with_limits() == preset("netflix")
    for bad in ({"max_line_width": 7}, {"max_lines": 0}, {"max_lines": 5}):
        with pytest.raises(ConfigError):
            preset("netflix").with_limits(
                max_line_width=bad.get("max_line_width"), max_lines=bad.get("max_lines")
            )
    with pytest.raises(ConfigError, match="netflix, bbc, dcmp, live608"):
        preset("cinema")
