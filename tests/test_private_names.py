"""What begins with an underscore is its own module's business: nobody else reads it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "potluck"

OTHERS = {
    "_BatchNorm": "torch's common class of layers with running statistics",
    "_ConvNd": "torch's common class of convolutions",
    "_NormBase": "torch's common class of layers that may have running statistics",
    "_buffers": "of a torch module, with those that are None, which named_buffers() leaves out",
    "_cdist_forward": "torch's operation behind cdist, which ONNX lacks",
    "_disable_current_modes": "of torch: computes at once what is known while others are traced",
    "_exit": "of os: ends a process at once",
    "_foreach_add_": "of torch: many tensors in a few kernels",
    "_foreach_copy_": "of torch: many tensors in a few kernels",
    "_foreach_norm": "of torch: the lengths of many tensors in one call",
    "_foreach_sub": "of torch: the differences of many tensors in one call",
    "_modules": "of a torch module: to put another layer in a layer's place",
    "_parameters": "of a torch module, with those that are None, which named_parameters() leaves out",
    "_runtime_client": "of Flower's grid: by which it asks its server",
    "_state_dict_hooks": "of a torch module: whether its state is changed when it is told",
    "_state_dict_pre_hooks": "of a torch module: whether something happens before its state is told",
    "_version": "of a tensor: how often it was written to",
}
"""Names of other libraries' for which these have no public one."""


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own(node: ast.expr) -> bool:
    """Whether what an attribute is read from is the object itself, its class or its parent."""
    of_super = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"
    return of_super or (isinstance(node, ast.Name) and node.id in ("self", "cls"))


def read_from_outside(text: str) -> Iterator[str]:
    """The private names that a module imports, or reads of what is not its own: none that it has itself."""
    nodes = list(ast.walk(ast.parse(text)))
    attributes = [node for node in nodes if isinstance(node, ast.Attribute) and private(node.attr)]
    known = {node.attr for node in attributes if own(node.value)}
    known |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    yield from (node.attr for node in attributes if not own(node.value) and node.attr not in known)
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names if private(alias.name))


def test_nothing_private_is_read_from_outside():
    found = {
        (str(path.relative_to(PACKAGE)), name)
        for path in PACKAGE.rglob("*.py")
        for name in read_from_outside(path.read_text())
    }
    assert {(path, name) for path, name in found if name not in OTHERS} == set()
    assert {name for _, name in found} == set(OTHERS), "no exception outlives its use"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class A:\n    def f(self, other):\n        self._x = 1\n        return other._x", []),
        ("class A:\n    def f(self, other):\n        return other._y", ["_y"]),
        ("from potluck.core.plan import _hidden, shown", ["_hidden"]),
        ("import a\na._hidden()", ["_hidden"]),
        ("class A(B):\n    def _f(self):\n        super()._f()\n        return self.__class__.__name__", []),
    ],
)
def test_what_counts_as_outside(text, expected):
    assert list(read_from_outside(text)) == expected
