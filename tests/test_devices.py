"""Which microphone is meant, and what `livecap devices` shows."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sound_system import Input, SoundSystem

from livecap.audio.devices import choose, choose_loopback, run_devices
from livecap.audio.portaudio import Device, devices, load_portaudio
from livecap.commands.levels import bar, watch_levels
from livecap.errors import AudioError, ConfigError

LINUX = [
    Input("HDA Intel PCH: ALC257 Analog (hw:0,0)", 44_100, 2),
    Input("Blue Yeti: USB Audio (hw:1,0)", 48_000, 2),
    Input("Yeti Nano: USB Audio (hw:2,0)", 48_000, 1),
    Input("pulse", 44_100, 32),
    Input("default", 44_100, 32),
]
WINDOWS = [
    Input("Microsoft Sound Mapper - Input", 44_100, 2, "MME"),
    Input("Microphone (USB Audio Codec with", 44_100, 2, "MME"),
    Input("Microphone (USB Audio Codec with a long name)", 48_000, 2, "Windows DirectSound"),
    Input("Microphone (USB Audio Codec with a long name)", 48_000, 1, "Windows WASAPI"),
    Input("Microphone (USB Audio Codec with a long name)", 48_000, 1, "Windows WDM-KS"),
    Input("Stereo Mix (Realtek)", 48_000, 2, "Windows WASAPI"),
]


def listed(inputs: list[Input], default: int = 0) -> list[Device]:
    return devices(SoundSystem(inputs, default))


def test_inputs_are_listed_as_values_and_outputs_are_not() -> None:
    system = SoundSystem([Input("Mic\n  One", 44_100, 2), Input("Monitor of Speakers")], 1)
    assert devices(system) == [
        Device(0, "Mic One", "ALSA", 44_100, 2, default=False, loopback=False),
        Device(1, "Monitor of Speakers", "ALSA", 16_000, 1, default=True, loopback=True),
    ]


@pytest.mark.parametrize(
    ("text", "index"),
    [(None, 4), ("2", 2), (" 1 ", 1), ("NANO", 2), ("blue", 1), ("pulse", 3), ("default", 4)],
)
def test_a_device_is_chosen_by_index_or_part_of_its_name(text: str | None, index: int) -> None:
    assert choose(listed(LINUX, 4), text).index == index


def test_a_whole_name_rules_out_longer_ones() -> None:
    inputs = [Input("USB Mic 2"), Input("USB Mic"), Input("USB Mic", api="JACK")]
    assert choose(listed(inputs[:2]), "usb mic").index == 1
    assert choose(listed(inputs), "usb mic, jack").index == 2


def test_without_a_default_there_is_still_a_choice() -> None:
    assert choose(listed(LINUX, -1), None).index == 0


@pytest.mark.parametrize(
    ("text", "problem", "named"),
    [
        ("yeti", "2 inputs have 'yeti' in their names", [1, 2]),
        ("studio", "No input has 'studio' in its name", [0, 1, 2, 3, 4]),
        ("", "No input has '' in its name", [0, 1, 2, 3, 4]),
        ("9", "No input has the index 9", [0, 1, 2, 3, 4]),
    ],
)
def test_what_fits_none_or_several_is_refused_with_the_list(
    text: str, problem: str, named: list[int]
) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        choose(listed(LINUX), text)
    names = {f"{n} {one.name} (ALSA)" for n, one in enumerate(LINUX) if n in named}
    assert set(refused.value.remedy.partition(": ")[2].split("; ")) == names


def test_one_device_behind_several_interfaces_of_windows_is_one() -> None:
    assert choose(listed(WINDOWS), "usb").index == 3
    assert choose(listed(WINDOWS), "4").index == 4
    assert choose(listed(WINDOWS), None).index == 0


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32", "freebsd14"])
def test_no_device_at_all_says_what_to_do(platform: str) -> None:
    for text in (None, "usb", "0"):
        with pytest.raises(AudioError, match=r"No microphone was found\. Plug one in"):
            choose([], text)
    with pytest.raises(AudioError, match="No input carries what this computer plays"):
        choose_loopback([], None, platform)


@pytest.mark.parametrize(
    ("inputs", "text", "name"),
    [
        (WINDOWS, None, "Stereo Mix (Realtek)"),
        ([Input("Mic"), Input("Speakers [Loopback]")], None, "Speakers [Loopback]"),
        ([Input("Mic"), Input("BlackHole 2ch", api="Core Audio")], None, "BlackHole 2ch"),
        ([Input("Monitor of A"), Input("Monitor of B")], "b", "Monitor of B"),
        ([*LINUX, Input("Monitor of A")], None, "system audio (pulse)"),
        ([*LINUX, Input("Monitor of A")], "monitor", "Monitor of A"),
    ],
)
def test_system_audio(inputs: list[Input], text: str | None, name: str) -> None:
    chosen = choose_loopback(listed(inputs), text)
    assert (chosen.title, chosen.loopback) == (name, True)


@pytest.mark.parametrize(
    ("platform", "words"),
    [("linux", "libasound2-plugins"), ("darwin", "blackhole-2ch"), ("win32", "Stereo Mix")],
)
def test_without_system_audio_there_are_instructions(platform: str, words: str) -> None:
    for text in (None, "mic"):
        with pytest.raises(AudioError, match=words):
            choose_loopback(listed([Input("Mic")]), text, platform)


def test_a_microphone_is_no_system_audio() -> None:
    with pytest.raises(ConfigError, match=r"Monitor of A"):
        choose_loopback(listed([Input("Mic"), Input("Monitor of A")]), "mic")


def test_sounddevice_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(AudioError, match=r"pip install 'livecap\[mic\]'"):
        load_portaudio()
    with pytest.raises(AudioError, match=r"pip install 'livecap\[mic\]'"):
        run_devices()


def test_portaudio_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "sounddevice.py"
    broken.write_text("raise OSError('PortAudio library not found')")
    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AudioError, match="PortAudio library not found") as failed:
        load_portaudio()
    if sys.platform == "linux":
        assert "apt-get install libportaudio2" in failed.value.remedy


def test_the_list_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    system = SoundSystem([*LINUX, Input("Monitor of \x1b[31mA")], 1)
    assert run_devices(sd=system) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["index", "name", "system", "rate", "channels", "marks"]
    assert [re.split(r"  +", row.strip())[0][0] for row in rows] == list("012345")
    assert re.search(r"1 +Blue Yeti: USB Audio \(hw:1,0\) +ALSA +48000 Hz +2 +default", rows[1])
    assert rows[5].rstrip().endswith("loopback")
    assert r"\x1b[31mA" in rows[5]
    assert not system.streams


def test_the_list_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_devices(json_lines=True, sd=SoundSystem([Input("Mikrofon Ä")])) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {
        "index": 0,
        "name": "Mikrofon Ä",
        "api": "ALSA",
        "rate": 16_000,
        "channels": 1,
        "default": True,
        "loopback": False,
    }


def test_a_list_of_nothing_is_an_error() -> None:
    for json_lines in (False, True):
        with pytest.raises(AudioError, match="No microphone was found"):
            run_devices(json_lines=json_lines, sd=SoundSystem([]))


def test_levels_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    system = SoundSystem(
        [Input("Near"), Input("Taken", busy=True), Input("Two", channels=2, most=1)]
    )
    looks = iter(range(3))

    def pause(seconds: float) -> None:
        assert 0 < seconds < 1
        if next(looks, None) is None:
            raise KeyboardInterrupt
        system.streams[0].give(np.full((160, 1), 0.1, np.float32))
        system.streams[1].give(np.zeros((160, 1), np.float32))

    watch_levels(system, devices(system), pause)
    out = capsys.readouterr().out
    near, taken, two = out.splitlines()[-3:]
    assert "################........ -20 dBFS" in near
    assert "Device unavailable" in taken
    assert "silent" in two
    assert all(stream.closed for stream in system.streams)


def test_bars() -> None:
    assert bar(1.0) == "#" * 24 + " 0 dBFS"
    assert bar(4.0) == "#" * 24 + " 12 dBFS"
    assert bar(1e-9) == "." * 24 + " -180 dBFS"
    for nothing in (0.0, float("nan")):
        assert bar(nothing) == "." * 24 + " silent"


def test_a_terminal_gets_levels_unless_a_plain_list_is_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    system = SoundSystem([Input()])
    run_devices(plain=True, sd=system)
    assert "USB Mic" in capsys.readouterr().out
    assert not system.streams
