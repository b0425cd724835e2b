"""The notebooks run end to end, from a fresh kernel, and are kept as they are written: without what a run gave."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = Path(__file__).parent.parent / "docs" / "notebooks"
ALL = sorted(NOTEBOOKS.glob("*.ipynb"))


@pytest.fixture(params=ALL, ids=lambda path: path.stem)
def notebook(request):
    found = nbformat.read(request.param, as_version=4)
    nbformat.validate(found)
    return found


def test_there_are_two():
    assert [path.stem for path in ALL] == ["add-a-method", "first-federation"]


def test_it_holds_no_outputs_and_its_links_lead_somewhere(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)
        else:
            for target in re.findall(r"\]\(([^)#]+)[^)]*\)", cell.source):
                assert (NOTEBOOKS / target).exists(), target


def test_the_site_shows_text_as_text_and_code_as_code(monkeypatch, notebook):
    monkeypatch.syspath_prepend(str(NOTEBOOKS.parent / "_ext"))
    cells = notebook.cells
    page = importlib.import_module("notebooks").as_markdown(nbformat.writes(notebook))
    assert page.startswith(cells[0].source)
    assert page.count("````python\n") == sum(cell.cell_type == "code" for cell in cells)
    assert all(cell.source in page for cell in cells)


@pytest.mark.slow
def test_it_runs_end_to_end(notebook, tmp_path):
    from nbclient import NotebookClient

    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
    client.execute()
    said = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ()))
    assert "after round" in said
    assert list(tmp_path.iterdir()) == [], "what it draws goes to a temporary folder"
