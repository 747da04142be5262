"""A receiver's queue: in order, again where it helps, and never in anybody's way."""

import threading
from dataclasses import dataclass, field

import pytest
from push_receivers import QUICK, Told, delivering, said, until

from livecap.output.push import delivery as deliveries
from livecap.output.push.caption_line import LineRefused, Pause, ReceiverGone, Said, Undelivered
from livecap.output.push.delivery import Delivery


@dataclass
class Script:
    """A sink that does what it is told, then takes everything."""

    steps: list[Exception] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    tried: list[int] = field(default_factory=list)
    rested: int = 0
    closed: int = 0
    kind: str = "script"
    worth: float = 60.0
    quiet: float | None = None
    name: str = "Script (example)"
    go: threading.Event | None = None  # what it waits for first

    def send(self, said: Said, pause: Pause) -> None:
        self.tried.append(said.number)
        if self.go:
            assert self.go.wait(30)
        if self.steps:
            raise self.steps.pop(0)
        self.taken.append(said.number)

    def rest(self) -> None:
        self.rested += 1

    def close(self) -> None:
        self.closed += 1


def test_order_is_kept_through_trouble() -> None:
    sink = Script([Undelivered("it answered 503"), Undelivered("it answered 503")])
    with delivering(sink) as (delivery, told):
        for number in range(5):
            delivery.put(said("Words.", number))
        until(lambda: len(sink.taken) == 5)
    assert sink.taken == [0, 1, 2, 3, 4]
    assert sink.tried == [0, 0, 0, 1, 2, 3, 4]
    assert told.results == ["delivered"] * 5
    assert told.sentences == [
        "Script (example): it answered 503; trying again",
        "Script (example): it takes captions again",
    ]
    assert sink.closed == 1


def test_who_says_something_never_waits() -> None:
    sink = Script(go=threading.Event())
    with delivering(sink) as (delivery, _told):
        for number in range(500):
            delivery.put(said("Words.", number))
        assert not sink.taken
        assert sink.go
        sink.go.set()
        until(lambda: len(sink.taken) == 500)
    assert sink.taken == list(range(500))


def test_the_oldest_are_dropped_for_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "MOST", 10)
    sink = Script(go=threading.Event())
    with delivering(sink) as (delivery, told):
        delivery.put(said("Words.", 0))
        until(lambda: sink.tried == [0])
        for number in range(1, 31):
            delivery.put(said("Words.", number))
        assert sink.go
        sink.go.set()
        until(lambda: len(sink.taken) == 11)
    assert sink.taken == [0, *range(21, 31)]
    assert told.results.count("dropped") == 20


def test_what_is_too_late_is_not_sent() -> None:
    now = [0.0]
    sink = Script([Undelivered("away")], worth=5.0)

    def delay(tries: int, asked: float) -> float:
        now[0] += 6.0
        return 0.001

    with delivering(sink, delay=delay, clock=lambda: now[0]) as (delivery, told):
        delivery.put(said("Old.", 1))
        until(lambda: told.results == ["late"])
        delivery.put(said("New.", 2))
        until(lambda: sink.taken == [2])
        assert told.sentences[-1].endswith("it takes captions again; 1 lines were not sent")


def test_what_is_refused_is_not_tried_again() -> None:
    sink = Script([LineRefused("it does not take captions (400)")] * 2)
    with delivering(sink) as (delivery, told):
        for number in range(3):
            delivery.put(said("Words.", number))
        until(lambda: sink.taken == [2])
    assert sink.tried == [0, 1, 2]
    assert told.results == ["refused", "refused", "delivered"]
    assert len([one for one in told.sentences if "400" in one]) == 1


def test_who_is_gone_is_left_alone() -> None:
    sink = Script([ReceiverGone("it is gone (410)")])
    with delivering(sink) as (delivery, told):
        for number in range(3):
            delivery.put(said("Words.", number))
        until(lambda: len(told.results) == 3)
    assert sink.tried == [0]
    assert told.results == ["refused"] * 3
    assert told.sentences[0].endswith("it is gone (410); nothing is sent there any more")


def test_delays_are_asked_for() -> None:
    asked: list[tuple[int, float]] = []

    def delay(tries: int, wanted: float) -> float:
        asked.append((tries, wanted))
        return 0.001

    sink = Script([Undelivered("a"), Undelivered("b", after=7.0), Undelivered("c", after=1e9)])
    with delivering(sink, delay=delay) as (delivery, _):
        delivery.put(said("Words."))
        until(lambda: bool(sink.taken))
    assert asked == [(1, 0.0), (2, 7.0), (3, deliveries.LONGEST_ASKED)]


def test_the_end_sends_what_is_left() -> None:
    sink = Script(go=threading.Event())
    with delivering(sink, last=20.0) as (delivery, told):
        for number in range(4):
            delivery.put(said("Words.", number))
        assert sink.go
        sink.go.set()
    assert sink.taken == [0, 1, 2, 3]
    assert told.sentences == []


def test_the_end_does_not_wait_for_a_delay() -> None:
    sink = Script([Undelivered("away")])
    with delivering(sink, delay=lambda tries, asked: 3600.0, last=20.0) as (delivery, told):
        delivery.put(said("Words."))
        until(lambda: bool(told.sentences))
    assert sink.taken == [1]


def test_the_end_is_bounded_and_says_what_was_lost() -> None:
    sink = Script([Undelivered("away") for _ in range(100_000)])
    with delivering(sink, last=0.1) as (delivery, told):
        for number in range(4):
            delivery.put(said("Words.", number))
        until(lambda: bool(sink.tried))
    assert sink.taken == []
    assert told.sentences[-1] == "Script (example): 4 lines were not sent before the end"
    assert told.results == ["dropped"] * 4


def test_a_receiver_that_hangs_does_not_hold_the_end_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "PATIENCE", 0.05)
    go, told = threading.Event(), Told()
    sink = Script(go=go)
    delivery = Delivery(sink, delay=QUICK, say=told.sentences.append, count=told.count)
    delivery.put(said("Words.", 0))
    delivery.put(said("Words.", 1))
    until(lambda: sink.tried == [0])
    delivery.finish(0.05)
    delivery.close()
    assert told.sentences == ["Script (example): 2 lines were not sent before the end"]
    go.set()
    until(lambda: sink.closed == 1)


def test_silence_is_told_once() -> None:
    sink = Script(quiet=0.01)
    with delivering(sink) as (delivery, _):
        until(lambda: sink.rested == 1)
        delivery.put(said("Words."))
        until(lambda: sink.rested == 2)
    assert sink.rested == 2


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[type[BaseException]]:
    """Errors that ended threads."""
    found: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda ended: found.append(ended.exc_type))
    return found


def test_a_fault_of_ours_costs_one_line_and_is_seen(
    caplog: pytest.LogCaptureFixture, seen: list[type[BaseException]]
) -> None:
    sink = Script([KeyError("a token"), ZeroDivisionError()])
    with delivering(sink) as (delivery, told):
        for number in range(4):
            delivery.put(said("Words.", number))
        until(lambda: len(told.results) == 4 and len(seen) == 2)
    assert (sink.tried, sink.taken, sink.closed) == ([0, 1, 2, 3], [2, 3], 1)
    assert told.results == ["dropped", "dropped", "delivered", "delivered"]
    assert told.sentences == ["Script (example): it takes captions again; 2 lines were not sent"]
    assert set(seen) == {KeyError, ZeroDivisionError}
    assert caplog.messages == ["Script (example): a fault of livecap; a line may be lost"] * 2


def test_a_fault_at_the_end_leaves_no_line_behind(seen: list[type[BaseException]]) -> None:
    sink = Script([KeyError()], go=threading.Event())
    assert sink.go
    with delivering(sink, last=5.0) as (delivery, told):
        for number in range(3):
            delivery.put(said("Words.", number))
        until(lambda: sink.tried == [0])
        delivery.finish(5.0)
        sink.go.set()
    assert (sink.taken, sink.closed) == ([1, 2], 1)
    assert told.results == ["dropped", "delivered", "delivered"]
    until(lambda: seen == [KeyError])


def test_a_fault_while_nothing_is_said_is_no_end(seen: list[type[BaseException]]) -> None:
    class Restless(Script):
        def rest(self) -> None:
            super().rest()
            raise TypeError

    sink = Restless(quiet=0.005)
    with delivering(sink) as (delivery, told):
        until(lambda: bool(seen))
        delivery.put(said("Words.", 1))
        until(lambda: told.results == ["delivered"])
    assert set(seen) == {TypeError}
