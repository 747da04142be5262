"""Readers on real sockets: by a link, from the first line, hundreds at once, until it ends."""

import asyncio
import importlib.util
import json
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from server_clients import REALTIME, VAD, Socket, client, run, utterance
from server_fixture import MANY, Running, serving
from starlette.requests import Request
from strict import parse_srt

from livecap.api.errors import ApiError
from livecap.api.server.uvicorn_http import PromptHead
from livecap.api.viewers import Broadcast, documents
from livecap.api.viewers.channel import data_of, encoded
from livecap.api.viewers.documents import FORMATS
from livecap.api.viewers.links import links

KEY = {"Authorization": "Bearer right"}
Json = dict[str, Any]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(keys=("right",)) as running:
        yield running


@asynccontextmanager
async def speaker(server: Running) -> AsyncGenerator[tuple[Socket, str]]:
    """A session with turns, and its id."""
    async with client(server, additional_headers=KEY) as socket:
        session = await socket.configure(turn_detection=VAD)
        yield socket, session["id"]


async def say(socket: Socket, seed: int) -> str:
    raw, text = utterance(seed, after=1500)
    await socket.append(raw)
    await socket.until(".completed")
    return text


@asynccontextmanager
async def web(server: Running) -> AsyncGenerator[httpx2.AsyncClient]:
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(
        base_url=f"http://{server.host}", timeout=60, limits=limits, trust_env=False
    ) as found:
        yield found


async def link(pages: httpx2.AsyncClient, id: str) -> str:
    answer = await pages.post(f"/v1/captions/{id}/share", headers=KEY)
    assert answer.status_code == 201, answer.text
    told = answer.json()
    assert told["url"].endswith(f"/view/{id}?token={told['token']}")
    assert f"/overlay/{id}?token=" in told["overlay"]
    token: str = told["token"]
    return token


async def messages(answer: httpx2.Response) -> AsyncGenerator[Json]:
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


async def finals(pages: httpx2.AsyncClient, path: str, count: int, **headers: str) -> list[Json]:
    """So many lines, as they come."""
    found: list[Json] = []
    async with pages.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for message in messages(answer):
            if message["type"] == "final":
                found.append(message)
            if len(found) == count or message["type"] == "end":
                break
    return found


def test_history_first_then_live(server: Running) -> None:
    async def work() -> None:
        async with speaker(server) as (socket, id), web(server) as pages:
            first = await say(socket, 1)
            token = await link(pages, id)
            path = f"/v1/captions/{id}/events?token={token}"
            reading = asyncio.create_task(finals(pages, path, 2))
            second = await say(socket, 2)
            assert [one["text"] for one in await reading] == [first.strip(), second.strip()]
            (rest,) = await finals(pages, path, 1, **{"Last-Event-ID": "1"})
            assert (rest["id"], rest["text"]) == (2, second.strip())

    run(work)
    server.settle()


def test_documents_are_what_was_said(server: Running) -> None:
    async def work() -> None:
        async with speaker(server) as (socket, id), web(server) as pages:
            texts = [await say(socket, seed) for seed in (3, 4)]
            token = await link(pages, id)
            for form, kind in FORMATS.items():
                answer = await pages.get(f"/v1/captions/{id}.{form}?token={token}")
                assert answer.status_code == 200
                assert answer.headers["content-type"] == kind
                for word in " ".join(texts).split():
                    assert word in answer.text
                if form == "srt":
                    parse_srt(answer.text)
            assert (await pages.get(f"/v1/captions/{id}.doc?token={token}")).status_code == 404

    run(work)
    server.settle()


def test_the_end_of_a_session_is_told_and_its_text_stays(server: Running) -> None:
    async def work() -> None:
        async with web(server) as pages:
            async with speaker(server) as (socket, id):
                token = await link(pages, id)
                path = f"/v1/captions/{id}/events?token={token}"
                reading = asyncio.create_task(finals(pages, path, 99))
                text = await say(socket, 5)
            assert [one["text"] for one in await reading] == [text.strip()]
            assert text.strip() in (await pages.get(f"/v1/captions/{id}.txt?token={token}")).text

    run(work)
    server.settle()


def test_who_may_read(server: Running) -> None:
    async def work() -> None:
        async with speaker(server) as (socket, id), web(server) as pages:
            await say(socket, 6)
            at = f"/v1/captions/{id}"
            for path in (f"{at}/events", f"{at}.srt", at):
                assert (await pages.get(path)).status_code == 401
                assert (await pages.get(f"{path}?token=vk_wrong")).status_code == 404
            assert (await pages.get("/v1/captions")).status_code == 401
            assert (await pages.post(f"{at}/share")).status_code == 401
            token = await link(pages, id)
            assert (await pages.get(f"{at}.srt?token={token}")).status_code == 200
            # A reader's token opens nothing but that: no link, no deletion, and no audio.
            assert (await pages.post(f"{at}/share?token={token}")).status_code == 401
            assert (await pages.delete(f"{at}?token={token}")).status_code == 401
            wrong = {"Authorization": f"Bearer {token}"}
            async with client(server, additional_headers=wrong, created=False) as other:
                assert (await other.receive())["error"]["code"] == "invalid_api_key"
                assert await other.code() == 3000
            # The link ends when the speaker says so, for those who read along, too.
            reading = asyncio.create_task(finals(pages, f"{at}/events?token={token}", 99))
            while not server.parts.hub.find(id).readers:  # type: ignore[union-attr] # it is there
                await asyncio.sleep(0.01)
            assert (await pages.delete(f"{at}/share", headers=KEY)).status_code == 204
            assert len(await reading) == 1
            assert (await pages.get(f"{at}.srt?token={token}")).status_code == 404

    run(work)
    server.settle()


def test_what_is_deleted_is_gone(server: Running) -> None:
    async def work() -> None:
        async with speaker(server) as (socket, id), web(server) as pages:
            await say(socket, 7)
            listed = (await pages.get("/v1/captions", headers=KEY)).json()["data"]
            assert any(one["id"] == id and one["lines"] == 1 for one in listed)
            token = await link(pages, id)
            assert (await pages.delete(f"/v1/captions/{id}", headers=KEY)).status_code == 204
            assert (await pages.get(f"/v1/captions/{id}.txt?token={token}")).status_code == 404
            assert (await pages.get(f"/v1/captions/{id}.txt", headers=KEY)).text == ""

    run(work)
    server.settle()


def test_readers_are_limited_by_link_and_by_address() -> None:
    """However they come at once. Whoever leaves makes room."""

    async def work(server: Running) -> None:
        async with speaker(server) as (socket, id), web(server) as pages:
            text = await say(socket, 20)
            path = f"/v1/captions/{id}/events?token={await link(pages, id)}"
            statuses: list[int] = []
            leave = asyncio.Event()

            async def read() -> None:
                async with pages.stream("GET", path) as answer:
                    statuses.append(answer.status_code)
                    if answer.status_code == 200:
                        await leave.wait()
                    else:
                        told = json.loads(await answer.aread())
                        assert told["error"]["code"] == "too_many_readers"
                        assert int(answer.headers["retry-after"]) > 0

            async with asyncio.TaskGroup() as group:
                for _ in range(60):
                    group.create_task(read())
                while len(statuses) < 60:
                    await asyncio.sleep(0.01)
                assert sorted(statuses) == [200] * 20 + [429] * 40
                async with speaker(server) as (second, other):
                    await say(second, 21)
                    there = f"/v1/captions/{other}/events?token={await link(pages, other)}"
                    assert (await pages.get(there)).status_code == 429, "of the same address"
                leave.set()
            broadcast = server.parts.hub.find(id)
            assert broadcast
            while broadcast.readers:
                await asyncio.sleep(0.01)
            assert [one["text"] for one in await finals(pages, path, 1)] == [text.strip()]

    with serving(config=replace(MANY, max_readers=20), keys=("right",)) as server:
        run(lambda: work(server))
        server.settle()


def test_a_reader_that_takes_nothing_is_let_go(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And until then it holds little of what was said."""
    monkeypatch.setattr(PromptHead, "taking", 0.3)

    async def work() -> None:
        async with speaker(server) as (socket, id), web(server) as pages:
            await say(socket, 22)
            broadcast = server.parts.hub.find(id)
            assert broadcast
            line = json.loads(data_of(broadcast.lines[0])) | {"text": "x" * 4000}
            long = [encoded(number, json.dumps(line)) for number in range(2, 10_001)]
            broadcast.restore(long, 10_000)  # some 40 MB
            path = f"/v1/captions/{id}/events?token={await link(pages, id)}"
            stalled = await asyncio.open_connection("127.0.0.1", server.port, limit=1000)
            stalled[1].write(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            while not broadcast.readers:
                await asyncio.sleep(0.005)
            most = 0
            while broadcast.readers:
                for one in list(server.server.server_state.connections):
                    most = max(most, one.transport.get_write_buffer_size())
                await asyncio.sleep(0.005)
            assert most < 1 << 20
            stalled[1].close()

    run(work)
    server.settle()


def test_a_document_is_made_once_for_all(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    whole = documents.written

    def counted(broadcast: Broadcast, form: str) -> bytes:
        made.append(form)
        return whole(broadcast, form)

    monkeypatch.setattr(documents, "written", counted)

    async def work() -> None:
        async with speaker(server) as (socket, id), web(server) as pages:
            first = await say(socket, 23)
            path = f"/v1/captions/{id}.txt?token={await link(pages, id)}"
            bodies = await asyncio.gather(*(pages.get(path) for _ in range(20)))
            assert {one.text.strip() for one in bodies} == {first.strip()}
            second = await say(socket, 24)
            assert (await pages.get(path)).text.split() == f"{first} {second}".split()
            assert made == ["txt", "txt"]
            assert (await pages.delete(f"/v1/captions/{id}", headers=KEY)).status_code == 204
            assert (await pages.get(path, headers=KEY)).status_code == 404
            assert (await pages.get(f"/v1/captions/{id}.txt", headers=KEY)).text == ""

    run(work)
    server.settle()


def test_two_hundred_readers_and_one_that_reads_nothing(server: Running) -> None:
    """Each gets every line; how soon after the first, is told in benchmarks/README.md."""
    count, lines = 200, 3

    async def work() -> None:
        async with speaker(server) as (socket, id), web(server) as pages:
            token = await link(pages, id)
            path = f"/v1/captions/{id}/events?token={token}"
            stalled = await asyncio.open_connection("127.0.0.1", server.port)
            stalled[1].write(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            arrivals: list[list[float]] = [[] for _ in range(lines)]

            async def read() -> None:
                async with pages.stream("GET", path) as answer:
                    async for message in messages(answer):
                        if message["type"] == "final":
                            arrivals[message["id"] - 1].append(time.perf_counter())
                            if message["id"] == lines:
                                return

            broadcast = server.parts.hub.find(id)
            assert broadcast
            readers = [asyncio.create_task(read()) for _ in range(count)]
            while broadcast.readers < count + 1:
                await asyncio.sleep(0.01)
            for seed in range(lines):
                await say(socket, 10 + seed)
            await asyncio.gather(*readers)
            assert [len(one) for one in arrivals] == [count] * lines
            spread = max(max(one) - min(one) for one in arrivals)
            print(f"{count} readers: the last had a line {spread * 1000:.0f} ms after the first")
            stalled[1].close()

    run(work)
    server.settle()


def test_a_link_is_for_reading_whatever_the_mode() -> None:
    """Without keys, too, those elsewhere who have one (and so the id) can do nothing else."""
    elsewhere = {"X-Forwarded-For": "10.0.0.5"}

    async def work(server: Running) -> None:
        async with client(server, f"{REALTIME}&captions=") as socket, web(server) as pages:
            session = await socket.configure(turn_detection=VAD)
            id, key = session["id"], socket.frames[0]["session"]["livecap"]["captions_key"]
            text = await say(socket, 30)
            token = (await pages.post(f"/v1/captions/{id}/share")).json()["token"]
            at = f"/v1/captions/{id}"
            read = await pages.get(f"{at}.txt?token={token}", headers=elsewhere)
            assert read.text.strip() == text.strip()
            for method, path in (
                ("GET", "/v1/captions"),
                ("GET", f"{at}.txt"),
                ("GET", f"{at}/events"),
                ("GET", at),
                ("POST", f"{at}/share"),
                ("DELETE", f"{at}/share"),
                ("DELETE", at),
                ("DELETE", f"{at}?token={token}"),
            ):
                for wrong in ({}, {"Livecap-Captions-Key": "wrong"}):
                    refused = await pages.request(method, path, headers={**elsewhere, **wrong})
                    assert refused.status_code in (403, 404), (method, path)
            async with client(
                server, f"{REALTIME}&captions={id}", additional_headers=elsewhere
            ) as other:
                assert other.frames[0]["session"]["livecap"]["captions"] != id, "taken over"
            speaks = {**elsewhere, "Livecap-Captions-Key": key}
            assert (await pages.get(f"{at}.txt", headers=speaks)).status_code == 200
            assert (await pages.delete(f"{at}/share", headers=speaks)).status_code == 204
            assert (await pages.delete(at, headers=speaks)).status_code == 204
            assert (await pages.get("/v1/captions")).status_code == 200, "on this machine"

    config = replace(MANY, insecure=True, trust_proxy=("127.0.0.1",))
    with serving(config=config) as server:
        run(lambda: work(server))
        server.settle()


@pytest.mark.parametrize(
    ("host", "base", "addresses", "begins", "is_reachable"),
    [
        ("127.0.0.1:8000", None, (), "http://127.0.0.1:8000/", False),
        ("127.0.0.1:8000", None, ("192.168.7.5",), "http://192.168.7.5:8000/", True),
        ("localhost:8000", None, ("2001:db8::5",), "http://[2001:db8::5]:8000/", True),
        ("10.0.0.2:8000", None, ("192.168.7.5",), "http://10.0.0.2:8000/", True),
        ("127.0.0.1:8000", "https://a.org/captions/", (), "https://a.org/captions/", True),
        ("127.0.0.1:8000", "https://localhost/", ("192.168.7.5",), "https://192.168.7.5/", True),
    ],
)  # fmt: skip
def test_links_are_those_that_others_can_open(
    host: str, base: str | None, addresses: tuple[str, ...], begins: str, is_reachable: bool
) -> None:
    query = urlencode({"base": base} if base else {}).encode()
    headers = [(b"host", host.encode())]
    scope = {
        "type": "http",
        "path": "/v1/captions/a/share",
        "query_string": query,
        "headers": headers,
    }
    scope |= {"scheme": "http", "method": "POST", "server": ("127.0.0.1", 8000)}
    told = links(Request(scope), "sess_a", "vk_b", addresses).payload()
    assert told["url"] == f"{begins}view/sess_a?token=vk_b"
    assert told["overlay"] == f"{begins}overlay/sess_a?token=vk_b"
    assert told["reachable"] is is_reachable
    if importlib.util.find_spec("segno"):
        assert str(told["code"]).startswith("data:image/svg+xml")


@pytest.mark.parametrize("base", ["ftp://a/", "https://a/b", "javascript:alert(1)/", "x" * 501, ""])
def test_a_base_that_is_no_page_is_refused(base: str) -> None:
    query = urlencode({"base": base}).encode()
    scope = {"type": "http", "path": "/", "query_string": query, "headers": [(b"host", b"a")]}
    with pytest.raises(ApiError):
        links(Request({**scope, "scheme": "http", "method": "POST"}), "a", "b", ())
