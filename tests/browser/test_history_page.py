"""Past captions on the page: found, read, taken away and deleted, where the server keeps them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_fixture import allowed, errors_of, needs_browser, speaking, wait
from playwright.sync_api import Browser, Page
from server_fixture import Running, serving, toned, until

from livecap.api.options import ServeConfig

pytestmark = needs_browser
THEMES = ("light", "dark", "contrast")
TALKS = {
    "sess_money": ("The budget meeting begins.", "It is all spent."),
    "sess_zoo": ("Zebras <b>and</b> lions.", "Größe matters."),
    "sess_last": ("Nothing of note.",),
}


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Running]:
    """A server with a history in which there are three sessions."""
    with serving(toned(), ServeConfig(history=str(tmp_path / "history.db"))) as running:
        for id, lines in TALKS.items():
            with speaking(running, id) as (_, _, say):
                for line in lines:
                    say(line)
        history = running.parts.history
        assert history
        until(lambda: not history._writes)
        yield running


def opened(page: Page, server: Running) -> None:
    page.goto(f"http://{server.host}/")
    wait(page, "!document.getElementById('past-open').hidden")
    page.click("#past-open")
    shown(page, 3)


def shown(page: Page, count: int) -> None:
    wait(page, f"document.querySelectorAll('#past-list li').length === {count}")


def test_past_captions(kept: Running, browser: Browser, tmp_path: Path) -> None:
    with allowed(browser) as context:
        page = context.new_page()
        faults = errors_of(page)
        opened(page, kept)
        assert page.locator("#past-list li").evaluate_all("all => all.map(o => o.dataset.id)") == [
            "sess_last",
            "sess_zoo",
            "sess_money",
        ]
        assert "Zebras <b>and</b> lions." in page.inner_text("#past-list")
        # Searched, as typed
        page.fill("#past-query", "größe")
        shown(page, 1)
        assert "Größe matters." in page.inner_text("#past-list .match")
        page.fill("#past-query", '"; nothing')
        shown(page, 0)
        assert page.inner_text("#past-status") == "Nothing was found."
        page.fill("#past-query", "BUDGET")
        shown(page, 1)
        # Read and taken away: what the server has
        item = page.locator("#past-list li")
        item.get_by_text("Read", exact=True).click()
        wait(page, "document.querySelector('#past pre').textContent.includes('all spent')")
        for form in ("txt", "srt", "vtt", "json"):
            with page.expect_download() as download:
                item.get_by_text(form, exact=True).click()
            taken = tmp_path / form
            download.value.save_as(taken)
            answer = page.request.get(f"http://{kept.host}/v1/captions/sess_money.{form}")
            assert taken.read_bytes() == answer.body()
        # Deleted, once that was meant
        page.once("dialog", lambda dialog: dialog.dismiss())
        item.get_by_text("Delete", exact=True).click()
        shown(page, 1)
        page.once("dialog", lambda dialog: dialog.accept())
        item.get_by_text("Delete", exact=True).click()
        shown(page, 0)
        page.fill("#past-query", "")
        shown(page, 2)
        gone = page.request.get(f"http://{kept.host}/v1/captions/sess_money.txt")
        assert gone.status == 404
        # Keys of the page are not those of what lies over it
        page.locator("#past-list li").first.get_by_text("Read", exact=True).click()
        page.focus("#past pre:not([hidden])")
        page.keyboard.press("t")
        page.keyboard.press(" ")
        assert page.input_value("#theme") == "system"
        assert page.inner_text("#start") == "Start"
        page.keyboard.press("Escape")
        assert not page.is_visible("#past")
        assert faults == []


@pytest.mark.parametrize("theme", THEMES)
def test_accessibility(kept: Running, browser: Browser, theme: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.add_init_script(f"localStorage.setItem('livecap.theme', '{theme}')")
    opened(page, kept)
    assert page.evaluate("document.documentElement.dataset.theme") == theme
    page.fill("#past-query", "e")
    wait(page, "document.querySelectorAll('#past-list .match').length >= 3")  # not the list before
    page.locator("#past-list li").first.get_by_text("Read", exact=True).click()
    wait(page, "document.querySelector('#past pre').textContent.length > 3")
    results = Axe().run(page)
    serious = [
        (one["id"], [node["html"] for node in one["nodes"]])
        for one in results.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert page.evaluate("past.scrollWidth <= past.clientWidth")
    page.close()


def test_there_is_nothing_of_it_without_a_history(server: Running, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(f"http://{server.host}/")
    with page.expect_response("**/v1/captions?limit=1"):
        page.reload()
    page.wait_for_timeout(100)
    assert not page.is_visible("#past-open")
    page.close()


def test_an_empty_history_says_so(browser: Browser, tmp_path: Path) -> None:
    with serving(toned(), ServeConfig(history=str(tmp_path / "history.db"))) as server:
        page = browser.new_page()
        page.goto(f"http://{server.host}/")
        wait(page, "!document.getElementById('past-open').hidden")
        page.click("#past-open")
        told = "document.getElementById('past-status').textContent"
        wait(page, f"{told}.startsWith('The history is empty')")
        page.fill("#past-query", "zebra")
        wait(page, f"{told} === 'Nothing was found.'")
        page.close()


def test_a_key_is_needed_first(browser: Browser, tmp_path: Path) -> None:
    config = ServeConfig(history=str(tmp_path / "history.db"))
    with serving(toned(), config, keys=("right",)) as server:
        page = browser.new_page()
        page.goto(f"http://{server.host}/")
        wait(page, "document.getElementById('problem').textContent.includes('needs a key')")
        assert not page.is_visible("#past-open")
        page.fill("#key", "right")
        page.press("#key", "Tab")
        wait(page, "!document.getElementById('past-open').hidden")
        page.close()
