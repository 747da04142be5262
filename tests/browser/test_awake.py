"""A screen that stays on, and a microphone that the system mutes."""

import pytest
from browser_fixture import allowed, needs_browser, speaking, status, wait
from playwright.sync_api import Browser, Page
from server_fixture import Running

pytestmark = needs_browser
LOCKS = """
window.locks = [];
Object.defineProperty(navigator, "wakeLock", {value: {request: async () => {
  const lock = new EventTarget();
  lock.released = false;
  lock.release = async () => { lock.released = true; };
  locks.push(lock);
  return lock;
}}});
const real = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
navigator.mediaDevices.getUserMedia = async (wish) => (window.stream = await real(wish));
"""
HELD = "locks.filter(one => !one.released).length"


def hide(page: Page, *, hidden: bool) -> None:
    """As when another program is in front: browsers take the lock away by themselves then."""
    page.evaluate(
        f"""() => {{
          Object.defineProperty(document, "hidden", {{value: {str(hidden).lower()}, configurable: true}});
          if (document.hidden) for (const one of locks) one.released = true;
          document.dispatchEvent(new Event("visibilitychange")); }}"""  # noqa: E501
    )


def test_the_screen_stays_on_while_listening(server: Running, browser: Browser) -> None:
    with allowed(browser) as context:
        page = context.new_page()
        page.add_init_script(LOCKS)
        page.goto(f"http://{server.host}/")
        status(page, "Ready.")
        assert page.evaluate(HELD) == 0
        page.click("#start")
        status(page, "Listening")
        wait(page, f"{HELD} === 1")
        for _ in range(2):
            hide(page, hidden=True)
            assert page.evaluate(HELD) == 0
            hide(page, hidden=False)
            wait(page, f"{HELD} === 1")
        page.click("#start")
        status(page, "Stopped.")
        assert page.evaluate(HELD) == 0
        hide(page, hidden=False)
        page.wait_for_timeout(20)
        assert page.evaluate(HELD) == 0


def test_the_screen_stays_on_for_readers(server: Running, browser: Browser) -> None:
    with speaking(server, "awake") as (_, query, say):
        page = browser.new_page()
        page.add_init_script(LOCKS.split("const real", maxsplit=1)[0])
        page.goto(f"http://{server.host}/view/awake{query}")
        say("A line.")
        wait(page, f"{HELD} === 1")
        hide(page, hidden=True)
        hide(page, hidden=False)
        wait(page, f"{HELD} === 1")
    status(page, "The speaker has ended")
    assert page.evaluate(HELD) == 0
    page.close()


@pytest.mark.parametrize("from_the_start", [False, True])
def test_a_microphone_that_the_system_mutes(
    server: Running, browser: Browser, from_the_start: bool
) -> None:
    with allowed(browser) as context:
        page = context.new_page()
        muted = """Object.defineProperty(MediaStreamTrack.prototype, "muted",
            {get: () => window.stream === undefined || window.isMuted});"""
        page.add_init_script(LOCKS + (muted if from_the_start else ""))
        if from_the_start:
            page.add_init_script("window.isMuted = true;")
        page.goto(f"http://{server.host}/")
        status(page, "Ready.")
        page.click("#start")
        status(page, "Listening")
        if not from_the_start:
            assert page.is_hidden("#problem")
            page.evaluate("stream.getAudioTracks()[0].dispatchEvent(new Event('mute'))")
        assert "The system has muted" in page.inner_text("#problem")
        page.evaluate("stream.getAudioTracks()[0].dispatchEvent(new Event('unmute'))")
        assert page.is_hidden("#problem")
        page.click("#start")
        status(page, "Stopped.")
