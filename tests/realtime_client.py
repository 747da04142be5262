"""A client and the live streams of one realtime session, without sockets or models."""

import base64
import json
from typing import Any

import numpy as np
import realtime_frames
from numpy.typing import NDArray

from livecap.api.realtime import (
    Action,
    Close,
    Connection,
    Drop,
    Feed,
    Finish,
    Frame,
    Hearing,
    Open,
    RealtimeSession,
    SessionLimits,
)
from livecap.errors import LivecapError
from livecap.events import RATE, Caption, Event, Settled, VoiceActivity, Word

Json = dict[str, Any]
MS = RATE // 1000
NOW = 1_790_000_000.0
GA = ("openai",)

HOSTED = (
    "whisper-1",
    "gpt-4o-transcribe",
    "gpt-4o-mini-transcribe",
    "gpt-transcribe",
    "gpt-live-transcribe",
    "gpt-realtime-whisper",
)


class Catalogue:
    """Two models; hosted names mean the first."""

    def canonical(self, name: str | None) -> str | None:
        """See `connection.Catalogue`."""
        if name is None or name in HOSTED:
            return "tiny"
        return name if name in ("tiny", "small", "english") else None

    def languages(self, model: str) -> tuple[str, ...]:
        """See `connection.Catalogue`."""
        return ("en",) if model == "english" else ()


class Client:
    """Carries out a session's actions, and checks each against what may happen."""

    def __init__(
        self,
        query: dict[str, str] | None = None,
        *,
        limits: SessionLimits | None = None,
        beta: bool = False,
        binary: bool = False,
        media_rate: int | None = None,
        session: Json | None = None,
    ) -> None:
        connection = Connection(
            query or {}, beta=beta, binary=binary, media_rate=media_rate, session=session
        )
        self.session = RealtimeSession(
            connection, Catalogue(), limits or SessionLimits(), now=lambda: NOW
        )
        self.frames: list[Json] = []
        self.hearings: dict[int, Hearing] = {}
        self.fed: dict[int, list[NDArray[np.float32]]] = {}
        self.clock = 0  # samples fed or skipped
        self.finished: list[int] = []
        self.dropped: list[int] = []
        self.over: list[int] = []
        self.close: Close | None = None
        self.first = self.do(self.session.open())

    @property
    def live(self) -> list[int]:
        """Hearings whose events are awaited."""
        return [one for one in self.hearings if one not in (*self.dropped, *self.over)]

    def do(self, actions: list[Action]) -> list[Json]:
        """Carry out the actions -> the frames among them."""
        told: list[Json] = []
        for action in actions:
            assert self.close is None, "nothing comes after the close"
            match action:
                case Frame(event=event):
                    told.append(event)
                    if self.session.settings.dialect in GA:
                        realtime_frames.check(event)
                case Open(hearing=number, config=config):
                    assert number not in self.hearings
                    self.hearings[number] = config
                    self.fed[number] = []
                case Feed(hearing=number, start=start, pcm=pcm):
                    assert number in self.live
                    assert number not in self.finished
                    assert start >= self.clock
                    assert self.clock == start or not self.fed[number]
                    assert pcm.dtype == np.float32
                    assert pcm.shape[0] == 1
                    assert pcm.shape[1]
                    self.clock = start + pcm.shape[1]
                    self.fed[number].append(pcm[0])
                case Finish(hearing=number):
                    assert number in self.live
                    assert number not in self.finished
                    self.finished.append(number)
                case Drop(hearing=number):
                    assert number in self.live
                    self.dropped.append(number)
                case Close():
                    self.close = action
        self.frames += told
        return told

    def send(self, kind: str, **fields: Any) -> list[Json]:
        """One client event -> the frames that answer it."""
        return self.raw(json.dumps({"type": kind, **fields}))

    def raw(self, data: str | bytes) -> list[Json]:
        """One message as it is."""
        return self.do(self.session.receive(data))

    def configure(self, **heard: Any) -> Json:
        """A GA update of `audio.input` -> the session that it leads to."""
        [frame] = self.send("session.update", session=ga(**heard))
        assert frame["type"] == "session.updated", frame
        session: Json = frame["session"]
        return session

    def append(self, ms: float, *, rate: int = 24_000) -> list[Json]:
        """So much quiet PCM."""
        return self.pcm(np.zeros(round(ms * rate / 1000), np.int16))

    def pcm(self, samples: NDArray[np.int16]) -> list[Json]:
        """These samples."""
        return self.send("input_audio_buffer.append", audio=encoded(samples.tobytes()))

    def commit(self, **fields: Any) -> list[Json]:
        """Commit the buffer."""
        return self.send("input_audio_buffer.commit", **fields)

    def heard(self, number: int, *events: Event) -> list[Json]:
        """What a hearing tells."""
        return self.do(self.session.accept(number, events))

    def ended(self, number: int, error: LivecapError | None = None) -> list[Json]:
        """The end of a hearing."""
        if number in self.live:
            self.over.append(number)
        return self.do(self.session.ended(number, error))

    def samples(self, number: int) -> NDArray[np.float32]:
        """All audio of a hearing."""
        return np.concatenate([np.zeros(0, np.float32), *self.fed[number]])

    def text(self, item: str) -> str:
        """The deltas of an item, joined."""
        return "".join(
            frame["delta"]
            for frame in self.frames
            if frame["type"].endswith(".delta") and frame["item_id"] == item
        )


def ga(**heard: Any) -> Json:
    """A GA session object with these fields of `audio.input`."""
    return {"type": "transcription", "audio": {"input": heard}}


def encoded(raw: bytes) -> str:
    """Bytes -> base64."""
    return base64.b64encode(raw).decode()


def kinds(frames: list[Json]) -> list[str]:
    """What the frames are, each by the last part of its type."""
    return [frame["type"].rsplit(".", 1)[-1] for frame in frames]


def error(frames: list[Json]) -> Json:
    """The only frame, which is an error -> its body."""
    [frame] = frames
    assert frame["type"] == "error", frame
    body: Json = frame["error"]
    return body


# What hearings tell. Times are milliseconds.


def begins(ms: int) -> VoiceActivity:
    """Somebody begins to speak."""
    return VoiceActivity(ms * MS, begins=True)


def stops(ms: int) -> VoiceActivity:
    """It has been quiet for long enough."""
    return VoiceActivity(ms * MS, begins=False)


def settled(ms: int, *, paused: bool = True) -> Settled:
    """All until then has been captioned."""
    return Settled(ms * MS, paused)


def says(text: str, start: int = 0, heard: int = 1000, *, tail: str = "") -> Caption:
    """Words without times."""
    words = tuple(Word(f" {word}") for word in text.split())
    return Caption(0, start * MS, heard * MS, words, tail=tail, final=not tail)


def says_at(*timed: tuple[str, int]) -> Caption:
    """Words, each with the time at which it begins; it lasts 100 ms."""
    words = tuple(Word(f" {word}", at * MS, (at + 100) * MS, 0.5) for word, at in timed)
    return Caption(0, timed[0][1] * MS, (timed[-1][1] + 100) * MS, words, language="en")
