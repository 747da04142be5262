"""`livecap file --server`: uploads to the real server, and to those that say odd things."""

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import FORMATS, JFK, Command, strict
from media import wav
from remote_answers import Says, answering, refusal
from remote_pair import Said, speak, spoken
from server_fixture import embedded, serving
from strict import parse_srt, said_in

from livecap.client.answer import read
from livecap.client.errors import ServerError
from livecap.client.files import RemoteRun
from livecap.client.form import Form
from livecap.client.options import ServerOptions, server_of
from livecap.client.request import Asked
from livecap.client.upload import UploadTimeouts
from livecap.config import DecodeConfig
from livecap.errors import AudioError, LivecapError
from livecap.events import RATE, Caption, Gap, Silence, Unrecognised, Word
from livecap.online.speech_buffer import Pcm
from livecap.output.push.backoff import Backoff
from livecap.output.verbose_json import segment
from livecap.runtime.runs import Progress

QUICK = UploadTimeouts(delays=Backoff(first=0.001, max_s=0.01), tries=3)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.delenv("LIVECAP_SERVER_KEY", raising=False)
    return Command(monkeypatch, tmp_path)


def sentence(seed: int) -> Pcm:
    words = [(seed + n) % 10 for n in range(6)]
    return speak([*map(Said, words[:3]), Said(words[3], silence=1500), *map(Said, words[4:])])


# -- the real server ----------------------------------------------------------------------------


def test_all_formats(run: Command, tmp_path: Path) -> None:
    """Written by the same writers as here, from the same text."""
    for n in range(6):
        (tmp_path / f"{n}.wav").write_bytes(wav(sentence(n)))
    with serving() as running:
        words = ("--server", f"http://{running.host}", "-f", ",".join(FORMATS), "--words")
        done = run("file", *(f"{n}.wav" for n in range(6)), *words)
        assert (done.status, done.out, run.loads) == (0, "", 0), done.err
        running.settle()
    for n in range(6):
        wanted = "".join(spoken(sentence(n)))
        for name in FORMATS:
            assert said_in(name, (tmp_path / f"{n}.{name}").read_bytes()) == plain_letters(wanted)
        assert f"{n}.wav -> " in done.err
        verbose = strict((tmp_path / f"{n}.json").read_text("utf-8"))
        assert [word["word"] for word in verbose["words"]] == spoken(sentence(n))
        assert verbose["duration"] == pytest.approx(len(sentence(n)) / RATE, abs=0.001)
        assert verbose["words"][0]["start"] == pytest.approx(0.5, abs=0.02)
        assert verbose["livecap"]["complete"] is True
        assert verbose["language"] == "en"
        (first, *_) = parse_srt((tmp_path / f"{n}.srt").read_text("utf-8"))
        assert first[0] == pytest.approx(500, abs=40)
    assert not list(tmp_path.glob("*.partial"))


def plain_letters(text: str) -> str:
    return "".join(text.split())


def test_the_text_of_this_machine(run: Command, tmp_path: Path) -> None:
    """By the embedded model, here and there: word for word, with the same times."""

    here = run("file", JFK, "-f", "json", "-o", "here.json", "--words")
    assert here.status == 0
    with serving(embedded, names=("tiny.en",)) as running:
        url = f"http://{running.host}"
        words = ("-f", "json", "-o", "there.json", "--words", "--server", url)
        assert run("file", JFK, *words).status == 0
    one, two = (
        strict((tmp_path / f"{name}.json").read_text("utf-8")) for name in ("here", "there")
    )
    assert one["text"].strip() == two["text"].strip()
    assert [(w["word"], w["start"], w["end"]) for w in one["words"]] == [
        (w["word"], w["start"], w["end"]) for w in two["words"]
    ]
    assert len(one["segments"]) == len(two["segments"])


def test_one_bad_file_costs_a_line(run: Command, tmp_path: Path) -> None:
    (tmp_path / "good.wav").write_bytes(wav(sentence(0)))
    (tmp_path / "text.wav").write_bytes(b"this is no audio, but a text\n" * 99)
    (tmp_path / "empty.wav").touch()
    with serving() as running:
        names = ("gone.wav", "text.wav", "empty.wav", "good.wav")
        done = run("file", *names, "-f", "txt", "--server", f"http://{running.host}")
    assert done.status == 1
    failed = [line for line in done.err.splitlines() if line.startswith("livecap: ")]
    assert len(failed) == 3
    for name in names[:3]:
        assert sum(name in line for line in failed) == 1
    assert said_in("txt", (tmp_path / "good.txt").read_bytes()) == plain_letters(
        "".join(spoken(sentence(0)))
    )
    assert sorted(path.name for path in tmp_path.glob("*.txt.partial")) == [
        "empty.txt.partial",
        "text.txt.partial",
    ]


def test_standard_input(run: Command) -> None:
    with serving() as running:
        url = f"http://{running.host}"
        done = run("file", "-", "--server", url, stdin=wav(sentence(0)))
        assert (done.status, plain_letters(done.out)) == (
            0,
            plain_letters("".join(spoken(sentence(0)))),
        )
        nothing = run("file", "-", "--server", url)
        assert (nothing.status, nothing.out) == (1, "")
        assert "empty" in nothing.err


def test_lines_of_json(run: Command, tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(wav(sentence(0)))
    with serving() as running:
        done = run("file", "talk.wav", "--json-lines", "--server", f"http://{running.host}")
    assert done.status == 0
    events = [strict(line) for line in done.out.splitlines()]
    assert all(event["file"] == "talk.wav" for event in events)
    assert events[-1]["type"] == "end"
    assert events[-1]["state"] == "finished"
    text = "".join(event["text"] for event in events if event["type"] == "caption")
    assert plain_letters(text) == plain_letters("".join(spoken(sentence(0))))


def test_the_wrong_key(run: Command, tmp_path: Path) -> None:
    """Nothing is sent, and nothing written."""
    (tmp_path / "talk.wav").write_bytes(wav(sentence(0)))
    with serving(keys=("right",)) as running:
        words = ("file", "talk.wav", "-f", "txt", "--server", f"http://{running.host}")
        done = run(*words, "--server-key", "wrong")
        assert done.status == 1
        assert "refuses the key (401)" in done.err
        assert "LIVECAP_SERVER_KEY" in done.err
        assert not (tmp_path / "talk.txt").exists()
        run.patch.setenv("LIVECAP_SERVER_KEY", "right")
        assert run(*words).status == 0


def test_a_model_that_is_not_there(run: Command, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.wav").write_bytes(wav(sentence(0)))
    with serving() as running:
        words = ("--model", "large", "--server", f"http://{running.host}")
        done = run("file", "a.wav", "b.wav", *words)
    assert done.status == 1
    assert done.err.count("refuses the model") == 1
    assert "--model" in done.err


# -- servers that say odd things ----------------------------------------------------------------

VERBOSE = {
    "task": "transcribe",
    "language": "german",
    "duration": 10.0,
    "text": " Guten Tag. Ja.",
    "segments": [
        {"id": 0, "start": 1.0, "end": 2.5, "text": " Guten Tag.", "avg_logprob": -0.25},
        {"id": 1, "start": 6.0, "end": 7.0, "text": " Ja."},
    ],
    "words": [
        {"word": "Guten", "start": 1.0, "end": 1.5},
        {"word": "Tag.", "start": 1.75, "end": 2.5},
        {"word": "Ja.", "start": 6.0, "end": 6.5},
    ],
}


def test_an_answer_with_all_there_is() -> None:
    answer = read(VERBOSE, None)
    one, two = (event for event in answer.events if isinstance(event, Caption))
    assert one.words == (
        Word(" Guten", RATE, RATE * 3 // 2),
        Word(" Tag.", RATE * 7 // 4, RATE * 5 // 2),
    )
    assert one.scores
    assert (one.scores.average_logprob, two.scores, one.language) == (-0.25, None, "de")
    assert [event for event in answer.events if isinstance(event, Silence)] == [
        Silence(0, RATE),
        Silence(RATE * 5 // 2, 6 * RATE),
        Silence(7 * RATE, 10 * RATE),
    ]
    assert answer.duration == 10 * RATE
    assert answer.silence == pytest.approx(0.75)
    again = segment(two, 1)
    assert (again["start"], again["end"], again["text"]) == (6.0, 6.5, " Ja.")


def test_what_livecaps_server_has_no_text_for() -> None:
    own = {
        "gaps": [{"start": 3.0, "end": 4.0, "reason": "lost"}],
        "unrecognised": [{"start": 8.0, "end": 9.0, "reason": "repetition"}],
        "damaged": "the file is cut off",
    }
    answer = read({**VERBOSE, "livecap": own}, "en")
    assert Gap(3 * RATE, 4 * RATE, "lost") in answer.events
    assert Unrecognised(8 * RATE, 9 * RATE, "repetition") in answer.events
    assert answer.damage == "the file is cut off"
    starts = [event.start for event in answer.events if not isinstance(event, str)]  # type: ignore[union-attr]  # all have one
    assert starts == sorted(starts)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"text": "Only text.", "usage": {"type": "duration", "seconds": 9}}, "Only text."),
        ({"text": "Only text."}, "Only text."),
        ({"text": "", "segments": [], "duration": 3.0, "language": "und"}, ""),
        ({}, ""),
        ({"segments": [{"text": 5}, "x", {}], "words": [3], "duration": "long"}, ""),
    ],
)
def test_answers_with_less(body: dict[str, Any], text: str) -> None:
    events = read(body, None).events
    assert "".join(event.text for event in events if isinstance(event, Caption)) == text


class Outputs:
    """What a run is given, and what it tells."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.said: list[str] = []

    def run(self, url: str, asked: Asked | None = None) -> RemoteRun:
        server = server_of(ServerOptions(url, "key"), {})
        assert server
        return RemoteRun(server, asked or Asked(), self.opened.append, self.said.append, QUICK)

    def results(self, run: RemoteRun, paths: Sequence[Path]) -> dict[str, Progress]:
        found = [one for one in run.run([str(path) for path in paths]) if isinstance(one, Progress)]
        ended = [one for one in found if one.state != "running"]
        assert len({one.path for one in ended}) == len(ended)
        return {Path(one.path).name: one for one in ended}


@pytest.fixture
def outputs() -> Outputs:
    return Outputs()


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    path = tmp_path / 'a "talk".wav'
    path.write_bytes(wav(sentence(0)))
    return path


BUSY = refusal(429, "At the limit.", type="rate_limit_error", headers={"Retry-After": "0"})


@pytest.mark.parametrize(
    "before",
    [
        [BUSY, BUSY, BUSY, BUSY, BUSY],
        [refusal(503, "Loading.", type="server_error")],
        [Says(None), Says(None)],
        [Says(502, "<html>bad gateway")],
        [refusal(400, "Really.", headers={"x-should-retry": "true"})],
    ],
    ids=["busy", "loading", "broken", "gateway", "told"],
)
def test_tries_again(before: list[Says], outputs: Outputs, talk: Path) -> None:
    with answering(*before, Says(body=VERBOSE)) as server:
        (done,) = outputs.results(outputs.run(server.url), [talk]).values()
        assert len(server.bodies) == len(before) + 1
        assert set(server.keys) == {"Bearer key"}
        assert set(server.paths) == {"/v1/audio/transcriptions"}
        assert all(wav(sentence(0)) in body for body in server.bodies)
    assert (done.state, done.failure) == ("finished", None)
    assert len(outputs.said) == len(before)
    assert all("trying again" in line for line in outputs.said)


@pytest.mark.parametrize(
    ("answer", "tries", "told"),
    [
        (refusal(400, "No speech in it."), 1, "No speech in it"),
        (refusal(413, "Too large.", code="too_large"), 1, "--max-upload"),
        (refusal(500, "Ours.", headers={"x-should-retry": "false"}), 1, "Ours"),
        (refusal(500, "Ours."), 3, "Ours"),
        (Says(None), 3, "connection"),
        (Says(200, "<html>"), 1, "OpenAI"),
        (Says(413, "", reads=False), 1, "413"),
    ],
    ids=["bad", "large", "final fault", "fault", "broken", "no json", "early"],
)
def test_what_is_given_up(
    answer: Says, tries: int, told: str, outputs: Outputs, talk: Path
) -> None:
    """One line for the file, and others are asked for all the same."""
    with answering(answer) as server:
        run = outputs.run(server.url)
        (failed,) = outputs.results(run, [talk]).values()
        assert len(server.bodies) == tries
    assert failed.state == "failed"
    assert told in str(failed.failure)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (refusal(401, "No.", code="invalid_api_key"), "LIVECAP_SERVER_KEY"),
        (refusal(404, "Invalid URL"), "needs no path"),
        (refusal(404, "No such model", code="model_not_found"), "--model"),
    ],
)
def test_what_no_file_can_be_captioned_with(
    answer: Says, told: str, outputs: Outputs, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{n}.wav" for n in range(9)]
    for path in paths:
        path.write_bytes(wav(sentence(0)))
    ended: list[Progress] = []
    with answering(answer) as server:
        run = outputs.run(server.url)
        with pytest.raises(ServerError) as fatal:
            ended += [one for one in run.run([*map(str, paths)]) if isinstance(one, Progress)]
        assert len(server.bodies) <= 4
    assert told in str(fatal.value)


def test_a_server_that_goes_away(outputs: Outputs, talk: Path) -> None:
    with answering(Says(None)) as server:
        url = server.url
        server.models = Says(None)
    with pytest.raises(ServerError, match="nothing listens"):
        list(outputs.run(url).run([str(talk)]))
    assert outputs.opened == []


def test_servers_that_know_less(outputs: Outputs, talk: Path) -> None:
    """Words are not asked for again where there are none, and times neither."""
    no_words = refusal(400, "No words here.", param="timestamp_granularities[]")
    no_form = refusal(400, "Use json.", code="unsupported_value", param="response_format")
    plain = Says(body={"text": "Only text.", "usage": {"type": "duration", "seconds": 3}})
    with answering(no_words, no_form, plain) as server:
        run = outputs.run(server.url, Asked(decode=DecodeConfig(words=True)))
        outputs.results(run, [talk])
        first, second, third = server.bodies
    assert b"word\r\n" in first
    assert b"timestamp_granularities" not in second
    assert b"verbose_json" in second
    assert b"\r\n\r\njson\r\n" in third


def test_words_that_must_be_timed(outputs: Outputs, talk: Path) -> None:
    no_words = refusal(400, "No words here.", param="timestamp_granularities")
    with answering(no_words) as server:
        asked = Asked(decode=DecodeConfig(words=True), needs_words=True)
        (failed,) = outputs.results(outputs.run(server.url, asked), [talk]).values()
        assert len(server.bodies) == 1
    assert "No words here" in str(failed.failure)


def test_the_form(talk: Path) -> None:
    decode = DecodeConfig(
        "de",
        temperature=0.25,
        words=True,
        prompt="Grüße,\nAda",
        hotwords="a b, c",
        task="translate",
    )
    asked = Asked("small", decode=replace(decode, long_form="sequential"))
    assert asked.route == "audio/translations"
    data = talk.read_bytes()
    form = Form.of(asked.fields("words"), io.BytesIO(data), len(data), talk.name)
    body = b"".join(form.blocks())
    assert len(body) == form.length
    assert body == b"".join(form.blocks())  # as often as it is needed
    assert b'filename="a %22talk%22.wav"' in body
    assert body.count(b"--" + form.boundary.encode()) == 1 + len(form.fields) + 1
    assert form.fields == [
        ("response_format", "verbose_json"),
        ("timestamp_granularities[]", "word"),
        ("timestamp_granularities[]", "segment"),
        ("model", "small"),
        ("language", "de"),
        ("prompt", "Grüße,\nAda"),
        ("keywords[]", "a b"),
        ("keywords[]", "c"),
        ("temperature", "0.25"),
        ("long_form", "sequential"),
    ]


def test_a_file_that_shrinks() -> None:
    form = Form.of([], io.BytesIO(b"abc"), 5, "talk.wav")
    with pytest.raises(AudioError, match="shorter"):
        list(form.blocks())


def test_stopping_tries_nothing_again(outputs: Outputs, tmp_path: Path) -> None:
    paths = [tmp_path / f"{n}.wav" for n in range(9)]
    for path in paths:
        path.write_bytes(wav(sentence(0)))
    slow = refusal(503, "Later.", type="server_error", headers={"Retry-After": "100"})
    ended: list[Progress] = []
    with answering(slow) as server:
        run = outputs.run(server.url)
        for one in run.run([*map(str, paths)]):
            assert isinstance(one, Progress)
            if one.state == "running":
                run.stop()
            else:
                ended.append(one)
    assert 1 <= len(ended) <= 4
    assert {one.state for one in ended} == {"failed"}
    assert all(isinstance(one.failure, LivecapError) for one in ended)


REFUSED = {
    "--device cpu": "--device has no effect on a server",
    "--precision int8": "--precision",
    "--threads 2": "--threads",
    "--batch-size 2": "--batch-size",
    "--max-segment 20": "--max-segment",
    "--attention-window 2": "--attention-window",
    "--no-vad": "--no-vad",
    "--vad-tail 100": "--vad-tail",
    "--vad-min-speech 50": "--vad-min-speech",
    "--no-timestamps": "--no-timestamps",
    "--track 1": "--track",
    "--channels split": "--channels split",
    "--raw s16le:8000:1": "--raw",
    "--pull": "--pull",
    "--temperature 1.5": "--temperature can't be 1.5 on a server",
}


@pytest.mark.parametrize("words", REFUSED)
def test_options_that_mean_nothing_there(words: str, run: Command, tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(wav(np.zeros(1600, np.float32)))
    done = run("file", "talk.wav", "--server", "http://127.0.0.1:9", *words.split())
    assert (done.status, done.out, run.loads) == (2, "", 0)
    assert REFUSED[words] in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["talk.wav"]


def test_how_pauses_are_found_is_told(run: Command, tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(wav(sentence(0)))
    with answering(Says(body=VERBOSE)) as server:
        flags = "--vad-threshold 0.3 --vad-pad 200 --vad-min-silence 500"
        assert run("file", "talk.wav", "--server", server.url, *flags.split()).status == 0
        (body,) = server.bodies
    for name, value in (
        ("type", "server_vad"),
        ("threshold", "0.3"),
        ("prefix_padding_ms", "200"),
        ("silence_duration_ms", "500"),
    ):
        assert f'"chunking_strategy[{name}]"\r\n\r\n{value}\r\n'.encode() in body
