"""Live captions on a terminal emulator and on pipes: what was committed stands there once."""

import io
import math
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from livecap.captions.width import columns
from livecap.events import RATE, Caption, Gap, Language, Silence, Stalled, Unrecognised, Word
from livecap.output.live_text import crop, meter, plain, status_line, wrap
from livecap.output.screen import ERASE, Screen
from livecap.output.terminal import PlainTerminal, Status, Terminal, open_terminal

STATUS = Status(-30.0, 1.25, 2.5, False, "listening", "en", 83.0)
XTERM = {"TERM": "xterm-256color"}
FRAME = re.compile(
    re.escape(ERASE) + r"(?P<above>[^\r]*?)"
    r"(\x1b\[\?7l(?P<region>[^\r]*?)\x1b\[\?7h\r(\x1b\[(?P<up>\d+)A)?)?(\x1b\[\?25h)?"
    r"(?=\x1b\[\?25l|$)",
    re.DOTALL,
)
LNM = 20  # a line feed goes to the first column too, as the terminal driver makes it


def said(
    text: str, tail: str = "", *, segment: int = 0, final: bool = False, speaker: str | None = None
) -> Caption:
    """A caption of the words in `text`, each with the space before it."""
    words = tuple(Word(word) for word in re.findall(r"\s*\S+\s*$|\s*\S+", text))
    return Caption(segment, 0, RATE, words, tail=tail, final=final, speaker=speaker)


class Glass:
    """A terminal emulator of a size, with live captions on it."""

    def __init__(
        self,
        width: int = 40,
        height: int = 10,
        *,
        quiet: bool = False,
        no_partials: bool = False,
        environ: dict[str, str] | None = None,
    ) -> None:
        self.now = 0.0
        self.said: list[str] = []  # on standard error
        self.file = io.StringIO()
        self.console = Console(
            file=self.file,
            force_terminal=True,
            width=width,
            height=height,
            legacy_windows=False,
            _environ=environ or XTERM,
        )
        self.screen = pyte.HistoryScreen(width, height, history=100_000)
        self.screen.set_mode(LNM)
        self._stream = pyte.Stream(self.screen)
        self._fed = 0
        self.terminal: Terminal = open_terminal(
            quiet=quiet,
            no_partials=no_partials,
            say=self.said.append,
            console=self.console,
            clock=lambda: self.now,
        )

    def feed(self, *steps: Caption | Silence | Gap | Unrecognised | Language | Status) -> None:
        """Events and states, each long enough after the last for a frame."""
        for step in steps:
            self.now += 1.0
            if isinstance(step, Status):
                self.terminal.status(step)
            else:
                self.terminal.event(step)

    def resize(self, width: int) -> None:
        """Another width, on a terminal that crops rows as xterm does."""
        self.console.width = width
        self._pull()
        self.screen.resize(columns=width)

    def above(self) -> list[str]:
        """The rows that stay, from the first of the scrollback to the cursor."""
        self._pull()
        return self._rows()[: len(self.screen.history.top) + self.screen.cursor.y]

    def region(self) -> list[str]:
        """The rows from the cursor on, without empty ones at the end."""
        self._pull()
        rows = self._rows()[len(self.screen.history.top) + self.screen.cursor.y :]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def dump(self) -> str:
        """Everything, with a line between what stays and the region."""
        return "\n".join([*self.above(), "~" * self.screen.columns, *self.region()])

    def italic(self) -> str:
        """What stands on the screen in italics."""
        self._pull()
        cells = (
            self.screen.buffer[y][x]
            for y in range(self.screen.lines)
            for x in range(self.screen.columns)
        )
        return "".join(cell.data for cell in cells if cell.italics)

    def _rows(self) -> list[str]:
        lines = [*self.screen.history.top, *map(self.screen.buffer.get, range(self.screen.lines))]
        width = self.screen.columns
        return [
            "".join(line[x].data for x in range(width)).rstrip() if line else "" for line in lines
        ]

    def _pull(self) -> None:
        text = self.file.getvalue()
        self._stream.feed(text[self._fed :])
        self._fed = len(text)


def solid(text: str) -> str:
    return "".join(text.split())


def test_words_flow_on_until_a_line_is_full() -> None:
    glass = Glass(width=21)
    glass.feed(said(" And so, my", " fellow"), STATUS)
    assert glass.above() == []
    assert glass.region()[0] == "And so, my [fellow]"
    glass.feed(said(" fellow Americans,", " ask not what"))
    assert glass.above() == ["And so, my fellow"]
    assert glass.region()[:2] == ["Americans, [ask not", "what]"]
    glass.feed(said(" ask not.", final=True))
    assert glass.above() == ["And so, my fellow", "Americans, ask not."]
    assert len(glass.region()) == 1  # the state alone
    glass.feed(said(" Next", segment=1))
    glass.terminal.close()
    glass.terminal.close()
    assert glass.above() == ["And so, my fellow", "Americans, ask not.", "Next"]
    assert glass.region() == []
    assert not glass.screen.cursor.hidden


def test_a_segment_that_never_became_final_ends_its_line() -> None:
    glass = Glass()
    glass.feed(said(" One", " tail"), said(" Two", segment=1))
    assert glass.above() == ["One"]
    assert glass.region() == ["Two"]


alphabet = st.sampled_from(list("abcdefg.,-é[]漢字。、「」ー한😀"))
pieces = st.tuples(st.sampled_from(["", " ", " ", "  "]), st.text(alphabet, min_size=1, max_size=9))
phrases = st.lists(pieces.map("".join), max_size=6)
steps = st.lists(
    st.tuples(
        phrases,  # words that are committed
        phrases.map("".join),  # the tail
        st.booleans(),  # final
        st.sampled_from([0.0, 0.04, 0.2]),  # seconds until then
        st.sampled_from(["", "silence", "status"]),  # what comes between
        st.integers(1, 50),  # columns, where the window changes
    ),
    max_size=12,
)
Steps = Sequence[tuple[list[str], str, bool, float, str, int]]


def perform(glass: Glass, given: Steps, *, resize: bool = False) -> tuple[str, list[list[str]]]:
    """The committed text of the steps, and the rows above the region after each."""
    committed, segment = "", 0
    above: list[list[str]] = []
    for words, tail, final, pause, between, width in given:
        glass.now += pause
        if resize:
            glass.console.width = width
        if between == "silence":
            glass.terminal.event(Silence(0, RATE))
        elif between == "status":
            glass.terminal.status(STATUS)
        event = Caption(segment, 0, RATE, tuple(map(Word, words)), tail=tail, final=final)
        glass.terminal.event(event)
        committed += event.text
        segment += final
        if not resize:
            above.append(glass.above())
    glass.terminal.close()
    return committed, above


@settings(deadline=None)
@given(steps, st.integers(3, 50), st.integers(1, 8))
def test_the_scrollback_is_the_committed_text(given: Steps, width: int, height: int) -> None:
    glass = Glass(width, height)
    committed, above = perform(glass, given)
    rows = glass.above()
    assert solid("".join(rows)) == solid(committed)
    assert all(columns(row) < width for row in rows)
    assert all(rows[: len(earlier)] == earlier for earlier in above)
    assert glass.region() == []


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=30), st.integers(8, 30))
def test_each_word_stands_there_once_and_whole(given: list[tuple[int, bool]], width: int) -> None:
    glass = Glass(width, 4)
    number = segment = 0
    for count, final in given:
        words = tuple(Word(f" w{number + more}") for more in range(count))
        glass.feed(Caption(segment, 0, RATE, words, tail=f" w{number + count} or so", final=final))
        number += count
        segment += final
    glass.terminal.close()
    assert " ".join(glass.above()).split() == [f"w{count}" for count in range(number)]


@settings(deadline=None)
@given(steps)
def test_no_word_is_lost_or_doubled_while_the_window_changes(given: Steps) -> None:
    glass = Glass()
    committed, _ = perform(glass, given, resize=True)
    frames = list(FRAME.finditer(glass.file.getvalue()))
    assert "".join(frame.group() for frame in frames) == glass.file.getvalue()
    assert solid("".join(frame["above"] for frame in frames)) == solid(committed)


@settings(deadline=None)
@given(steps)
def test_a_frame_goes_up_only_what_it_went_down(given: Steps) -> None:
    glass = Glass(30, 5)
    perform(glass, given)
    for frame in FRAME.finditer(glass.file.getvalue()):
        region = frame["region"] or ""
        assert int(frame["up"] or 0) == region.count("\n") <= 4


@settings(deadline=None)
@given(phrases, phrases.map("".join))
def test_the_tail_differs_without_colours(words: list[str], tail: str) -> None:
    glass = Glass(60, 20, environ={**XTERM, "NO_COLOR": "1"})
    glass.feed(STATUS, Caption(0, 0, RATE, tuple(map(Word, words)), tail=tail, final=False))
    shown = solid(tail)
    assert solid(glass.italic()) == (f"[{shown}]" if shown else "")
    assert not re.search(r"\x1b\[[0-9;]*[34]\d", glass.file.getvalue().replace("\x1b[?", ""))
    cells = [cell for row in glass.screen.buffer.values() for cell in row.values()]
    assert {(cell.fg, cell.bg) for cell in cells} <= {("default", "default")}


def test_a_long_tail_shows_its_end() -> None:
    glass = Glass(20, 4)
    glass.feed(STATUS, said(" Yes", " " + " ".join(f"word{n}" for n in range(40))))
    region = glass.region()
    assert len(region) == 4
    assert region[0].startswith("Yes [...")
    assert region[2].endswith("word39]")
    glass.feed(Silence(0, RATE))
    assert glass.region()[0] == "Yes"
    assert len(glass.region()) == 2


def test_no_partials_and_quiet() -> None:
    glass = Glass(no_partials=True, quiet=True)
    glass.feed(STATUS, said(" Yes", " tail"), Language("de", 0.9), Gap(0, RATE, "unplugged"))
    glass.terminal.notice("ready")
    assert glass.region() == ["Yes"]
    assert glass.above() == glass.said == []


def test_stretches_without_text_stand_in_their_place() -> None:
    glass = Glass(60)
    glass.feed(
        said(" One", " tail"),
        Gap(62 * RATE, 65 * RATE, "the microphone is gone"),
        said(" two", " tail"),
        Unrecognised(3600 * RATE, 3605 * RATE, "repetition"),
        said(" three", final=True),
    )
    assert glass.above() == [
        "One",
        "(0:01:02 to 0:01:05: gap; the microphone is gone)",
        "two",
        "(1:00:00 to 1:00:05: speech without text; repetition)",
        "three",
    ]


@pytest.mark.parametrize("quiet", [False, True])
def test_speech_that_makes_no_text_is_a_notice(quiet: bool) -> None:
    """It may still become text, so it is no line of the transcript."""
    glass = Glass(60, quiet=quiet)
    glass.now += 1.0
    glass.terminal.event(Stalled(RATE, 25 * RATE, 21 * RATE))
    told = "0:00:01 to 0:00:25: 21 s of speech made no text; decoded anew"
    assert glass.said == ([] if quiet else [told])
    assert glass.above() == []


def test_notices_go_elsewhere_and_the_language_is_said_once() -> None:
    glass = Glass(60)
    unknown = replace(STATUS, language=None)
    glass.feed(unknown, said(" Ja"), Language("de", 0.97), Language("de", 0.99), unknown)
    glass.terminal.notice("louder\x1b[2J")
    assert glass.said == ["language de (0.97)", "louder\x1b[2J"]  # `say` makes it harmless
    assert glass.region()[0] == "Ja"
    assert re.search(r"\bde\b", glass.region()[1])
    assert glass.above() == []
    glass.terminal.close()
    glass.terminal.notice("bye")
    assert glass.above() == ["Ja"]
    assert not glass.screen.cursor.hidden
    assert glass.said[-1] == "bye"


def test_speakers_have_a_line_each_and_a_label_wherever_they_take_over() -> None:
    glass = Glass(21, 10)
    glass.feed(
        said(" one two three", " x", speaker="Ada"),
        said(" eins", " y", segment=9, speaker="Bob"),
        said(" four five", speaker="Ada"),
    )
    assert glass.above() == ["Ada: one two three"]
    assert glass.region() == ["four five", "Bob: eins [y]"]
    glass.feed(said(" zwei", segment=9, final=True, speaker="Bob"), Silence(0, 1, "Bob"))
    assert glass.region() == ["Ada: four five"]
    glass.feed(said(" six.", final=True, speaker="Ada"))
    glass.terminal.close()
    assert glass.above() == ["Ada: one two three", "Bob: eins zwei", "Ada: four five six."]


def test_text_can_not_steer_the_terminal() -> None:
    glass = Glass(70)
    evil = " a\x1b[2Jb\x07\r\nc\x9b1A\x00\u2028d"
    glass.feed(said(evil, evil + "t"), said(" end", final=True, speaker="\x1b]0;title\x07"))
    assert glass.region() == ["a[2Jb  c1A d [a[2Jb  c1A dt]"]
    glass.feed(Gap(0, RATE, "\x1b[H\n"))
    left = FRAME.sub(lambda frame: frame["above"] + (frame["region"] or ""), glass.file.getvalue())
    left = re.sub(r"\x1b\[[0-9;]*m", "", left)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028]", left)
    assert glass.above() == ["]0;title: end", "a[2Jb  c1A d", "(0:00:00 to 0:00:01: gap; [H )"]
    assert glass.screen.title == ""


def test_an_encoding_that_lacks_characters() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, "ascii", newline="")
    console = Console(file=file, force_terminal=True, width=60, height=5, _environ=XTERM)
    terminal = open_terminal(quiet=False, no_partials=False, say=print, console=console)
    terminal.event(said(" né \ud800漢", " 😀"))
    terminal.close()
    assert rb"n\xe9 \ud800\u6f22" in raw.getvalue()


@pytest.mark.parametrize("narrow", [7, 12, 25])
def test_a_new_width_leaves_no_trace_of_the_old_frame(narrow: int) -> None:
    glass = Glass(60, 30)
    glass.feed(STATUS, said(" one two three four five six", " seven eight nine ten"))
    for width in (narrow, 60, narrow + 1):
        glass.resize(width)
        glass.feed(replace(STATUS, elapsed=glass.now))
        whole = " ".join([*glass.above(), *glass.region()])
        assert whole.count("one") == whole.count("[seven") == whole.count("ten]") == 1
        assert all(columns(row) <= width for row in glass.region())


def test_frames_are_at_most_ten_a_second() -> None:
    glass = Glass(99)
    for number in range(1000):
        glass.now = number / 1000
        glass.terminal.status(replace(STATUS, level=-float(number)))
    frames = FRAME.findall(glass.file.getvalue())
    assert len(frames) == 10
    glass.now = 2.0
    glass.terminal.event(said(" late"))
    glass.now += 0.05
    glass.terminal.event(said(" word"))
    assert glass.region()[0] == "late"
    glass.terminal.close()
    assert glass.above() == ["late word"]


def test_what_has_not_changed_is_not_drawn_again() -> None:
    glass = Glass()
    glass.feed(STATUS, said(" Yes"), STATUS)
    size = len(glass.file.getvalue())
    glass.feed(STATUS, STATUS)
    assert len(glass.file.getvalue()) == size


def test_the_status_line() -> None:
    full = status_line(replace(STATUS, behind=True), "en", 99)
    assert full == (
        "listening  0:01:23  [####----]  -30 dB  lag 1.2 s  2.5 x  en  behind: updates are rarer"
    )
    silent = replace(STATUS, level=-math.inf, speed=0.0, state="finishing", language=None)
    assert status_line(silent, None, 99) == "finishing  0:01:23  [--------]  no sound  lag 1.2 s"
    assert status_line(replace(STATUS, lag=math.inf, level=math.nan), "en", 30)
    assert status_line(replace(STATUS, behind=True), "en", 19) == "lag 1.2 s  behind"
    assert status_line(silent, None, 20) == "finishing  lag 1.2 s"
    for limit in range(100):
        assert columns(status_line(replace(STATUS, behind=True), "en", limit)) <= limit
    assert [meter(level).count("#") for level in (-99.0, -60.0, -15.0, 0.0, 9.0)] == [0, 0, 6, 8, 8]


@given(st.text(alphabet.filter(str.strip) | st.sampled_from(" \u00a0")), st.integers(2, 20))
def test_rows_fit_and_lose_nothing(text: str, limit: int) -> None:
    rows = wrap(text, limit)
    assert solid("".join(rows)) == solid(text)
    assert all(columns(row) <= limit for row in rows)
    assert all(rows)
    assert columns(crop(text, limit)) <= limit


def test_wide_characters_wrap_by_their_columns() -> None:
    assert wrap("今天天气很好，我们去公园。", 10) == ["今天天气很", "好，我们去", "公园。"]
    assert wrap("漢漢漢", 3) == ["漢", "漢", "漢"]
    assert wrap("abcdefgh ij", 3) == ["abc", "def", "gh", "ij"]
    assert wrap("a\u00a0b c", 3) == ["a\u00a0b", "c"]


class Piped:
    """Live captions on what is no terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.raw = io.BytesIO()
        self.said: list[str] = []
        file = io.TextIOWrapper(self.raw, "ascii")
        self.terminal = open_terminal(
            quiet=quiet, no_partials=False, say=self.said.append, file=file
        )

    @property
    def text(self) -> str:
        return self.raw.getvalue().decode()


def test_a_pipe_gets_a_line_for_a_segment_at_once() -> None:
    pipe = Piped()
    pipe.terminal.event(said(" Ask not", " what your"))
    pipe.terminal.status(STATUS)
    assert pipe.text == ""
    pipe.terminal.event(said(" what\u00a0your  country", " can"))
    pipe.terminal.event(said("\u3000can do。 ", final=True))
    assert pipe.text == "Ask not what\u00a0your  country\u3000can do。\n"
    pipe.terminal.event(said("", " x", segment=1, final=True))
    pipe.terminal.event(said(" \n", segment=2, final=True))
    pipe.terminal.event(said(" Bye\x1b[2J\nnow", segment=3, speaker="Ada"))
    assert pipe.text.count("\n") == 1
    pipe.terminal.close()
    pipe.terminal.close()
    assert pipe.text.splitlines()[1:] == ["Ada: Bye[2J now"]


@given(steps)
def test_a_pipe_gets_all_that_is_committed(given: Steps) -> None:
    pipe = Piped()
    expected, now = [""], 0
    for words, tail, final, *_ in given:
        event = Caption(now, 0, RATE, tuple(map(Word, words)), tail=tail, final=final)
        pipe.terminal.event(event)
        expected[-1] += event.text
        now += final
        expected += [""] * final
    pipe.terminal.close()
    assert pipe.text == "".join(f"{line.strip()}\n" for line in expected if line.strip())


@pytest.mark.parametrize("quiet", [False, True])
def test_all_else_goes_to_standard_error(quiet: bool) -> None:
    pipe = Piped(quiet=quiet)
    pipe.terminal.event(Silence(0, RATE))
    pipe.terminal.event(Gap(0, RATE, "lost"))
    pipe.terminal.event(Language("de", 0.5))
    pipe.terminal.event(Language("de", 0.6))
    pipe.terminal.event(Unrecognised(0, 2 * RATE, "no speech", "Ada"))
    pipe.terminal.event(Stalled(2 * RATE, 25 * RATE, 21 * RATE, "Ada"))
    pipe.terminal.notice("ready")
    pipe.terminal.close()
    assert pipe.text == ""
    expected = [
        "0:00:00 to 0:00:01: gap; lost",
        "language de (0.50)",
        "Ada: 0:00:00 to 0:00:02: speech without text; no speech",
        "Ada: 0:00:02 to 0:00:25: 21 s of speech made no text; decoded anew",
        "ready",
    ]
    assert pipe.said == ([] if quiet else expected)


def test_what_is_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    with open(slave, "w", encoding="utf-8") as file:
        monkeypatch.setenv("TERM", "dumb")
        assert isinstance(_opened(file), PlainTerminal)
        monkeypatch.setenv("TERM", "xterm")
        terminal = _opened(file)
        assert isinstance(terminal, Screen)
        terminal.event(said(" Yes", final=True))
        terminal.close()
        assert b"Yes\r\n" in os.read(master, 1000)
    os.close(master)
    monkeypatch.setenv("FORCE_COLOR", "1")  # is about colours, and a pipe stays a pipe
    assert isinstance(_opened(io.StringIO()), PlainTerminal)


def test_a_reader_that_went_away_shows() -> None:
    read, write = os.pipe()
    os.close(read)
    with suppress(BrokenPipeError), open(write, "w", encoding="utf-8") as file:
        terminal = _opened(file)
        with pytest.raises(BrokenPipeError):
            terminal.event(said(" Yes", final=True))
        console = Console(file=file, force_terminal=True, _environ=XTERM)
        screen = open_terminal(quiet=False, no_partials=False, say=print, console=console)
        with pytest.raises(BrokenPipeError):
            screen.event(said(" Yes", final=True))
        with pytest.raises(BrokenPipeError):
            screen.close()


def test_an_output_that_takes_nothing_shows(tmp_path: Path) -> None:
    (tmp_path / "closed").touch()
    with open(tmp_path / "closed") as file, pytest.raises(OSError, match="write"):
        _opened(file).event(said(" Yes", final=True))


def test_plain_text_keeps_what_is_harmless() -> None:
    assert plain("a\tb\u00a0c\x0bd\u3000\x1b[m\x7f\x85") == "a b\u00a0c d\u3000[m "


def _opened(file: TextIO) -> Terminal:
    return open_terminal(quiet=False, no_partials=False, say=print, file=file)


HEBREW = "שלום, עולם!"
FSI, PDI = "\u2068", "\u2069"


@pytest.mark.parametrize("speaker", [None, "left"])
def test_text_from_the_right_is_isolated(speaker: str | None) -> None:
    """Its direction is its own, and that of the label and the other rows stays theirs."""
    glass = Glass()
    glass.feed(said(f" {HEBREW}", f" {HEBREW}", speaker=speaker))
    region = glass.file.getvalue()
    label = f"{speaker}: " if speaker else ""
    assert f"{label}{FSI}{HEBREW}" in region
    glass.feed(said("", final=True, speaker=speaker))
    glass.feed(said(" Hello.", segment=1, final=True, speaker=speaker))
    glass.terminal.close()
    written = glass.file.getvalue()
    assert f"{label}{FSI}{HEBREW}{PDI}\n" in written
    assert f"{label}Hello.\n" in written
    assert written.count(FSI) == written.count(PDI)


def test_pipes_get_no_marks_of_direction() -> None:
    file = io.StringIO()
    lines = PlainTerminal(file, quiet=True, say=lambda told: None)
    lines.event(said(f" {HEBREW}", final=True))
    lines.close()
    assert file.getvalue() == f"{HEBREW}\n"
