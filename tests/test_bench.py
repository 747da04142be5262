"""`livecap bench`: the measures on made-up captions, and a recording through the live path."""

import json
from pathlib import Path

import pytest
from command import JFK, SPEECH, Command
from hypothesis import given
from hypothesis import strategies as st

from livecap.checkpoints import resolve
from livecap.commands import bench_measures as measures
from livecap.commands.bench import BenchConfig, run_bench
from livecap.commands.bench_runs import perform, read
from livecap.config import DecodeConfig, LiveOptions, ModelConfig, VadConfig
from livecap.errors import ConfigError, EngineFault
from livecap.events import RATE, Caption, Word
from livecap.models import load
from livecap.models.load import Loaded
from livecap.models.protocol import DecodeSteps
from livecap.models.streams import live_config
from livecap.online.config import StreamConfig
from livecap.vad import silero as vad

WORDS = st.lists(st.sampled_from("abc"), max_size=7)


def caption(text: str = "", tail: str = "", *, heard: float = 0.0, final: bool = False) -> Caption:
    """Words without times."""
    said = tuple(Word(f" {word}") for word in text.split())
    return Caption(0, 0, round(heard * RATE), said, tail, final)


def timed(text: str) -> list[Word]:
    """The n-th word ends at n seconds."""
    return [Word(f" {word}", (n - 1) * RATE, n * RATE) for n, word in enumerate(text.split(), 1)]


def spans(*seconds: tuple[float, float]) -> list[tuple[int, int]]:
    return [(round(start * RATE), round(stop * RATE)) for start, stop in seconds]


# Delays


def test_delays_leave_out_what_is_unknown() -> None:
    found = measures.delays([1.0, None, 3.0, 2.0])
    assert (found.p50, found.count, found.missing) == (2.0, 3, 1)
    assert 2.0 < (found.p95 or 0) <= 3.0


def test_no_delays_at_all() -> None:
    assert measures.delays([None]) == measures.DelayPercentiles(None, None, 0, 1)


def test_a_word_is_late_by_its_commit_minus_its_end() -> None:
    one = Caption(0, 0, RATE, tuple(timed("so it is")[:2]))
    assert measures.word_delays([(2.5, one)], []) == [1.5, 0.5]


def test_words_without_times_take_those_of_the_same_words() -> None:
    captions = [(4.0, caption("And so")), (5.0, caption("we go"))]
    assert measures.word_delays(captions, timed("and, so they go")) == [3.0, 2.0, None, 1.0]


def test_without_any_times_no_delay_is_made_up() -> None:
    assert measures.word_delays([(4.0, caption("a b"))], []) == [None, None]


def test_short_pauses_belong_to_a_stretch() -> None:
    speech = spans((1, 2), (2.5, 3), (5, 6))
    assert measures.joined(speech, RATE) == spans((1, 3), (5, 6))
    assert measures.joined([], RATE) == []


def test_the_first_text_of_a_stretch_may_be_a_tail() -> None:
    captions = [
        (1.5, caption(heard=1.2)),  # nothing to be seen
        (2.0, caption(tail=" so", heard=1.5)),
        (3.0, caption("so", heard=2.0)),
        (7.0, caption("well", heard=5.5)),
    ]
    assert measures.first_delays(captions, spans((1, 2), (5, 6))) == [1.0, 2.0]


def test_text_of_the_speech_before_is_no_answer() -> None:
    captions = [(5.5, caption("late", heard=2.3)), (7.0, caption("well", heard=5.5))]
    assert measures.first_delays(captions, spans((5, 6))) == [2.0]


def test_a_stretch_that_nothing_answers_is_not_measured_by_the_next() -> None:
    captions = [(7.0, caption("well", heard=6.2, final=True))]
    assert measures.first_delays(captions, spans((1, 2), (5, 6))) == [None, 2.0]
    assert measures.final_delays(captions, spans((1, 2), (5, 6))) == [None, 1.0]


def test_all_is_said_when_nothing_is_open_any_more() -> None:
    captions = [
        (2.0, caption("so", heard=1.5)),  # did not hear the end
        (2.5, caption("so", tail=" it", heard=2.2)),
        (3.0, caption("it", heard=2.2)),
        (4.0, caption("is", heard=2.2)),
    ]
    assert measures.final_delays(captions, spans((1, 2))) == [1.0]


# Flicker


def test_a_tail_that_is_kept_is_no_flicker() -> None:
    captions = [(1.0, caption(tail=" so it")), (2.0, caption("so", " it is")), (3.0, caption("it"))]
    assert measures.erasure([captions]) == 1 / 2  # `is` was never said


def test_a_changed_word_takes_back_all_behind_it() -> None:
    captions = [(1.0, caption(tail=" so it is")), (2.0, caption("so that is so"))]
    assert measures.erasure([captions]) == 2 / 4


def test_sessions_do_not_take_back_each_others_words() -> None:
    one = [(1.0, caption("a", " b")), (2.0, caption("b"))]
    assert measures.erasure([one, one]) == 0
    assert measures.erasure([]) is None


# Errors


def test_words_leave_case_and_marks_aside() -> None:
    assert measures.words("“Don’t”, he said: DON'T; well-known…") == [
        *("dont", "he", "said", "dont", "well", "known")
    ]


def test_words_of_other_scripts() -> None:
    assert measures.words("नमस्ते दुनिया।") == ["नमस्ते", "दुनिया"]
    assert measures.words("こんにちは。") == list("こんにちは")


def test_word_errors() -> None:
    assert measures.error_rate("a b c d", ["A b. d", "a b x c d"]) == (1 + 1) / 8
    assert measures.error_rate("", ["a"]) is None
    assert measures.error_rate("a b", [""]) == 1


@given(WORDS, WORDS)
def test_edits_are_those_of_the_textbook(some: list[str], others: list[str]) -> None:
    table = [[n] + [0] * len(others) for n in range(len(some) + 1)]
    table[0] = list(range(len(others) + 1))
    for row, one in enumerate(some, 1):
        for column, other in enumerate(others, 1):
            table[row][column] = min(
                table[row - 1][column] + 1,
                table[row][column - 1] + 1,
                table[row - 1][column - 1] + (one != other),
            )
    assert measures.edits(some, others) == table[-1][-1]


# The command


@pytest.fixture
def livecap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    return Command(monkeypatch, tmp_path)


def test_a_recording_on_the_virtual_clock(
    livecap: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = tmp_path / "talk.txt"
    reference.write_text(SPEECH, "utf-8")
    assert run_bench(str(JFK), BenchConfig(json=True, reference=str(reference))) == 0
    found = json.loads(capsys.readouterr().out)
    assert livecap.loads == 1
    assert (found["model"], found["policy"], found["realtime"]) == ("tiny.en", "align-att", False)
    assert found["audio"] == pytest.approx(11.0, abs=0.1)
    quality, cost = found["quality"], found["cost"]
    assert (quality["against"], quality["timed_by"]) == ("reference", "live alignment")
    assert quality["settled_wer"] < 0.2
    assert quality["live_wer"] < 0.5
    assert quality["commit"]["count"] + quality["commit"]["missing"] > 15
    for delays in (quality["commit"], quality["first"], quality["final"]):
        assert 0 < delays["p50"] <= delays["p95"]
    assert 0 <= quality["erasure"] < 2
    assert cost["core_seconds"] > 0
    assert cost["capacity"] == pytest.approx(1 / cost["rtf"], rel=0.2)
    assert 0.2 < cost["works"] < 2


def prepared() -> tuple[Loaded, StreamConfig]:
    """The embedded model, and how it likes to hear."""
    loaded = load.load_model(resolve("tiny.en"), ModelConfig())
    return loaded, live_config(loaded.model, LiveOptions(), vad=VadConfig(), language="en")


def test_sessions_in_real_time_hear_the_same(livecap: Command) -> None:
    loaded, config = prepared()
    clock = [100.0]

    def wait(seconds: float) -> None:
        clock[0] += seconds

    pcm, decode = read(str(JFK)), DecodeConfig(words=True)
    runs = perform(
        *(loaded, vad.load(), pcm, config, decode),
        sessions=2,
        clock=lambda: clock[0],
        wait=wait,
    )
    assert clock[0] == pytest.approx(112.0)  # the second one starts a second later
    for run in runs:
        assert "country" in run.text
        moments = [moment for moment, _ in run.events]
        assert moments == sorted(moments)
        assert moments[-1] <= 12.0
        assert len(run.lags) == 110
        assert run.captions[-1][1].processed_until <= len(pcm)


def test_a_model_that_breaks_ends_the_run(
    livecap: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, config = prepared()

    def broken(*given: object) -> DecodeSteps:
        raise EngineFault("it broke", remedy="none")

    monkeypatch.setattr(loaded.model, "decode", broken)
    with pytest.raises(EngineFault, match="it broke"):
        perform(
            *(loaded, vad.load(), read(str(JFK)), config, DecodeConfig()),
            wait=lambda seconds: None,
        )


def test_a_table(livecap: Command, capsys: pytest.CaptureFixture[str]) -> None:
    config = BenchConfig(live=LiveOptions(policy="local-agreement"))
    assert run_bench(str(JFK), config) == 0
    said = capsys.readouterr().out
    assert said.startswith("tiny.en, local-agreement: 11.0 s of audio, virtual clock\n")
    for part in ("its commit, s", "against offline:", "core-seconds", "estimate of sessions"):
        assert part in said


def test_what_cannot_work_is_said_before_a_model_is_loaded(
    livecap: Command, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("...", "utf-8")
    for config, why in (
        (BenchConfig(sessions=0), "--sessions can't be 0"),
        (BenchConfig(sessions=2), "--realtime"),
        (BenchConfig(reference=str(tmp_path / "none.txt")), "can't be read"),
        (BenchConfig(reference=str(empty)), "has no words"),
    ):
        with pytest.raises(ConfigError, match=why):
            run_bench(str(JFK), config)
    assert livecap.loads == 0
