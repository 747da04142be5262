"""The table of odd files: containers, codecs and headers, rows 1 to 25 of the list of oddities."""

import struct

import numpy as np
from command import SPEECH
from media import Signal, Sound, chunk, mux, wav
from noises import RATE
from oddities import (
    ANYTHING,
    FOX,
    NOTHING,
    Case,
    Fails,
    Has,
    Says,
    between,
    filling,
    fox,
    fox_at,
    quiet,
    speech,
)

ODD = chunk(b"LIST", b"INFOabc") + chunk(b"bext", bytes(603)) + chunk(b"junk", b"x" * 31)
HOUR = 3600 * RATE  # samples
BOTH = Says(f"{SPEECH} {FOX}")


def taped(
    codec: str, form: str, rate: int = RATE, bits: int | None = None, **options: str
) -> bytes:
    """The sentence in this codec and container."""
    return mux(Sound(fox_at(rate), rate, codec, bits=bits), form=form, options=options)


def tagged(size: int) -> bytes:
    """An MP3 behind a tag of so many bytes."""
    head = b"ID3\x04\x00\x00" + bytes(size >> shift & 127 for shift in (21, 14, 7, 0))
    return head + bytes(size) + taped("libmp3lame", "mp3", 44_100)


def gsm(seconds: float) -> bytes:
    """A call centre's WAV of GSM frames, silent ones."""
    frames = bytes(65) * round(seconds * 25)  # two frames of 20 ms each
    form = struct.pack("<HHIIHHHH", 0x31, 1, 8000, 1625, 65, 0, 2, 320)
    body = b"WAVE" + chunk(b"fmt ", form) + chunk(b"data", frames)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def chained() -> bytes:
    """An Ogg stream whose first recording is stereo and whose second is mono of another rate."""
    twice = np.stack([fox_at(48_000)] * 2)
    second = mux(Sound(speech(), RATE, "flac"), form="ogg")
    return mux(Sound(twice, codec="libopus"), form="ogg") + second


def film(first: Signal, second: Signal | None = None, **options: str) -> bytes:
    """A Matroska file with pictures and one or two languages."""
    sounds = [Sound(first, RATE, language="eng", title="film")]
    if second is not None:
        sounds.append(Sound(second, RATE, language="ger", title="commentary"))
    return mux(*sounds, form="matroska", video=True, options=options)


FILES: dict[str, Case] = {
    # 1-4: hardly anything, and exactly a window
    "empty": Case(1, lambda: b"", Fails("empty_audio")),
    "empty, named mp3": Case(1, lambda: b"", Fails("empty_audio"), "talk.mp3"),
    "empty pipe": Case(1, lambda: b"", Fails("empty_audio"), piped=True),
    "header only": Case(2, lambda: wav(quiet(0)), Fails("empty_audio")),
    "header only, piped": Case(2, lambda: wav(quiet(0)), Fails("empty_audio"), piped=True),
    "half a header": Case(2, lambda: wav(fox())[:30], Fails("not_audio")),
    "one sample": Case(3, lambda: wav(fox()[:1]), NOTHING),
    "10 ms": Case(3, lambda: wav(fox()[8000:8160]), NOTHING),
    "100 ms": Case(3, lambda: wav(quiet(0.1)), NOTHING),
    "half a second": Case(3, lambda: wav(quiet(0.5)), NOTHING),
    "half a second of speech": Case(3, lambda: wav(fox()[4000:12_000]), ANYTHING),
    "one second of speech": Case(3, lambda: wav(fox()[:16_000]), Has("quick")),
    "30 s": Case(4, lambda: wav(filling(30 * RATE)), BOTH),
    "30 s and a sample": Case(4, lambda: wav(filling(30 * RATE + 1)), BOTH),
    "28 s of it, heard whole": Case(4, lambda: wav(filling(28 * RATE)), BOTH, flags=("--no-vad",)),
    # 5-12: WAV and its like
    "size ffffffff": Case(5, lambda: wav(fox(), size=0xFFFFFFFF)),
    "size 7ffff000": Case(5, lambda: wav(fox(), size=0x7FFFF000)),
    "size 0": Case(5, lambda: wav(fox(), size=0)),
    "size ffffffff, piped": Case(5, lambda: wav(fox(), size=0xFFFFFFFF), piped=True),
    "odd chunks": Case(6, lambda: wav(fox(), before=ODD, after=ODD)),
    "cut inside a sample": Case(7, lambda: wav(fox())[:70_001], Has("quick brown fox jumps")),
    "u8": Case(8, lambda: wav(fox(), kind="u8")),
    "u8 silence": Case(8, lambda: wav(quiet(5), kind="u8"), NOTHING),
    "s24": Case(9, lambda: wav(fox(), kind="s24")),
    "s32": Case(9, lambda: wav(fox(), kind="s32")),
    "f32": Case(9, lambda: wav(fox(), kind="f32")),
    "f64, extensible": Case(9, lambda: wav(fox(), kind="f64", mask=4)),
    "floats up to 4": Case(10, lambda: wav(fox() / abs(fox()).max() * 4, kind="f32")),
    "a-law 8 kHz": Case(11, lambda: taped("pcm_alaw", "wav", 8000), Has("quick brown fox")),
    "mu-law 8 kHz": Case(11, lambda: taped("pcm_mulaw", "wav", 8000), Has("quick brown fox")),
    "ima adpcm": Case(11, lambda: taped("adpcm_ima_wav", "wav", 8000), Has("quick brown fox")),
    "gsm": Case(11, lambda: gsm(3), NOTHING),
    "rf64": Case(12, lambda: taped("pcm_s16le", "wav", rf64="always")),
    "w64": Case(12, lambda: taped("pcm_s16le", "w64")),
    "aiff": Case(12, lambda: taped("pcm_s16be", "aiff")),
    "caf": Case(12, lambda: taped("pcm_s16be", "caf")),
    "au": Case(12, lambda: taped("pcm_s16be", "au")),
    # 13-25: containers
    "amr": Case(13, lambda: taped("libopencore_amrnb", "amr", 8000), Has("quick brown fox")),
    "3gp": Case(13, lambda: taped("libopencore_amrnb", "3gp", 8000), Has("quick brown fox")),
    "wide-band amr": Case(13, lambda: b"#!AMR-WB\n" + b"\x7c" * 100, NOTHING),
    "voice note": Case(14, lambda: taped("libopus", "ogg", 48_000), starts=0.0),
    "chained ogg": Case(15, chained, Says(f"{FOX} {SPEECH}")),
    "browser recording": Case(16, lambda: taped("libopus", "webm", 48_000, live="1")),
    "browser recording, piped": Case(
        16, lambda: taped("libopus", "webm", 48_000, live="1"), piped=True
    ),
    "fragmented mp4": Case(
        17,
        lambda: taped("aac", "mp4", 44_100, movflags="frag_keyframe+empty_moov"),
        name="talk.mp4",
    ),
    "m4a, index last": Case(18, lambda: taped("aac", "ipod", 44_100), name="memo.m4a"),
    "m4a, index last, piped": Case(18, lambda: taped("aac", "ipod", 44_100), piped=True),
    "m4a without its index": Case(
        18, lambda: taped("aac", "ipod", 44_100)[:9000], Fails("not_audio"), "memo.m4a"
    ),
    "m4a with pictures": Case(
        19, lambda: mux(Sound(fox_at(44_100), 44_100, "aac"), form="ipod", video=True)
    ),
    "edit list": Case(
        20, lambda: mux(Sound(between(2, fox()), RATE, "aac"), form="ipod"), starts=2.0
    ),
    "vbr mp3 without its header": Case(
        21, lambda: taped("libmp3lame", "mp3", 44_100, write_xing="0"), name="pod.mp3"
    ),
    "48 kbps mp3": Case(21, lambda: taped("libmp3lame", "mp3", 44_100, 48_000), name="pod.mp3"),
    "tag of 100 kB": Case(21, lambda: tagged(100_000), name="pod.mp3"),
    "mp3 named wav": Case(22, lambda: taped("libmp3lame", "mp3", 44_100)),
    "wav named mp3": Case(22, lambda: wav(fox()), name="talk.mp3"),
    "text named wav": Case(22, lambda: b"Once upon a time.\n" * 50, Fails("not_audio")),
    "noise named flac": Case(
        22, lambda: np.random.default_rng(1).bytes(50_000), Fails("not_audio"), "talk.flac"
    ),
    "film": Case(23, lambda: film(fox(), speech()), name="film.mkv"),
    "film, second track": Case(
        23,
        lambda: film(speech(), fox()),
        name="film.mkv",
        flags=("--track", "1"),
    ),
    "film, track by language": Case(
        23,
        lambda: film(speech(), fox()),
        name="film.mkv",
        flags=("--track", "de"),
    ),
    "film, no such track": Case(
        23,
        lambda: film(fox()),
        Fails("no_audio_track"),
        "film.mkv",
        ("--track", "fr"),
        said="track 0: pcm_s16le 16000 Hz mono, eng, 'film'",
    ),
    "starts at 2.5 s": Case(
        24,
        lambda: mux(Sound(fox(), RATE, start=2.5), form="matroska", video=True),
        name="camera.mkv",
        starts=2.5,
    ),
    "hole of 5 s": Case(
        24,
        lambda: mux(
            Sound(np.concatenate([quiet(1.024), fox()]), RATE, gaps={16_384: 5.0}),
            form="matroska",
        ),
        name="camera.mkv",
        starts=6.02,
    ),
    "no audio": Case(
        25, lambda: mux(form="matroska", video=True), Fails("no_audio_track"), "screen.mkv"
    ),
    # 40: headers that promise too much
    "header of 4 h": Case(40, lambda: wav(fox(), size=4 * HOUR * 2)),
    "opus of 6 kbps": Case(
        40, lambda: taped("libopus", "ogg", 48_000, 6000), Has("quick brown fox jumps")
    ),
    "5 min in 60 kB": Case(40, lambda: mux(Sound(quiet(300), RATE, "flac"), form="flac"), NOTHING),
    "rate of 2 GHz": Case(40, lambda: wav(fox(), 2_000_000_000), Fails("bad_audio")),
}
