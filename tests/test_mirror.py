"""tests/ mirrors potluck/, file by file: whoever changes a module knows where its tests are, and whose a test is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "potluck"

MIRRORS_SOMETHING_ELSE = {"benchmarks", "evidence", "integration", "tools"}
"""Folders of tests that need several of Potluck's, or are of a folder beside it."""


def home_of(module: Path) -> Path:
    """Where the tests of a module are; those of a package's own file bear the package's name."""
    name = module.parent.name if module.name == "__init__.py" else module.stem
    return TESTS / module.relative_to(PACKAGE).parent / f"test_{name}.py"


def is_about(test: Path, module: Path) -> bool:
    """Whether a test file is a module's: test_plan.py, or test_plan_schedules.py for a side of it, is plan.py's."""
    own = home_of(module)
    return test.parent == own.parent and (test == own or test.stem.startswith(f"{own.stem}_"))


MODULES = sorted(PACKAGE.rglob("*.py"))


def test_every_module_has_tests_of_its_own():
    """Also a package's own file that defines something; of the whole package's, test_package.py is about it."""
    packages = [path for path in MODULES if path.name == "__init__.py"]
    lists = {path for path in packages if not re.search(r"^(def|class) ", path.read_text(), re.MULTILINE)}
    missing = [path for path in MODULES if path not in {PACKAGE / "__init__.py", *lists} and not home_of(path).exists()]
    assert [path.relative_to(PACKAGE).as_posix() for path in missing] == []


def test_a_test_file_is_about_one_module():
    """What crosses modules is in tests/integration; what is about the whole project, beside this file."""
    found = [test for test in TESTS.rglob("test_*.py") if test.parent != TESTS]
    mirrors = [test for test in found if test.relative_to(TESTS).parts[0] not in MIRRORS_SOMETHING_ELSE]
    assert len(mirrors) > 100
    strange = [test for test in mirrors if not any(is_about(test, module) for module in MODULES)]
    assert [test.relative_to(TESTS).as_posix() for test in strange] == []


def test_nothing_is_imported_from_a_test_module():
    """What several need is in a module of helpers, or in a conftest."""
    for path in TESTS.rglob("*.py"):
        imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        names = {f"{node.module}.{alias.name}" for node in imports for alias in node.names}
        found = [name for name in names if name.startswith("tests.") and ".test_" in name]
        assert found == [], path.relative_to(TESTS)


@pytest.mark.parametrize(
    ("test", "module", "expected"),
    [
        ("core/test_plan.py", "core/plan.py", True),
        ("core/test_plan_schedules.py", "core/plan.py", True),
        ("core/test_plans.py", "core/plan.py", False),
        ("data/test_plan.py", "core/plan.py", False),
        ("models/test_models.py", "models/__init__.py", True),
    ],
)
def test_whose_a_test_is(test, module, expected):
    assert is_about(TESTS / test, PACKAGE / module) == expected
