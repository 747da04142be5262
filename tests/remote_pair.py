"""A client and a server of live captions that talk without sockets, until they are cut apart."""

import json
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from live_models import Run, changed
from realtime_client import NOW, Catalogue
from test_live_stream import CONFIG
from tones import LOWEST, PEAK, STEP, WORDS, Listener, read

from livecap.api.realtime import (
    Action,
    Close,
    Connection,
    Drop,
    Feed,
    Finish,
    Frame,
    Open,
    RealtimeSession,
    SessionLimits,
)
from livecap.api.realtime.session import Expiry
from livecap.client.relay import Relay
from livecap.client.wire import Message, Wanted
from livecap.config import VadConfig
from livecap.errors import LivecapError
from livecap.events import RATE, Caption, Event, Gap, Silence, Unrecognised
from livecap.online.speech_buffer import Pcm
from livecap.online.stream import OnlineStream

MS = RATE // 1000
WANTED = Wanted(language="en", pause=500)


class Tones(Run):
    """A live stream in the language of `tones`, in which every word is a token."""

    def tokens(self, number: int) -> tuple[int, ...]:
        """Those of a segment's words that were said for good."""
        said = (word for one in self.captions if one.segment == number for word in one.words)
        return tuple(WORDS.index(word.text) for word in said)


class FakeServer:
    """livecap's session on the language of `tones`. Frames wait in `said`."""

    def __init__(self, failing: Callable[[Pcm], bool] = lambda pcm: False) -> None:
        self.session = RealtimeSession(
            Connection({"audio": "binary"}, binary=True),
            Catalogue(),
            SessionLimits(),
            now=lambda: NOW,
        )
        self.said: deque[str] = deque()
        self.close: Close | None = None
        self.failing = failing
        self.runs: dict[int, Run] = {}
        self.told: dict[int, int] = {}  # events of each
        self.do(self.session.open())

    def receive(self, message: Message) -> None:
        """A message of the client, and what comes of it at once."""
        self.do(self.session.receive(message))

    def expire(self, reason: Expiry) -> None:
        """The session's time is over."""
        self.do(self.session.expire(reason))

    def do(self, actions: Sequence[Action]) -> None:
        """Carry them out."""
        for action in actions:
            match action:
                case Frame(event=event):
                    self.said.append(json.dumps(event))
                case Open(hearing=number, config=config):
                    vad = VadConfig(vad_pad=config.prefix_padding_ms)
                    pause = config.silence_ms * MS
                    live = changed(
                        CONFIG, vad=vad, turns=True, endpoint_silence=pause, language="en"
                    )
                    self.runs[number] = Tones(OnlineStream(live), Listener())
                case Feed(hearing=number, pcm=pcm) if number in self.runs:
                    self.hear(number, pcm[0])
                case Finish(hearing=number) if number in self.runs:
                    run = self.runs.pop(number)
                    run.close()
                    self.tell(number, run)
                    self.do(self.session.ended(number, None))
                case Drop(hearing=number):
                    self.runs.pop(number, None)
                case Close():
                    self.close = action
                case _:
                    pass  # of a hearing that has failed

    def hear(self, number: int, pcm: Pcm) -> None:
        """Audio of one hearing."""
        run = self.runs[number]
        if self.failing(pcm):
            del self.runs[number]
            self.do(self.session.ended(number, LivecapError("a fault", remedy="Mend it")))
            return
        run.push(pcm)
        run.answer()
        run.collect()
        self.tell(number, run)

    def tell(self, number: int, run: Run) -> None:
        """What is new."""
        events = run.events[self.told.get(number, 0) :]
        self.told[number] = len(run.events)
        if events:
            self.do(self.session.accept(number, events))


@dataclass
class Pair:
    """A relay and the server that it is connected to, if it is to any."""

    relay: Relay = field(default_factory=lambda: Relay(WANTED))
    make: Callable[[], FakeServer] = FakeServer
    server: FakeServer | None = None
    events: list[Event] = field(default_factory=list)
    connections: int = 0

    def connect(self) -> FakeServer:
        """A new connection."""
        assert self.server is None
        self.server = self.make()
        self.connections += 1
        self.relay.begin()
        return self.server

    def cut(self) -> None:
        """What is under way never comes."""
        if self.server:
            self.server = None
            self.relay.lost()

    def send(self) -> bool:
        """Whatever the client has to say next goes over; whether there was anything."""
        messages = self.relay.outgoing() if self.server else []
        for message in messages:
            assert self.server
            self.server.receive(message)
        return bool(messages)

    def tell(self) -> bool:
        """The server's next frame goes over; whether there was one."""
        server = self.server
        if server is None:
            return False
        if not server.said:
            if server.close is None:
                return False
            if server.close.code == 1000:
                self.relay.closed()
            self.cut()
            return True
        for answer in self.relay.receive(server.said.popleft()):
            server.receive(answer)
        talk = self.relay.talk
        if talk and (talk.broken is not None or talk.refusal is not None):
            self.cut()
        return True

    def settle(self) -> None:
        """All goes over that there is."""
        while self.send() or self.tell():
            pass
        self.events += self.relay.take()

    def hear(self, pcm: Pcm, start: int | None = None, reason: str = "nothing came") -> None:
        """Audio, which follows that before unless it is said where it is."""
        at = self.relay._kept.end if start is None else start
        self.relay.hear(at, pcm, reason)

    def end(self) -> list[Event]:
        """No more audio comes; all that is left is said, over as many connections as it takes."""
        self.relay.finish()
        for _ in range(20):
            if self.server is None and not self.relay.is_done:
                self.connect()
            self.settle()
            if self.relay.is_done:
                break
        assert self.relay.is_done
        assert self.relay.lag == 0
        return self.events

    @property
    def captions(self) -> list[Caption]:
        """Those with words."""
        return [one for one in self.events if isinstance(one, Caption) and one.words]

    @property
    def words(self) -> list[str]:
        """All that was said for good."""
        return [word.text.strip() for caption in self.captions for word in caption.words]


def check_times(events: Sequence[Event], end: int) -> None:
    """Every sample up to `end` is accounted for once, captions are in order, no tail is left.

    A gap may be told before the silence that comes before it.
    """
    told: list[tuple[int, int]] = []
    tail, spoken_until = "", 0
    for event in events:
        if isinstance(event, Caption):
            tail = event.tail
        if isinstance(event, Caption) and not event.words:
            assert not event.final
            continue
        assert isinstance(event, Caption | Silence | Gap | Unrecognised), event
        told.append(
            (event.start, event.processed_until if isinstance(event, Caption) else event.end)
        )
        if not isinstance(event, Gap):
            assert event.start >= spoken_until, event
            spoken_until = told[-1][1]
        if isinstance(event, Caption):
            times = [time for word in event.words for time in (word.start, word.end)]
            known = [time for time in times if time is not None]
            assert known == sorted(known)
            assert all(event.start <= time <= event.processed_until for time in known), event
    assert tail == ""
    until = 0
    for start, stop in sorted(told):
        if stop <= until:
            continue  # a short gap in the midst of what somebody said
        assert 0 <= start - until < RATE // 10, (until, start, stop)
        until = stop
    assert until == end


@dataclass(frozen=True, slots=True)
class Said:
    """A word by its number, and the silence after it. Times in ms."""

    word: int
    length: int = 240
    silence: int = 120


def speak(script: Sequence[Said], before: int = 500) -> Pcm:
    """Words, after so many ms of silence. It is 16 bits deep."""
    parts: list[Pcm] = [silence(before)]
    for said in script:
        time = np.arange(said.length * MS) / RATE
        wave = PEAK * np.sin(2 * np.pi * (LOWEST + STEP * said.word) * time)
        deep = (np.rint(wave * 32_768) / 32_768).astype(np.float32)
        parts += [deep, silence(said.silence)]
    return np.concatenate(parts)


def talk(turns: random.Random, count: int) -> list[Said]:
    """Words with short pauses, and now and then one that ends a turn."""
    said = []
    for n in range(count):
        pause = turns.choice((900, 1500, 5000)) if n % 4 == 3 else turns.choice((60, 80, 120))
        said.append(Said(turns.randrange(10), turns.choice((200, 320, 400)), pause))
    return said


def spoken(pcm: Pcm) -> list[str]:
    """What is said in it."""
    return [word.text.strip() for word in read(pcm)]


def pieces(pcm: Pcm, turns: random.Random) -> list[Pcm]:
    """Cut anyhow."""
    found, at = [], 0
    while at < len(pcm):
        size = turns.choice((160, 1600, 1601, 8000, 30_000))
        found.append(pcm[at : at + size])
        at += size
    return found


def silence(ms: int) -> Pcm:
    """Nothing said for so many milliseconds."""
    return np.zeros(ms * MS, np.float32)
