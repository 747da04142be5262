"""What the page asks of the browser for a microphone."""

import pytest
from browser_fixture import allowed, needs_browser, status
from playwright.sync_api import Browser
from server_fixture import Running

pytestmark = needs_browser
ASKED = """
const devices = navigator.mediaDevices;
const open = devices.getUserMedia.bind(devices);
devices.getUserMedia = (wanted) => {
  window.asked = wanted.audio;
  return open(wanted);
};
"""
CLEANED = ("echoCancellation", "noiseSuppression", "autoGainControl")


@pytest.mark.parametrize("mode", [None, "meeting"])
def test_the_sound_is_left_as_it_is_unless_that_is_wanted(
    server: Running, browser: Browser, mode: str | None
) -> None:
    """A choice is kept when the page is loaded anew."""
    with allowed(browser) as context:
        page = context.new_page()
        page.add_init_script(ASKED)
        page.goto(f"http://{server.host}/")
        status(page, "Ready.")
        assert page.input_value("#mode") == "room"
        if mode:
            page.select_option("#mode", mode)
            page.reload()
            status(page, "Ready.")
            assert page.input_value("#mode") == mode
        page.click("#start")
        status(page, "Listening")
        asked = page.evaluate("window.asked")
        assert {name: asked[name] for name in CLEANED} == dict.fromkeys(CLEANED, mode == "meeting")
        page.click("#start")
        status(page, "Stopped.")
