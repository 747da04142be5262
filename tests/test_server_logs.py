"""The log of a server: for people on a terminal, for programs elsewhere."""

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest

from livecap.api import logs
from livecap.api.options import LogFormat


class Screen(io.StringIO):
    """Standard error, on a terminal or not."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("livecap")
    before = root.handlers[:], root.level, own.level
    yield
    root.handlers[:], level, own_level = before
    root.setLevel(level)
    own.setLevel(own_level)
    logging.getLogger("uvicorn").setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("form", "is_terminal", "is_plain"),
    [
        ("auto", True, True),
        ("auto", False, False),
        ("text", False, True),
        ("json", True, False),
    ],
)
def test_a_terminal_has_lines_for_people(
    form: LogFormat, is_terminal: bool, is_plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    logs.configure("info", form)
    log = logging.getLogger("livecap.access")
    logs.note(log, "request", {"method": "GET", "route": "/", "status": 200, "id": None})
    log.warning("a request\x1b[2J failed", extra={"fields": {"code": "busy"}})
    first, second = screen.getvalue().splitlines()
    if is_plain:
        assert first[8:] == " request: method GET, route /, status 200"
        assert second[8:] == " warning: a request\\x1b[2J failed: code busy"
    else:
        assert json.loads(first)["route"] == "/"
        assert json.loads(second)["level"] == "warning"
