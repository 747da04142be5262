"""A click to captions, by either way to the server."""

from pathlib import Path

import pytest
from browser_fixture import (
    WATCH,
    holds,
    lines,
    needs_browser,
    status,
    talk,
    wait,
)
from command import SPEECH, Command, plain
from jiwer import wer
from playwright.sync_api import Playwright

pytestmark = needs_browser
WORSE = 0.14  # of words, three of 22, compared with the same recording as a file
FEW = 0.2  # of words, where a talk breaks off in the middle of one


@pytest.mark.parametrize("way", ["WebRTC", "WebSocket"])
def test_a_click_to_captions(
    way: str, playwright: Playwright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As right as `livecap file` is, if the browser leaves the sound as it is. No final changes."""
    query = "?transport=websocket" if way == "WebSocket" else ""
    with talk(playwright, tmp_path, query=query) as (_, page):
        page.click("#start")
        status(page, f"Listening by {way}")
        holds(page, "can do for your country")
        assert way in page.inner_text("#status")
        assert page.is_hidden("#problem")
        page.click("#start")
        status(page, "Stopped.")
        said = plain(" ".join(lines(page)))
    with monkeypatch.context() as patch:
        command = Command(patch, tmp_path)
        filed = plain(command("file", "microphone.wav", "-f", "txt", "-o", "-").out)
    worse = wer(SPEECH, said) - wer(SPEECH, filed)
    print(f"{way}: WER {wer(SPEECH, said):.3f}, of a file {wer(SPEECH, filed):.3f}")
    assert worse <= WORSE, (said, filed)


@pytest.mark.parametrize("names", ["disable", "enable"])
def test_addresses_behind_names(names: str, playwright: Playwright, tmp_path: Path) -> None:
    """Browsers hide a machine's addresses behind names in .local until a microphone is allowed for
    good: neither way is in the way of a call.
    """
    flag = f"--{names}-features=WebRtcHideLocalIpsWithMdns"
    with talk(playwright, tmp_path, flag, grant=False) as (_, page):
        offers: list[str] = []
        page.on("request", lambda one: offers.append(one.post_data or ""))
        page.click("#start")
        status(page, "Listening by WebRTC")
        holds(page, "fell")
        (offer,) = [one for one in offers if "a=candidate:" in one]
        assert (".local " in offer) == (names == "enable")


@pytest.mark.parametrize("way", ["WebRTC", "WebSocket"])
def test_a_reload_in_mid_speech(way: str, playwright: Playwright, tmp_path: Path) -> None:
    """What had been said by then is captioned by the page that comes up: all of it, and once."""
    query = "?transport=websocket" if way == "WebSocket" else ""
    with talk(playwright, tmp_path, query=query) as (_, page):
        page.click("#start")
        holds(page, "fell")
        assert way in page.inner_text("#status")
        wait(page, "/your/.test(document.querySelector('main').innerText)")
        final = lines(page)
        page.reload()
        page.evaluate(WATCH)
        status(page, "The page was loaded anew")
        again = lines(page)
        assert again[: len(final)] == final
        said = plain(" ".join(again))
        assert said.count("fellow") == 1
        assert len(said) >= len(plain(" ".join(final)))
        assert wer(SPEECH[: len(said)], said) <= FEW, said
        page.click("#start")
        status(page, f"Listening by {way}")
