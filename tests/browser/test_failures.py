"""What goes wrong is told with what to do about it."""

from types import SimpleNamespace

import pytest
from browser_fixture import FAKE, chromium, needs_browser, status
from playwright.sync_api import Browser, Playwright
from server_fixture import Running

from livecap.api.webrtc import routes

pytestmark = needs_browser


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
        page.goto(f"http://{server.host}/")
        page.click("#start")
        status(page, "Listening")
        page.evaluate("stream.getAudioTracks()[0].dispatchEvent(new Event('ended'))")
        page.wait_for_selector("#problem:not([hidden])")
        assert "taken away" in page.inner_text("#problem")
        status(page, "Stopped.")
        assert page.inner_text("#start") == "Start"


def test_speech_that_makes_no_text(server: Running, browser: Browser) -> None:
    """It is said until there is text again."""
    page = browser.new_page()
    page.goto(f"http://{server.host}/")
    problems = page.evaluate(
        """async () => {
          const { Session } = await import(new URL("web/session.js", location));
          const told = [];
          const on = { problem: (text) => told.push(text), tail() {}, lag() {}, line() {} };
          const session = new Session(null, {}, on);
          const partial = (text) => session.event({
            type: "livecap.transcription.partial",
            item_id: "a", text, stable_chars: 0, audio_ms: 0,
          });
          partial("one");
          session.event({ type: "livecap.transcription.stalled", voiced_ms: 21400 });
          partial("");
          partial("two");
          partial("two three");
          return told;
        }"""
    )
    assert len(problems) == 2
    assert "21 s of speech without text" in problems[0]
    assert problems[1] == ""
    page.close()


def test_plain_http_from_another_machine(server: Running, playwright: Playwright) -> None:
    """There the browser has no microphone: the page has no button for it, but the way to one."""
    flag = "--host-resolver-rules=MAP 10.20.30.40 127.0.0.1"
    with chromium(playwright, *FAKE, flag) as browser:
        page = browser.new_page()
        page.goto(f"http://10.20.30.40:{server.port}/")
        status(page, "Files can be captioned")
        assert "livecap serve --tls auto" in page.inner_text("#plain")
        link = page.locator("#plain a")
        assert link.get_attribute("href") == f"https://10.20.30.40:{server.port}/"
        assert page.is_hidden("#start")
        assert page.is_hidden("#tab")
        page.keyboard.press(" ")
        page.wait_for_selector("#problem:not([hidden])")
        assert "--tls auto" in page.inner_text("#problem")


def test_a_server_without_webrtc(
    server: Running, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As installed without the extra: the page takes the other way."""
    nothing = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: None))
    monkeypatch.setattr(routes, "importlib", nothing)
    page = browser.new_context(permissions=["microphone"]).new_page()
    with page.expect_response("**/v1/realtime/ice") as answer:
        page.goto(f"http://{server.host}/")
        page.click("#start")
    assert answer.value.status == 501
    status(page, "Listening by WebSocket")
    page.click("#start")
    status(page, "Stopped.")
    page.context.close()
