"""The history behind the routes: started again, a server has it all; deleted, it is gone."""

import asyncio
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from server_clients import run
from server_fixture import MANY, Running, serving, toned
from test_captions_server import KEY, finals, link, say, speaker, web

from livecap.api.options import ServeConfig
from livecap.api.viewers import history
from livecap.api.viewers.documents import FORMATS


@pytest.fixture
def config(tmp_path: Path) -> ServeConfig:
    return ServeConfig(max_sessions=500, history=str(tmp_path / "history.db"))


def served(config: ServeConfig) -> Any:
    return serving(toned(), config, keys=("right",))


async def ask(pages: Any, **query: str) -> Any:
    answer = await pages.get("/v1/captions", params=query, headers=KEY)
    assert answer.status_code == 200, answer.text
    return answer.json()


@dataclass
class Known:
    """What a test has seen of a session."""

    id: str
    text: str
    token: str
    documents: dict[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"/v1/captions/{self.id}"


async def spoken(server: Running, seed: int) -> Known:
    """A session that is over, and shared."""
    async with web(server) as pages:
        async with speaker(server) as (socket, id):
            text = (await say(socket, seed)).strip()
            found = Known(id, text, await link(pages, id))
        while server.parts.admission.sessions:
            await asyncio.sleep(0.01)
        for form in FORMATS:
            answer = await pages.get(f"{found.path}.{form}?token={found.token}")
            found.documents[form] = answer.text
    return found


def test_a_server_that_is_started_again_has_it_all(config: ServeConfig) -> None:
    with served(config) as server:
        first, other = run(lambda: spoken(server, 1)), run(lambda: spoken(server, 2))

        async def end() -> None:
            async with web(server) as pages:
                answer = await pages.delete(f"{other.path}/share", headers=KEY)
                assert answer.status_code == 204
                assert (await pages.get("/health")).json()["history"] == "ok"

        run(end)

    with served(config) as server:

        async def read() -> None:
            async with web(server) as pages:
                for form, text in first.documents.items():
                    answer = await pages.get(f"{first.path}.{form}?token={first.token}")
                    assert answer.text == text
                events = f"{first.path}/events?token={first.token}"
                assert [one["text"] for one in await finals(pages, events, 99)] == [first.text]
                assert await finals(pages, f"{events}&after=1", 99) == []
                ended = await pages.get(f"{other.path}.txt?token={other.token}")
                assert ended.status_code == 404
                assert (await pages.get(f"{other.path}.txt", headers=KEY)).status_code == 200
                assert await link(pages, first.id) == first.token

        run(read)


def test_what_is_listed_found_and_deleted(config: ServeConfig) -> None:
    with served(config) as server:
        first, other = run(lambda: spoken(server, 1)), run(lambda: spoken(server, 2))

    async def listed(pages: Any) -> None:
        whole = await ask(pages)
        assert [one["id"] for one in whole["data"]] == [other.id, first.id]
        assert (whole["kept"], whole["has_more"]) == (True, False)
        page = await ask(pages, limit="1")
        assert (page["has_more"], page["last_id"]) == (True, other.id)
        page = await ask(pages, limit="1", after=other.id)
        assert [one["id"] for one in page["data"]] == [first.id]
        for wrong in ("0", "-1", "x", "501", ""):
            assert (await pages.get(f"/v1/captions?limit={wrong}", headers=KEY)).status_code == 400

    async def delete() -> None:
        async with web(server) as pages:
            await listed(pages)
            (one,) = (await ask(pages, q=f"{first.text}"))["data"]
            assert (one["id"], one["shared"], one["lines"]) == (first.id, True, 1)
            assert one["matches"][0]["text"] == first.text
            assert (await pages.delete(first.path, headers=KEY)).status_code == 204
            for path in (first.path, f"{first.path}.txt", f"{first.path}/events"):
                assert (await pages.get(f"{path}?token={first.token}")).status_code == 404
                assert (await pages.get(path, headers=KEY)).status_code == 404
            assert not (await ask(pages, q=first.text))["data"]

    with served(config) as server:
        run(delete)


def test_a_disk_that_is_full(config: ServeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who read along miss nothing, and nobody is told that something was kept or deleted."""
    monkeypatch.setattr(history, "RETRY", 0.05)

    def fail() -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with served(config) as server:

        async def work() -> None:
            async with speaker(server) as (socket, id), web(server) as pages:
                token = await link(pages, id)
                kept = server.parts.history
                assert kept
                assert server.loop
                with monkeypatch.context() as patched:
                    patched.setattr(kept._archive, "add", lambda *line: fail())
                    patched.setattr(kept._archive, "forget", lambda id: fail())
                    path = f"/v1/captions/{id}/events?token={token}"
                    reading = asyncio.create_task(finals(pages, path, 2))
                    texts = [(await say(socket, seed)).strip() for seed in (4, 5)]
                    assert [one["text"] for one in await reading] == texts
                    answer = await pages.delete(f"/v1/captions/{id}", headers=KEY)
                    assert answer.status_code == 503
                    assert answer.json()["error"]["code"] == "history_unavailable"
                    assert (await pages.get("/health")).json()["history"] == "failing"
                    metrics = (await pages.get("/metrics")).text
                    assert "livecap_history_failures_total" in metrics

        run(work)


def test_without_a_history_there_is_nothing_of_it() -> None:
    with serving(toned(), MANY) as server:

        async def work() -> None:
            async with web(server) as pages:
                assert "history" not in (await pages.get("/health")).json()
                assert (await pages.get("/v1/captions")).json()["kept"] is False

        run(work)
