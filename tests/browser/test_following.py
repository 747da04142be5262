"""The newest words are in view, whatever is said and however large it is."""

import pytest
from browser_fixture import needs_browser, speaking, status, wait
from playwright.sync_api import Browser, Page
from server_fixture import Running

pytestmark = needs_browser
SIZES = {"usual": "2", "three times larger": "5", "largest": "6"}
WINDOWS = {"a phone": (390, 700), "a laptop": (1280, 800)}
LONG = "And so, my fellow Americans, ask not what your country can do for you, "
# Whether the last row of the log is in the window and in the log, and what is said last is, too.
SEEN = """() => {
  const inside = (one, box) => {
    if (!one) return true;
    const a = one.getBoundingClientRect(), b = box.getBoundingClientRect();
    return a.bottom <= b.bottom + 1 && a.bottom <= innerHeight + 1 && a.bottom > b.top;
  };
  const tail = document.getElementById("tail");
  const rows = [...tail.querySelectorAll("span")].flatMap((one) => [...one.getClientRects()]);
  const last = rows.at(-1);
  const end = tail.getBoundingClientRect().bottom;
  const isLast = !last || (last.bottom <= end + 1 && end <= innerHeight + 1);
  return inside(log.lastElementChild, log) && isLast;
}"""


def opened(browser: Browser, server: Running, path: str, window: str, size: str) -> Page:
    width, height = WINDOWS[window]
    context = browser.new_context(viewport={"width": width, "height": height})
    page = context.new_page()
    page.add_init_script(f"localStorage.setItem('livecap.size', '{SIZES[size]}')")
    page.goto(f"http://{server.host}{path}")
    return page


def settled(page: Page) -> None:
    """Two frames: the layout of what was said is done, and what watches it has been told."""
    page.evaluate(
        "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
    )


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("size", SIZES)
def test_a_reader_sees_the_last_row(
    server: Running, browser: Browser, size: str, window: str
) -> None:
    id = f"last-{size[:2]}-{window[:3]}".replace(" ", "")
    with speaking(server, id) as (_, query, say):
        page = opened(browser, server, f"/view/{id}{query}", window, size)
        for n in range(12):
            say(LONG * (1 + n % 3) + f"{n}.")
            wait(page, f"document.querySelectorAll('#log p').length === {n + 1}")
            settled(page)
            assert page.evaluate(SEEN), n
        for words in (10, 40, 90):
            say("", tail=" " + " ".join(["word"] * words), final=False)
            wait(page, f"document.querySelector('#tail .open').innerText.length > {4 * words}")
            settled(page)
            assert page.evaluate(SEEN), words
        say("Short.")
        wait(page, "document.querySelectorAll('#log p').length === 13")
        page.set_viewport_size({"width": 700, "height": 390})
        settled(page)
        page.set_viewport_size({"width": 390, "height": 700})
        settled(page)
        assert page.evaluate("log.scrollHeight - log.scrollTop - log.clientHeight") < 2
        page.context.close()


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("size", SIZES)
def test_a_speaker_sees_the_last_row(
    server: Running, browser: Browser, size: str, window: str
) -> None:
    """The page of who speaks has more around its captions."""
    page = opened(browser, server, "/", window, size)
    status(page, "Ready.")
    page.evaluate(
        """async () => {
          const {Transcript} = await import("/web/transcript.js");
          window.transcript = new Transcript(); }"""
    )
    for n in range(12):
        page.evaluate(f"transcript.add({{start_ms: {n}000, text: '{LONG * (1 + n % 3)}'}})")
        settled(page)
        assert page.evaluate(SEEN), n
    for words in (10, 40, 90):
        page.evaluate(f"transcript.tail('said', ' word'.repeat({words}))")
        settled(page)
        assert page.evaluate(SEEN), words
    page.context.close()


def test_a_burst_does_not_end_following(server: Running, browser: Browser) -> None:
    """Lines that come faster than scroll events, some before any layout."""
    with speaking(server, "burst") as (_, query, say):
        page = opened(browser, server, f"/view/burst{query}", "a phone", "three times larger")
        for n in range(200):
            say(LONG * (1 + n % 3) + f"{n}.")
            if n % 20 == 0:
                settled(page)
        wait(page, "document.querySelectorAll('#log p').length === 200")
        settled(page)
        assert page.evaluate(SEEN)
        assert page.is_hidden("#more")
        page.context.close()


def test_a_phone_that_nobody_touches_follows_to_the_end(server: Running, browser: Browser) -> None:
    """Tails that grow row by row and are gone, rows of several lines, and a button bar that folds:
    none of them is a reader who scrolls up. A gesture is.
    """
    with speaking(server, "phone") as (_, query, say):
        context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
        page = context.new_page()
        page.goto(f"http://{server.host}/view/phone{query}")
        for n in range(60):
            words = ["word"] * (3 + 11 * (n % 5))
            for count in range(2, len(words), 4):
                say("", tail=" " + " ".join(words[:count]), final=False)
            say(" ".join(words) + f" {n}.")
            if n % 7 == 0:
                page.set_viewport_size({"width": 390, "height": 844 - 60 * (n % 2)})
                wait(page, f"document.querySelectorAll('#log p').length === {n + 1}")
                settled(page)
                assert page.is_hidden("#more"), n
                assert page.evaluate(SEEN), n
        wait(page, "document.querySelectorAll('#log p').length === 60")
        settled(page)
        assert page.evaluate(SEEN)
        assert page.is_hidden("#more")
        page.hover("#log")
        page.mouse.wheel(0, -900)
        wait(page, "log.scrollHeight - log.scrollTop - log.clientHeight > 300")
        settled(page)
        say("One more.")
        wait(page, "document.getElementById('more').textContent === '1 new line'")
        page.context.close()


WIDE = {
    "Japanese": "日本語の字幕は空白がない。行の終わりを探さなければなりません。" * 6 + "終わり。",
    "German": "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen" * 4 + "Ende",
    "Thai": "ภาษาไทยไม่มีช่องว่างระหว่างคำ" * 12 + "จบ",
}


@pytest.mark.parametrize("text", WIDE.values(), ids=WIDE)
def test_an_overlay_sees_the_last_row(server: Running, browser: Browser, text: str) -> None:
    id = f"over-{text[:2].encode().hex()}"
    with speaking(server, id) as (_, query, say):
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(f"http://{server.host}/overlay/{id}{query}")
        say(text)
        end = text[-3:]
        wait(page, f"box.innerText.replace(/\\s/g, '').includes('{end}')")
        assert page.evaluate("[...box.children].every(one => one.scrollWidth <= one.clientWidth)")
        page.close()
