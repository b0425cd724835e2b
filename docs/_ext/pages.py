"""Makes the site's table of contents of the lists in index.md, so that a page is listed once and for all readers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx

INDEX = "docs/index"
_SECTION = re.compile(r"^## (.+)$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+\.(?:md|ipynb))\)")
_REDIRECT = (
    '<!doctype html><meta charset="utf-8"><title>Potluck</title><meta http-equiv="refresh" content="0; url={0}">'
)


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


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _add)
    app.connect("build-finished", _lead_in)
    return {"parallel_read_safe": True}
