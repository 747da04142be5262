"""A talk, its readers and its overlay as they look: pictures to be looked at.

They go to the folder LIVECAP_SHOTS, if that is set. `benchmarks/page.png` in the README is one:
LIVECAP_SHOTS=shots python -m pytest tests/browser/test_pictures.py, then page.png.
"""

import os
from pathlib import Path

from browser_fixture import holds, lines, needs_browser, status, talk, wait
from command import plain
from playwright.sync_api import Page, Playwright

pytestmark = needs_browser
LARGE = 200_000  # bytes
END = "can do for your country"


def test_what_a_talk_looks_like(playwright: Playwright, tmp_path: Path) -> None:
    """Readers have the speaker's words, late ones all of them; and nothing is out of its place."""
    named = os.environ.get("LIVECAP_SHOTS")
    folder = Path(named) if named else tmp_path / "shots"
    folder.mkdir(parents=True, exist_ok=True)
    with talk(playwright, tmp_path) as (_, page):
        page.set_viewport_size({"width": 1200, "height": 800})
        page.select_option("#theme", "light")
        page.click("#start")
        holds(page, "fell")
        page.click("#share")
        page.wait_for_selector("#links a")
        links = page.query_selector_all("#links a")
        viewer, overlay = (str(one.get_attribute("href")) for one in links)
        reader, shown = page.context.new_page(), page.context.new_page()
        reader.set_viewport_size({"width": 800, "height": 600})
        shown.set_viewport_size({"width": 1920, "height": 1080})
        reader.goto(viewer)
        shown.goto(overlay)
        wait(page, "document.querySelector('#tail').innerText.length > 20")
        shot(page, folder / "page.png")
        holds(page, END)
        holds(reader, END)
        holds(shown, END, "#box")
        shot(reader, folder / "viewer.png")
        shot(shown, folder / "overlay.png")
        page.select_option("#theme", "dark")
        shot(page, folder / "dark.png")
        page.select_option("#theme", "light")
        page.set_viewport_size({"width": 390, "height": 844})
        shot(page, folder / "phone.png")
        late = page.context.new_page()
        late.goto(viewer)
        holds(late, END)
        page.click("#start")
        status(page, "Stopped.")
        wait(late, "document.getElementById('status').textContent.includes('has ended')")
        assert plain(" ".join(lines(late))) == plain(" ".join(lines(page)))


def shot(page: Page, path: Path) -> None:
    """One picture, of what a window shows."""
    page.screenshot(path=path, omit_background=True)
    assert path.stat().st_size < LARGE
