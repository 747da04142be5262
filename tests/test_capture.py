"""Microphones: nobody is lost, nothing missing goes unstated, and devices may come and go."""

import os
from collections.abc import Sequence

import numpy as np
import pytest
from media import Signal, babble, decibels, tone
from sound_system import Input, SoundSystem, Stream

from livecap.audio import Resampler
from livecap.audio.capture import Microphone
from livecap.audio.live_source import Chunk, Heard, Notice
from livecap.errors import AudioError, ConfigError
from livecap.events import RATE


def opened(system: SoundSystem, device: str | None = None, *, loopback: bool = False) -> Microphone:
    return Microphone(device, loopback=loopback, sd=system, clock=system.clock)


def rest(microphone: Microphone) -> list[Heard]:
    """All that is left after `stop`."""
    microphone.stop()
    heard: list[Heard] = []
    for _ in range(100):
        some = microphone.take(0)
        if some is None:
            return heard
        heard += some
    raise AssertionError("no end")


def chunks(heard: Sequence[Heard]) -> list[Chunk]:
    """Those with audio, each following the last or a stated gap."""
    found = [one for one in heard if isinstance(one, Chunk)]
    end = 0
    for chunk in found:
        assert chunk.start >= end
        assert bool(chunk.reason) == (chunk.start > end)
        assert chunk.pcm.dtype == np.float32
        end = chunk.start + len(chunk.pcm)
    return [chunk for chunk in found if len(chunk.pcm)]


def pcm(heard: Sequence[Heard]) -> Signal:
    return np.concatenate([np.zeros(0, np.float32), *(chunk.pcm for chunk in chunks(heard))])


def notices(heard: Sequence[Heard] | None) -> list[str]:
    return [one.text for one in heard or [] if isinstance(one, Notice)]


def run(microphone: Microphone, system: SoundSystem, seconds: float) -> list[Heard]:
    """Time goes by, and what comes is taken ten times a second."""
    heard: list[Heard] = []
    for _ in range(round(seconds * 10)):
        system.now += 0.1
        heard += microphone.take(0) or []
    return heard


def listen(
    microphone: Microphone, system: SoundSystem, signal: Signal, every: float = 0.1
) -> list[Heard]:
    """The signal comes in and is taken as it comes."""
    heard: list[Heard] = []
    rows = np.atleast_2d(signal)
    step = round(every * system.stream.settings["samplerate"])
    for first in range(0, rows.shape[1], step):
        system.play(rows[:, first : first + step])
        heard += microphone.take(0) or []
    return heard


@pytest.mark.parametrize("rate", [8000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000, 192_000])
def test_a_device_is_heard_at_its_own_rate(rate: int) -> None:
    system = SoundSystem([Input(rate=rate)])
    microphone = opened(system)
    assert system.stream.settings["samplerate"] == rate
    got = pcm(listen(microphone, system, tone(1.0, rate)) + rest(microphone))
    assert len(got) == RATE
    np.testing.assert_allclose(got[800:-800], tone(1.0)[800:-800], atol=1e-3)


@pytest.mark.parametrize("block", [1, 97, 512, 4410, 44_100])
@pytest.mark.parametrize("taken", ["often", "at the end"])
def test_blocks_of_any_size_equal_the_whole(block: int, taken: str) -> None:
    signal = np.stack([babble(0.5, 44_100), 0.5 * babble(0.5, 44_100, seed=1)])
    system = SoundSystem([Input(rate=44_100, channels=2)])
    microphone = opened(system)
    heard: list[Heard] = []
    for first in range(0, signal.shape[1], 5000):
        system.play(signal[:, first : first + 5000], block)
        heard += microphone.take(0) or [] if taken == "often" else []
    whole = Resampler(44_100, 2)
    wanted = np.concatenate([whole.feed(signal), whole.flush()])
    np.testing.assert_allclose(pcm(heard + rest(microphone)), wanted, atol=1e-6)


@pytest.mark.parametrize("gains", [(1, 0), (0, 1), (1, -1), (1, 1), (0, 0, 0, 0, 0, 1, 0, 0)])
def test_no_speaker_is_lost_between_channels(gains: tuple[int, ...]) -> None:
    voice = babble(1.0, 48_000)
    system = SoundSystem([Input(rate=48_000, channels=len(gains))])
    microphone = opened(system)
    assert system.stream.settings["channels"] == len(gains)
    got = pcm(
        listen(microphone, system, np.outer(gains, voice).astype(np.float32)) + rest(microphone)
    )
    assert decibels(got) == pytest.approx(decibels(voice), abs=0.5)


@pytest.mark.parametrize(
    ("channels", "most", "name", "wanted"),
    [
        (6, 1000, "Array (hw:1,0)", 6),
        (64, 1000, "Desk (hw:1,0)", 32),
        (128, 1000, "sysdefault", 2),  # a plugin that takes any number
        (8, 2, "Webcam (hw:2,0)", 2),
        (2, 1, "Odd (hw:2,0)", 1),
    ],
)
def test_all_channels_are_opened_that_a_device_gives(
    channels: int, most: int, name: str, wanted: int
) -> None:
    system = SoundSystem([Input(name, channels=channels, most=most)])
    opened(system)
    assert system.stream.settings["channels"] == wanted


def test_a_device_in_use_is_refused_with_a_remedy() -> None:
    with pytest.raises(AudioError, match=r"USB Mic can't be opened: Device unavailable.*Close"):
        opened(SoundSystem([Input(busy=True)]))


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="USB Mic"):
        opened(SoundSystem([Input()]), "studio")


def test_audio_that_the_device_lost_is_a_gap() -> None:
    system = SoundSystem([Input(rate=48_000)])
    microphone = opened(system)
    heard = listen(microphone, system, tone(1.0, 48_000))
    system.now += 0.5
    system.stream.give(tone(0.01, 48_000)[:, None], overflow=True)
    system.now += 0.01
    heard += listen(microphone, system, tone(1.0, 48_000)) + rest(microphone)
    assert _gap(heard) == [RATE, pytest.approx(1.5 * RATE, abs=0.01 * RATE)]
    assert microphone.overflows == 1
    assert len(pcm(heard)) == round(2.01 * RATE)
    assert "busy" in next(chunk.reason for chunk in chunks(heard) if chunk.reason)


def _gap(heard: Sequence[Heard]) -> list[float]:
    """Where the only gap begins and ends."""
    edges = [0]
    for chunk in chunks(heard):
        edges += [chunk.start, chunk.start + len(chunk.pcm)]
    ((before, after),) = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=False) if a != b]
    return [before, after]


def test_an_overflow_without_a_loss_is_counted_alone() -> None:
    system = SoundSystem([Input()])
    microphone = opened(system)
    heard = listen(microphone, system, tone(1.0))
    system.now += 0.01
    system.stream.give(tone(0.01)[:, None], overflow=True)
    heard += rest(microphone)
    assert len({chunk.reason for chunk in chunks(heard)}) == 1
    assert microphone.overflows == 1


@pytest.mark.parametrize("stamp", [0.0, -5.0, 1e12, float("nan"), float("inf")])
@pytest.mark.parametrize("always", [True, False])
def test_time_stamps_without_sense_do_not_move_the_timeline(stamp: float, always: bool) -> None:
    system = SoundSystem([Input()])
    microphone = opened(system)
    for number in range(100):
        system.now += 0.01
        wrong = stamp if always or number % 2 else None
        system.stream.give(tone(0.01)[:, None], overflow=True, stamp=wrong)
    last = chunks(rest(microphone))[-1]
    assert last.start + len(last.pcm) <= 2.5 * RATE
    assert microphone.overflows == 100


def test_what_nobody_takes_is_dropped_and_stated_exactly() -> None:
    system = SoundSystem([Input(rate=8000)])
    microphone = opened(system)
    second = tone(1.0, 8000)
    for _ in range(75):
        system.play(second, 800)
    heard = microphone.take(0) or []
    heard += listen(microphone, system, second) + rest(microphone)
    assert _gap(heard) == [60 * RATE, 75 * RATE]
    assert microphone.overflows == 1
    assert sum(len(chunk.pcm) for chunk in chunks(heard)) == 61 * RATE


def test_what_the_device_loses_while_nobody_takes_is_stated_too() -> None:
    system = SoundSystem([Input(rate=8000)])
    microphone = opened(system)
    second = tone(1.0, 8000)
    for _ in range(65):
        system.play(second, 800)
    system.now += 2.5
    system.stream.give(second[:800, None], overflow=True)
    heard = microphone.take(0) or []
    heard += listen(microphone, system, second) + rest(microphone)
    assert _gap(heard) == [60 * RATE, pytest.approx(67.5 * RATE, abs=0.1 * RATE)]
    assert microphone.overflows == 2


def _finished(system: SoundSystem) -> None:
    system.stream.end()


def _inactive(system: SoundSystem) -> None:
    system.stream.active = False


def _speechless(system: SoundSystem) -> None:
    """The driver says nothing at all."""


class _Broken(Stream):
    @property
    def active(self) -> bool:
        raise self.system.PortAudioError("Unanticipated host error")

    @active.setter
    def active(self, value: bool) -> None: ...


def _broken(system: SoundSystem) -> None:
    system.stream.__class__ = _Broken


@pytest.mark.parametrize("pulled", [_finished, _inactive, _speechless, _broken])
def test_a_device_that_is_pulled_out_is_noticed_and_heard_again(pulled: object) -> None:
    system = SoundSystem([Input("Webcam"), Input("USB Mic (hw:1,0)", rate=48_000)])
    microphone = opened(system, "usb")
    voice = tone(2.0, 48_000)
    heard = listen(microphone, system, voice)
    lost = system.inputs.pop()
    assert callable(pulled)
    pulled(system)
    away = run(microphone, system, 2.0)
    assert len(notices(away)) == 1
    assert "USB Mic (hw:1,0) is gone" in notices(away)[0]
    assert "livecap devices" in notices(away)[0]
    away += run(microphone, system, 8.0)
    assert len(notices(away)) == 1
    lost.name = "USB Mic (hw:3,0)"  # another card now, and another rate
    lost.rate = 44_100
    system.inputs.insert(0, lost)
    away += run(microphone, system, 1.2)
    heard += away + listen(microphone, system, tone(1.0, 44_100)) + rest(microphone)
    assert notices(heard)[1:] == ["USB Mic (hw:3,0) is back"]
    assert _gap(heard) == [2 * RATE, pytest.approx(13.2 * RATE, abs=0.01 * RATE)]
    assert len(pcm(heard)) == 3 * RATE


def test_a_device_is_back_under_its_name() -> None:
    system = SoundSystem([Input()])
    microphone = opened(system)
    heard = listen(microphone, system, tone(1.0))
    lost = system.inputs.pop()
    system.stream.end()
    heard += run(microphone, system, 3.0)
    system.inputs.append(lost)
    heard += run(microphone, system, 1.0) + listen(microphone, system, tone(1.0))
    assert notices(heard)[1:] == ["USB Mic is back"]
    assert len(pcm(heard + rest(microphone))) == 2 * RATE


def test_a_gap_is_stated_while_the_device_is_still_away() -> None:
    system = SoundSystem([Input()])
    microphone = opened(system)
    listen(microphone, system, tone(1.0))
    system.inputs.clear()
    system.stream.end()
    away = [one for one in run(microphone, system, 5.0) if isinstance(one, Chunk)]
    (mark,) = [chunk for chunk in away if not len(chunk.pcm)]
    assert mark.start == pytest.approx(3 * RATE, abs=RATE * 0.2)
    assert mark.reason == "USB Mic was gone"


def test_a_device_that_never_comes_back() -> None:
    system = SoundSystem([Input()])
    microphone = opened(system)
    heard = listen(microphone, system, tone(1.0))
    system.inputs.clear()
    system.stream.end()
    heard += run(microphone, system, 60.0)
    assert 50 <= system.starts <= 60  # looked for about every second
    assert len(notices(heard)) == 1
    heard += rest(microphone)
    assert len(pcm(heard)) == RATE
    last = heard[-1]
    assert isinstance(last, Chunk)
    assert last.start == pytest.approx(61 * RATE, abs=RATE * 0.01)
    assert microphone.take(0) is None


def test_another_device_takes_over_only_where_none_was_named() -> None:
    for device, taken_over in ((None, True), ("usb", False), ("0", False)):
        system = SoundSystem([Input(), Input("Webcam")])
        microphone = opened(system, device)
        listen(microphone, system, tone(1.0))
        system.inputs.pop(0)
        system.stream.end()
        heard = run(microphone, system, 3.0)
        assert (len(system.streams) == 2) == taken_over
        if taken_over:
            heard += listen(microphone, system, tone(1.0))
            assert notices(heard)[1:] == ["Webcam is heard in place of USB Mic"]
        microphone.close()


def test_a_device_that_is_slow_to_start_is_waited_for() -> None:
    system = SoundSystem([Input("Headset")])
    microphone = opened(system)
    assert not run(microphone, system, 4.0)
    heard = listen(microphone, system, tone(1.0)) + rest(microphone)
    assert (chunks(heard)[0].start, len(pcm(heard))) == (0, RATE)
    assert not notices(heard)


QUIET = "no sound for 10 s: is USB Mic the right microphone? `livecap devices` shows them"


@pytest.mark.parametrize(
    ("level", "told"), [(None, True), (-75.0, True), (-60.0, False), (float("nan"), True)]
)
def test_no_sound_from_the_beginning(level: float | None, told: bool) -> None:
    system = SoundSystem([Input()])
    microphone = opened(system)
    peak = 0.0 if level is None else 10 ** (level / 20)
    first = notices(listen(microphone, system, tone(9.8, peak=peak)))
    heard = notices(listen(microphone, system, tone(20.0, peak=peak)))
    assert (first, heard) == ([], [QUIET] if told else [])


def test_no_sound_any_more() -> None:
    system = SoundSystem([Input()])
    microphone = opened(system)
    assert not notices(listen(microphone, system, tone(1.0)))
    assert not notices(listen(microphone, system, tone(30.0, peak=1e-5)))  # a quiet room
    silence = np.zeros(25 * RATE, np.float32)
    for _ in range(2):
        assert notices(listen(microphone, system, silence)) == [QUIET]
        assert not notices(listen(microphone, system, tone(1.0)))


def test_what_was_captured_before_stop_is_given_out() -> None:
    system = SoundSystem([Input(rate=44_100)])
    microphone = opened(system)
    system.play(tone(1.0, 44_100))
    microphone.stop()
    system.now += 0.01
    system.stream.give(tone(0.1, 44_100)[:, None])  # too late
    heard = microphone.take(0)
    assert heard
    assert len(pcm(heard)) == RATE
    assert microphone.take(0) is None
    assert system.stream.closed


def test_what_is_on_its_way_at_stop_is_waited_for() -> None:
    system = SoundSystem([Input()], latency=0.1)
    microphone = opened(system)
    system.play(tone(1.0))
    microphone.stop()
    heard = microphone.take(0)
    assert heard
    system.play(tone(0.08))
    system.now += 0.03
    heard += microphone.take(0) or []
    assert len(pcm(heard)) == round(1.08 * RATE)
    assert microphone.take(0) is None


def test_closing_twice() -> None:
    system = SoundSystem([Input()])
    microphone = opened(system)
    microphone.close()
    microphone.close()
    assert system.stream.closed
    assert microphone.take(0) is None


def test_a_loopback_keeps_time_while_nothing_is_played() -> None:
    system = SoundSystem([Input("Speakers [Loopback]", api="Windows WASAPI")])
    microphone = opened(system, loopback=True)
    heard = run(microphone, system, 20.0) + listen(microphone, system, tone(1.0))
    heard += run(microphone, system, 5.0) + listen(microphone, system, tone(1.0))
    starts = [chunk.start for chunk in chunks(heard + rest(microphone)) if chunk.reason]
    assert starts == [pytest.approx(20 * RATE, abs=160), pytest.approx(26 * RATE, abs=160)]
    assert {chunk.reason for chunk in chunks(heard)} == {"", "nothing was played"}
    assert not notices(heard)


def test_system_audio_is_asked_for_while_the_device_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str | None] = []
    for before in (None, "desk"):
        if before:
            monkeypatch.setenv("PULSE_SOURCE", before)
        system = SoundSystem(
            [Input("default", channels=32), Input("pulse", channels=32)],
            on_open=lambda: asked.append(os.environ.get("PULSE_SOURCE")),
        )
        microphone = opened(system, loopback=True)
        assert microphone.name == "system audio (pulse)"
        assert os.environ.get("PULSE_SOURCE") == before
        opened(system, "pulse").close()
    assert asked == ["@DEFAULT_MONITOR@", None, "@DEFAULT_MONITOR@", "desk"]
