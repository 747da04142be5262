"""Live captions by the real server over real sockets, which break."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest
from remote_pair import Said, check_times, silence, speak, spoken
from remote_wire import Wire, wired
from server_fixture import PATIENCE, Running, serving

from livecap.api.options import ServeConfig
from livecap.audio.live_source import Notice
from livecap.client.errors import ServerError
from livecap.client.options import ServerOptions, server_of
from livecap.client.reconnect import ReconnectTimeouts
from livecap.client.stream import RemoteStream
from livecap.client.wire import Wanted
from livecap.errors import LivecapError
from livecap.events import RATE, Caption, Event, Gap
from livecap.online.speech_buffer import Pcm
from livecap.output.push.backoff import Backoff

QUICK = ReconnectTimeouts(delays=Backoff(first=0.01, max_s=0.05), ending=0.5)
PIECE = RATE // 10  # samples sent together


@dataclass
class Listener:
    """Somebody who has audio captioned, and all that was told."""

    stream: RemoteStream
    events: list[Event] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    end: int = 0  # samples

    def say(self, pcm: Pcm) -> None:
        """Audio that follows that before."""
        for at in range(0, len(pcm), PIECE):
            piece = pcm[at : at + PIECE]
            self.stream.send(self.end, piece[None])
            self.end += len(piece)

    def take(self) -> None:
        """What is new."""
        for item in self.stream.take():
            if isinstance(item, Notice):
                self.notices.append(item.text)
            else:
                self.events.append(item)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something that is told."""
        clock = threading.Event()
        timer = threading.Timer(PATIENCE, clock.set)
        timer.start()
        try:
            while not is_so():
                assert not clock.is_set(), (self.notices, self.words, self.stream.lag)
                self.stream.wait(0.05)
                self.take()
        finally:
            timer.cancel()

    def finish(self) -> None:
        """All is captioned."""
        self.stream.finish()
        self.until(lambda: self.stream.is_done)
        assert self.stream.lag == 0
        check_times(self.events, self.end)

    def has_tail(self) -> bool:
        """Whether words are shown that are not final."""
        last = [event for event in self.events if isinstance(event, Caption)]
        return bool(last and last[-1].tail)

    def told(self, text: str) -> bool:
        """Whether a notice says so."""
        return any(text in notice for notice in self.notices)

    @property
    def words(self) -> list[str]:
        """All that was said for good."""
        captions = [event for event in self.events if isinstance(event, Caption)]
        return [word.text.strip() for caption in captions for word in caption.words]


@contextmanager
def listening(
    port: int, wanted: Wanted | None = None, *, key: str = "", patience: ReconnectTimeouts = QUICK
) -> Iterator[Listener]:
    server = server_of(ServerOptions(f"ws://127.0.0.1:{port}", key), {})
    assert server
    stream = RemoteStream(server, wanted or Wanted(language="en"), patience)
    try:
        yield Listener(stream)
    finally:
        stream.close()


@contextmanager
def through(running: Running) -> Iterator[tuple[Wire, Listener]]:
    with wired(running.port) as wire, listening(wire.port) as listener:
        yield wire, listener


def sentence(seed: int, pause: int = 1500) -> Pcm:
    words = [(seed + n) % 10 for n in range(5)]
    return speak([*map(Said, words[:-1]), Said(words[-1], silence=pause)])


def test_words_as_they_are_said() -> None:
    with serving() as running:
        with listening(running.port) as listener:
            listener.until(lambda: listener.stream.model == "tones")
            listener.say(sentence(0))
            listener.until(lambda: listener.words == spoken(sentence(0)))
            assert listener.stream.language == "en"
            listener.say(sentence(3)[: 2 * RATE])
            listener.until(listener.has_tail)
            listener.finish()
            assert listener.words == spoken(sentence(0)) + spoken(sentence(3)[: 2 * RATE])
            assert listener.notices == []
        running.settle()


def test_cut_in_the_middle_of_a_sentence_and_back() -> None:
    with serving() as running, through(running) as (wire, listener):
        listener.say(sentence(0))
        listener.until(lambda: len(listener.words) == 5)
        pcm = sentence(5)
        listener.say(pcm[: 2 * RATE])
        listener.until(listener.has_tail)
        wire.cut()
        listener.say(pcm[2 * RATE :])
        listener.until(lambda: len(listener.words) == 10)
        listener.finish()
        assert listener.words == spoken(sentence(0)) + spoken(pcm)
        assert not any(isinstance(event, Gap) for event in listener.events)
        assert wire.connections == 2
        assert listener.told("trying again")
        assert listener.told("again")


def test_a_server_that_is_gone_for_a_while() -> None:
    """And comes back as another process would, with another one behind the same address."""
    with serving() as first, through(first) as (wire, listener):
        listener.say(sentence(0)[: 2 * RATE])
        listener.until(listener.has_tail)
        wire.unplug()
        listener.say(sentence(0)[2 * RATE :])
        listener.until(lambda: listener.told("nothing listens at"))
        assert listener.words == []
        listener.say(sentence(2))
        with serving() as second:
            wire.plug(second.port)
            listener.until(lambda: len(listener.words) == 10)
            listener.finish()
        assert listener.words == spoken(np.concatenate([sentence(0), sentence(2)]))
        assert sum("nothing listens" in notice for notice in listener.notices) == 1


def test_a_server_that_is_stopped_and_started_again() -> None:
    with serving() as first, through(first) as (wire, listener):
        listener.say(sentence(0))
        listener.until(lambda: len(listener.words) == 5)
        listener.say(sentence(1)[: RATE // 2])
        with serving() as second:
            wire.target = second.port
            first.server.should_exit = True  # 1012
            listener.until(lambda: listener.told("restarts") or wire.connections > 1)
            listener.say(sentence(1)[RATE // 2 :])
            listener.until(lambda: len(listener.words) == 10)
            listener.finish()
        assert listener.words == spoken(sentence(0)) + spoken(sentence(1))


@pytest.mark.parametrize("limit", range(2_000, 14_000, 1_500))
def test_cut_after_so_many_bytes(limit: int) -> None:
    pcm = np.concatenate([sentence(n, 700) for n in range(3)])
    with serving() as running, wired(running.port) as wire:
        wire.limit = limit
        with listening(wire.port) as listener:
            listener.say(pcm)
            listener.finish()
        assert listener.words == spoken(pcm)


def test_what_was_said_last_when_nobody_is_there_any_more() -> None:
    with serving() as running, through(running) as (wire, listener):
        listener.say(sentence(0))
        listener.until(lambda: len(listener.words) == 5)
        listener.say(sentence(1))
        wire.unplug()
        listener.stream.finish()
        with pytest.raises(ServerError, match="what was said last is not captioned"):
            listener.until(lambda: listener.stream.is_done)
        gaps = [event for event in listener.events if isinstance(event, Gap)]
        assert gaps[-1].end == listener.end
        assert "nothing listens" in gaps[-1].reason
        assert listener.words == spoken(sentence(0))
        check_times(listener.events, listener.end)


def test_sessions_end_and_speech_goes_on() -> None:
    """The server allows two seconds for each, and speech is heard faster than that."""
    config = ServeConfig(max_sessions=500, session_length=2)
    pcm = np.concatenate([sentence(n) for n in range(6)])
    with serving(config=config) as running, through(running) as (wire, listener):
        listener.say(sentence(0))
        listener.until(lambda: wire.connections >= 3)
        for n in range(1, 6):
            listener.say(sentence(n))
        listener.finish()
        assert listener.words == spoken(pcm)
        assert listener.notices == []


def refused(port: int, wanted: Wanted | None = None, *, key: str = "") -> str:
    with listening(port, wanted, key=key) as listener:
        listener.say(sentence(0))
        with pytest.raises(LivecapError) as told:
            listener.until(lambda: listener.stream.is_done)
        assert listener.stream.model is None
    return str(told.value)


def test_keys() -> None:
    with serving(keys=("right",)) as running:
        for key in ("", "wrong"):
            told = refused(running.port, key=key)
            assert "refuses the key" in told
            assert "LIVECAP_SERVER_KEY" in told
            assert "wrong" not in told
        with listening(running.port, key="right") as listener:
            listener.say(sentence(0))
            listener.finish()
            assert listener.words == spoken(sentence(0))


def test_a_path_that_is_none() -> None:
    with serving() as running:
        server = server_of(ServerOptions(f"http://{running.host}/nowhere"), {})
        assert server
        stream = RemoteStream(server, Wanted(), QUICK)
        listener = Listener(stream)
        with pytest.raises(ServerError, match=r"\(404\).*needs no path"):
            listener.until(lambda: stream.is_done)
        stream.close()


def test_models() -> None:
    with serving() as running:
        told = refused(running.port, Wanted(model="large"))
        assert "refuses the model" in told
        assert "--model" in told


def test_nobody_there() -> None:
    with serving() as running, wired(running.port) as wire:
        wire.unplug()
        assert "livecap serve" in refused(wire.port)
        wire.plug()


def test_a_busy_server_is_asked_again() -> None:
    config = ServeConfig(max_sessions=1)
    with serving(config=config) as running, listening(running.port) as first:
        first.until(lambda: first.stream.model is not None)
        with listening(running.port) as second:
            second.until(lambda: second.told("is busy"))
            assert second.stream.model is None
            second.say(sentence(1))
            first.finish()
            first.stream.close()
            second.finish()
            assert second.words == spoken(sentence(1))
            assert second.told("connected")


def test_leaving_while_nobody_answers() -> None:
    with serving() as running, through(running) as (wire, listener):
        listener.until(lambda: listener.stream.model is not None)
        wire.unplug()
        listener.say(silence(1000))
        listener.until(lambda: listener.told("trying again"))
