"""Frames of `/v1/realtime` -> plain values, whatever a server puts into them; and audio -> frames.

Source: OpenAI Realtime API, transcription sessions.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from livecap.client.replay_buffer import Pcm16
from livecap.events import RATE

OPENAI_RATE = 24_000  # Hz: the one that every server of this API takes
MS = RATE // 1000  # samples

Frame = Mapping[str, object]
Message = str | bytes  # of a WebSocket


@dataclass(frozen=True, slots=True)
class Wanted:
    """How live audio is to be captioned."""

    model: str | None = None  # as the server calls it; None: its own choice
    language: str | None = None  # ISO 639-1
    prompt: str = ""
    keywords: tuple[str, ...] = ()
    threshold: float = 0.5  # probability of speech
    padding: int = 300  # ms kept before speech
    pause: int | None = None  # ms of silence that end a turn; None: the server's choice


def frame_of(data: Message) -> Frame:
    """A message -> its object. Raises ValueError for anything else."""
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def text(frame: Frame, name: str) -> str:
    """A string, '' if there is none."""
    found = frame.get(name)
    return found if isinstance(found, str) else ""


def number(frame: Frame, name: str) -> float | None:
    """A finite number, if there is one."""
    found = frame.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if abs(found) < 1e12 else None


def inner(frame: Frame, *path: str) -> Frame:
    """An object in it, empty if there is none."""
    for name in path:
        found = frame.get(name)
        frame = found if isinstance(found, dict) else {}
    return frame


def objects(frame: Frame, name: str) -> Sequence[Frame]:
    """The objects of a list."""
    found = frame.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def samples(seconds: float | None) -> int | None:
    """Seconds -> samples."""
    return None if seconds is None else round(seconds * RATE)


def split_hotwords(hotwords: str) -> tuple[str, ...]:
    """Names and terms with commas between -> each apart, as OpenAI's API has them."""
    return tuple(word.strip() for word in hotwords.split(",") if word.strip())


def event(kind: str, **fields: object) -> str:
    """A client's event."""
    return json.dumps({"type": kind, **fields}, ensure_ascii=False)


def configuration(wanted: Wanted, *, own: bool) -> str:
    """`session.update`. `own`: the server is livecap's, which takes 16 kHz and tells more."""
    turns: dict[str, object] = {
        "type": "server_vad",
        "threshold": wanted.threshold,
        "prefix_padding_ms": wanted.padding,
    }
    if wanted.pause is not None:
        turns["silence_duration_ms"] = wanted.pause
    transcription = {
        "model": wanted.model,
        "language": wanted.language,
        "prompt": wanted.prompt or None,
        "keywords": list(wanted.keywords) or None,
    }
    audio_input = {
        "format": {"type": "audio/pcm", "rate": RATE if own else OPENAI_RATE},
        "transcription": {
            name: value for name, value in transcription.items() if value is not None
        },
        "turn_detection": turns,
    }
    session: dict[str, object] = {"type": "transcription", "audio": {"input": audio_input}}
    if own:
        session["include"] = ["livecap.partial", "livecap.words"]
    return event("session.update", session=session)


class Raw:
    """Audio as livecap's server takes it: binary messages."""

    def encode(self, pcm: Pcm16) -> Message:
        """[sample] at 16 kHz -> a message."""
        return pcm.astype("<i2", copy=False).tobytes()

    def flush(self) -> list[Message]:
        """Nothing is held back."""
        return []


class Encoded:
    """Audio as every server takes it: in base64 and at 24 kHz, to which it is resampled."""

    def __init__(self) -> None:
        import av

        self._resampler = av.AudioResampler("s16", "mono", OPENAI_RATE)

    def encode(self, pcm: Pcm16) -> Message:
        """[sample] at 16 kHz -> a message; a few milliseconds are held back."""
        import av

        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(pcm[None]), "s16", "mono")
        frame.sample_rate = RATE
        return self._message(self._resampler.resample(frame))

    def flush(self) -> list[Message]:
        """What was held back. Nothing can be encoded after it."""
        return [self._message(self._resampler.resample(None))]

    def _message(self, frames: Sequence[Any]) -> Message:
        parts = [np.zeros(0, np.int16), *(frame.to_ndarray()[0] for frame in frames)]
        audio = np.concatenate(parts).astype("<i2", copy=False).tobytes()
        return event("input_audio_buffer.append", audio=base64.b64encode(audio).decode("ascii"))
