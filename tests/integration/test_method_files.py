"""Methods stay small, and nothing stands in two of their files."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import potluck.methods
from potluck.methods import METHODS

FOLDER = Path(potluck.methods.__file__).parent
OF_METHODS = {Path(inspect.getfile(method)) for method in METHODS.values()}

RUN = 6
"""So many lines in a row, imports and docstrings aside, are a piece that should stand in one place."""


def code(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a module with their numbers, without imports, docstrings, comments and empty ones."""
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        first = getattr(node, "body", [None])
        documented = first[0] if isinstance(first, list) and first else None
        if isinstance(node, ast.Import | ast.ImportFrom):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(documented, ast.Expr) and isinstance(documented.value, ast.Constant):
            left_out.update(range(documented.lineno, (documented.end_lineno or documented.lineno) + 1))
    for number, line in enumerate(text.splitlines(), start=1):
        if number not in left_out and line.strip() and not line.strip().startswith("#"):
            yield number, line.strip()


def runs(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Each run of lines, and where it begins."""
    lines = list(code(path.read_text()))
    for place in range(len(lines) - RUN + 1):
        yield lines[place][0], tuple(text for _, text in lines[place : place + RUN])


def test_nothing_stands_in_two_files() -> None:
    seen: dict[tuple[str, ...], str] = {}
    for path in sorted(FOLDER.glob("*.py")):
        for number, run in runs(path):
            where = f"{path.name}:{number}"
            other = seen.setdefault(run, where)
            assert other.startswith(f"{path.name}:"), f"{where} repeats {other}: {run}"


def test_what_counts_as_code() -> None:
    text = '''"""About."""

import os
from a import (
    b,
)

# why
x = """
text"""


def f():
    """It."""
    return 1
'''
    assert [line for _, line in code(text)] == ['x = """', 'text"""', "def f():", "return 1"]


def test_methods_are_small() -> None:
    sizes = {path.name: len(path.read_text().splitlines()) for path in OF_METHODS if path.parent == FOLDER}
    assert {name: size for name, size in sizes.items() if size > 250} == {}
    assert median(sizes.values()) <= 90, sorted(sizes.items(), key=lambda item: item[1])
