"""Captions where the network is in the way: each in a network that the test makes and breaks."""

import time
from pathlib import Path

import pytest
from browser_fixture import alone, holds, lines, link, needs_browser, status, talk, wait
from command import SPEECH, plain
from jiwer import wer
from playwright.sync_api import Page, Playwright
from server_fixture import Running

pytestmark = needs_browser
# Chromium finds no address for calls on a machine that has nothing but loopback, unless it is told.
LOOPBACK = "--allow-loopback-in-peer-connection"
SOON = 6.0  # seconds from a click to captions; twice that here, where other tests run beside it
FEW = 0.15  # of words: where sound is heard again, it is cut up in other places


def drop_udp() -> None:
    """From now on no datagram gets anywhere in this network."""
    link("rule", "add", "pref", "100", "lookup", "local")
    link("rule", "del", "pref", "0")
    link("rule", "add", "pref", "5", "ipproto", "udp", "blackhole")


WAYS = {
    "loopback alone, and calls on it": ((LOOPBACK,), False, "WebRTC"),
    "loopback alone": ((), False, "WebSocket"),
    "no datagrams": ((LOOPBACK,), True, "WebSocket"),
}


@pytest.mark.parametrize(("flags", "is_dropped", "way"), WAYS.values(), ids=WAYS)
def test_the_page_finds_a_way(
    flags: tuple[str, ...], is_dropped: bool, way: str, tmp_path: Path
) -> None:
    """By itself, soon, and it says which."""

    def work(playwright: Playwright) -> None:
        if is_dropped:
            drop_udp()
        with talk(playwright, tmp_path, *flags, lead=0.5) as (_, page):
            page.click("#start")
            begun = time.monotonic()
            wait(page, "document.querySelector('main').innerText.match(/[a-z]/)")
            took = time.monotonic() - begun
            print(f"{way}: captions {took:.1f} s after the click")
            assert page.inner_text("#status").startswith(f"Listening by {way}")
            assert took < 2 * SOON
            holds(page, "fell")

    alone(work)


def cut(server: Running) -> None:
    """As when a network is gone for long: nothing arrives, and the server has given up."""
    link("link", "set", "lo", "down")
    assert server.loop
    for one in list(server.server.server_state.connections):
        server.loop.call_soon_threadsafe(one.transport.abort)


def heard(page: Page) -> str:
    """All that is final."""
    return plain(" ".join(lines(page)))


@pytest.mark.parametrize("way", ["WebRTC", "WebSocket"])
def test_a_network_that_is_cut_in_mid_speech(way: str, tmp_path: Path) -> None:
    """Recording goes on, and what was not final is heard again by WebSocket: all, and once."""

    def work(playwright: Playwright) -> None:
        with talk(playwright, tmp_path, *([LOOPBACK] if way == "WebRTC" else [])) as (server, page):
            page.click("#start")
            holds(page, "fell")
            assert way in page.inner_text("#status")
            page.click("#share")
            wait(page, "document.querySelectorAll('#links a').length === 2")
            link_before = page.get_attribute("#links a", "href")
            final = lines(page)
            cut(server)
            if way == "WebRTC":
                status(page, "Not connected")  # a socket tells only when the network is back
            page.wait_for_timeout(2000)  # of which something is said in any case
            link("link", "set", "lo", "up")
            holds(page, "what you can do for your country")
            assert page.inner_text("#status").startswith("Listening by WebSocket")
            assert lines(page)[: len(final)] == final
            assert wer(SPEECH, heard(page)) <= FEW, heard(page)
            page.click("#start")
            status(page, "Stopped.")
            assert page.get_attribute("#links a", "href") == link_before
            assert link_before
            told = plain(read(page, link_before))
            # Readers may have been told a line that the page was not, and heard again.
            assert wer(heard(page), told) <= FEW, (heard(page), told)

    alone(work)


def read(page: Page, viewer: str) -> str:
    """What readers of a link are told, as text."""
    return str(
        page.evaluate(
            "async (to) => (await (await fetch(to.replace('/view/', '/v1/captions/')"
            ".replace('?', '.txt?'))).text())",
            viewer,
        )
    )


def test_a_network_that_is_gone_for_a_moment(tmp_path: Path) -> None:
    """The call lives on, but what was said meanwhile is not in it: the page notices."""

    def work(playwright: Playwright) -> None:
        with talk(playwright, tmp_path, LOOPBACK) as (_, page):
            page.click("#start")
            holds(page, "fell")
            link("link", "set", "lo", "down")
            page.wait_for_timeout(2000)
            link("link", "set", "lo", "up")
            holds(page, "what you can do for your country")
            assert page.inner_text("#status").startswith("Listening by WebSocket")
            assert wer(SPEECH, heard(page)) <= FEW, heard(page)

    alone(work)
