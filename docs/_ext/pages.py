"""Makes the site's table of contents of the lists in index.md, so that a page is listed once and for all readers.

And what the theme leaves out for who reads by keyboard, or has a page read out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

INDEX = "docs/index"
_SECTION = re.compile(r"^## (.+)$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+\.(?:md|ipynb))\)")
_REDIRECT = (
    '<!doctype html><meta charset="utf-8"><title>Potluck</title><meta http-equiv="refresh" content="0; url={0}">'
)


SPOKEN = {
    "body": (
        ("<pre>", '<pre tabindex="0">'),
        ('<div class="table-wrapper ', '<div tabindex="0" class="table-wrapper '),
    ),
    "furo_navigation_tree": (('role="heading">', 'role="heading" aria-level="2">'),),
}
"""Part of a page → what it holds, and with what: a heading has a level, and keys scroll what scrolls by itself."""


def contents(text: str) -> dict[str, list[str]]:
    """Section → the pages that its list links to, each where it is linked first, without ending."""
    found: dict[str, list[str]] = {}
    section, seen = "", set[str]()
    for line in text.splitlines():
        if heading := _SECTION.match(line):
            section = heading[1]
        for target in _LINK.findall(line):
            page = target.rpartition(".")[0]
            if page not in seen:
                found.setdefault(section, []).append(page)
                seen.add(page)
    return found


def toctree(pages: list[str], caption: str = "") -> Iterator[str]:
    """The lines that tell Sphinx of pages, and show nothing."""
    yield from ("", "```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), "", *pages, "```")


def _add(app: Sphinx, docname: str, source: list[str]) -> None:
    """Tells Sphinx what the index lists, and which pages are in a folder that bears a page's name."""
    inner = Path(app.srcdir, docname)
    if docname == INDEX:
        added = [line for section, pages in contents(source[0]).items() for line in toctree(pages, section)]
    elif docname.startswith("docs/") and inner.is_dir():
        added = list(toctree([f"{inner.name}/{page.stem}" for page in sorted(inner.glob("*.md"))]))
    else:
        return
    source[0] += "\n".join(added) + "\n"


def _lead_in(app: Sphinx, failed: Exception | None) -> None:
    """Takes whoever opens the site's folder to the index."""
    if failed is None and app.builder.format == "html":
        Path(app.outdir, "index.html").write_text(_REDIRECT.format(f"{INDEX}.html"), encoding="utf-8")


def _accessible(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Puts in what is missing, once the theme has made its parts."""
    for part, changes in SPOKEN.items():
        for plain, spoken in changes:
            if isinstance(text := context.get(part), str):
                context[part] = text.replace(plain, spoken)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _add)
    app.connect("html-page-context", _accessible, priority=900)
    app.connect("build-finished", _lead_in)
    return {"parallel_read_safe": True}
