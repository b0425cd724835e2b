"""The form of the methods' files: short, and nothing written twice."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from pathlib import Path
from statistics import median

import pytest

from potluck.methods import METHODS

FILES = sorted((Path(__file__).parents[2] / "potluck" / "methods").glob("*.py"))
RUN = 6
"""From how many lines on a run counts as written twice."""


def code_of(path: Path, imports: bool = True) -> list[str]:
    """A file's lines of code: no docstrings, comments and empty lines."""
    text = path.read_text()
    dropped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        imported = isinstance(node, ast.Import | ast.ImportFrom) and not imports
        told = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if isinstance(node, ast.stmt) and (imported or told):
            dropped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return [line for place, line in lines if place not in dropped and line.strip() and line.strip()[0] != "#"]


def test_no_run_of_six_lines_stands_in_two_files():
    places: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for path in FILES:
        lines = code_of(path, imports=False)
        for start in range(len(lines) - RUN + 1):
            places[tuple(lines[start : start + RUN])].add(path.name)
    assert [sorted(files) for files in places.values() if len(files) > 1] == []


@pytest.mark.parametrize("name", ["FedProto", "FedMD", "HeteroFL"])
def test_three_of_them_have_sixty_lines_of_code_at_most(name):
    assert len(code_of(Path(inspect.getfile(METHODS[name])))) <= 60


def test_methods_are_short():
    """What several methods share stands in files of its own, whose length is not bounded here."""
    lengths = {name: len(Path(inspect.getfile(METHODS[name])).read_text().splitlines()) for name in METHODS}
    assert {name for name, length in lengths.items() if length > 250} == set()
    assert median(lengths.values()) <= 90
