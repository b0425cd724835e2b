"""How classes introduce themselves: no two types share a name, and whoever makes an object reads what to give it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

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


MADE_OF_FIELDS = {"BaseModel", "Codec", "Method", "NamedTuple", "Settings", "WeightSharing"}
"""Bases whose subclasses take their fields as parameters, as data classes do.

Sections of files are not among them: docs/run-files.md and docs/federation.md list their keys."""


def parameters(made: ast.ClassDef) -> Iterator[str]:
    """What a class is made with, but for what it explains beside the field itself: below it, or as its description."""
    inits = [node for node in made.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    if inits:
        arguments = inits[0].args
        yield from [argument.arg for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]][1:]
        return
    bases = {ast.unparse(base) for base in made.bases}
    if not bases & MADE_OF_FIELDS and "dataclass" not in " ".join(map(ast.unparse, made.decorator_list)):
        return
    for node, below in zip(made.body, [*made.body[1:], ast.Pass()], strict=True):
        explained = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not explained:
            kind, value = ast.unparse(node.annotation), ast.unparse(node.value) if node.value else ""
            own = node.target.id.startswith("_") or "init=False" in value or "description=" in value
            if not own and not kind.startswith(("ClassVar", "Literal")):
                yield node.target.id


def unexplained(text: str) -> list[str]:
    """Parameters of a module's classes that no line of their docstrings begins with."""
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]
    return [
        f"{made.name}({name})"
        for made in classes
        for name in parameters(made)
        if not re.search(rf"^\s*{name}: ", ast.get_docstring(made) or "", re.MULTILINE)
    ]


def test_classes_explain_their_parameters():
    found = {path.relative_to(ROOT).as_posix(): unexplained(path.read_text()) for path in ROOT.rglob("*.py")}
    assert len(found) > 100
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('class A:\n    """Is.\n\n    Args:\n        b: it.\n    """\n    def __init__(self, b, *, c): ...', ["A(c)"]),
        ("@dataclass(frozen=True)\nclass A:\n    b: int\n    c: int = 2\n    d: ClassVar[int] = 3", ["A(b)", "A(c)"]),
        ('@dataclass\nclass A:\n    b: int\n    """It."""\n    c: int\n    _d: int = 3', ["A(c)"]),
        ('class A(Settings):\n    b: int = Field(1, description="it")\n    c: int', ["A(c)"]),
        ("class A:\n    b: int\nclass _B:\n    def __init__(self, c): ...", []),
    ],
)
def test_which_parameters_count(text, expected):
    assert unexplained(text) == expected
