"""Has the site show notebooks: text as a page's, code with what it gave, if the notebook holds that."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from docutils.nodes import document
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx

_TICKS = "````"


def as_markdown(notebook: str) -> str:
    """A notebook as the Markdown of a page."""
    cells = json.loads(notebook)["cells"]
    return "\n\n".join(block for cell in cells for block in _blocks(cell)) + "\n"


def _blocks(cell: Mapping[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        yield source
        return
    yield f"{_TICKS}python\n{source}\n{_TICKS}"
    for output in cell["outputs"]:
        text = output.get("text") or output.get("data", {}).get("text/plain")
        if text:
            yield f"{_TICKS}text\n{''.join(text).rstrip()}\n{_TICKS}"


class NotebookParser(MystParser):
    """Reads a notebook as the page that ``as_markdown`` makes of it."""

    supported = ("ipynb",)

    def parse(self, inputstring: str, document: document) -> None:
        super().parse(as_markdown(inputstring), document)


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("myst_parser")
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True}
