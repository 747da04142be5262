"""The history: what readers saw is in the file, comes back from it, and is gone when deleted."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from livecap.api.viewers import Hub, Part, Speaker, history
from livecap.api.viewers.channel import Broadcast
from livecap.api.viewers.documents import FORMATS, written
from livecap.api.viewers.history import DAY, History
from livecap.api.viewers.registry import HistoryError
from livecap.api.viewers.store import Archive
from livecap.errors import ConfigError
from livecap.events import RATE, Caption, Gap, Word
from livecap.metrics import Metrics

NOW = 1_800_000_000.0


def caption(text: str, at: float = 0.0) -> Caption:
    start = round(at * RATE)
    words = tuple(Word(f" {one}", start, start + RATE // 4, 0.9) for one in text.split())
    return Caption(0, start, start + RATE, words, language="en")


class Kept:
    """A hub with a history, on a loop; and a clock that stands still."""

    def __init__(self, path: Path, *, days: int = 0, indexed: bool = True) -> None:
        self.now = NOW
        self.metrics = Metrics(CollectorRegistry())
        self.archive = Archive(path, indexed=indexed)
        self.history = History(self.archive, self.metrics, days=days)
        self.hub = Hub(lambda: self.now, self.history)
        self.speakers: dict[str, Speaker] = {}

    def said(self, id: str, *texts: str, ends: bool = True) -> Broadcast:
        self.now += 10
        speaker = self.speakers[id] = self.hub.open(id, model="tiny.en")
        for n, text in enumerate(texts):
            speaker.take(1, [caption(text, n)])
        if ends:
            self.hub.close(speaker)
        return speaker.broadcast

    def close(self, broadcast: Broadcast) -> None:
        self.hub.close(self.speakers[broadcast.id])


def run(
    path: Path, work: Callable[[Kept], Awaitable[None]], *, days: int = 0, indexed: bool = True
) -> None:
    """One life of a server."""
    kept = Kept(path, days=days, indexed=indexed)

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work(kept)

    try:
        asyncio.run(bounded())
    finally:
        kept.history.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def test_it_comes_back_as_it_was(path: Path) -> None:
    documents: dict[str, bytes] = {}
    token = ""

    async def before(kept: Kept) -> None:
        nonlocal token
        broadcast = kept.said(
            "sess_1", "Good morning.", "世界 and   «quotes» \u2028 '\";--", ends=False
        )
        broadcast.take(1, [Gap(5 * RATE, 6 * RATE, "the network")])
        broadcast.take(1, [caption("The end.", 7)])
        token = kept.hub.share(broadcast)
        kept.close(broadcast)
        await kept.hub.settled()
        documents.update({form: written(broadcast, form) for form in FORMATS})

    async def after(kept: Kept) -> None:
        found = await kept.hub.recall("sess_1")
        assert found
        assert {form: written(found, form) for form in FORMATS} == documents
        assert (found.token, found.model, found.ended) == (token, "tiny.en", NOW + 10)
        reader = found.follow(after=2)
        told = b"".join(reader.take()).decode()
        assert reader.is_over
        assert [json.loads(line[6:])["id"] for line in told.splitlines() if "data" in line] == [
            3,
            4,
        ]
        assert await kept.hub.recall("sess_2") is None

    run(path, before)
    run(path, after)
    assert sorted(one.name for one in path.parent.iterdir()) == ["history.db"]
    assert path.stat().st_mode & 0o777 == 0o600


def wait(held: threading.Event) -> None:
    assert held.wait(30)


def test_readers_are_told_a_line_once_it_is_in_the_file(path: Path) -> None:
    async def work(kept: Kept) -> None:
        broadcast = kept.said("sess_1", ends=False)
        reader = broadcast.follow()
        held = threading.Event()
        kept.history._write(partial(wait, held))  # the disk is slow
        broadcast.take(1, [caption("Kept first.")])
        await asyncio.sleep(0)
        assert not broadcast.lines
        assert not [one for one in reader.take() if b"Kept" in one]
        held.set()
        await kept.hub.settled()
        assert [one for one in reader.take() if b"Kept first." in one]
        assert kept.archive.load("sess_1")

    run(path, work)


def test_a_disk_that_takes_too_long_holds_nobody_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "PATIENCE", 0.05)

    async def work(kept: Kept) -> None:
        broadcast = kept.said("sess_1", ends=False)
        reader = broadcast.follow()
        held = threading.Event()
        kept.history._write(partial(wait, held))
        broadcast.take(1, [caption("One.")])
        broadcast.take(1, [caption("Two.")])
        while len(broadcast.lines) < 2:
            await reader.news.wait()
            reader.news.clear()
        held.set()
        await kept.hub.settled()
        found = kept.archive.load("sess_1")
        assert found
        assert [number for number, _ in found[1]] == [1, 2]

    run(path, work)


def test_the_link_that_has_ended_stays_so(path: Path) -> None:
    async def before(kept: Kept) -> None:
        for id in ("kept", "taken"):
            broadcast = kept.said(id, "Hello.", ends=False)
            kept.hub.share(broadcast)
            kept.close(broadcast)
            if id == "taken":
                kept.hub.unshare(broadcast)
        await kept.hub.settled()

    async def after(kept: Kept) -> None:
        found, taken = await kept.hub.recall("kept"), await kept.hub.recall("taken")
        assert found
        assert taken
        assert found.token
        assert taken.token is None
        kept.hub.unshare(found)
        kept.hub.share(taken)
        await kept.hub.settled()
        found, taken = await kept.hub.recall("kept"), await kept.hub.recall("taken")
        assert found
        assert taken
        assert found.token is None
        assert taken.token

    run(path, before)
    run(path, after)


def everywhere(path: Path) -> bytes:
    """All bytes of the file, and of those that SQLite keeps beside it."""
    return b"".join(one.read_bytes() for one in path.parent.iterdir() if one.is_file())


@pytest.mark.parametrize("indexed", [True, False])
def test_what_is_deleted_is_in_no_file(path: Path, indexed: bool) -> None:
    async def work(kept: Kept) -> None:
        for n in range(30):
            kept.said(f"sess_{n}", *(f"Ordinary line {n} {m}." for m in range(30)))
        broadcast = kept.said("secret", *["The xylophone zebra is confidential."] * 200, ends=False)
        token = kept.hub.share(broadcast)
        kept.close(broadcast)
        await kept.hub.settled()
        for text in (b"xylophone", b"onfidential", token.encode()):
            assert text in everywhere(path), text
        kept.hub.forget("secret")
        await kept.hub.settled()
        for text in (b"xylophone", b"onfidential", b"secret", b"xyl", b"zeb", token.encode()):
            assert text not in everywhere(path), text
        assert await kept.hub.recall("secret") is None
        assert await kept.hub.recall("sess_3")

    run(path, work, indexed=indexed)


def test_who_is_under_way_goes_on_unkept_when_deleted(path: Path) -> None:
    async def work(kept: Kept) -> None:
        broadcast = kept.said("sess_1", "Forget this.", ends=False)
        kept.hub.forget("sess_1")
        broadcast.take(1, [caption("And this goes on.", 3)])
        await kept.hub.settled()
        assert [event.text for event in broadcast.events if isinstance(event, Caption)] == [
            " And this goes on."
        ]
        assert b"goes on" not in everywhere(path)
        (listed,) = await kept.hub.sessions("", "", 9)
        assert (listed.id, listed.lines) == ("sess_1", 1)
        kept.close(broadcast)

    async def after(kept: Kept) -> None:
        assert await kept.hub.recall("sess_1") is None

    run(path, work)
    run(path, after)


def test_what_is_too_old_is_deleted(path: Path) -> None:
    async def before(kept: Kept) -> None:
        kept.now = time.time() - 3 * DAY
        kept.said("old", "Oldest of words.")
        kept.now = time.time() - DAY
        kept.said("new", "Newer ones.")
        await kept.hub.settled()

    async def after(kept: Kept) -> None:
        await kept.hub.settled()
        assert [one.id for one in await kept.hub.sessions("", "", 9)] == ["new"]
        assert b"Oldest" not in everywhere(path)

    run(path, before)
    run(path, after, days=2)


def test_sessions_in_which_nothing_was_said_are_not_kept(path: Path) -> None:
    async def work(kept: Kept) -> None:
        kept.said("empty")
        kept.said("full", "A word.")
        await kept.hub.settled()
        assert [one.id for one in await kept.hub.sessions("", "", 9)] == ["full"]

    run(path, work)


LINES = {
    "a": ("The budget meeting begins.", "Nothing else."),
    "b": ("A meeting without money.",),
    "c": ("世界你好, 100% of it_is here.", "Größe ÄPFEL."),
    "d": ('She said "no", it\'s * (a) AND b:c ^x -y NEAR/2.',),
}


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("meeting", "ba"),
        ("MEET", "ba"),
        ("meeting budget", "a"),
        ("budget else", ""),  # not in one line
        ("世界", "c"),
        ("你好", "c"),
        ("äpfel", "c"),
        ("größe", "c"),
        ("100%", "c"),
        ("t_i", "c"),
        ("tXi", ""),
        ('"no"', "d"),
        ("it's", "d"),
        ("*", "d"),
        ("(a) AND", "d"),
        ("b:c", "d"),
        ("^x -y", "d"),
        ("NEAR/2.", "d"),
        ('"', "d"),
        ("a", "db"),
        ("", "dcba"),
        (" \x00\n ", "dcba"),
        ("nowhere", ""),
    ],
)
def test_search(path: Path, indexed: bool, query: str, found: str) -> None:
    async def work(kept: Kept) -> None:
        for id, lines in LINES.items():
            kept.said(id, *lines)
        await kept.hub.settled()
        told = await kept.hub.sessions(query, "", 9)
        assert "".join(one.id for one in told) == found
        if query == "meeting":
            assert [one["text"] for one in told[1].matches] == ["The budget meeting begins."]
            assert told[1].preview == "The budget meeting begins."
            assert told[1].lines == 2

    run(path, work, indexed=indexed)


def test_search_without_a_history_is_the_same() -> None:
    async def work() -> None:
        now = [NOW]
        hub = Hub(lambda: now[0])
        for id, lines in LINES.items():
            now[0] += 1
            broadcast = hub.open(id, model="m")
            for text in lines:
                broadcast.take(1, [caption(text)])
        assert [one.id for one in await hub.sessions("meeting", "", 9)] == ["b", "a"]
        assert [one.id for one in await hub.sessions("", "c", 1)] == ["b"]

    asyncio.run(work())


@settings(max_examples=60, deadline=None)
@given(queries=st.lists(st.text(max_size=30), min_size=1, max_size=20))
def test_any_text_can_be_looked_for(
    tmp_path_factory: pytest.TempPathFactory, queries: list[str]
) -> None:
    async def work(kept: Kept) -> None:
        kept.said("a", *(query for query in queries if query.strip()), "And one more.")
        await kept.hub.settled()
        for query in queries:
            await kept.hub.sessions(query, "", 9)

    queries = [text.encode("utf-8", "replace").decode() for text in queries]
    run(tmp_path_factory.mktemp("any") / "history.db", work)


def test_pages_of_a_list(path: Path) -> None:
    async def work(kept: Kept) -> None:
        for n in range(7):
            kept.said(f"s{n}", "Word.")
        await kept.hub.settled()
        first = [one.id for one in await kept.hub.sessions("", "", 3)]
        second = [one.id for one in await kept.hub.sessions("", first[-1], 3)]
        third = [one.id for one in await kept.hub.sessions("", second[-1], 3)]
        assert [first, second, third] == [["s6", "s5", "s4"], ["s3", "s2", "s1"], ["s0"]]

    run(path, work)


# -- what goes wrong ------------------------------------------------------------------------------


def told(path: Path) -> str:
    with pytest.raises(ConfigError) as refused:
        Archive(path)
    return str(refused.value)


def test_files_that_can_not_be_used(path: Path) -> None:
    path.write_bytes(b"These are notes, and no database at all. " * 200)
    path.chmod(0o644)
    before = path.read_bytes()
    assert "file is not a database" in told(path)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (before, 0o644)
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE recipes(name TEXT)")
    assert "another program" in told(path)
    path.unlink()
    Archive(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    assert "newer livecap (form 99" in told(path)
    assert "can't be used: it is no file" in told(path.parent)
    assert "Permission denied" in told(Path("/sys/history.db"))
    assert not path.with_name("history.db-lock").exists()


def test_a_damaged_file(path: Path) -> None:
    async def work(kept: Kept) -> None:
        kept.said("a", *(f"Line {n}." for n in range(2000)))
        await kept.hub.settled()

    run(path, work)
    data = bytearray(path.read_bytes())
    data[8192 : 8192 + 4096 * 8] = bytes(4096 * 8)
    path.write_bytes(data)
    assert "put this one back" in told(path)


def test_two_servers_on_one_file(path: Path) -> None:
    first = Archive(path)
    assert "used by another livecap serve" in told(path)
    first.close()
    Archive(path).close()


def fill(archive: Archive) -> None:
    """The disk takes no more."""
    db = archive._db
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages}")


@contextmanager
def full(archive: Archive) -> Iterator[None]:
    """The same for a while."""
    fill(archive)
    yield
    archive._db.execute("PRAGMA max_page_count = 1000000")


def test_a_full_disk_costs_readers_nothing_and_is_made_up_for(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(history, "RETRY", 0.05)

    async def work(kept: Kept) -> None:
        broadcast = kept.said("sess_1", "Before.", ends=False)
        await kept.hub.settled()
        reader = broadcast.follow()
        reader.take()
        lines = [f"A long line, number {n}, {'with more to it ' * 20}." for n in range(100)]
        with full(kept.archive):
            for n, text in enumerate(lines):
                broadcast.take(1, [caption(text, n)])
            while len(broadcast.lines) < 101:
                await reader.news.wait()
                reader.news.clear()
            assert len(reader.take()) == 100
            with pytest.raises(HistoryError):
                await kept.hub.settled()
            assert "full" in kept.history.trouble
            assert value(kept.metrics, "livecap_history_failures_total") > 0
            assert value(kept.metrics, "livecap_history_waiting") >= 100
        while kept.history.trouble:
            await asyncio.sleep(0.01)
        await kept.hub.settled()
        found = kept.archive.load("sess_1")
        assert found
        assert [number for number, _ in found[1]] == list(range(1, 102))

    run(path, work)
    texts = [record.getMessage() for record in caplog.records]
    assert len([text for text in texts if "can't be kept" in text]) == 1
    assert len([text for text in texts if "kept again" in text]) == 1


def test_what_does_not_fit_any_more_is_counted(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(history, "MOST_WAITING", 5)

    async def work(kept: Kept) -> None:
        broadcast = kept.said("sess_1", "Before.", ends=False)
        await kept.hub.settled()
        fill(kept.archive)
        for n in range(20):
            broadcast.take(1, [caption("Many words " * 500, n)])
        while len(broadcast.lines) < 21:
            await asyncio.sleep(0.01)
        assert value(kept.metrics, "livecap_history_lost_total") >= 10
        kept.close(broadcast)

    run(path, work)
    assert "not all captions are in the history" in caplog.text


def value(metrics: Metrics, name: str) -> float:
    found = metrics.registry.get_sample_value(name)
    assert found is not None
    return found


CRASHING = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, "tests")
from test_captions_history import Kept, caption

async def main():
    kept = Kept(Path(sys.argv[1]))
    broadcast = kept.hub.open("sess_1", model="m").broadcast
    reader = broadcast.follow()
    for n in range(100_000):
        broadcast.take(1, [caption(f"Line {n}.", n)])
        while not (found := [one for one in reader.take() if one.startswith(b"id")]):
            await reader.news.wait()
        print(found[-1].decode().split()[1], flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("seen", [1, 50, 333])
def test_what_readers_saw_survives_a_kill(path: Path, seen: int) -> None:
    process: subprocess.Popen[str] = subprocess.Popen(
        [sys.executable, "-c", CRASHING, str(path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    last = 0
    while last < seen:
        last = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    last = max([last, *map(int, process.stdout.read().split("\n")[:-1])])
    process.stdout.close()
    process.wait()

    async def after(kept: Kept) -> None:
        await kept.hub.settled()
        found = await kept.hub.recall("sess_1")
        assert found
        numbers = [json.loads(one.split(b"data: ")[1])["id"] for one in found.lines]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= last
        assert found.ended is not None
        assert found.ended > found.begun

    run(path, after)


def test_a_file_without_an_index_gets_one(path: Path) -> None:
    async def before(kept: Kept) -> None:
        kept.said("a", "Something to find.")

    async def after(kept: Kept) -> None:
        assert kept.archive.is_indexed
        assert [one.id for one in await kept.hub.sessions("something", "", 9)] == ["a"]

    run(path, before, indexed=False)
    run(path, after)


def test_it_can_not_be_read(path: Path) -> None:
    async def work(kept: Kept) -> None:
        kept.said("a", "Something.")
        await kept.hub.settled()
        kept.now += 1e6
        data: Any = kept.archive
        data.path = path.with_name("gone.db")
        with pytest.raises(HistoryError):
            await kept.hub.recall("a")
        with pytest.raises(HistoryError):
            await kept.hub.sessions("x", "", 9)
        data.path = path

    run(path, work)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="not on Linux")
def test_reading_leaves_nothing_open(path: Path) -> None:
    async def work(kept: Kept) -> None:
        kept.said("a", "Something.")
        await kept.hub.settled()
        kept.now += 1e6  # nothing is in memory any more
        counts = []
        for _ in range(30):
            assert await kept.hub.recall("a")
            assert await kept.hub.sessions("some", "", 9)
            counts.append(len(os.listdir("/proc/self/fd")))
        assert counts[-1] <= counts[0] + 1  # SQLite keeps one, since closing it frees locks

    run(path, work)


def test_a_talk_that_is_kept_goes_on_and_only_then_is_under_way(path: Path) -> None:
    async def before(kept: Kept) -> None:
        kept.hub.share(kept.said("sess_1", "Before the restart.", ends=False))
        kept.close(kept.speakers["sess_1"].broadcast)
        await kept.hub.settled()

    async def after(kept: Kept) -> None:
        part = Part("sess_1", 20 * RATE)
        await kept.hub.revive(part)
        await kept.hub.settled()
        row, lines = kept.archive.load("sess_1") or (None, [])
        assert row
        assert row.ended is not None, "nobody has been let in yet"
        speaker = kept.hub.open("sess_2", model="tiny.en", part=part)
        speaker.take(1, [caption("And after it.", 1)])
        await kept.hub.settled()
        row, lines = kept.archive.load("sess_1") or (None, [])
        assert row
        assert row.ended is None
        assert [number for number, _ in lines] == [1, 2]
        assert row.token == speaker.broadcast.token
        kept.hub.close(speaker)

    run(path, before)
    run(path, after)
