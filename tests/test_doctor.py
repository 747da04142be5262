"""`livecap doctor`: what it says of this machine, and of machines with one thing wrong."""

import hashlib
import importlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
from command import Command, speechless

from livecap.checkpoints import Checkpoint, find_embedded
from livecap.commands import doctor, machine
from livecap.commands.machine import Check

LINE = re.compile(r"(ok|warn|fault) +\S.*?(  \(.+\))?")
GIGABYTE = 1 << 30


@pytest.fixture
def livecap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    return Command(monkeypatch, tmp_path)


def test_a_sound_machine(livecap: Command) -> None:
    done = livecap("doctor")
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert all(LINE.fullmatch(line) for line in lines)
    assert not [line for line in lines if line.startswith("fault")]
    for part in ("Python 3.", "torch 2.", "; auto is ", "silero-vad 6.", "PyAV ", "memory"):
        assert sum(part in line for line in lines) == 1, part
    assert "SHA-256 is right" in done.out
    assert re.search(r"tiny\.en loads in [\d.]+ s and hears a second in [\d.]+ s", done.out)


def test_every_warning_has_a_remedy(livecap: Command) -> None:
    for line in livecap("doctor").out.splitlines():
        assert line.startswith("ok") or line.endswith(")")


def test_a_model_that_is_not_there(livecap: Command) -> None:
    done = livecap("doctor", "--model", "small")
    assert done.status == 1
    (fault,) = [line for line in done.out.splitlines() if line.startswith("fault")]
    assert "livecap pull small" in fault


def test_a_model_that_is_not_the_expected_one(tmp_path: Path) -> None:
    embedded = find_embedded()
    assert embedded
    assert doctor.whole(embedded).state == "ok"
    forged = doctor.whole(replace(embedded, sha256="0" * 64))
    assert forged.state == "fault"
    assert "--force-reinstall" in forged.remedy


def test_a_file_of_the_hubs_cache_that_is_damaged(tmp_path: Path) -> None:
    data = b"weights"
    blob = tmp_path / hashlib.sha256(data).hexdigest()
    blob.write_bytes(data)
    folder = tmp_path / "snapshot"
    folder.mkdir()
    (folder / "model.safetensors").symlink_to(blob)
    (folder / "config.json").touch()
    checkpoint = Checkpoint("org/model", folder, "huggingface", "whisper")
    assert doctor.whole(checkpoint).state == "ok"
    blob.write_bytes(b"weight")
    assert doctor.whole(checkpoint).state == "fault"
    assert "livecap pull org/model" in doctor.whole(checkpoint).remedy


def test_audio_that_is_not_decoded(tmp_path: Path) -> None:
    (short,) = speechless(1, tmp_path)
    assert doctor.decoding(short).state == "fault"  # a second is expected
    short.write_bytes(b"no sound")
    assert "force-reinstall av" in doctor.decoding(short).remedy


@pytest.mark.parametrize(
    ("error", "remedy"),
    [(ImportError("none"), "livecap[mic]"), (OSError("no PortAudio"), "apt install libportaudio2")],
)
def test_microphones_are_optional(
    error: Exception, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> None:
        raise error

    monkeypatch.setattr(importlib, "import_module", refuse)
    check = doctor.microphones()
    assert check.state == "warn"
    assert remedy in check.remedy


@pytest.mark.parametrize(
    ("settings", "load", "state"),
    [
        ({}, 0.5, "ok"),
        ({"OMP_NUM_THREADS": "4", "GOMP_SPINCOUNT": "1000", "OMP_WAIT_POLICY": "passive"}, 4, "ok"),
        ({"OMP_NUM_THREADS": "8"}, 0, "warn"),
        ({"OMP_NUM_THREADS": "8,2"}, 0, "warn"),
        ({"MKL_NUM_THREADS": "5"}, 0, "warn"),
        ({"GOMP_SPINCOUNT": "infinite"}, 0, "warn"),
        ({"GOMP_SPINCOUNT": "30000000000"}, 0, "warn"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, 0, "warn"),
        ({}, 9, "warn"),
    ],
)
def test_contention(settings: dict[str, str], load: float, state: str) -> None:
    check = machine.contention(settings, many=4, load=load)
    assert check.state == state
    assert (check.state == "ok") == (check.remedy == "")


def test_memory_against_the_model() -> None:
    assert machine.memory(GIGABYTE, available=3 * GIGABYTE).state == "ok"
    assert machine.memory(2 * GIGABYTE, available=3 * GIGABYTE).state == "warn"
    assert machine.memory(available=GIGABYTE // 2).state == "warn"
    assert machine.memory().state in ("ok", "warn")


def test_cores_that_a_container_allows(tmp_path: Path) -> None:
    quota = tmp_path / "cpu.max"
    everything = machine.cores(quota)
    assert everything >= 1
    quota.write_text("max 100000\n")
    assert machine.cores(quota) == everything
    quota.write_text("50000 100000\n")
    assert machine.cores(quota) == 1


def test_terminal_and_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert machine.terminal("UTF-8").state == "ok"
    assert machine.terminal("latin-1").state == "warn"
    assert machine.terminal(None).state == "warn"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "deep" / "hub"))
    assert machine.cache().state == "ok"
    (tmp_path / "file").touch()
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "file" / "hub"))
    assert machine.cache().state == "warn"


def test_a_line() -> None:
    assert str(Check("ok", "Python")) == "ok     Python"
    assert str(Check("fault", "no torch", "Run it.")) == "fault  no torch  (Run it.)"
