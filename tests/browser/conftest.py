"""What the tests of pages share."""

from collections.abc import Iterator

import pytest
from browser_fixture import FAKE, chromium
from playwright.sync_api import Browser, Playwright, sync_playwright
from server_fixture import Running, serving


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """What drives browsers."""
    with sync_playwright() as found:
        yield found


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """Chromium, with a microphone that beeps."""
    with chromium(playwright, *FAKE) as found:
        yield found


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server whose model needs no weights."""
    with serving() as running:
        yield running
