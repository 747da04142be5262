"""Pages behind a proxy that has them under a path of its own, and takes that path away."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from browser_fixture import allowed, errors_of, holds, needs_browser, speaking, status, wait
from media import wav
from playwright.sync_api import Browser
from server_fixture import Running, serving, toned
from starlette.types import ASGIApp, Receive, Scope, Send
from tones import say as tones

from livecap.api.options import ServeConfig

pytestmark = needs_browser
PREFIX = "/a path/captions"


class Prefixed:
    """What a proxy does; what is asked of its root is nothing of ours."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.astray: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if not path.startswith(f"{PREFIX}/"):
            self.astray.append(path)
            path = f"{PREFIX}/astray"
        path = path.removeprefix(PREFIX)
        await self.app({**scope, "path": path, "raw_path": path.encode()}, receive, send)


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[Running, Prefixed]]:
    config = ServeConfig(history=str(tmp_path / "history.db"), max_sessions=50)
    with serving(toned(), config) as server:
        made = server.server.config
        proxy = Prefixed(made.loaded_app)
        monkeypatch.setattr(made, "loaded_app", proxy)
        yield server, proxy


@pytest.mark.parametrize("way", ["WebRTC", "WebSocket"])
def test_the_page_of_who_speaks(
    way: str, proxied: tuple[Running, Prefixed], browser: Browser, tmp_path: Path
) -> None:
    server, proxy = proxied
    with allowed(browser) as context:
        page = context.new_page()
        faults = errors_of(page)
        query = "?transport=websocket" if way == "WebSocket" else ""
        page.goto(f"http://{server.host}{quote(PREFIX)}/{query}")
        status(page, "Ready.")
        assert page.is_hidden("#unstyled")
        assert "tones" in page.inner_text("#model")
        wait(page, "!document.getElementById('past-open').hidden")
        page.click("#start")
        status(page, f"Listening by {way}")
        page.click("#share")
        page.wait_for_selector("#links a")
        for link, place in zip(page.query_selector_all("#links a"), ("log", "box"), strict=True):
            url = str(link.get_attribute("href"))
            assert f"{server.host}{quote(PREFIX)}/" in url
            reader = context.new_page()
            reader.goto(url)
            reader.wait_for_selector(f"#{place}")
            if place == "log":
                status(reader, "Connected")
            reader.close()
        page.click("#start")
        status(page, "Stopped.")
        (tmp_path / "talk.wav").write_bytes(wav((tones([1, 1, 1]) / 32768).astype(np.float32)))
        page.set_input_files("#file", tmp_path / "talk.wav")
        holds(page, "two two two")
        assert page.is_hidden("#problem")
        assert (faults, proxy.astray) == ([], [])


def test_the_pages_of_readers(proxied: tuple[Running, Prefixed], browser: Browser) -> None:
    server, proxy = proxied
    with speaking(server, "proxied") as (_, query, say):
        for name, place in (("view", "log"), ("overlay", "box")):
            page = browser.new_page()
            page.goto(f"http://{server.host}{quote(PREFIX)}/{name}/proxied{query}")
            say(f"Words for {name}.")
            wait(page, f"document.getElementById('{place}').innerText.includes('for {name}')")
            if name == "view":
                with page.expect_download() as found:
                    page.click("#download")
                assert "Words for view." in found.value.path().read_text("utf-8")
            page.close()
    assert proxy.astray == []


def test_an_address_without_its_slash(proxied: tuple[Running, Prefixed], browser: Browser) -> None:
    """As proxies that don't mend it have it: the page says what is wrong."""
    server, _ = proxied
    page = browser.new_page()
    page.route(
        f"http://{server.host}{quote(PREFIX)}",
        lambda route: route.fulfill(response=page.request.get(f"{route.request.url}/")),
    )
    page.goto(f"http://{server.host}{quote(PREFIX)}")
    assert page.is_visible("#unstyled")
    assert "ends in a slash" in page.inner_text("#unstyled")
    page.close()
