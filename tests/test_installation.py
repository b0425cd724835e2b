"""What is installed is what is needed: imports are declared."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("potluck", "docs", "examples", "benchmarks", "evidence")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def imported(code: str) -> Iterator[str]:
    """The modules that code imports, wherever the import stands in it, also by ``import_module("name")``."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (str(name.value) for name in node.args if isinstance(name, ast.Constant))


def normalized(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def declared(requirements: list[str]) -> set[str]:
    return {normalized(re.split(r"[^\w.-]", requirement, maxsplit=1)[0]) for requirement in requirements}


def test_imports_are_found_wherever_they_stand():
    inner = "def h():\n    import i\n    x = importlib.import_module('j.k')"
    code = f"import a.b, c\nfrom d.e import f\nfrom . import g\n{inner}"
    assert list(imported(code)) == ["a.b", "c", "d.e", "i", "j.k"]
    assert declared(["Some_Thing[extra]>=1,<2", "other"]) == {"some-thing", "other"}


def test_every_distribution_that_is_imported_is_declared_and_no_other():
    extras = PROJECT["optional-dependencies"]
    asked = declared(PROJECT["dependencies"]).union(*(declared(extras[name]) for name in extras.keys() - {"dev"}))
    modules = {
        name.split(".")[0] for path in (ROOT / "potluck").rglob("*.py") for name in imported(path.read_text())
    } - {*sys.stdlib_module_names, "potluck"}
    known = packages_distributions()
    assert not modules - known.keys(), "not installed here, so nobody can say which distribution brings it"
    assert {normalized(name) for module in modules for name in known[module]} == asked


def test_nothing_installs_another_projects_distribution():
    """The name `potluck` on the package index is not this project's."""
    assert PROJECT["name"] == "potluck-fl"
    texts = [
        path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".toml")
    ]
    for path in (*texts, *(ROOT / "deploy").iterdir(), *ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "pyproject.toml"):
        assert not re.search(r"pip install (-\S+ )*['\"]?potluck\b(?!-fl)|potluck\[", path.read_text()), path
