"""Who is let in: as many as the machine bears, refusals at once, no place lost or doubled."""

import asyncio
import random

import pytest
from server_parts import FakeService

from livecap.api.errors import ApiError
from livecap.api.sessions.admission import LATER, UNMEASURED, Admission, Ticket
from livecap.api.sessions.drain import Drain


def admission(
    *, sessions: int = 0, uploads: int = 2, drain: Drain | None = None, **services: FakeService
) -> Admission:
    return Admission(drain or Drain(), sessions=sessions, uploads=uploads, room=services.get)


def let_in(gate: Admission, model: str = "a", most: int = 100) -> list[Ticket]:
    """As many as there is room for."""
    found: list[Ticket] = []
    for _ in range(most):
        ticket = gate.session(model)
        if isinstance(ticket, ApiError):
            assert (ticket.status, ticket.code) == (429, "rate_limit_exceeded")
            assert ticket.headers["Retry-After"] == str(LATER)
            break
        found.append(ticket)
    return found


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_sessions_than_were_named(most: int) -> None:
    gate = admission(sessions=most, a=FakeService(max_streams=50))
    tickets = let_in(gate)
    assert len(tickets) == gate.sessions == most
    tickets[0].release()
    assert len(let_in(gate)) == 1


@pytest.mark.parametrize("bears", [1, 8, 49])
def test_as_many_as_the_machine_bears(bears: int) -> None:
    gate = admission(a=FakeService(max_streams=bears))
    assert len(let_in(gate)) == bears


def test_what_it_bears_is_looked_at_each_time() -> None:
    service = FakeService(max_streams=4)
    gate = admission(a=service)
    tickets = let_in(gate)
    service.max_streams = 2
    for ticket in tickets[:2]:
        ticket.release()
        assert let_in(gate) == []
    tickets[2].release()
    assert len(let_in(gate)) == 1
    service.max_streams = 8
    assert len(let_in(gate)) == 6


def test_models_share_the_machine() -> None:
    gate = admission(a=FakeService(max_streams=8), b=FakeService(max_streams=2))
    assert len(let_in(gate, "a", most=4)) == 4
    assert len(let_in(gate, "b")) == 1
    assert let_in(gate, "a") == []


def test_somebody_is_always_let_in() -> None:
    gate = admission(a=FakeService(max_streams=1), b=FakeService(max_streams=1))
    assert len(let_in(gate, "b")) == 1
    assert let_in(gate, "a") == []


def test_a_model_that_is_still_to_be_loaded_has_some_room() -> None:
    assert len(let_in(admission())) == UNMEASURED


def test_a_session_that_changes_its_model_is_counted_with_the_new_one() -> None:
    gate = admission(a=FakeService(max_streams=4), b=FakeService(max_streams=2))
    (ticket,) = let_in(gate, "a", most=1)
    ticket.model = "b"
    assert len(let_in(gate, "a")) == 2


def test_a_ticket_is_given_back_once() -> None:
    gate = admission(sessions=2)
    first, second = let_in(gate)
    for _ in range(3):
        first.release()
    assert gate.sessions == 1
    with second:
        second.release()
    assert gate.sessions == 0
    with pytest.raises(ZeroDivisionError), let_in(gate, most=1)[0]:
        raise ZeroDivisionError
    assert gate.sessions == 0


@pytest.mark.parametrize("seed", range(5))
def test_places_are_neither_lost_nor_doubled(seed: int) -> None:
    chance = random.Random(seed)
    gate = admission(sessions=5)
    inside: list[Ticket] = []
    for _ in range(500):
        if chance.random() < 0.6:
            found = gate.session("a")
            assert isinstance(found, Ticket) == (len(inside) < 5)
            inside += [found] if isinstance(found, Ticket) else []
        elif inside:
            inside.pop(chance.randrange(len(inside))).release()
        assert gate.sessions == len(inside)


def test_uploads_are_counted_and_refused() -> None:
    gate = admission(uploads=2, sessions=1)
    first, second = gate.upload(), gate.upload()
    assert isinstance(first, Ticket)
    assert isinstance(second, Ticket)
    refused = gate.upload()
    assert isinstance(refused, ApiError)
    assert (refused.status, refused.headers["Retry-After"]) == (429, str(LATER))
    assert len(let_in(gate)) == 1, "live sessions have places of their own"
    assert (gate.uploads, gate.sessions) == (2, 1)
    first.release()
    first.release()
    assert isinstance(gate.upload(), Ticket)
    assert gate.uploads == 2


def test_nobody_is_let_in_when_the_server_stops() -> None:
    async def ask() -> None:
        drain = Drain()
        gate = admission(drain=drain)
        await drain.run(1.0)
        for refused in (gate.session("a"), gate.upload()):
            assert isinstance(refused, ApiError)
            assert (refused.status, refused.code) == (503, "server_stopping")

    asyncio.run(ask())


# -- a stop that loses nothing -------------------------------------------------------------------


def test_a_stop_waits_for_those_who_have_something_under_way() -> None:
    async def stop() -> list[str]:
        drain, finished = Drain(), list[str]()
        calm = asyncio.Event()

        async def finish(name: str) -> None:
            await calm.wait()
            finished.append(name)

        with drain.hook(lambda: finish("a")), drain.hook(lambda: finish("b")):
            with drain.hook(lambda: finish("gone")):
                pass
            stopping = asyncio.create_task(drain.run(30.0))
            while not drain.is_stopping:
                await asyncio.sleep(0)
            assert finished == []
            calm.set()
            assert await stopping == 0
        return finished

    assert asyncio.run(stop()) == ["a", "b"]


def test_a_stop_does_not_wait_for_ever() -> None:
    async def stop() -> None:
        drain, finished = Drain(), list[str]()

        async def quick() -> None:
            finished.append("quick")

        async def never() -> None:
            await asyncio.Event().wait()

        with drain.hook(never), drain.hook(quick), drain.hook(never):
            assert await drain.run(0.01) == 2
        assert finished == ["quick"]

    asyncio.run(stop())


def test_one_that_fails_does_not_keep_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async def stop() -> None:
        drain, finished = Drain(), list[str]()

        async def fail() -> None:
            raise RuntimeError("a fault of ours")

        async def slow() -> None:
            await asyncio.sleep(0)
            finished.append("slow")

        with drain.hook(fail), drain.hook(slow):
            assert await drain.run(30.0) == 0
        assert finished == ["slow"]

    asyncio.run(stop())
    assert "a fault of ours" in caplog.text


def test_one_that_comes_too_late_is_told_at_once() -> None:
    async def stop() -> list[str]:
        drain, finished = Drain(), list[str]()
        await drain.run(30.0)
        done = asyncio.Event()

        async def finish() -> None:
            finished.append("late")
            done.set()

        with drain.hook(finish):
            await done.wait()
        return finished

    assert asyncio.run(stop()) == ["late"]
