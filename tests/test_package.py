"""The package itself: its names come when they are asked for, and what needs no torch does not wait for it."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import potluck


def test_names_come_from_the_modules_that_type_checkers_are_told():
    tree = ast.parse(Path(str(potluck.__file__)).read_text())
    told = {
        alias.name: str(node.module)
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(told) == sorted(potluck.__all__)
    for name, module in told.items():
        if module == "potluck":
            assert getattr(potluck, name) is importlib.import_module(f"potluck.{name}")
        else:
            assert getattr(potluck, name) is getattr(importlib.import_module(module), name)


def test_packages_are_there_without_an_import_of_their_own():
    found = subprocess.run(
        [sys.executable, "-c", "import potluck; print(potluck.engines.Serial.__name__, 'Plan' in dir(potluck))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "Serial True\n"


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'potluck' has no attribute 'Partcipant'"):
        _ = potluck.Partcipant


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"], ["keys", "--help"]])
def test_help_needs_no_torch(arguments):
    code = (
        "import sys; from potluck.cli import app\n"
        f"app({arguments!r}, prog_name='potluck', standalone_mode=False)\n"
        "print([name for name in ('torch', 'sklearn', 'flwr', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = done.stdout.splitlines()
    assert "Usage: potluck" in done.stdout or said[0] == f"potluck {potluck.__version__}"
    assert not done.stderr
    assert said[-1] == "[]" or arguments == ["--version"]
