"""The table of odd signals: levels, channels, rates, and rooms; rows 26 to 39 of the list."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from command import clip
from engines import clip as foreign_clip
from media import Signal, Sound, mux, wav
from noises import RATE, at_level, breath, dither, fan, far_away, hum, keyboard, music, shaped
from oddities import (
    ANYTHING,
    FOX,
    NOTHING,
    Case,
    Has,
    Result,
    Says,
    between,
    fox,
    fox_at,
    in_room,
    quiet,
    speech,
    word,
)

PROMPT = ("--prompt", "Thank you. So, Anna and Ben, as I said to you:")
LONG = 20.0  # seconds of a noise
SPOKEN = Says(FOX)
ASKED = Has("ask not what your country can do for you")


def layers(channels: int, *placed: int, gain: float = 1.0) -> Signal:
    """The sentence on some of the channels, [channel, sample]."""
    rows = np.zeros((channels, len(fox())), np.float32)
    for row in placed:
        rows[row] = fox() * gain
    return rows


def broken() -> Signal:
    """Samples that are no numbers, and some too small to be any, among speech."""
    signal = between(0.3, fox())
    signal[100:110], signal[200], signal[300] = np.nan, np.inf, -np.inf
    signal[400:2000] = 1e-40
    signal[20_000:20_002] = np.nan
    return signal


def over(signal: Signal, other: Signal) -> Signal:
    """Both at once."""
    length = max(len(signal), len(other))
    mixed = np.zeros(length, np.float32)
    for one in (signal, other):
        mixed[: len(one)] += one
    return mixed


NOISES: dict[str, tuple[int, Callable[[], Signal]]] = {  # row, sound
    "digital silence": (34, lambda: quiet(LONG)),
    "dither": (34, lambda: dither(LONG)),
    "room tone -60": (34, lambda: at_level(shaped(LONG, 1, seed=1), -60)),
    "room tone -45": (34, lambda: at_level(shaped(LONG, 1, seed=2), -45)),
    "white noise -45": (34, lambda: at_level(shaped(LONG, seed=3), -45)),
    "fan -30": (34, lambda: at_level(fan(LONG, 4), -30)),
    "pink noise -30": (34, lambda: at_level(shaped(LONG, 1, seed=5), -30)),
    "low noise -30": (34, lambda: at_level(shaped(LONG, 1, high=500, seed=6), -30)),
    "keyboard": (34, lambda: at_level(keyboard(LONG), -30)),
    "keyboard in a room": (34, lambda: in_room(at_level(keyboard(LONG, 1), -25))),
    "breath -50": (34, lambda: at_level(breath(LONG, 1), -50)),
    "breath -30": (34, lambda: at_level(breath(LONG, 2), -30)),
    "breath in a room": (34, lambda: in_room(at_level(breath(LONG, 3), -38))),
    "hum": (33, lambda: at_level(hum(LONG), -20)),
    "hum of 60 Hz": (33, lambda: at_level(hum(LONG, 60), -30)),
    "offset": (33, lambda: np.full(round(LONG * RATE), 0.3, np.float32)),
    "offset in a room": (33, lambda: in_room(quiet(LONG), -45) + np.float32(0.3)),
    "music": (35, lambda: at_level(music(LONG), -20)),
}


def noise(name: str, *flags: str) -> Case:
    row, sound = NOISES[name]
    return Case(row, lambda: wav(sound()), NOTHING, flags=flags)


def said(row: int, make: Callable[[], Signal], *flags: str, result: Result = SPOKEN) -> Case:
    return Case(row, lambda: wav(make()), result, flags=flags)


def at_rate(rate: int) -> Case:
    result = Says(FOX) if rate > 16_000 else Has("quick brown fox")
    return Case(29, lambda: wav(fox_at(rate), rate), result)


HEARD = ("room tone -45", "fan -30", "keyboard", "hum")  # by the model, if it is asked to
RATES = (7999, 8000, 11_025, 22_050, 44_100, 96_000, 192_000)

SIGNALS: dict[str, Case] = {
    **{name: noise(name) for name in NOISES},
    **{f"{name}, with a prompt": noise(name, *PROMPT) for name in NOISES},
    **{f"{name}, no vad": noise(name, "--no-vad") for name in HEARD},
    **{f"{name}, no vad, with a prompt": noise(name, "--no-vad", *PROMPT) for name in HEARD},
    "digital silence, no vad": noise("digital silence", "--no-vad"),
    "breath -30, no vad, with a prompt": replace(noise("breath -30", "--no-vad", *PROMPT)),
    "breath -30, threshold lowered, with a prompt": replace(
        noise("breath -30", "--vad-threshold", "0.15", *PROMPT)
    ),
    "breath -30, threshold lowered": noise("breath -30", "--vad-threshold", "0.15"),
    # 26-30: channels, rates, numbers
    "left channel only": Case(26, lambda: wav(layers(2, 0))),
    "right channel only": Case(26, lambda: wav(layers(2, 1))),
    "one side, split": Case(26, lambda: wav(layers(2, 1)), flags=("--channels", "split")),
    "anti-phase": Case(27, lambda: wav(np.stack([fox(), -fox()]))),
    "5.1, in the centre": Case(28, lambda: wav(layers(6, 2), mask=0x3F)),
    "5.1 in aac": Case(
        28,
        lambda: mux(Sound(layers(6, 2), RATE, "aac", layout="5.1"), form="ipod"),
        name="film.m4a",
    ),
    "4 channels, the last": Case(28, lambda: wav(layers(4, 3))),
    "quad": Case(28, lambda: wav(layers(4, 2), mask=0x33)),
    **{f"{rate} Hz": at_rate(rate) for rate in RATES},
    "no numbers": Case(30, lambda: wav(broken(), kind="f32"), starts=0.3),
    "nothing but NaN": Case(30, lambda: wav(quiet(3) * np.float32("nan"), kind="f32"), NOTHING),
    # 31-34: levels
    "speech at -40": said(31, lambda: at_level(speech(), -40), result=ASKED),
    "speech at -50": said(31, lambda: at_level(speech(), -50), result=ASKED),
    "speech at -50, threshold lowered": said(
        31,
        lambda: at_level(speech(), -50),
        "--vad-threshold",
        "0.3",
        result=Has("my fellow americans ask not what your country"),
    ),
    "speech at -50 in a room of -70": said(31, lambda: in_room(at_level(fox(), -50), -70)),
    "speech at -60, no vad": said(31, lambda: at_level(fox(), -60), "--no-vad"),
    "clipped": said(32, lambda: np.clip(fox() * 10, -1, 1)),
    "clipped, real": said(
        32,
        lambda: np.clip(speech() * 10, -1, 1),
        result=ASKED,
    ),
    "speech on an offset": said(33, lambda: 0.3 + 0.5 * fox()),
    "speech in hum": said(33, lambda: over(at_level(fox(), -20), at_level(hum(3.5), -35))),
    "speech in a fan": said(34, lambda: over(at_level(fox(), -20), at_level(fan(3.5), -40))),
    # 35-39: in company
    "speech over music": said(
        35,
        lambda: over(at_level(fox(), -18), at_level(music(3.5), -38)),
        result=Has("brown fox jumps"),
    ),
    "a minute of silence, then a word": Case(
        36, lambda: wav(between(60, word())), Says("country"), starts=60.0
    ),
    "ten seconds of room, then a word": Case(
        36, lambda: wav(in_room(between(10, word(), 5))), Says("country"), starts=10.0
    ),
    "a word in silence, with a prompt": Case(
        36, lambda: wav(between(5, word(), 5)), Says("country"), flags=PROMPT
    ),
    "a greeting in silence": Case(
        36, lambda: wav(between(20, clip("hello_world"), 20)), Says("hello world"), starts=20.0
    ),
    "a sentence twice": said(
        37, lambda: np.concatenate([between(0.5, fox())] * 2), result=Says(f"{FOX} {FOX}")
    ),
    "speech right after speech": Case(
        0,
        lambda: wav(np.concatenate([fox(), speech()[-8 * RATE :]])),
        Has(f"{FOX} ask not what your country can do for you"),
    ),
    "a sentence three times": Case(
        37,
        lambda: wav(np.concatenate([between(0.5, fox())] * 3)),
        Says(f"{FOX} {FOX} {FOX}"),
    ),
    "a greeting, again and again": said(
        37,
        lambda: np.concatenate([between(0.3, clip("hello_world"))] * 5),
        result=Has("hello world"),  # tiny.en loops on it; the copies it can't count are reported
    ),
    "counting": Case(37, lambda: wav(clip("counting")), Says("1 2 3 4 5 6 7 8 9 10")),
    "another language": Case(38, lambda: wav(foreign_clip("pangrama", "pl").numpy()), ANYTHING),
    "two at once": said(39, lambda: over(fox(), 0.3 * speech()), result=Has("lazy dog")),
    "far away": said(39, lambda: far_away(fox()), result=Has("fox jumps over the lazy dog")),
}
