"""The overlay: how long its text stays, and what CEA-608 can show of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from browser_fixture import needs_browser, speaking, wait
from playwright.sync_api import Browser, Page
from server_fixture import Running

pytestmark = needs_browser
TEXT = "box.innerText.trim()"


@contextmanager
def overlay(
    server: Running, browser: Browser, id: str, more: str = "", *, clock: bool = False
) -> Iterator[tuple[Page, Any]]:
    """An overlay that is open, with its own clock if asked, and what says something."""
    with speaking(server, id) as (_, query, say):
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        if clock:
            page.clock.install(time=0)
        page.goto(f"http://{server.host}/overlay/{id}{query}{more}")
        if clock:
            page.clock.pause_at(600_000)
        yield page, say
    page.close()


def test_the_last_text_goes_after_a_while(server: Running, browser: Browser) -> None:
    with overlay(server, browser, "stay", clock=True) as (page, say):
        say("This stays for a while.")
        wait(page, f"{TEXT}.includes('a while')")
        page.clock.run_for(1000)  # a pause
        assert "a while" in page.evaluate(TEXT)
        say("", tail=" and more", final=False)
        wait(page, f"{TEXT}.includes('and more')")
        page.clock.run_for(6500)
        assert page.evaluate(TEXT) == "This stays for a while. and more"
        page.clock.run_for(1000)
        assert page.evaluate(TEXT) == ""
        say("Anew.")  # on its own, in the first row
        wait(page, f"{TEXT}.includes('Anew')")
        assert page.evaluate(TEXT) == "Anew."
        assert page.evaluate("box.firstChild.innerText") == "Anew."


@pytest.mark.parametrize(("stay", "seconds"), [("2", 2), ("0", None)])
def test_how_long_is_chosen(
    server: Running, browser: Browser, stay: str, seconds: int | None
) -> None:
    more = f"&stay={stay}"
    with overlay(server, browser, f"stay{stay}", more, clock=True) as (page, say):
        say("A line.")
        wait(page, f"{TEXT}.includes('A line')")
        page.clock.run_for(1900)
        assert page.evaluate(TEXT) == "A line."
        page.clock.run_for(60_000)
        assert page.evaluate(TEXT) == ("" if seconds else "A line.")


@pytest.mark.parametrize("stay", ["", "&stay=0"])
def test_the_end_of_a_session_clears_it(server: Running, browser: Browser, stay: str) -> None:
    with speaking(server, f"end{stay[1:5]}") as (broadcast, query, say):
        page = browser.new_page()
        page.goto(f"http://{server.host}/overlay/{broadcast.id}{query}{stay}")
        say("The last words.")
        wait(page, f"{TEXT}.includes('last words')")
    wait(page, f"{TEXT} === ''")
    page.close()


def test_signs_are_folded_for_cea608(server: Running, browser: Browser) -> None:
    with overlay(server, browser, "signs", "&cea608=1") as (page, say):
        say("I don’t — “Łódź” — know… œ")
        wait(page, f"{TEXT}.includes('know')")
        rows = page.evaluate("[...box.children].map(one => one.innerText)")
        assert " ".join(rows).strip() == 'I don\'t - "Lódz" - know... oe'
        assert max(map(len, rows)) <= 32


def test_letters_that_cea608_has_not_are_told_of_once(server: Running, browser: Browser) -> None:
    with overlay(server, browser, "cyrillic", "&cea608=1&lines=4") as (page, say):
        say("", tail=" Привет", final=False)
        say("Привет, мир.")
        wait(page, f"{TEXT} !== ''")
        said = page.evaluate("box.innerText.replace(/\\s+/g, ' ').trim()")
        assert said == "[letters that CEA-608 lacks]"
        say("И ещё.")
        say("Hello, мир.")
        wait(page, f"{TEXT}.includes('Hello')")
        said = page.evaluate("box.innerText.replace(/\\s+/g, ' ').trim()")
        assert said == "[letters that CEA-608 lacks] Hello,"
