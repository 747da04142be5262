"""Clients that speak at the speed of speech, and note when they are answered.

Seconds count from when a session's audio begins; a moment of the audio is due when it has been
spoken, whether or not the server takes it that fast.
"""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

RATE = 16_000
PIECE = 0.1  # seconds of audio in one message
PATIENCE = 90.0  # seconds after the end of the audio
ITEM = "conversation.item.input_audio_transcription"
SPEACHES_RATE = 24_000
QUIET = 4.0  # seconds of silence that end the last turn of one who can't close a session
OPENING = 0.3  # seconds: prefix padding, and the silence that ends a turn, where nothing is told
SILENCE = 0.5


@dataclass(slots=True)
class Turn:
    """One stretch of speech; seconds."""

    start: float  # its first sample
    end: float | None = None  # its last one; None: only the end of the audio ended it
    first: float | None = None  # when its first words came
    final: float | None = None  # when all of it had come


@dataclass(slots=True)
class Heard:
    """What became of one session."""

    turns: list[Turn] = field(default_factory=list)
    commits: list[tuple[float, str]] = field(default_factory=list)  # moments and new text
    lags: list[float] = field(default_factory=list)  # seconds that it was behind, told or seen
    refused: str = ""  # why it was not let in
    problems: list[str] = field(default_factory=list)
    late: float = 0.0  # seconds that this client itself was behind, at most

    @property
    def text(self) -> str:
        """All that was said."""
        return "".join(piece for _, piece in self.commits)


class Realtime:
    """`/v1/realtime` with server VAD: livecap's, or that of speaches.

    That takes 24 kHz and no settings, knows no `session.close`, and counts the times of a turn from
    the end of the one before: they are not used.
    """

    def __init__(self, url: str, *, speaches: bool = False) -> None:
        self.has_turns = not speaches
        self._url, self._speaches = url, speaches

    async def play(self, pcm: bytes) -> Heard:
        """One session: s16le, 16 kHz -> what came of it."""
        heard = Heard()
        rate = SPEACHES_RATE if self._speaches else RATE
        if self._speaches:
            pcm = resampled(pcm + bytes(round(QUIET * RATE) * 2), rate)
        try:
            async with connect(self._url, proxy=None, max_size=None) as socket:
                one = _Session(socket, heard, rate, closes=not self._speaches)
                if await one.open(configure=not self._speaches):
                    await one.run(pcm)
        except (ConnectionClosed, InvalidHandshake, OSError, TimeoutError) as error:
            heard.problems.append(f"{type(error).__name__}: {error}")
        return heard


class _Session:
    """One connection."""

    def __init__(self, socket: ClientConnection, heard: Heard, rate: int, *, closes: bool) -> None:
        """`closes`: the server is told of the end, and then closes the connection itself."""
        self._socket, self._heard, self._rate, self._closes = socket, heard, rate, closes
        self._turns: dict[str, Turn] = {}
        self._opening, self._silence = OPENING, SILENCE
        self._begun = 0.0
        self._spoken = False  # all audio was sent
        self._stopped = 0.0  # the end of the turn before, silence included

    async def open(self, *, configure: bool) -> bool:
        """Whether the server lets it in."""
        first = json.loads(await self._socket.recv())
        if first["type"] == "error":
            self._heard.refused = str(first["error"]["code"])
            return False
        if configure:
            audio = {"format": {"type": "audio/pcm", "rate": self._rate}}
            session = {"type": "transcription", "audio": {"input": audio}}
            await self._send({"type": "session.update", "session": session})
            told = json.loads(await self._socket.recv())
            if told["type"] != "session.updated":
                raise SystemExit(f"the server doesn't take these settings: {told}")
            detection = told["session"]["audio"]["input"]["turn_detection"]
            self._opening = detection["prefix_padding_ms"] / 1000
            self._silence = detection["silence_duration_ms"] / 1000
        return True

    async def run(self, pcm: bytes) -> None:
        """Speak and listen, until all of it has been answered."""
        self._begun = time.perf_counter()
        speaking = asyncio.create_task(self._speak(pcm))
        try:
            async with asyncio.timeout(len(pcm) / 2 / self._rate + PATIENCE):
                async for message in self._socket:
                    self._take(json.loads(message), time.perf_counter() - self._begun)
            closed = self._socket.close_code
            if closed not in (None, 1000):
                self._heard.problems.append(f"closed with {closed}")
        finally:
            speaking.cancel()
            self._heard.turns = list(self._turns.values())
        self._heard.problems += ["no final"] * self._open

    @property
    def _open(self) -> int:
        """Turns without an end. The last one may have been cut off where the audio ends."""
        return sum(turn.final is None for turn in self._turns.values())

    async def _speak(self, pcm: bytes) -> None:
        async for piece in paced(pcm, self._rate, self._begun, self._heard):
            audio = base64.b64encode(piece).decode()
            await self._send({"type": "input_audio_buffer.append", "audio": audio})
        self._spoken = True
        if self._closes:
            await self._send({"type": "session.close"})
            return
        while self._open:
            await asyncio.sleep(PIECE)
        await self._socket.close()

    async def _send(self, event: dict[str, Any]) -> None:
        await self._socket.send(json.dumps(event))

    def _take(self, event: dict[str, Any], at: float) -> None:
        kind, item = event["type"], event.get("item_id", "")
        if kind == "error":
            self._heard.problems.append(str(event["error"]))
        elif kind == "input_audio_buffer.speech_started":
            start = event["audio_start_ms"] / 1000
            # Where padding would reach into the turn before, it begins with the silence after that.
            padded = start > self._stopped
            self._turns[item] = Turn(start + self._opening if padded else start)
        elif kind == "input_audio_buffer.speech_stopped" and not self._spoken:
            self._stopped = event["audio_end_ms"] / 1000
            self._turn(item, at).end = self._stopped - self._silence
            if self._closes:
                self._heard.lags.append(at - self._stopped)
        elif kind == f"{ITEM}.delta":
            turn = self._turn(item, at)
            turn.first = turn.first or at
            self._say(at, event["delta"], fresh=turn.first == at)
        elif kind in (f"{ITEM}.completed", f"{ITEM}.failed"):
            turn = self._turn(item, at)
            turn.final = at
            if turn.first is None and event.get("transcript"):  # all of it at once
                turn.first = at
                self._say(at, event["transcript"], fresh=True)
            if kind.endswith("failed"):
                self._heard.problems.append(str(event["error"]))

    def _turn(self, item: str, at: float) -> Turn:
        return self._turns.setdefault(item, Turn(at))

    def _say(self, at: float, text: str, *, fresh: bool) -> None:
        self._heard.commits.append((at, f" {text}" if fresh else text))


class WhisperLiveKit:
    """`/asr` of WhisperLiveKit, which tells all its lines again and again. It has no turns."""

    has_turns = False

    def __init__(self, url: str) -> None:
        self._url = url

    async def play(self, pcm: bytes) -> Heard:
        """As `Realtime.play`."""
        heard = Heard()
        try:
            async with connect(self._url, proxy=None, max_size=None) as socket:
                await socket.recv()  # its settings
                begun = time.perf_counter()
                speaking = asyncio.create_task(self._speak(socket, pcm, begun, heard))
                async with asyncio.timeout(len(pcm) / 2 / RATE + PATIENCE):
                    await self._listen(socket, begun, heard)
                await speaking
        except (ConnectionClosed, InvalidHandshake, OSError, TimeoutError) as error:
            heard.problems.append(f"{type(error).__name__}: {error}")
        return heard

    async def _speak(
        self, socket: ClientConnection, pcm: bytes, begun: float, heard: Heard
    ) -> None:
        async for piece in paced(pcm, RATE, begun, heard):
            await socket.send(piece)
        await socket.send(b"")

    async def _listen(self, socket: ClientConnection, begun: float, heard: Heard) -> None:
        text = ""
        async for message in socket:
            told, at = json.loads(message), time.perf_counter() - begun
            if told.get("type") == "ready_to_stop":
                return
            if told.get("error"):
                heard.problems.append(str(told["error"]))
            lines = "".join(line.get("text") or "" for line in told.get("lines", ()))
            if lines.startswith(text) and lines != text:
                heard.commits.append((at, lines[len(text) :]))
                text = lines
            heard.lags.append(float(told.get("remaining_time_transcription") or 0.0))


async def paced(pcm: bytes, rate: int, begun: float, heard: Heard) -> AsyncIterator[bytes]:
    """Pieces of s16le, each when it has been spoken."""
    for end, piece in pieces(pcm, rate):
        due = begun + end
        now = time.perf_counter()
        if now < due:
            await asyncio.sleep(due - now)
        heard.late = max(heard.late, time.perf_counter() - due)
        yield piece


def pieces(pcm: bytes, rate: int) -> Iterator[tuple[float, bytes]]:
    """Bytes -> pieces, and the second at which each of them ends."""
    size = round(rate * PIECE) * 2
    for at in range(0, len(pcm), size):
        piece = pcm[at : at + size]
        yield (at + len(piece)) / 2 / rate, piece


def resampled(pcm: bytes, rate: int) -> bytes:
    """s16le at 16 kHz -> s16le at another rate, all at once."""
    samples = np.frombuffer(pcm, "<i2").astype(np.float64)
    count = len(samples) * rate // RATE
    found = np.fft.irfft(np.fft.rfft(samples), count) * (count / len(samples))
    return np.rint(found).clip(-32768, 32767).astype("<i2").tobytes()
