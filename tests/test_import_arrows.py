"""Imports point one way. Who imports a thing knows it, in a function or for its types alone as much as anywhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "potluck"

BELOW_METHODS = {"federation", "engines", "runs", "channel", "learners", "models", "data", "ingestion", "core"}
APPLICATION = {
    "analysis",
    "export",
    "reproduction",
    "comparison",
    "recipes",
    "preparation",
    "report",
    "methods",
    *BELOW_METHODS,
}

KNOWS: dict[str, set[str]] = {
    "core": set(),
    "analysis": {"core"},
    "models": {"core"},
    "ingestion": {"core"},
    "data": {"ingestion", "core"},
    "learners": {"core"},
    "channel": {"learners", "core"},
    "engines": {"channel", "learners", "core"},
    "runs": {"core"},
    "federation": {"engines", "runs", "channel", "learners", "models", "ingestion", "core"},
    "methods": {"federation", "learners.structure", "models.lora", "core"},
    "export": {"federation", "engines", "learners", "ingestion", "core"},
    "report": {"core"},
    "watch": {"report", "runs", "core"},
    "preparation": {"methods", "report.tables", *BELOW_METHODS},
    "recipes": {"preparation", "methods", *BELOW_METHODS},
    "comparison": {"recipes", "report", "methods", *BELOW_METHODS},
    "reproduction": {"comparison", "recipes", "report", "runs", "federation", "analysis", "core"},
    "flower": APPLICATION,
    "demo": APPLICATION,
    "bench": APPLICATION,
    "cli": {"flower", "demo", "bench", "watch", *APPLICATION},
}
"""What each folder may import besides itself: folders, or modules of one. TYPE_CHECKING is no way round it: a folder
that needs another's type depends on it, and a small protocol of its own says what it needs instead."""

MAY_IMPORT_ALL = {"cli", "flower"}
"""Folders that may import the package itself, ``import potluck``."""

EXCEPTIONS = {
    "core/history.py": ["potluck.report.progress.draw_progress"],
    "federation/participant.py": ["potluck.export.save.save_model"],
}
"""Imports the other way, each for a reason: ``History.plot`` is where a user looks for a picture, report draws it;
``participant.save`` is where a user looks for its model's file, export writes it."""

ONLY_IN = {"flwr": {"flower"}, "ray": {"engines"}}
"""Packages that one folder alone may import."""


def imported(text: str) -> Iterator[str]:
    """What a module imports, by full name, wherever the import stands."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:  # a relative one stays in its folder
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def forbidden(folder: str, text: str) -> list[str]:
    """What a module of that folder imports and may not."""
    found = []
    for name in imported(text):
        package, _, inner = name.partition(".")
        if package == "potluck":
            known = any(inner == module or inner.startswith(f"{module}.") for module in {folder, *KNOWS[folder]})
            of_all = inner.partition(".")[0] not in KNOWS  # of the package itself, which imports most folders
            if folder not in MAY_IMPORT_ALL if of_all else not known:
                found.append(name)
        elif folder not in ONLY_IN.get(package, {folder}):
            found.append(name)
    return found


def test_every_folder_has_its_place():
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == set(KNOWS)


@pytest.mark.parametrize("folder", KNOWS)
def test_arrows_point_one_way(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    wrong = {str(path.relative_to(ROOT)): forbidden(folder, path.read_text()) for path in files}
    excepted = {path: names for path, names in EXCEPTIONS.items() if path.partition("/")[0] == folder}
    assert {path: names for path, names in wrong.items() if names} == excepted


@pytest.mark.parametrize(
    ("folder", "text"),
    [
        ("core", "from potluck.learners.network import Network"),
        ("core", "def f():\n    import potluck.engines.base"),
        ("runs", "if TYPE_CHECKING:\n    from potluck.federation.federation import Federation"),
        ("engines", "from potluck.methods import Local"),
        ("engines", "from potluck import methods"),
        ("methods", "from potluck.engines import Serial"),
        ("methods", "from potluck.learners.network import Network"),
        ("federation", "import flwr.client"),
        ("federation", "import potluck"),
    ],
)
def test_an_arrow_that_points_the_wrong_way_is_seen(folder, text):
    assert len(forbidden(folder, text)) == 1


@pytest.mark.parametrize(
    ("folder", "text"),
    [
        ("methods", "from potluck.learners.structure import convolutions"),
        ("methods", "from potluck.methods.averaging import MaskedMean"),
        ("recipes", "from potluck import models"),
        ("cli", "from potluck import __version__"),
        ("flower", "import flwr"),
    ],
)
def test_an_arrow_that_points_down_is_fine(folder, text):
    assert forbidden(folder, text) == []


def layout():
    """The folders of the package, in the order in which CONTRIBUTING lists them."""
    text = (ROOT.parent / "CONTRIBUTING.md").read_text().partition("\n    potluck/\n")[2].partition("\n    tests/")[0]
    return re.findall(r"^ {6}(\w+)/", text, re.MULTILINE)


def test_contributing_lists_the_folders_each_below_those_it_knows():
    folders = layout()
    assert sorted(folders) == sorted(KNOWS)
    for folder, known in KNOWS.items():
        above = folders[: folders.index(folder)]
        assert {name.partition(".")[0] for name in known} <= set(above), folder


def test_the_layout_fits_a_screenful():
    text = (ROOT.parent / "CONTRIBUTING.md").read_text().partition("## Layout")[2].partition("\n[Architecture]")[0]
    assert len(text.strip().splitlines()) <= 40
