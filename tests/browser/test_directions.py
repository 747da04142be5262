"""Text that runs from the right: in its own direction, and nothing around it is moved by it."""

import pytest
from browser_fixture import needs_browser, speaking, status, wait
from playwright.sync_api import Browser
from server_fixture import Running

pytestmark = needs_browser
HEBREW = "שלום עולם, זה כתוב מימין לשמאל."
ARABIC = "مرحبا بالعالم (2024)!"
ENGLISH = "Hello world, this runs from the left."
TEXTS = {"Hebrew": (HEBREW, "rtl"), "Arabic": (ARABIC, "rtl"), "English": (ENGLISH, "ltr")}
# Where the letters of a place begin and end, and where it does itself.
EDGES = """(one) => {
  const range = document.createRange(); range.selectNodeContents(one);
  const [text, box] = [range.getBoundingClientRect(), one.getBoundingClientRect()];
  return [text.left - box.left, box.right - text.right]; }"""


@pytest.mark.parametrize(("text", "way"), TEXTS.values(), ids=TEXTS)
def test_lines_and_tail_run_their_own_way(
    server: Running, browser: Browser, text: str, way: str
) -> None:
    id = f"way-{text[:1].encode().hex()}"
    with speaking(server, id) as (_, query, say):
        page = browser.new_page(viewport={"width": 600, "height": 700})
        page.goto(f"http://{server.host}/view/{id}{query}")
        say(text)
        wait(page, "document.querySelectorAll('#log p').length === 1")
        assert page.eval_on_selector("#log p", "one => getComputedStyle(one).direction") == way
        assert page.eval_on_selector("#log time", "one => getComputedStyle(one).direction") == "ltr"
        say("", tail=" " + text, final=False)
        wait(page, "document.querySelector('#tail .open').innerText.length > 5")
        assert page.eval_on_selector("#tail", "one => getComputedStyle(one).direction") == way
        say(ENGLISH if way == "rtl" else HEBREW)
        wait(page, "document.querySelectorAll('#log p').length === 2")
        ways = page.eval_on_selector_all(
            "#log p", "all => all.map(one => getComputedStyle(one).direction)"
        )
        assert set(ways) == {"ltr", "rtl"}
        page.close()


@pytest.mark.parametrize(("text", "way"), TEXTS.values(), ids=TEXTS)
def test_an_overlay_runs_its_own_way(
    server: Running, browser: Browser, text: str, way: str
) -> None:
    id = f"over-{text[:1].encode().hex()}"
    with speaking(server, id) as (_, query, say):
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(f"http://{server.host}/overlay/{id}{query}")
        say(text)
        wait(page, "box.innerText.trim() !== ''")
        left, right = page.eval_on_selector("#box div", EDGES)
        assert (left < 2) == (way == "ltr")
        assert (right < 2) == (way == "rtl")
        page.close()


def test_the_speakers_page(server: Running, browser: Browser) -> None:
    page = browser.new_page()
    page.add_init_script(
        "sessionStorage.setItem('livecap.lines', JSON.stringify("
        f"[{{start_ms: 0, end_ms: 1000, text: '{HEBREW}'}}]))"
    )
    page.goto(f"http://{server.host}/")
    status(page, "Ready.")
    assert page.eval_on_selector("#log p", "one => getComputedStyle(one).direction") == "rtl"
    assert page.get_attribute("#tail", "dir") == "auto"
    page.close()
