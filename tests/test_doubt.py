"""A model that knows one language alone, and speech in another."""

from importlib.resources import files
from pathlib import Path

import pytest
from command import JFK, Command

SPANISH = Path(str(files("pytest_audioeval") / "samples/audio/es/conteo.wav"))


@pytest.fixture
def livecap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    return Command(monkeypatch, tmp_path)


@pytest.mark.parametrize("command", ["file -f srt -o out/", "mic --speed 0 --from"])
def test_another_language_is_said_and_a_model_is_named(livecap: Command, command: str) -> None:
    (line,) = [
        line for line in livecap(*command.split(), SPANISH).err.splitlines() if "impr" in line
    ]
    assert "this text is improbable" in line
    assert "tiny.en knows English alone" in line
    assert "`livecap pull large-v3-turbo`" in line
    assert "improbable" not in livecap(*command.split(), JFK).err
