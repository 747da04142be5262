"""Names of raw PCM formats, tracks, languages and channels: what a user writes and reads."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from livecap.errors import ConfigError

LOWEST_RATE, HIGHEST_RATE = 1_000, 768_000  # Hz; outside of it a header is broken, or a bomb
MOST_CHANNELS = 256  # more is no recording

_WIDTHS = {  # bytes a sample
    "s8": 1, "u8": 1, "mulaw": 1, "alaw": 1,
    "s16le": 2, "s16be": 2, "s24le": 3, "s32le": 4, "f32le": 4, "f64le": 8,
}  # fmt: skip

_RAW_REMEDY = "Write codec:rate:channels, for example s16le:16000:1; codecs are " + ", ".join(
    _WIDTHS
)


@dataclass(frozen=True, slots=True)
class RawFormat:
    """PCM without a header: how to read its bytes. Several channels are interleaved."""

    codec: str
    rate: int  # Hz
    channels: int

    @classmethod
    def parse(cls, text: str) -> "RawFormat":
        """'s16le:16000:1' -> RawFormat; rate and channels may be left out (16000, 1).

        Raises ConfigError, with the known codecs, for anything else.
        """
        codec, _, rest = text.strip().lower().partition(":")
        rate, _, channels = rest.partition(":")
        if codec not in _WIDTHS:
            raise ConfigError(f"--raw: unknown codec {codec!r}", remedy=_RAW_REMEDY)
        if not _within(rate or "16000", LOWEST_RATE, HIGHEST_RATE):
            raise ConfigError(
                f"--raw: rate {rate!r} is no number from {LOWEST_RATE} to {HIGHEST_RATE}",
                remedy=_RAW_REMEDY,
            )
        if not _within(channels or "1", 1, MOST_CHANNELS):
            raise ConfigError(
                f"--raw: channels {channels!r} is no number from 1 to {MOST_CHANNELS}",
                remedy=_RAW_REMEDY,
            )
        return cls(codec, int(rate or 16_000), int(channels or 1))

    @property
    def width(self) -> int:
        """Bytes in one sample of all channels together."""
        return _WIDTHS[self.codec] * self.channels

    def decode(self, data: bytes) -> NDArray[Any]:
        """Whole samples as bytes -> [channel, sample], integers in the width they came in."""
        assert len(data) % self.width == 0, "cut inside a sample"
        return _samples(self.codec, data).reshape(-1, self.channels).T


def _within(text: str, low: int, high: int) -> bool:
    return text.isascii() and text.isdigit() and low <= int(text[:12]) <= high


def _samples(codec: str, data: bytes) -> NDArray[Any]:
    if codec == "s24le":
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        return wide.reshape(-1).view("<i4")
    if codec in ("mulaw", "alaw"):
        table = _mulaw() if codec == "mulaw" else _alaw()
        return table[np.frombuffer(data, np.uint8)]
    if codec == "s8":
        return np.frombuffer(data, np.int8).astype(np.int16) * np.int16(256)
    names = {"u8": "u1", "s16le": "<i2", "s16be": ">i2", "s32le": "<i4"}
    names |= {"f32le": "<f4", "f64le": "<f8"}
    return np.frombuffer(data, names[codec])


def _mulaw() -> NDArray[np.int16]:
    """All 256 codes of G.711 mu-law -> 16-bit samples."""
    code = ~np.arange(256, dtype=np.int32) & 0xFF
    size = (((code & 0x0F) << 3) + 0x84 << ((code & 0x70) >> 4)) - 0x84
    return np.where(code & 0x80, -size, size).astype(np.int16)


def _alaw() -> NDArray[np.int16]:
    """All 256 codes of G.711 A-law -> 16-bit samples."""
    code = np.arange(256, dtype=np.int32) ^ 0x55
    power = (code & 0x70) >> 4
    size = ((code & 0x0F) << 4) + 8
    size = np.where(power > 0, size + 0x100 << np.maximum(power - 1, 0), size)
    return np.where(code & 0x80, size, -size).astype(np.int16)


@dataclass(frozen=True, slots=True)
class AudioTrack:
    """One audio track of a container."""

    number: int  # from 0, among the audio tracks
    codec: str
    rate: int  # Hz, as the header says
    channels: int
    layout: str
    language: str | None  # as the container writes it, mostly three letters
    title: str | None
    default: bool

    def describe(self) -> str:
        """One line for a person: number, codec, rate, layout, language, title."""
        parts = [f"{self.codec} {self.rate} Hz {self.layout}"]
        parts += [self.language] if self.language else []
        parts += [repr(self.title)] if self.title else []
        parts += ["default"] if self.default else []
        return f"track {self.number}: " + ", ".join(parts)


def same_language(one: str | None, other: str) -> bool:
    """Whether two codes of ISO 639-1 or 639-2 (either form), with any region, name one language."""
    return one is not None and _language(one) == _language(other)


def _language(code: str) -> str:
    code = code.strip().lower().replace("_", "-").partition("-")[0]
    for entry in _LANGUAGES.split():
        if code in entry.split(":"):
            return entry.partition(":")[0]
    return code


# ISO 639-1 and both forms of 639-2, of the languages that speech models know best
_LANGUAGES = """
af:afr am:amh ar:ara as:asm az:aze ba:bak be:bel bg:bul bn:ben bo:tib:bod br:bre bs:bos ca:cat
cs:cze:ces cy:wel:cym da:dan de:ger:deu el:gre:ell en:eng es:spa et:est eu:baq:eus fa:per:fas
fi:fin fo:fao fr:fre:fra gl:glg gu:guj ha:hau he:heb hi:hin hr:hrv ht:hat hu:hun hy:arm:hye id:ind
is:ice:isl it:ita ja:jpn jv:jav ka:geo:kat kk:kaz km:khm kn:kan ko:kor la:lat lb:ltz ln:lin lo:lao
lt:lit lv:lav mg:mlg mi:mao:mri mk:mac:mkd ml:mal mn:mon mr:mar ms:may:msa mt:mlt my:bur:mya
ne:nep nl:dut:nld nn:nno no:nor oc:oci pa:pan pl:pol ps:pus pt:por ro:rum:ron ru:rus sa:san sd:snd
si:sin sk:slo:slk sl:slv sn:sna so:som sq:alb:sqi sr:srp su:sun sv:swe sw:swa ta:tam te:tel tg:tgk
th:tha tk:tuk tl:tgl tr:tur tt:tat uk:ukr ur:urd uz:uzb vi:vie yi:yid yo:yor zh:chi:zho
"""

_SPEAKERS = {
    "FL": "left", "FR": "right", "FC": "centre", "LFE": "low frequencies", "BL": "back left",
    "BR": "back right", "BC": "back centre", "SL": "side left", "SR": "side right",
}  # fmt: skip


def labels(names: tuple[str, ...]) -> tuple[str, ...]:
    """FFmpeg's channel names ('FL', 'NONE' for unknown) -> a label for a person for each."""
    if len(names) == 1:
        return ("mono",)
    if len(names) == 2:
        return ("left", "right")
    return tuple(
        f"channel {number + 1}" if name == "NONE" else _SPEAKERS.get(name, name)
        for number, name in enumerate(names)
    )
