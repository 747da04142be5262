"""Chromium with a recording for its microphone, and captions to show in it."""

import ctypes
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import jfk
from media import Signal, wav
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright
from server_fixture import Running, embedded, serving, until

from livecap.api.viewers import Broadcast
from livecap.events import RATE, Caption, Word

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
)
FAKE = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
LATEST = 60_000  # ms
LEAD = 2.0  # seconds of silence before anything is said
LINES = "all => all.map(one => one.lastChild.textContent)"
NEWNET = 0x40000000  # CLONE_NEWNET of unshare(2)

WATCH = """() => {
  window.edits = 0;
  const log = document.getElementById("log");
  new MutationObserver((changes) => {
    for (const change of changes)
      if (change.target !== log || change.removedNodes.length) window.edits++;
  }).observe(log, {childList: true, subtree: true, characterData: true, attributes: true});
}"""


@contextmanager
def chromium(playwright: Playwright, *flags: str) -> Iterator[Browser]:
    """The browser, with a profile of its own."""
    found = playwright.chromium.launch(executable_path=BROWSER, args=[*FLAGS, *flags])
    try:
        yield found
    finally:
        found.close()


def wait(page: Page, condition: str, told: Callable[[], object] = lambda: "") -> None:
    """Until it is so in the page, whose policy forbids what Playwright itself would wait with."""
    end = time.monotonic() + LATEST / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < end, (condition, page.inner_text("body"), told())
        page.wait_for_timeout(20)


def status(page: Page, begins: str) -> None:
    """Until the page says so of itself."""
    wait(page, f"document.getElementById('status').textContent.startsWith('{begins}')")


def lines(page: Page) -> list[str]:
    """The text of the captions that are final, and of the notes between them."""
    found: list[str] = page.eval_on_selector_all("#log p", LINES)
    return found


def holds(page: Page, words: str, place: str = "#log") -> None:
    """Until those words are there, whatever marks and capitals are between."""
    wait(
        page,
        f"document.querySelector('{place}').innerText.toLowerCase()"
        f".replace(/[^a-z0-9]+/g, ' ').includes('{words}')",
    )


def errors_of(page: Page) -> list[str]:
    """What goes wrong in the page, as it goes."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    return found


@cache
def spoken() -> Signal:
    """The README's recording, with silence before it and behind, 16 kHz."""
    before, behind = np.zeros(int(LEAD * RATE)), np.zeros(3 * RATE)
    return np.concatenate([before, jfk(), behind])


def microphone(folder: Path, pcm: Signal | None = None) -> str:
    """Samples at 16 kHz as Chromium takes them; once, from when the page opens the microphone."""
    said = spoken() if pcm is None else pcm
    count = 3 * len(said)
    played = np.interp(np.arange(count) / 3, np.arange(len(said)), said).astype(np.float32)
    path = folder / "microphone.wav"
    path.write_bytes(wav(played[None], rate=48_000))
    return f"--use-file-for-fake-audio-capture={path}%noloop"


@contextmanager
def allowed(browser: Browser, *, grant: bool = True) -> Iterator[BrowserContext]:
    """A profile that may use the microphone; without `grant`, it says yes each time."""
    context = browser.new_context(permissions=["microphone"] if grant else [])
    try:
        yield context
    finally:
        context.close()


@contextmanager
def speaking(server: Running, id: str) -> Iterator[tuple[Broadcast, str, Any]]:
    """A broadcast, the query that opens it, and what says something in it."""
    loop = server.loop
    assert loop

    def on_loop(work: Any) -> Any:
        done: list[Any] = []
        loop.call_soon_threadsafe(lambda: done.append(work()))
        until(lambda: bool(done))
        return done[0]

    speaker = on_loop(lambda: server.parts.hub.open(id, model="tones"))
    broadcast = speaker.broadcast
    token = on_loop(lambda: server.parts.hub.share(broadcast))
    count = 0

    def say(text: str, tail: str = "", *, final: bool = True) -> None:
        nonlocal count
        words = tuple(
            Word(f" {one}", (count + n) * RATE // 4, (count + n + 1) * RATE // 4)
            for n, one in enumerate(text.split())
        )
        at, count = count * RATE // 4, count + len(words)
        caption = Caption(0, at, at + RATE, words, tail=tail, final=final, language="en")
        on_loop(lambda: broadcast.take(1, [caption]))

    try:
        yield broadcast, f"?token={token}", say
    finally:
        on_loop(lambda: server.parts.hub.close(speaker))


@contextmanager
def talk(
    playwright: Playwright,
    folder: Path,
    *flags: str,
    query: str = "",
    lead: float = LEAD,
    grant: bool = True,
) -> Iterator[tuple[Running, Page]]:
    """A server with a model that is warm, and its page with a talk that begins `lead` s on.

    What the page has for final is never changed, and nothing goes wrong in it.
    """
    flag = microphone(folder, spoken()[int((LEAD - lead) * RATE) :])
    with (
        serving(embedded) as server,
        chromium(playwright, *FAKE, flag, *flags) as browser,
        allowed(browser, grant=grant) as context,
    ):
        page = context.new_page()
        faults = errors_of(page)
        page.goto(f"http://{server.host}/{query}")
        status(page, "Ready.")
        page.evaluate(WATCH)
        yield server, page
        if page.inner_text("#start") == "Stop":
            page.click("#start")
            status(page, "Stopped.")
        assert page.evaluate("window.edits") == 0
        assert faults == []


def link(*words: str) -> None:
    """`ip`, in the network of the thread that calls it."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


def alone(work: Callable[[Playwright], None]) -> None:
    """Do it in a network of its own that has nothing but loopback. Skips where that may not be."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            if ctypes.CDLL(None, use_errno=True).unshare(NEWNET):
                reason = os.strerror(ctypes.get_errno())
                pytest.skip(f"a network of its own can't be made here: {reason}")
            link("link", "set", "lo", "up")
            with sync_playwright() as playwright:
                work(playwright)
        except BaseException as error:  # noqa: BLE001 - raised again where the test is
            failed.append(error)

    # Threads and processes that it starts are in the same network; this process is not.
    thread = threading.Thread(target=run, name="alone")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
