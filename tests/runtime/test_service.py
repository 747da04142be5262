"""Many live streams and one thread: none knows of the others, nothing is lost or left behind."""

import random
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from engines import toy_decoder
from hypothesis import given, settings
from hypothesis import strategies as st
from live_models import SCORES, WORDS, Reader, Said, changed, played, probs, read, speak
from torch import Tensor

from livecap.config import DecodeConfig
from livecap.errors import CorruptModel, EngineFault
from livecap.events import (
    RATE,
    Caption,
    Event,
    Gap,
    Language,
    PaceChange,
    Silence,
    Unrecognised,
    VoiceActivity,
    Word,
)
from livecap.models.load import Loaded
from livecap.models.protocol import EncodeRequest, EncoderOutput, Step, StreamingDefaults
from livecap.models.whisper.decoder import WhisperDecoder
from livecap.online.config import StreamConfig, UpdateConfig
from livecap.online.job import DecodeJob, Hypothesis, TextSpan
from livecap.online.policy import LocalAgreement
from livecap.online.speech_buffer import Pcm
from livecap.runtime.handle import MIN_JUDGED, StreamHandle
from livecap.runtime.service import Service
from livecap.vad.endpointer import FRAME
from livecap.vad.silero import Silero, VadState

CONFIG = StreamConfig(
    max_segment=6 * RATE,
    max_silence=2 * RATE,
    language="en",
    updates=UpdateConfig(LocalAgreement(), interval=RATE, min_sentence=3 * RATE, catch_up=False),
)
TRAITS = StreamingDefaults(("local-agreement",), RATE, 0, 0, RATE, RATE, RATE, RATE)
ms = RATE // 1000
ENDPOINT_SILENCE = 600 * ms
PATIENCE = 30.0  # seconds after which a test has failed


class Ears(Silero):
    """Hears speech in all that is not nothing."""

    def __init__(self) -> None:
        pass

    def open(self) -> VadState:
        return VadState(*(torch.zeros(0) for _ in range(4)))

    def probs(
        self, states: Sequence[VadState], pcm: Sequence[Tensor]
    ) -> list[tuple[Tensor, VadState]]:
        results = []
        for state, new in zip(states, pcm, strict=True):
            samples = torch.cat([state.rest, new])
            rest = samples[len(samples) // FRAME * FRAME :]
            results.append((torch.tensor(probs(samples.numpy())), replace(state, rest=rest)))
        return results


@dataclass
class Readers:
    """A model that is a `Reader`, and asks its tower some times before it answers."""

    reader: Reader = field(default_factory=Reader)
    asks: int = 1
    before: Callable[[], None] = lambda: None  # called when something is about to be heard
    decoder: WhisperDecoder = field(default_factory=toy_decoder)
    name: str = "reader"
    languages: tuple[str, ...] = ("en",)
    segment: int = 30 * RATE
    streaming: StreamingDefaults = TRAITS

    def check(self, config: DecodeConfig) -> None:
        pass

    def untimed(self, language: str | None) -> str | None:
        return None

    def encode(self, requests: Sequence[EncodeRequest]) -> Sequence[EncoderOutput]:
        if requests:
            self.before()
        return [None] * len(requests)

    def decode(self, job: DecodeJob, config: DecodeConfig) -> Generator[Step, Any, Hypothesis]:
        for _ in range(self.asks):
            yield EncodeRequest(job.segment.pcm, job.deadline)
        return self.reader(job)

    def free(self, encoder_state: object) -> None:
        self.reader.free(encoder_state)


class Valve:
    """Holds the model up: it goes on as often as it is told to."""

    def __init__(self) -> None:
        self._waits = threading.Semaphore(0)
        self._goes = threading.Semaphore(0)
        self._is_open = False

    def __call__(self) -> None:
        if not self._is_open:
            self._waits.release()
            assert self._goes.acquire(timeout=PATIENCE)

    def wait(self) -> None:
        """Until the model waits."""
        assert self._waits.acquire(timeout=PATIENCE)

    def go(self) -> None:
        """Let it go on once."""
        self._goes.release()

    def open(self) -> None:
        """Let it go on for good."""
        self._is_open = True
        self._goes.release()


@contextmanager
def serving(
    model: Readers, batch: int = 4, *, clock: Callable[[], float] = time.monotonic
) -> Iterator[Service]:
    service = Service(Loaded(model, batch), Ears(), DecodeConfig(), clock=clock)
    try:
        yield service
    finally:
        service.close()
    assert model.reader.kept == []


class Listener:
    """Opens a stream and takes its events."""

    def __init__(self, service: Service, config: StreamConfig = CONFIG) -> None:
        self.told = threading.Event()
        self.stream: StreamHandle = service.open(config, notify=self.told.set)
        self.events: list[Event] = []
        self.sent = 0

    def send(self, pcm: Pcm, gap: int = 0) -> None:
        self.stream.push(self.sent + gap, pcm[None])
        self.sent += gap + len(pcm)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Take events until something is so."""
        while True:
            self.told.clear()
            while found := self.stream.poll():  # a fault may lie behind the last events
                self.events += found
            if is_so():
                return
            assert self.told.wait(PATIENCE), "nobody is told"

    def end(self) -> list[Event]:
        """Finish, and take all that is left."""
        self.stream.finish()
        return self.rest()

    def rest(self) -> list[Event]:
        """Take all that comes until the stream is done."""
        self.until(lambda: self.stream.is_done)
        return self.events

    @property
    def words(self) -> list[str]:
        captions = [event for event in self.events if isinstance(event, Caption)]
        return [word.text for caption in captions for word in caption.words]


def until(is_so: Callable[[], bool]) -> None:
    """Ask again and again."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def text_of(seed: int, count: int = 20) -> Pcm:
    """Words and pauses of many lengths."""
    generator = random.Random(seed)
    silences = (80 * ms, 120 * ms, 400 * ms, 1000 * ms, 3000 * ms)
    words = range(len(WORDS))
    lengths = (300 * ms, 402 * ms, 500 * ms)
    return speak(
        [
            Said(generator.choice(words), generator.choice(lengths), generator.choice(silences))
            for _ in range(count)
        ]
    )


def endless(count: int) -> Pcm:
    """Words without pauses."""
    return speak([Said(n % len(WORDS), 500 * ms, 80 * ms) for n in range(count)])


def alone(pcm: Pcm) -> list[Event]:
    return played([(pcm, -1)], CONFIG).events


def said(events: Sequence[Event]) -> list[Event]:
    """Those that depend on the audio alone."""
    return [one for one in events if isinstance(one, Caption | Silence | Language | Unrecognised)]


# -- streams side by side -----------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(
    streams=st.integers(1, 12),
    batch=st.integers(1, 4),
    asks=st.integers(0, 3),
    seed=st.integers(0, 2**32),
)
def test_many_streams_give_what_each_gives_alone(
    streams: int, batch: int, asks: int, seed: int
) -> None:
    generator = random.Random(seed)
    texts = [text_of(generator.randrange(2**32), 8) for _ in range(streams)]
    with serving(Readers(asks=asks), batch) as service:
        listeners = [Listener(service) for _ in texts]
        assert service.streams == streams
        todo = list(zip(listeners, texts, strict=True))
        while todo:
            listener, text = todo[generator.randrange(len(todo))]
            listener.send(text[listener.sent : listener.sent + generator.randrange(30_000)])
            if listener.sent == len(text):
                todo.remove((listener, text))
                listener.stream.finish()
        for listener, text in zip(listeners, texts, strict=True):
            listener.rest()
            assert said(listener.events) == alone(text)
            assert listener.stream.lag == 0
        assert service.streams == 0


def test_pieces_that_are_small_are_taken_together() -> None:
    text = text_of(1)
    with serving(Readers()) as service:
        listener = Listener(service)
        for at in range(0, len(text), 160):
            listener.send(text[at : at + 160])
        assert said(listener.end()) == alone(text)


def test_a_gap_of_the_source() -> None:
    """A short one is heard as silence, a long one ends the segment; both are told."""
    text, other = text_of(2), text_of(3)
    with serving(Readers()) as service:
        listener = Listener(service)
        listener.send(text)
        listener.send(other, gap=RATE)
        listener.send(text, gap=5 * RATE)
        events = listener.end()
    first, second = [event for event in events if isinstance(event, Gap)]
    assert (first.start, first.end) == (len(text), len(text) + RATE)
    at = first.end + len(other)
    assert (second.start, second.end) == (at, at + 5 * RATE)
    filled = np.concatenate([text, np.zeros(RATE, np.float32), other])
    assert said(events) == played([(filled, 5 * RATE), (text, -1)], CONFIG).events


def test_a_gap_that_goes_on() -> None:
    """No samples at all, later: what was said before is finished without waiting for more."""
    text = text_of(2)
    with serving(Readers()) as service:
        listener = Listener(service)
        listener.send(text)
        listener.send(text[:0], gap=5 * RATE)
        listener.until(lambda: len(listener.words) == 20)
        listener.send(text, gap=5 * RATE)
        events = listener.end()
    gaps = [(event.start, event.end) for event in events if isinstance(event, Gap)]
    assert gaps[0][0] == len(text)
    assert gaps[-1][1] == len(text) + 10 * RATE
    assert said(events) == played([(text, 10 * RATE), (text, -1)], CONFIG).events


def test_nothing_is_sent() -> None:
    with serving(Readers()) as service:
        listener = Listener(service)
        assert not listener.stream.is_done
        assert listener.end() == []
        assert listener.stream.poll() == []
        listener.stream.finish()  # again: nothing happens
        assert listener.stream.is_done


def test_audio_too_short_to_be_taken_is_not_lost() -> None:
    with serving(Readers()) as service:
        listener = Listener(service, replace(CONFIG, vad=None))
        listener.send(speak([Said(0, 180 * ms, 0)]))
        assert listener.sent < MIN_JUDGED
        listener.end()
        assert listener.words == [" no"]


def test_a_stream_that_nobody_reads_harms_no_other() -> None:
    text = text_of(4)
    with serving(Readers(), 1) as service:
        mute = Listener(service)
        for at in range(0, len(text), 9000):
            mute.send(text[at : at + 9000])
        mute.stream.finish()
        listener = Listener(service)
        listener.send(text)
        assert said(listener.end()) == alone(text)
        assert said(mute.end()) == alone(text), "and it can still be read"


def test_who_wants_to_know_is_told_by_the_services_thread() -> None:
    names = set[str]()
    done = threading.Event()
    with serving(Readers()) as service:

        def notify() -> None:
            names.add(threading.current_thread().name)
            if stream.is_done or stream.poll() is None:
                done.set()

        stream = service.open(CONFIG, notify=notify)
        stream.push(0, text_of(5)[None])
        stream.finish()
        listener = Listener(service)
        listener.end()
        while not done.wait(0.001) and not stream.is_done:
            stream.poll()
    assert names == {"livecap-engine"}


# -- streams that are dropped -------------------------------------------------------------------


@pytest.mark.parametrize("asks", [1, 2])
def test_a_stream_is_dropped_while_its_work_is_out(asks: int) -> None:
    text, valve = endless(20), Valve()
    model = Readers(asks=asks, before=valve)
    with serving(model, 2) as service:
        listener, other = Listener(service), Listener(service)
        listener.send(text)
        valve.wait()
        for _ in range(3):
            valve.go()
            valve.wait()
        assert model.reader.kept
        other.send(text)
        listener.stream.cancel()
        listener.stream.cancel()
        valve.open()
        assert said(other.end()) == alone(text)
        listener.rest()
        assert listener.stream.lag == 0
        assert service.streams == 0
        assert model.reader.kept == []


@pytest.mark.parametrize("state", ["new", "small", "pause", "finished", "done"])
def test_a_stream_is_dropped_in_any_state(state: str) -> None:
    text, model = text_of(7), Readers()
    with serving(model) as service:
        listener, other = Listener(service), Listener(service)
        other.send(text)
        if state == "small":
            listener.send(text[:100])
        elif state == "pause":
            listener.send(speak([Said(0, 400 * ms, 80 * ms), Said(1, 400 * ms, 1500 * ms)]))
            listener.until(lambda: bool(listener.words))
        elif state == "finished":
            listener.send(text)
            listener.stream.finish()
        elif state == "done":
            listener.send(text)
            listener.end()
        listener.stream.cancel()
        assert said(other.end()) == alone(text)
        listener.rest()
        assert service.streams == 0
        assert model.reader.kept == []


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), asks=st.integers(1, 3), batch=st.integers(1, 3))
def test_streams_come_and_go(seed: int, asks: int, batch: int) -> None:
    """Those that stay give what they give alone, whoever is dropped, and whenever."""
    generator = random.Random(seed)
    texts = [text_of(generator.randrange(2**32), 6) for _ in range(6)]
    model = Readers(asks=asks)
    with serving(model, batch) as service:
        staying = [Listener(service) for _ in texts]
        going = [Listener(service) for _ in texts]
        for n, text in enumerate(texts):
            for at in range(0, len(text), 20_000):
                staying[n].send(text[at : at + 20_000])
                leaver = generator.choice(going)
                if not leaver.stream.is_over and generator.random() < 0.8:
                    leaver.send(text[:20_000])
                elif generator.random() < 0.3:
                    going.remove(leaver)
                    leaver.stream.cancel()
                    going.append(Listener(service))
        for n, text in enumerate(texts):
            assert said(staying[n].end()) == alone(text)
        for one in going:
            one.stream.cancel()
            one.rest()
        assert service.streams == 0
        assert model.reader.kept == []


def test_the_service_is_closed_with_open_streams() -> None:
    model = Readers(asks=2)
    with serving(model, 1) as service:
        listeners = [Listener(service) for _ in range(3)]
        for listener in listeners:
            listener.send(text_of(8))
        listeners[0].until(lambda: bool(listeners[0].events))
    for listener in listeners:
        listener.rest()
    assert service.streams == 0


def test_what_was_not_taken_in_is_forgotten_at_the_close() -> None:
    with serving(Readers()) as service:
        listener = Listener(service)
        listener.send(text_of(8)[:100])
    listener.rest()
    assert listener.stream.lag == 0


# -- faults -------------------------------------------------------------------------------------


def test_a_fault_reaches_all_streams() -> None:
    """After the events that came before it; and nobody can open another."""
    left = iter(range(4))

    def fail() -> None:
        if next(left, None) is None:
            raise CorruptModel("It is broken", remedy="Mend it")

    text = text_of(9)
    model = Readers(before=fail)
    service = Service(Loaded(model, 2), Ears(), DecodeConfig())
    first, second = Listener(service), Listener(service)
    first.send(text)
    with pytest.raises(CorruptModel, match="broken"):
        first.until(lambda: False)
    expected = alone(text)
    assert said(first.events)
    assert said(first.events) == expected[: len(said(first.events))]
    for listener in (first, second, first):
        assert not listener.stream.is_done
        with pytest.raises(CorruptModel, match="broken"):
            listener.stream.poll()
    second.send(text)  # nobody hears it
    second.stream.finish()
    second.stream.cancel()
    with pytest.raises(CorruptModel, match="broken"):
        service.open(CONFIG)
    service.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_nobody_expected_reaches_all_streams() -> None:
    def fail() -> None:
        raise RuntimeError("a fault of ours")

    service = Service(Loaded(Readers(before=fail), 2), Ears(), DecodeConfig())
    first, second = Listener(service), Listener(service)
    first.send(text_of(10))
    for listener in (first, second):
        with pytest.raises(EngineFault):
            listener.until(lambda: False)
    with pytest.raises(EngineFault):
        service.open(CONFIG)
    service.close()


# -- a machine that is too slow -----------------------------------------------------------------


def test_lag_is_what_has_come_and_is_not_heard() -> None:
    """Also what comes while work is out."""
    valve, seconds = Valve(), count(0.0, 0.15)  # so slow that a step hears one thing
    model = Readers(asks=2, before=valve)
    with serving(model, clock=lambda: next(seconds)) as service:
        listener = Listener(service)
        assert listener.stream.lag == 0
        text = endless(20)
        listener.send(text[: 2 * RATE])
        valve.wait()
        assert listener.stream.lag >= 1.9
        listener.send(text[2 * RATE : 5 * RATE])
        assert listener.stream.lag >= 4.9
        valve.go()
        valve.wait()  # it was taken in meanwhile
        lag = listener.stream.lag
        valve.open()
        listener.end()
        assert listener.stream.lag == 0
    assert lag >= 4.9


def test_overload_makes_updates_rarer_and_loses_nothing() -> None:
    """A hypothesis takes as long as it takes to say seven seconds, more than a segment."""
    text, valve = endless(180), Valve()
    config = changed(CONFIG, catch_up=True)
    model = Readers(before=valve)
    with serving(model) as service:
        listener = Listener(service, config)
        listener.send(text[: 7 * RATE])
        for at in range(7 * RATE, len(text), 7 * RATE):
            valve.wait()
            listener.send(text[at : at + 7 * RATE])
            valve.go()
        assert listener.stream.lag > 6
        listener.stream.finish()
        valve.open()
        listener.end()
        assert listener.stream.lag == 0
    paces = [event.behind for event in listener.events if isinstance(event, PaceChange)]
    assert paces[0]
    assert not paces[-1]
    assert listener.words == [word.text for word in read(text)]
    calm = played([(text, -1)], config, sizes=(FRAME,))
    assert len(calm.reader.jobs) > 2 * len(model.reader.jobs)


def test_a_slow_stream_does_not_hold_up_the_end_of_another() -> None:
    """All get their turn, however far one of them has fallen behind."""
    text = text_of(12)
    with serving(Readers(), 1) as service:
        busy = Listener(service)
        busy.send(np.tile(text_of(13), 20))
        listener = Listener(service)
        listener.send(text)
        assert said(listener.end()) == alone(text)
        busy.stream.cancel()


@pytest.mark.parametrize("company", [False, True], ids=["alone", "beside another"])
def test_a_little_audio_is_judged_if_no_more_comes(company: bool) -> None:
    """Nothing is waited for that will not come, whether the service sleeps then or is busy."""
    with serving(Readers()) as service:
        stream, other = service.open(changed(CONFIG, turns=True)), service.open(CONFIG)
        said = speak([Said(0, 800 * ms, 0)])
        end = (len(said) + ENDPOINT_SILENCE) // MIN_JUDGED * MIN_JUDGED
        stream.push(0, np.pad(said, (0, end - len(said)))[None])
        until(lambda: not stream.inbox.samples)
        time.sleep(0.1)  # the service has nothing to do
        assert not any(
            isinstance(event, VoiceActivity) and not event.begins for event in stream.poll()
        )
        stream.push(
            end, np.zeros((1, MIN_JUDGED // 4), np.float32)
        )  # the end of the pause, and no more
        heard = count(0, MIN_JUDGED)

        def has_ended() -> bool:
            if company:
                other.push(next(heard), np.zeros((1, MIN_JUDGED), np.float32))
            return any(
                isinstance(event, VoiceActivity) and not event.begins for event in stream.poll()
            )

        until(has_ended)
        stream.cancel()
        other.cancel()


class Whole(Reader):
    """Reads a segment in one go."""

    def __call__(self, job: DecodeJob) -> Hypothesis:
        words = read(job.segment.pcm)
        said = tuple(Word(word.text, word.start, word.end) for word in words)
        spans = (TextSpan(words[0].start, words[-1].end, said, SCORES),) if words else ()
        prob = None if job.language else 0.9
        return Hypothesis(job, spans, job.language or "en", prob)


def test_a_recording_of_many_segments_in_a_language_that_has_to_be_found() -> None:
    """Its segments wait for the first one's; then nothing else wakes the service."""
    text = np.concatenate([text_of(seed, 8) for seed in range(6)])
    with serving(Readers(Whole())) as service:
        stream = service.open(StreamConfig(max_segment=3 * RATE))
        stream.push(0, text[None])
        stream.finish()
        told: list[Event] = []
        deadline = time.monotonic() + PATIENCE
        while not stream.is_done:
            assert time.monotonic() < deadline
            stream.wait(1.0)
            told += stream.poll()
    captions = [event for event in told if isinstance(event, Caption)]
    assert len(captions) > 2
    assert "".join(one.text for one in captions) == "".join(one.text for one in read(text))


def test_a_recording_is_dropped_at_any_moment() -> None:
    for moment in range(6):
        with serving(Readers(Whole(), asks=2)) as service:
            stream = service.open(StreamConfig(max_segment=3 * RATE))
            stream.push(0, text_of(moment, 12)[None])
            if moment % 2:
                stream.finish()
            for _ in range(moment // 2):
                stream.wait(0.05)
            stream.cancel()
            deadline = time.monotonic() + PATIENCE
            while service.files:
                assert time.monotonic() < deadline
                stream.wait(0.05)


def test_what_waits_longest_since_its_speech_ended_goes_first() -> None:
    """Of streams that come at once: pauses before updates, the older pause first."""
    valve = Valve()
    model = Readers(before=valve)
    with serving(model, 1) as service:
        first = Listener(service)
        first.send(endless(4))  # keeps the model busy
        valve.wait()
        texts = [
            endless(6),
            speak([Said(1, 500 * ms, 1000 * ms)]),
            speak([Said(2, 500 * ms, 1800 * ms)]),
        ]
        listeners = [Listener(service) for _ in texts]
        for listener, text in zip(listeners, texts, strict=True):
            listener.send(text)
        valve.open()
        for listener in [first, *listeners]:
            listener.end()
    words = [read(job.segment.pcm)[0].text for job in model.reader.jobs]
    assert words.index(WORDS[2]) < words.index(WORDS[1])
