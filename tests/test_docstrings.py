"""Public classes and functions say what they are, and list each parameter on a line of its own."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import potluck

ROOT = Path(str(potluck.__file__)).parent
FILES = sorted(path for path in ROOT.rglob("*.py") if not path.name.startswith("__"))
NAMESPACES = [potluck, potluck.data, potluck.engines, potluck.methods, potluck.models]
FUNCTIONS = {f"{space.__name__}.{name}": getattr(space, name) for space in NAMESPACES for name in space.__all__}


def missing(doc: str, parameters: list[str]) -> list[str]:
    return [name for name in parameters if not re.search(rf"^\s*\**{name}:", doc, re.MULTILINE)]


def parameters(kind: ast.ClassDef) -> list[str]:
    """What a class is made with, as its own source says: by ``__init__``, or by a dataclass's or tuple's fields."""
    for inner in kind.body:
        if isinstance(inner, ast.FunctionDef) and inner.name == "__init__":
            taken = [given.arg for given in (*inner.args.args, *inner.args.kwonlyargs)]
            return [name for name in taken if name != "self" and not name.startswith("_")]
    of_fields = [ast.unparse(part) for part in (*kind.decorator_list, *kind.bases)]
    if not any("dataclass" in part or part == "NamedTuple" for part in of_fields):
        return []
    fields = [inner for inner in kind.body if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name)]
    named = {ast.unparse(field.target): ast.unparse(field) for field in fields}
    return [
        name for name, code in named.items() if name[0] != "_" and "ClassVar" not in code and "init=False" not in code
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_public_says_what_it_is_and_takes(path):
    for found in ast.parse(path.read_text()).body:
        if isinstance(found, ast.ClassDef | ast.FunctionDef) and not found.name.startswith("_"):
            doc = ast.get_docstring(found) or ""
            assert doc, f"{found.name} says nothing of itself"
            if isinstance(found, ast.ClassDef):
                assert not missing(doc, parameters(found)), f"{found.name} does not say what these are"


def test_functions_for_users_list_their_parameters():
    for name, function in FUNCTIONS.items():
        taken = list(inspect.signature(function).parameters) if inspect.isfunction(function) else []
        if len(taken) > 1:
            assert not missing(function.__doc__ or "", taken), f"{name} does not say what these are"


def test_what_is_not_said_is_found():
    (kind,) = ast.parse(
        "@dataclass\nclass Pair:\n    '''Two.\n\n    left: one.\n    '''\n    left: int\n    right: int"
    ).body
    assert missing(ast.get_docstring(kind) or "", parameters(kind)) == ["right"]
