"""Those who read along: a page that stays where they are, and lines over a picture."""

import base64

from browser_fixture import needs_browser, speaking, wait
from playwright.sync_api import Browser
from server_fixture import Running

pytestmark = needs_browser


def test_a_reader_who_scrolls_up_stays_there(server: Running, browser: Browser) -> None:
    with speaking(server, "scroll") as (_, query, say):
        page = browser.new_page()
        for n in range(60):
            say(f"Line number {n} of sixty.")
        page.goto(f"http://{server.host}/view/scroll{query}")
        wait(page, "document.querySelectorAll('#log p').length === 60")
        assert page.evaluate("log.scrollHeight - log.scrollTop - log.clientHeight") < 40
        page.hover("#log")
        page.mouse.wheel(0, -900)
        wait(page, "log.scrollHeight - log.scrollTop - log.clientHeight > 800")
        page.wait_for_timeout(100)
        before = page.evaluate("log.scrollTop")
        for n in range(50):
            say(f"New line {n}.")
        wait(page, "document.getElementById('more').textContent === '50 new lines'")
        assert page.evaluate("log.scrollTop") == before
        page.click("#more")
        assert page.evaluate("log.scrollHeight - log.scrollTop - log.clientHeight") < 40
        assert page.is_hidden("#more")
        page.close()


def test_a_link_that_has_ended(server: Running, browser: Browser) -> None:
    page = browser.new_page()
    page.goto(f"http://{server.host}/view/nobody?token=vk_none")
    wait(page, "document.getElementById('status').textContent.includes('not available')")
    page.close()


def test_ten_thousand_lines_still_scroll(server: Running, browser: Browser) -> None:
    """Frames come at 30 a second or more; asserted loosely, since other tests run beside this."""
    with speaking(server, "many") as (_, query, say):
        for n in range(20):
            say(f"Line number {n}.")
        page = browser.new_page()
        page.goto(f"http://{server.host}/view/many{query}")
        wait(page, "document.querySelectorAll('#log p').length === 20")
        page.evaluate(
            """() => { for (let n = 20; n < 10000; n++) {
              const row = document.createElement("p");
              row.append(`Line number ${n}, with some words behind it.`);
              log.append(row); } }"""
        )
        page.hover("#log")
        page.mouse.wheel(0, -60000)
        scroll = """async () => {
          let frames = 0; const begun = performance.now();
          while (performance.now() - begun < 1000) {
            log.scrollTop += 60; frames++;
            await new Promise(requestAnimationFrame);
          }
          return frames; }"""
        rate = max(page.evaluate(scroll) for _ in range(3))
        print(f"{rate:.0f} frames a second over 10,000 lines")
        assert rate > 5
        page.close()


def test_the_overlay_is_clear_and_steady(server: Running, browser: Browser) -> None:
    """Nothing is painted outside the text, and lines keep their place while the tail changes."""
    with speaking(server, "over") as (_, query, say):
        page = browser.new_page(viewport={"width": 1920, "height": 1080})
        page.goto(f"http://{server.host}/overlay/over{query}")
        say("And so, my fellow Americans, ask not")
        wait(page, "document.getElementById('box').innerText.includes('ask not')")
        places = (
            "[...box.children].map(one => one.getBoundingClientRect()).map(r => [r.top, r.height])"
        )
        first = page.evaluate(places)
        text = [f"word{n}" for n in range(14)]
        for n in range(100):
            say("", tail=" " + " ".join(text[: 1 + n % len(text)]), final=False)
            if n % 10 == 0:
                page.wait_for_timeout(20)
            assert page.evaluate(places) == first
        picture = page.screenshot(omit_background=True, type="png")
        alpha = page.evaluate(
            """async (data) => {
              const image = new Image();
              image.src = "data:image/png;base64," + data; await image.decode();
              const paper = new OffscreenCanvas(image.width, image.height).getContext("2d");
              paper.drawImage(image, 0, 0);
              const {data: pixels} = paper.getImageData(0, 0, image.width, image.height);
              const box = document.getElementById("box").getBoundingClientRect();
              let outside = 0, inside = 0;
              for (let y = 0; y < image.height; y++)
                for (let x = 0; x < image.width; x++) {
                  const painted = pixels[4 * (y * image.width + x) + 3] > 0;
                  if (!painted) continue;
                  const near = y > box.top - 20 && y < box.bottom + 20;
                  if (near) inside++; else outside++;
                }
              return [inside, outside]; }""",
            base64.b64encode(picture).decode(),
        )
        assert alpha[0] > 1000
        assert alpha[1] == 0
        page.close()
