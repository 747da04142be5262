"""What anybody needs: contrast, size, keys, and a window as it is."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser_fixture import needs_browser, speaking, status
from playwright.sync_api import Browser
from server_fixture import Running

pytestmark = needs_browser
THEMES = ("light", "dark", "contrast")


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


SIZES = {"twice the size of 1280x800": (640, 400), "a phone": (390, 844), "a small one": (320, 568)}


@pytest.mark.parametrize(("width", "height"), SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("name", ["index", "view"])
def test_a_narrow_window_loses_nothing(
    server: Running, browser: Browser, name: str, width: int, height: int
) -> None:
    """Nothing is cut off at the side, all can be reached, and there is room for captions."""
    with speaking(server, f"narrow-{name}-{width}") as (broadcast, query, say):
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto(
            f"http://{server.host}{'/' if name == 'index' else f'/view/{broadcast.id}{query}'}"
        )
        say("A line that is final, and Donaudampfschifffahrtsgesellschaftskapitaensmuetze in it.")
        say("", tail=" a tail that may change", final=False)
        page.wait_for_timeout(50)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if page.is_visible("summary"):
            page.click("summary")
        for one in page.query_selector_all("button, select, input, #log"):
            if one.is_hidden():
                continue
            one.scroll_into_view_if_needed()
            box = one.bounding_box()
            assert box
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
        if page.is_visible("summary"):
            page.click("summary")
        assert page.evaluate("log.clientHeight") >= height / 6
        page.close()


def test_keys_do_what_buttons_do(server: Running, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(f"http://{server.host}/")
    status(page, "Ready.")
    size = "getComputedStyle(document.documentElement).getPropertyValue('--size')"
    before = page.evaluate(size)
    page.keyboard.press("+")
    assert page.evaluate(size) != before
    page.keyboard.press("-")
    assert page.evaluate(size) == before
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.close()
