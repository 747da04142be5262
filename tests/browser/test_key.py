"""A server with a key: it is asked for in words, and nothing that is said meanwhile is lost."""

from pathlib import Path

from browser_fixture import (
    FAKE,
    LEAD,
    allowed,
    chromium,
    errors_of,
    holds,
    microphone,
    needs_browser,
    spoken,
    status,
    wait,
)
from playwright.sync_api import Browser, Playwright
from server_fixture import embedded, serving

from livecap.events import RATE

pytestmark = needs_browser
PROBLEM = "document.getElementById('problem')"


def test_the_message_goes_when_the_right_key_is_there(browser: Browser) -> None:
    with serving(keys=("right",)) as server:
        page = browser.new_page()
        page.goto(f"http://{server.host}/")
        wait(page, f"{PROBLEM}.textContent.startsWith('This server needs a key')")
        page.fill("#key", "wrong")
        page.press("#key", "Enter")
        wait(page, f"{PROBLEM}.textContent.startsWith('This key is not the right one')")
        page.fill("#key", "right")
        page.press("#key", "Enter")
        wait(page, f"{PROBLEM}.hidden")
        status(page, "Ready.")
        assert page.locator("#model option").count() > 1
        page.close()


def test_what_is_said_before_the_key_is_captioned(playwright: Playwright, tmp_path: Path) -> None:
    flag = microphone(tmp_path, spoken()[int(LEAD * RATE) - RATE // 2 :])
    with (
        serving(embedded, keys=("right",)) as server,
        chromium(playwright, *FAKE, flag) as browser,
        allowed(browser) as context,
    ):
        page = context.new_page()
        faults = errors_of(page)
        page.goto(f"http://{server.host}/")
        wait(page, f"{PROBLEM}.textContent.startsWith('This server needs a key')")
        page.click("#start")
        status(page, "Waiting for the key")
        assert page.inner_text("#start") == "Stop"
        page.fill("#key", "wrong")
        page.press("#key", "Enter")
        wait(page, f"{PROBLEM}.textContent.startsWith('This key is not the right one')")
        page.fill("#key", "right")
        page.press("#key", "Enter")
        status(page, "Listening")
        assert page.is_hidden("#problem")
        holds(page, "and so my", "main")
        holds(page, "country", "main")
        page.click("#start")
        status(page, "Stopped.")
        assert page.inner_text("#start") == "Start"
        assert faults == []
