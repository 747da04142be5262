"""`livecap mic --server` as it is typed: files, summary and status are those of a model here."""

import importlib.util
import json
import signal
from datetime import UTC, datetime
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest
from command import JFK, SPEECH, Command, Process, plain
from jiwer import wer
from media import pack, wav
from remote_answers import Says, answering
from remote_pair import Said, silence, speak, spoken
from server_fixture import embedded, serving
from strict import parse_srt, said_in
from test_remote_files import VERBOSE
from test_remote_others import Plain, sockets

from livecap.api.server.tls import Names, context
from livecap.events import RATE
from livecap.online.speech_buffer import Pcm

FORMATS = ("txt", "srt", "vtt", "json", "jsonl")
UNSURE = 0.3  # of words: what tiny.en mishears of this recording when updates are left out
HEAVY = {"torch", "transformers", "tokenizers", "silero_vad", "starlette", "uvicorn", "msgspec"}
# `livecap` with its modules as a last line on standard error
LISTED = (
    "import sys\nfrom livecap.cli import main\n"
    "try: main()\nfinally: print('MODULES', *sys.modules, file=sys.stderr)"
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.delenv("LIVECAP_SERVER_KEY", raising=False)
    return Command(monkeypatch, tmp_path)


def talk() -> Pcm:
    return speak([*map(Said, range(4)), Said(4, silence=1500), *map(Said, range(5, 10))])


def squeezed(text: str) -> str:
    return "".join(text.split())


TALK = squeezed("".join(spoken(talk())))


def test_files_and_summary(run: Command, tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(wav(talk()))
    with serving() as running:
        words = ("mic", "--from", "talk.wav", "--speed", "0", "--language", "en", "--pause", "500")
        files = ("-f", ",".join(FORMATS), "-o", "out")
        done = run(*words, *files, "--server", f"ws://{running.host}")
        running.settle()
    assert (done.status, run.loads) == (0, 0), done.err
    assert squeezed(done.out) == TALK
    assert len(done.out.splitlines()) == 2  # a line a turn
    for name in FORMATS:
        assert said_in(name, (tmp_path / f"out.{name}").read_bytes()) == TALK
    lines = done.err.splitlines()
    assert lines[0].startswith("server: 127.0.0.1:")
    assert lines[1] == "model: tones"
    assert lines[-1].startswith("livecap: 0:00:05 captured, 10 words, lag ")
    (first, *_) = parse_srt((tmp_path / "out.srt").read_text("utf-8"))
    assert first[0] == pytest.approx(500, abs=40)
    assert "estimated" not in (tmp_path / "out.vtt").read_text("utf-8")
    verbose = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert verbose["duration"] == pytest.approx(len(talk()) / RATE, abs=0.001)
    assert verbose["livecap"]["complete"] is True


def test_lines_of_json(run: Command) -> None:
    with serving() as running:
        raw = ("--raw", "s16le:16000:1")
        words = ("mic", "--from", "-", *raw, "--json-lines", "--server", f"http://{running.host}")
        done = run(*words, stdin=pack(talk()))
    assert done.status == 0, done.err
    events = [json.loads(line) for line in done.out.splitlines()]
    final = [event for event in events if event["type"] == "caption" and event["final"]]
    assert squeezed(" ".join(event["text"] for event in final)) == TALK
    assert events[-1]["heard"] == pytest.approx(len(talk()) / RATE, abs=0.01)


def test_the_text_of_this_machine(run: Command, tmp_path: Path) -> None:
    """By the embedded model, here and there. Which updates are left out depends on the machine, as
    for any pipe, and with them do words that tiny.en is unsure of; that nothing is lost by the way
    is tested with a model that mishears nothing.
    """

    def said(name: str, *words: str) -> list[tuple[str, float]]:
        flags = ("--from", "-", "--pause", "600", "-q")
        done = run("mic", *flags, "-f", "jsonl", "-o", name, *words, stdin=JFK.read_bytes())
        assert done.status == 0, done.err
        lines = (tmp_path / f"{name}.jsonl").read_text("utf-8").splitlines()
        captions = [event for event in map(json.loads, lines) if event["type"] == "caption"]
        timed = [(plain(w["word"]), w["start"]) for one in captions for w in one["words"]]
        assert plain(done.out).split() == [word for word, _ in timed]
        return timed

    here = said("here")
    with serving(embedded, names=("tiny.en",)) as running:
        there = said("there", "--server", f"ws://{running.host}")
    pairs = SequenceMatcher(a=[w for w, _ in here], b=[w for w, _ in there], autojunk=False)
    same = [
        (one + n, two + n) for one, two, size in pairs.get_matching_blocks() for n in range(size)
    ]
    for text in (here, there):
        assert wer(SPEECH, " ".join(word for word, _ in text)) <= UNSURE
    for one, two in same:
        assert here[one][1] == pytest.approx(there[two][1], abs=0.3)


REFUSED = {
    "--compute cpu": "--compute has no effect on a server",
    "--precision int8": "--precision",
    "--threads 2": "--threads",
    "--attention-window 2": "--attention-window",
    "--policy align-att": "--policy",
    "--update 1": "--update",
    "--carry 5": "--carry",
    "--no-vad": "--no-vad",
    "--vad-tail 100": "--vad-tail",
    "--vad-min-speech 50": "--vad-min-speech",
    "--vad-min-silence 50": "--vad-min-silence",
    "--task translate": "--task translate",
    "--pull": "--pull",
    "--server-ca ca.pem": "--server-ca is for TLS",
}


@pytest.mark.parametrize("words", REFUSED)
def test_options_that_mean_nothing_there(words: str, run: Command, tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(wav(talk()))
    done = run("mic", "--from", "talk.wav", "--server", "ws://127.0.0.1:9", *words.split())
    assert (done.status, done.out, run.loads) == (2, "", 0)
    assert REFUSED[words] in done.err
    assert "Traceback" not in done.err


def test_what_is_told(run: Command, tmp_path: Path) -> None:
    """A model of this machine's environment is none of the server's."""
    (tmp_path / "talk.wav").write_bytes(wav(silence(3000)))
    run.patch.setenv("LIVECAP_MODEL", "mine")
    plainly = Plain(commits=False)
    with sockets(plainly) as port:
        words = (
            "--hotwords Babbage,Ada --prompt Hello --vad-threshold 0.3 --vad-pad 100 --pause 900"
        )
        flags = ("--from", "talk.wav", "--speed", "0", "--language", "German")
        done = run("mic", *flags, *words.split(), "--server", f"ws://127.0.0.1:{port}")
        assert done.status == 0, done.err
    heard = plainly.updates[0]["audio"]["input"]
    assert heard["transcription"] == {
        "language": "de",
        "prompt": "Hello",
        "keywords": ["Babbage", "Ada"],
    }
    assert heard["turn_detection"] == {
        "type": "server_vad",
        "threshold": 0.3,
        "prefix_padding_ms": 100,
        "silence_duration_ms": 900,
    }
    assert done.out == "hello there\n"


def test_no_package(run: Command, tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(wav(talk()))
    find = importlib.util.find_spec

    def found(name: str, package: str | None = None) -> Any:
        return None if name == "websockets" else find(name, package)

    run.patch.setattr(importlib.util, "find_spec", found)
    done = run("mic", "--from", "talk.wav", "--server", "ws://127.0.0.1:9")
    assert (done.status, done.out) == (2, "")
    assert "pip install 'livecap[mic]'" in done.err


def test_nobody_there(run: Command, tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(wav(talk()))
    (tmp_path / "out.txt").write_text("mine")
    words = ("-f", "txt", "-o", "out", "--overwrite", "--server", "ws://127.0.0.1:9")
    done = run("mic", "--from", "talk.wav", *words)
    assert (done.status, done.out) == (1, "")
    assert "livecap serve" in done.err
    assert (tmp_path / "out.txt").read_text() == "mine"


def test_tls(run: Command, tmp_path: Path) -> None:
    """With the certificate that a server makes for itself, once it is trusted."""
    (tmp_path / "talk.wav").write_bytes(wav(silence(3000)))
    trusted = ("--server-ca", str(tmp_path / "tls/livecap.crt"))
    names = Names(("localhost",), ("127.0.0.1",))
    secure = context("auto", tmp_path / "tls", names, datetime.now(UTC))
    with sockets(Plain(commits=False), secure=secure) as port:
        url = f"wss://127.0.0.1:{port}"
        words = ("mic", "--from", "talk.wav", "--speed", "0", "--server")
        done = run(*words, url, *trusted)
        assert (done.status, done.out) == (0, "hello there\n"), done.err
        refused = run(*words, url)
        assert refused.status == 1
        assert "--server-ca" in refused.err
        plainly = run(*words, f"ws://127.0.0.1:{port}")
        assert plainly.status == 1
        assert "wss://" in plainly.err
    with answering(Says(body=VERBOSE), secure=secure) as server:
        sent = ("file", "talk.wav", "-o", "-", "--server", server.url)
        done = run(*sent, *trusted)
        assert (done.status, done.out) == (0, "Guten Tag.\nJa.\n"), done.err
        refused = run(*sent)
        assert refused.status == 1
        assert "--server-ca" in refused.err


def test_tls_where_there_is_none(run: Command, tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(wav(talk()))
    with serving() as running:
        for words in (("mic", "--from", "talk.wav"), ("file", "talk.wav", "-o", "-")):
            done = run(*words, "--server", f"https://{running.host}")
            assert (done.status, done.out) == (1, "")
            assert "does not speak TLS" in done.err
            assert "http://" in done.err


# -- as a process -------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["mic --speed 0 --from", "file -o -"])
def test_nothing_heavy_is_loaded(command: str, tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(wav(talk()))
    with serving() as running:
        words = (*command.split(), "talk.wav", "--server", f"http://{running.host}")
        done = Process(tmp_path, *words, code=LISTED).end()
    assert (done.status, squeezed(done.out)) == (0, TALK)
    assert not HEAVY & set(done.err.splitlines()[-1].split())


def test_ctrl_c(tmp_path: Path) -> None:
    """In the middle of a word: all that was heard is captioned."""
    raw = ("--raw", "s16le:16000:1")
    with serving() as running:
        words = ("mic", "--from", "-", *raw, "-f", "txt", "-o", "out")
        url = f"ws://{running.host}"
        with Process(tmp_path, *words, "--server", url, stdin=True) as run:
            run.write(pack(talk()))
            first = run.read_line()  # said while the pipe is open
            run.process.send_signal(signal.SIGINT)
            rest = run.stdout.read().decode("utf-8")
            assert run.process.wait(30) == 130
            assert run.said.splitlines()[-1].startswith("livecap: 0:00:0")
        running.settle()
    assert squeezed(first + rest) == TALK
    assert said_in("txt", (tmp_path / "out.txt").read_bytes()) == TALK
    assert not (tmp_path / "out.txt.partial").exists()


def test_ctrl_c_at_a_pipe_of_files(tmp_path: Path) -> None:
    """What has come by then is sent."""
    with serving() as running:
        url = f"http://{running.host}"
        with Process(tmp_path, "file", "-", "-o", "out.txt", "--server", url, stdin=True) as run:
            run.write(wav(talk(), size=0xFFFFFFFF))
            spool = tmp_path / "out.txt.partial"
            run.until(spool.exists)
            run.process.send_signal(signal.SIGINT)
            assert run.process.wait(30) == 130
    assert TALK.startswith(said_in("txt", (tmp_path / "out.txt").read_bytes()))
