"""Any container and codec, whole or cut, by name or by pipe; and errors that say what to do."""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from media import (
    Drip,
    Sound,
    chunk,
    decibels,
    heard,
    joined,
    mux,
    read,
    tone,
    wav,
)

from livecap.audio import AudioBlock, AudioReader
from livecap.errors import AudioError, EmptyAudio, NoAudioTrack, NotAudio
from livecap.events import RATE

# -- containers and codecs ---------------------------------------------------------------------

ODD = chunk(b"LIST", b"INFOabc") + chunk(b"bext", bytes(603)) + chunk(b"junk", b"x" * 31)
A = tone(1.0)

WAVS: dict[str, bytes] = {
    "u8": wav(A, kind="u8"),
    "s16": wav(A),
    "s24": wav(A, kind="s24"),
    "s32": wav(A, kind="s32"),
    "f32": wav(A, kind="f32"),
    "f64": wav(A, kind="f64"),
    "extensible": wav(A, kind="s24", mask=4),
    "size ffffffff": wav(A, size=0xFFFFFFFF),
    "size 7ffff000": wav(A, size=0x7FFFF000),
    "size 0": wav(A, size=0),
    "odd chunks": wav(A, before=ODD, after=ODD),
    "odd data, chunk after": wav(A, kind="u8", after=chunk(b"id3 ", b"x" * 999)),
}
for _kind, _form in [("w64", "w64"), ("caf", "caf"), ("aiff", "aiff"), ("au", "au")]:
    _codec = "pcm_s16le" if _form == "w64" else "pcm_s16be"
    WAVS[_kind] = mux(Sound(A, RATE, _codec), form=_form)
WAVS["rf64"] = mux(Sound(A, RATE), form="wav", options={"rf64": "always"})
WAVS["flac"] = mux(Sound(A, RATE, "flac"), form="flac")
WAVS["a-law"] = mux(Sound(A, RATE, "pcm_alaw"), form="wav")
WAVS["mu-law"] = mux(Sound(A, RATE, "pcm_mulaw"), form="wav")
WAVS["ima adpcm"] = mux(Sound(A, RATE, "adpcm_ima_wav"), form="wav")


@pytest.mark.parametrize("kind", WAVS)
@pytest.mark.parametrize("piped", [False, True])
def test_lossless_and_nearly_lossless(kind: str, piped: bool) -> None:
    source = Drip(WAVS[kind]) if piped else io.BytesIO(WAVS[kind])
    with AudioReader(source) as reader:
        blocks = list(reader)
    got = joined(blocks)[0]
    loose = kind in ("u8", "a-law", "mu-law", "ima adpcm") or kind.startswith("odd data")
    if kind != "ima adpcm":  # whole blocks of it only
        assert blocks[0].start == 0
        assert len(got) == len(A)
    first = 100 if kind == "ima adpcm" else 0  # its step size starts small
    np.testing.assert_allclose(got[first : len(A)], A[first:], atol=0.02 if loose else 2e-5)


T48 = tone(2.0, 48_000)
T44 = tone(2.0, 44_100)
CODED: dict[str, tuple[bytes, int]] = {  # bytes, most samples that may come beyond two seconds
    "mp3": (mux(Sound(T44, 44_100, "libmp3lame"), form="mp3"), 0),
    "mp3 without header": (
        mux(Sound(T44, 44_100, "libmp3lame"), form="mp3", options={"write_xing": "0"}), 1400
    ),
    "opus": (mux(Sound(T48, codec="libopus"), form="ogg"), 0),
    "webm": (mux(Sound(T48, codec="libopus"), form="webm", options={"live": "1"}), 400),
    "m4a": (mux(Sound(T44, 44_100, "aac"), form="ipod"), 400),
    "fragmented mp4": (
        mux(
            Sound(T44, 44_100, "aac"),
            form="mp4",
            options={"movflags": "frag_keyframe+empty_moov", "frag_duration": "500000"},
        ),
        800,
    ),
    "adts": (mux(Sound(T44, 44_100, "aac"), form="adts"), 800),
    "mpeg-ts": (mux(Sound(T44, 44_100, "aac"), form="mpegts", video=True), 800),
    "amr": (mux(Sound(tone(2.0, 8000), 8000, "libopencore_amrnb"), form="amr"), 800),
    "3gp": (mux(Sound(tone(2.0, 8000), 8000, "libopencore_amrnb"), form="3gp"), 800),
    "alac": (mux(Sound(T44, 44_100, "alac"), form="ipod"), 1),
    "flv": (mux(Sound(T44, 44_100, "aac"), form="flv"), 800),
    "avi": (mux(Sound(T48, 48_000, "libmp3lame"), form="avi", video=True), 1400),
}  # fmt: skip


FAST = mux(Sound(T44, 44_100, "aac"), form="ipod", options={"movflags": "faststart"})
CODED["m4a, index first"] = (FAST, 400)


@pytest.mark.parametrize("kind", CODED)
@pytest.mark.parametrize("piped", [False, True])
def test_lossy_codecs_keep_length_level_and_start(kind: str, piped: bool) -> None:
    data, beyond = CODED[kind]
    with AudioReader(Drip(data) if piped else io.BytesIO(data)) as reader:
        blocks = list(reader)
    got = joined(blocks)[0]
    assert blocks[0].start <= 800
    beyond += 1400 if piped and kind == "mp3" else 0  # where it ends is known to files only
    assert 2 * RATE <= len(got) <= 2 * RATE + beyond
    assert abs(decibels(got[2000:30_000]) - decibels(A)) < 1.5
    assert all(block.pcm.dtype == np.float32 for block in blocks)


def test_what_counts_is_the_bytes_not_the_name(tmp_path: Path) -> None:
    for name, data in [("talk.wav", CODED["mp3"][0]), ("talk.mp3", wav(A)), ("a\nb", wav(A))]:
        path = tmp_path / name
        path.write_bytes(data)
        with AudioReader(path) as reader:
            assert sum(block.pcm.shape[1] for block in reader) in (RATE, 2 * RATE)


def test_leading_tag_of_100_kb() -> None:
    size = 100_000
    tag = b"ID3\x04\x00\x00" + bytes(size >> s & 127 for s in (21, 14, 7, 0)) + bytes(size)
    assert len(heard(tag + CODED["mp3"][0])) == 2 * RATE


def test_truncated_inside_a_sample() -> None:
    got = heard(wav(A)[: 44 + 2 * 9000 + 1])
    np.testing.assert_allclose(got, A[:9000], atol=2e-5)


@pytest.mark.parametrize("kind", ["m4a", "mp3", "opus", "webm", "mpeg-ts", "fragmented mp4"])
def test_a_file_cut_short_gives_what_it_has(kind: str) -> None:
    data = CODED[kind][0]
    if kind == "m4a":  # its index comes last: only one that comes first survives a cut
        data = FAST
    assert len(heard(data[: len(data) * 2 // 3])) > RATE // 2


def test_chained_ogg_with_another_rate_and_layout() -> None:
    stereo = np.stack([tone(1.0, 32_000), tone(1.0, 32_000)])
    links = [
        mux(Sound(tone(1.0, 48_000), codec="libopus"), form="ogg"),
        mux(Sound(np.stack([T48, T48])[:, :48_000], codec="libopus"), form="ogg"),
        mux(Sound(stereo, 32_000, "flac"), form="ogg"),
    ]
    for source in (io.BytesIO(b"".join(links)), Drip(b"".join(links))):
        with AudioReader(source) as reader:
            blocks = list(reader)
            assert reader.gaps == []
        got = joined(blocks)[0]
        assert len(got) == 3 * RATE
        assert [one.end for one in blocks[:-1]] == [one.start for one in blocks[1:]]
        assert abs(decibels(got[-8000:]) - decibels(A)) < 0.5


def test_rate_changes_on_the_way() -> None:
    other = mux(Sound(tone(1.0, 22_050), 22_050, "libmp3lame"), form="mp3")
    with AudioReader(io.BytesIO(CODED["mp3"][0] + other)) as reader:
        blocks = list(reader)
    assert abs(blocks[-1].end - 3 * RATE) < 1600
    assert abs(decibels(joined(blocks)[0, 34_000:46_000]) - decibels(A)) < 1


# -- tracks and errors -------------------------------------------------------------------------


def film() -> bytes:
    return mux(
        Sound(tone(1.0, hertz=300, peak=0.1), RATE, language="ger", title="Fassung"),
        Sound(tone(1.0, hertz=300, peak=0.4), RATE, language="eng"),
        form="matroska",
        video=True,
    )


PEAKS = {None: 0.1, 0: 0.1, 1: 0.4, "1": 0.4, "en": 0.4, "de": 0.1, "deu": 0.1, "en-GB": 0.4}


@pytest.mark.parametrize("track", PEAKS)
def test_track_by_number_and_language(track: int | str | None) -> None:
    peak = joined(read(film(), track=track)).max()
    assert peak == pytest.approx(PEAKS[track], abs=0.01)


@pytest.mark.parametrize("track", [2, -1, "fr", "7", ""])
def test_a_missing_track_lists_what_there_is(track: int | str) -> None:
    with pytest.raises(NoAudioTrack) as caught:
        read(film(), track=track)
    assert "track 0: pcm_s16le 16000 Hz mono, ger, 'Fassung'" in caught.value.remedy
    assert "track 1" in caught.value.remedy


def test_tracks_are_described_and_duration_known() -> None:
    with AudioReader(io.BytesIO(film())) as reader:
        first, second = reader.tracks
        assert (first.language, first.title, second.channels) == ("ger", "Fassung", 1)
        assert reader.duration == pytest.approx(RATE, abs=200)


BROKEN: dict[str, tuple[bytes, type[AudioError]]] = {
    "nothing": (b"", EmptyAudio),
    "header only": (wav(A[:0]), EmptyAudio),
    "text": (b"Once upon a time.\n" * 50, NotAudio),
    "noise": (np.random.default_rng(1).bytes(50_000), NotAudio),
    "zeros": (bytes(50_000), NotAudio),
    "playlist": (b"#EXTM3U\n#EXTINF:9,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n", NotAudio),
    "concat": (b"ffconcat version 1.0\nfile /etc/hostname\n", NotAudio),
    "no audio": (mux(form="matroska", video=True), NoAudioTrack),
    "subtitles": (b"1\n00:00:01,000 --> 00:00:02,000\nhello\n\n" * 5, NoAudioTrack),
    "rate of 1 Hz": (wav(A, 1), AudioError),
    "rate of 2 GHz": (wav(A[:100], 2_000_000_000, "u8"), AudioError),
    "nothing decodes": (CODED["opus"][0][:300] + bytes(9000), AudioError),
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("piped", [False, True])
def test_errors_say_what_to_do(kind: str, piped: bool) -> None:
    data, error = BROKEN[kind]
    with pytest.raises(error) as caught:
        AudioReader(Drip(data) if piped else io.BytesIO(data), name="x.wav")
    assert type(caught.value) is error or error is AudioError
    assert "x.wav" in str(caught.value) or "Hz" in str(caught.value)
    assert len(caught.value.remedy) > 10


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.wav", Path("a\0b")):
        with pytest.raises(AudioError) as caught:
            AudioReader(path)
        assert caught.value.remedy
    if os.geteuid():
        locked = tmp_path / "locked.wav"
        locked.touch(mode=0)
        with pytest.raises(AudioError, match="may not be read"):
            AudioReader(locked)


def test_a_source_that_breaks_gives_what_came_before() -> None:
    source = Drip(wav(A), error=OSError("unplugged"))
    seen: list[AudioBlock] = []
    with AudioReader(source) as reader, pytest.raises(AudioError, match="unplugged"):
        seen.extend(reader)
    assert seen[-1].end == RATE
