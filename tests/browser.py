"""Pages in a real browser: Debian's Chromium without a window, driven by playwright, on a phone and a desk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
WIDTHS = (375, 1280)
SCHEMES = ("light", "dark")

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian's package chromium)")


@contextmanager
def browser() -> Iterator[Any]:
    """A browser that asks for nothing by itself."""
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-background-networking", "--disable-sync"]
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=CHROMIUM, args=quiet)
        try:
            yield opened
        finally:
            opened.close()


def check_in_browser(address: str) -> None:
    """On a phone and a desk, in light and dark: no message, no request, no sideways scrolling, nothing for axe."""
    with browser() as opened:
        for width in WIDTHS:
            for scheme in SCHEMES:
                context = opened.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
                told: list[str] = []
                page = context.new_page()
                page.on("console", lambda message, told=told: told.append(message.text))
                page.on("request", lambda request, told=told: told.append(request.url))
                page.goto(address)
                assert told == [address]
                assert page.evaluate("document.documentElement.scrollWidth") <= width
                for folded in page.query_selector_all("summary"):
                    folded.press("Enter")
                assert page.evaluate("[...document.querySelectorAll('details')].every(part => part.open)")
                assert violations(page) == []
                page.emulate_media(media="print")
                assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(251, 250, 247)"
                context.close()


def violations(page: Any) -> list[tuple[str, str]]:
    """What axe-core finds that keeps somebody from using a page: rule and impact."""
    from axe_playwright_python.sync_playwright import Axe

    return [(rule["id"], rule["impact"]) for rule in Axe().run(page).response["violations"]]
