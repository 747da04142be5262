"""How many connections there may be, in all and from one address; and how often one is refused."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import pytest
from server_clients import manual, run, utterance
from server_fixture import MANY, Running, serving, until

from livecap.api.access import connection_limits
from livecap.api.access.connection_limits import Crowd
from livecap.api.access.refusal_pace import BURST, LONGEST, PARTIES, RefusalPace
from livecap.api.options import ServeConfig


@asynccontextmanager
async def connections(server: Running, count: int) -> AsyncGenerator[list[asyncio.StreamReader]]:
    """So many that say nothing."""
    pairs = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(count)]
    try:
        yield [reader for reader, _ in pairs]
    finally:
        for _, writer in pairs:
            writer.transport.abort()


HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "config",
    [replace(MANY, max_connections=20), replace(MANY, max_connections=90, max_per_address=20)],
)
def test_more_connections_than_may_be_are_closed_at_once(config: ServeConfig) -> None:
    """Those that say nothing take half of the places at most, so that others get in."""

    async def work(server: Running) -> None:
        async with manual(server) as socket, connections(server, 40) as many:
            until(lambda: server.parts.crowd.refused == 30)
            closed = [reader for reader in many if await told(reader)]
            assert len(closed) == 30
            async with connections(server, 3):
                until(lambda: server.parts.crowd.refused == 33)
            raw, text = utterance(3)
            assert await socket.say(raw) == text

    async def told(reader: asyncio.StreamReader) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                return (await reader.read()).startswith(b"HTTP/1.1 503 ")
        return False

    with serving(config=config) as server:
        run(lambda: work(server))
        server.settle()
        assert (server.parts.crowd.count, server.parts.crowd.waiting) == (0, 0)


def test_those_with_a_request_have_the_other_half() -> None:
    async def work(server: Running) -> None:
        kept = []
        for _ in range(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(HEALTH)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            kept.append(writer)
        assert (server.parts.crowd.count, server.parts.crowd.waiting) == (10, 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(HEALTH)
        with suppress(ConnectionError):
            assert (await reader.read(13)) == b"HTTP/1.1 503 "
        for one in [*kept, writer]:
            one.transport.abort()

    with serving(config=replace(MANY, max_connections=10)) as server:
        run(lambda: work(server))
        server.settle()


@pytest.mark.parametrize(
    ("host", "party"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("testclient", "testclient"),
    ],
)
def test_who_an_address_is_counted_with(host: str, party: str) -> None:
    assert connection_limits.party(host) == party


def test_proxies_that_are_trusted_stand_for_many() -> None:
    found = Crowd(1000, 4, trusted=("10.0.0.8/30",))
    places = [found.enter("10.0.0.9", port) for port in range(50)]
    assert all(places)
    assert [bool(found.enter("10.0.0.1", port)) for port in range(3)] == [True, True, False]


def test_who_is_refused_often_waits_for_it() -> None:
    now = [0.0]
    found = RefusalPace(lambda: now[0])
    assert [found.refuse("a") for _ in range(int(BURST))] == [0.0] * int(BURST)
    waits = [found.refuse("a") for _ in range(1000)]
    assert waits == sorted(waits)
    assert 0 < waits[0] < waits[-1] <= LONGEST
    assert found.refuse("b") == 0.0
    now[0] = 10.0
    assert found.refuse("a") == 0.0
    for number in range(2 * PARTIES):
        found.refuse(f"{number}")
    assert len(found._had) == PARTIES
