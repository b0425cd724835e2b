"""Two things never share a name: whoever meets a class, or a type with a name, knows which one it is."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "potluck"

SHORT_FOR_THE_SAME = {"Array": "an array of numpy's"}
"""Names that several modules give to one type of another library, each for itself."""


def types_of(module: ast.Module) -> Iterator[str]:
    """The names of a module's classes, and of its types: no constants, and no variables of types."""
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and not ast.unparse(node.value).startswith("TypeVar("):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            yield from (name for name in names if name[0].isupper() and not name.isupper())


def test_no_two_types_share_a_name():
    modules = [ast.parse(path.read_text()) for path in ROOT.rglob("*.py")]
    names = Counter(name for module in modules for name in types_of(module))
    assert len(names) > 300
    shared = {name for name, count in names.items() if count > 1 and not name.startswith("_")}
    assert shared == set(SHORT_FOR_THE_SAME)


def test_what_counts_as_a_type():
    text = "class A: ...\nBread = dict[str, int]\nMOST = 2\nKind = TypeVar('Kind')\nlog = 1\ndef f():\n    D = int"
    assert list(types_of(ast.parse(text))) == ["A", "Bread"]
