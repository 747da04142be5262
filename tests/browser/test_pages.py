"""The pages in Chromium: a click to captions, readers, the overlay, and what goes wrong."""

import base64
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from command import jfk
from media import wav
from playwright.sync_api import Browser, Page, Playwright, sync_playwright
from server_fixture import Running, embedded, serving, until

from livecap.events import RATE, Caption, Word
from livecap.frontends.captions import Broadcast

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here")
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
THEMES = ("light", "dark", "contrast")
LATEST = 60_000  # ms


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as found:
        yield found


@contextmanager
def chromium(playwright: Playwright, *flags: str) -> Iterator[Browser]:
    found = playwright.chromium.launch(executable_path=BROWSER, args=[*FLAGS, *flags])
    try:
        yield found
    finally:
        found.close()


def wait(page: Page, condition: str) -> None:
    """Until it is so in the page, whose policy forbids what Playwright itself would wait with."""
    end = time.monotonic() + LATEST / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < end, (condition, page.inner_text("body"))
        page.wait_for_timeout(20)


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    with chromium(playwright, *FAKE) as found:
        yield found


def microphone(folder: Path) -> str:
    """The README's recording, with 2 s of silence around it, as Chromium takes it."""
    pcm = np.concatenate([np.zeros(2 * RATE), jfk(), np.zeros(3 * RATE)])
    count = 3 * len(pcm)
    played = np.interp(np.arange(count) / 3, np.arange(len(pcm)), pcm).astype(np.float32)
    path = folder / "microphone.wav"
    path.write_bytes(wav(played[None], rate=48_000))
    return f"--use-file-for-fake-audio-capture={path}%noloop"


def errors_of(page: Page) -> list[str]:
    """What goes wrong in the page, as it goes."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    return found


WATCH = """() => {
  window.edits = 0;
  const log = document.getElementById("log");
  new MutationObserver((changes) => {
    for (const change of changes)
      if (change.target !== log || change.removedNodes.length) window.edits++;
  }).observe(log, {childList: true, subtree: true, characterData: true, attributes: true});
}"""


def test_a_click_to_captions_and_others_read_along(playwright: Playwright, tmp_path: Path) -> None:
    """Finals are never touched; readers and the overlay have the same words."""
    with serving(embedded) as server, chromium(playwright, *FAKE, microphone(tmp_path)) as browser:
        context = browser.new_context(permissions=["microphone"])
        page = context.new_page()
        faults = errors_of(page)
        page.goto(f"http://{server.host}/?transport=websocket")
        page.evaluate(WATCH)
        page.click("#start")
        page.wait_for_selector("#log p", timeout=LATEST)
        page.click("#share")
        page.wait_for_selector("#links a", timeout=LATEST)
        viewer, overlay = (
            link.get_attribute("href") for link in page.query_selector_all("#links a")
        )
        reader, shown = context.new_page(), context.new_page()
        reader.goto(str(viewer))
        shown.goto(str(overlay))
        for one, place in ((page, "#log"), (reader, "#log"), (shown, "#box")):
            wait(
                one,
                f"document.querySelector('{place}').innerText.includes('your country.')"
                f" || document.querySelector('{place}').innerText.includes('your country!')",
            )
        page.click("#start")
        wait(page, "document.getElementById('status').textContent === 'Stopped.'")
        lines = page.eval_on_selector_all("#log p", "all => all.map(one => one.innerText)")
        assert "fellow American" in " ".join(lines)
        wait(reader, f"document.querySelectorAll('#log p').length === {len(lines)}")
        assert page.evaluate("window.edits") == 0
        # A reload loses nothing and repeats nothing.
        page.reload()
        again = page.eval_on_selector_all("#log p", "all => all.map(one => one.innerText)")
        assert again == lines
        assert faults == []
        context.close()


# -- readers, with captions that are made here ---------------------------------------------------


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

    broadcast = on_loop(lambda: server.parts.hub.open(id, model="tones"))
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
        on_loop(lambda: server.parts.hub.close(broadcast))


def test_a_reader_who_scrolls_up_stays_there(server: Running, browser: Browser) -> None:
    with speaking(server, "scroll") as (_, query, say):
        page = browser.new_page()
        for n in range(60):
            say(f"Line number {n} of sixty.")
        page.goto(f"http://{server.host}/view/scroll{query}")
        wait(page, "document.querySelectorAll('#log p').length === 60")
        assert page.evaluate("log.scrollHeight - log.scrollTop - log.clientHeight") < 40
        page.evaluate("log.scrollTop = 100")
        page.wait_for_timeout(100)
        before = page.evaluate("log.scrollTop")
        for n in range(50):
            say(f"New line {n}.")
        wait(page, "document.getElementById('more').textContent === '50 new lines'")
        assert page.evaluate("log.scrollTop") == before
        page.click("#more")
        assert page.evaluate("log.scrollHeight - log.scrollTop - log.clientHeight") < 40
        assert page.is_hidden("#more")
        page.close()


def test_a_link_that_has_ended(server: Running, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(f"http://{server.host}/view/nobody?token=vk_none")
    wait(page, "document.getElementById('status').textContent.includes('not available')")
    page.close()


def test_ten_thousand_lines_still_scroll(server: Running, browser: Browser) -> None:
    """Frames come at 30 a second or more; asserted loosely, since machines differ."""
    with speaking(server, "many") as (_, query, say):
        for n in range(20):
            say(f"Line number {n}.")
        page = browser.new_page()
        page.goto(f"http://{server.host}/view/many{query}")
        wait(page, "document.querySelectorAll('#log p').length === 20")
        page.evaluate(
            """() => { for (let n = 20; n < 10000; n++) {
              const row = document.createElement("p");
              row.append(`Line number ${n}, with some words behind it.`);
              log.append(row); } }"""
        )
        rate = page.evaluate(
            """async () => {
              let frames = 0; const begun = performance.now();
              while (performance.now() - begun < 2000) {
                log.scrollTop += 60; frames++;
                await new Promise(requestAnimationFrame);
              }
              return frames / 2; }"""
        )
        print(f"{rate:.0f} frames a second over 10,000 lines")
        assert rate > 10
        page.close()


def test_the_overlay_is_clear_and_steady(server: Running, browser: Browser) -> None:
    """Nothing is painted outside the text, and lines keep their place while the tail changes."""
    with speaking(server, "over") as (_, query, say):
        page = browser.new_page(viewport={"width": 1920, "height": 1080})
        page.goto(f"http://{server.host}/overlay/over{query}")
        say("And so, my fellow Americans, ask not")
        wait(page, "document.getElementById('box').innerText.includes('ask not')")
        places = (
            "[...box.children].map(one => one.getBoundingClientRect()).map(r => [r.top, r.height])"
        )
        first = page.evaluate(places)
        text = [f"word{n}" for n in range(14)]
        for n in range(100):
            say("", tail=" " + " ".join(text[: 1 + n % len(text)]), final=False)
            if n % 10 == 0:
                page.wait_for_timeout(20)
            assert page.evaluate(places) == first
        picture = page.screenshot(omit_background=True, type="png")
        alpha = page.evaluate(
            """async (data) => {
              const image = new Image();
              image.src = "data:image/png;base64," + data; await image.decode();
              const paper = new OffscreenCanvas(image.width, image.height).getContext("2d");
              paper.drawImage(image, 0, 0);
              const {data: pixels} = paper.getImageData(0, 0, image.width, image.height);
              const box = document.getElementById("box").getBoundingClientRect();
              let outside = 0, inside = 0;
              for (let y = 0; y < image.height; y++)
                for (let x = 0; x < image.width; x++) {
                  const painted = pixels[4 * (y * image.width + x) + 3] > 0;
                  if (!painted) continue;
                  const near = y > box.top - 20 && y < box.bottom + 20;
                  if (near) inside++; else outside++;
                }
              return [inside, outside]; }""",
            base64.b64encode(picture).decode(),
        )
        assert alpha[0] > 1000
        assert alpha[1] == 0
        page.close()


# -- what anybody needs ---------------------------------------------------------------------------


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", ["index", "view"])
def test_accessibility(server: Running, browser: Browser, name: str, theme: str) -> None:
    with speaking(server, f"axe-{name}-{theme}") as (broadcast, query, say):
        page = browser.new_page()
        path = "/" if name == "index" else f"/view/{broadcast.id}{query}"
        page.goto(f"http://{server.host}{path}")
        page.select_option("#theme", theme)
        say("A line that is final.")
        say("", tail=" a tail that may change", final=False)
        page.evaluate("document.querySelector('#tail .open').textContent = 'may change'")
        results = Axe().run(page)
        serious = [
            (one["id"], [node["html"] for node in one["nodes"]])
            for one in results.response["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []
        page.close()


def test_twice_the_size_loses_nothing(server: Running, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 640, "height": 400})  # 1280x800 at 200 %
    page.goto(f"http://{server.host}/")
    assert page.evaluate("document.documentElement.scrollWidth") <= 640
    for name in ("start", "device", "copy", "share", "theme"):
        page.locator(f"#{name}").scroll_into_view_if_needed()
        assert page.is_visible(f"#{name}")
    page.close()


FAILURES = {
    "NotAllowedError": "was refused",
    "NotFoundError": "No microphone was found",
    "NotReadableError": "in use by another program",
    "OverconstrainedError": "not there any more",
}


@pytest.mark.parametrize(("name", "said"), FAILURES.items())
def test_a_microphone_that_fails(server: Running, browser: Browser, name: str, said: str) -> None:
    page = browser.new_page()
    page.add_init_script(
        f"navigator.mediaDevices.getUserMedia = async () => "
        f"{{ throw new DOMException('no', '{name}'); }}"
    )
    page.goto(f"http://{server.host}/")
    page.click("#start")
    page.wait_for_selector("#problem:not([hidden])")
    assert said in page.inner_text("#problem")
    assert page.inner_text("#start") == "Start"
    page.close()


def test_a_microphone_that_is_taken_away(server: Running, playwright: Playwright) -> None:
    with chromium(playwright, *FAKE) as browser:
        page = browser.new_context(permissions=["microphone"]).new_page()
        page.add_init_script(
            """const real = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
            navigator.mediaDevices.getUserMedia = async (wish) => {
              window.stream = await real(wish); return window.stream; };"""
        )
        page.goto(f"http://{server.host}/?transport=websocket")
        page.click("#start")
        wait(page, "document.getElementById('status').textContent.startsWith('Listening')")
        page.evaluate("stream.getAudioTracks()[0].dispatchEvent(new Event('ended'))")
        page.wait_for_selector("#problem:not([hidden])")
        assert "taken away" in page.inner_text("#problem")
        wait(page, "document.getElementById('start').textContent === 'Start'")


def test_a_page_that_is_not_secure(server: Running, browser: Browser) -> None:
    page = browser.new_page()
    page.add_init_script("Object.defineProperty(window, 'isSecureContext', {value: false})")
    page.goto(f"http://{server.host}/")
    page.wait_for_selector("#problem:not([hidden])")
    assert "https://" in page.inner_text("#problem")
    assert "--tls auto" in page.inner_text("#problem")
    page.close()


def test_keys_do_what_buttons_do(server: Running, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(f"http://{server.host}/")
    wait(page, "document.getElementById('status').textContent === 'Ready.'")
    size = "getComputedStyle(document.documentElement).getPropertyValue('--size')"
    before = page.evaluate(size)
    page.keyboard.press("+")
    assert page.evaluate(size) != before
    page.keyboard.press("-")
    assert page.evaluate(size) == before
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.close()
