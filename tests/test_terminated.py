"""SIGTERM while nothing is heard yet: whatever is loaded or opened, the status is a stop's."""

import signal
from pathlib import Path

import pytest
from command import JFK, Process

# A model whose loading takes for ever, most of it outside of Python.
LOADING = """
import sys, torch
from livecap.models import load
from livecap.cli import main

def endless(*_):
    print("LOADING", file=sys.stderr, flush=True)
    square = torch.ones(400, 400)
    while True:
        square @ square

load.load_model = endless
main()
"""
# The moment before: what is heavy is imported, and nothing has been asked for yet.
STARTING = """
import sys
from livecap import checkpoints
from livecap.cli import main
from livecap.api.server import serve

def endless(*_, **__):
    print("LOADING", file=sys.stderr, flush=True)
    while True:
        pass

checkpoints.resolve = serve.resolve = endless
main()
"""
COMMANDS = {
    "file": ("file", str(JFK), "-o", "-"),
    "several files": ("file", str(JFK), "-f", "srt,txt", "-o", "out/"),
    "mic": ("mic", "--from", str(JFK), "-o", "talk.srt"),
    "serve": ("serve", "--port", "0"),
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_stop_while_a_model_loads(
    words: tuple[str, ...], number: signal.Signals, tmp_path: Path
) -> None:
    with Process(tmp_path, *words, code=LOADING) as run:
        run.until(lambda: "LOADING" in run.said)
        run.process.send_signal(number)
        done = run.end()
    assert done.status == 128 + number, done.err
    assert "terminate called" not in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_stop_before_a_model_is_found(words: tuple[str, ...], tmp_path: Path) -> None:
    with Process(tmp_path, *words, code=STARTING) as run:
        run.until(lambda: "LOADING" in run.said)
        run.process.send_signal(signal.SIGTERM)
        done = run.end()
    assert done.status == 128 + signal.SIGTERM, done.err
