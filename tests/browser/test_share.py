"""What a talk's speaker passes on, and takes back."""

import importlib.util
from collections.abc import Iterator

import pytest
from browser_fixture import allowed, needs_browser, status, wait
from playwright.sync_api import Browser, Page
from server_fixture import Running, serving, toned

pytestmark = needs_browser


@pytest.fixture
def talking(browser: Browser) -> Iterator[tuple[Running, Page]]:
    with serving(toned()) as server, allowed(browser) as context:
        page = context.new_page()
        page.goto(f"http://{server.host}/?transport=websocket")
        status(page, "Ready.")
        page.click("#start")
        status(page, "Listening")
        yield server, page


def test_links_say_what_they_are_and_who_can_open_them(talking: tuple[Running, Page]) -> None:
    server, page = talking
    page.click("#share")
    page.wait_for_selector("#links a")
    told = page.inner_text("#links")
    assert "Another machine can't open these" in told
    assert "livecap serve --host 0.0.0.0 --tls auto" in told
    assert "Viewer: for those who read along" in told
    assert "Overlay: two lines on nothing, for OBS or a projector" in told
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#links button")
    status(page, "The link of Viewer is copied.")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.get_attribute("#links a", "href")
    assert copied.startswith(f"http://{server.host}/view/")
    has_code = importlib.util.find_spec("segno") is not None
    assert page.locator("#links img").count() == has_code
    page.click("#share")
    assert page.locator("#links a").count() == 0, "they give the room back"
    page.click("#start")
    status(page, "Stopped.")


def test_a_talk_is_deleted_without_a_history(talking: tuple[Running, Page]) -> None:
    server, page = talking
    assert "keeps a talk until 10 minutes after its end" in page.inner_text("#stays")
    page.click("#share")
    page.wait_for_selector("#links a")
    link = str(page.get_attribute("#links a", "href"))
    reader = page.context.new_page()
    reader.goto(link)
    status(reader, "Connected")
    page.on("dialog", lambda dialog: dialog.accept())
    page.click("#delete")
    status(page, "Deleted, here and on the server.")
    assert page.inner_text("#log") == ""
    assert page.is_disabled("#share")
    assert page.evaluate("sessionStorage.length") == 0
    assert page.inner_text("#start") == "Start"
    reader.reload()
    wait(reader, "document.getElementById('status').textContent.includes('not available')")
    assert server.parts.hub.find(link.split("/view/")[1].split("?", maxsplit=1)[0]) is None
