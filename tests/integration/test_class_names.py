"""Two things never share a name: whoever meets a class knows which one it is."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2] / "potluck"


def test_no_two_classes_share_a_name():
    modules = [ast.parse(path.read_text()) for path in ROOT.rglob("*.py")]
    names = Counter(node.name for module in modules for node in module.body if isinstance(node, ast.ClassDef))
    assert len(names) > 100
    assert not [name for name, count in names.items() if count > 1 and not name.startswith("_")]
