"""Mutants are small changes that can be run, where the code decides something; none is left behind."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import mutants
from tools.mutants import Baseline, Mutant, mirror, mutants_of, sample

HEADER = '"""Words."""\nfrom __future__ import annotations\n'


def changes(code):
    """What becomes of each place of some code."""
    return [
        (mutant.old, mutant.new.removeprefix("(").removesuffix(")")) for mutant in mutants_of("x.py", code.encode())
    ]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = a < b", [("a < b", "a <= b")]),
        ("x = a == b", [("a == b", "a != b")]),
        ("x = a is b", [("a is b", "a is not b")]),
        ("x = a <= b < c", [("a <= b < c", "a < b < c"), ("a <= b < c", "a <= b <= c")]),
        ("x = a + b", [("a + b", "a - b")]),
        ("x = a // b", [("a // b", "a * b")]),
        ("x = a and b", [("a and b", "a or b")]),
        ("x = not a", [("not a", "a")]),
        ("x = -a", [("-a", "a")]),
        ("x = 7", [("7", "8")]),
        ("x = 0.5", [("0.5", "1.5")]),
        ("x = True", [("True", "False")]),
        ("x = None, 'text'", []),
        ("x.y = z", [("x.y = z", "pass")]),
        ("f(x)", [("f(x)", "pass")]),
        ("x += y", [("x += y", "pass")]),
        ("if a:\n    x = y", [("a", "not (a)")]),
        ("x = y if a else z", [("a", "not (a)")]),
        ("x = [y for y in z if y]", [("y", "not (y)")]),
        ("def f():\n    return x", [("return x", "return None")]),
        ("def f():\n    return", []),
        ("for x in y:\n    continue", [("continue", "pass")]),
        ("def f():\n    raise X", [("raise X", "pass")]),
    ],
)
def test_each_kind_of_change(code, expected):
    assert sorted(changes(HEADER + code)) == sorted(expected)


@pytest.mark.parametrize(
    "code",
    [
        "x: Literal[1] = y",
        "def f(x: Literal[1]) -> Literal[2]: ...",
        "assert a < b",
        "from . import a",
        "x = f'{a < b}'",
        "x = zip(a, b, strict=True)",
        "if TYPE_CHECKING:\n    import a",
        "@dataclass(frozen=True)\nclass A: ...",
        '"""More words."""',
    ],
)
def test_nothing_changes_that_decides_nothing(code):
    assert changes(HEADER + code) == []


def test_a_change_is_made_where_it_stands_whatever_stands_before_it():
    source = 'x = "αβγ → δ" + y\nif (a and\n        b): z()\n'.encode()
    found = {mutant.applied(source).decode() for mutant in mutants_of("x.py", source)}
    assert 'x = ("αβγ → δ" - y)\nif (a and\n        b): z()\n' in {text.replace("'", '"') for text in found}
    assert 'x = "αβγ → δ" + y\nif ((a or b)): z()\n' in found
    assert 'x = "αβγ → δ" + y\nif (a and\n        b): pass\n' in found


def test_every_mutant_of_a_file_can_be_run_and_is_another_program():
    path = Path(mutants.__file__)
    source = path.read_bytes()
    found = mutants_of("tools/mutants.py", source)
    assert len(found) > 100
    assert len({mutant.applied(source) for mutant in found}) == len(found)
    for mutant in found:
        assert ast.dump(ast.parse(mutant.applied(source))) != ast.dump(ast.parse(source))


def test_the_seed_decides_which_are_drawn():
    drawn = [sample(["potluck/runs"], 20, seed) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) == 20
    assert all(Path(mutant.path).is_relative_to("potluck/runs") for mutant in drawn[0])
    assert {mutant.path for mutant in sample(["potluck/runs/folder.py"], 20, 0)} == {"potluck/runs/folder.py"}


def test_tests_of_the_modules_own_come_first_then_the_quick_ones():
    assert mirror("potluck/engines/batched/trainer.py") == "tests/engines/batched/test_trainer.py"
    seconds = {
        "tests/a/test_x.py::slow": 9.0,
        "tests/b.py::quick": 1.0,
        "tests/b.py::long": 25.0,
        "tests/b.py::bad": 0.1,
    }
    lines = {"potluck/a/x.py": {5: set(seconds), 6: {"tests/b.py::quick"}, 9: set()}}
    baseline = Baseline(seconds, ["tests/b.py::bad"], lines)

    def chosen(*place):
        return baseline.tests_for(Mutant("potluck/a/x.py", place[0], place, 0, 1, "a", "b", "a"))

    assert chosen(5, 5) == ["tests/a/test_x.py::slow", "tests/b.py::quick"], "half a minute's worth"
    assert chosen(6, 7) == ["tests/b.py::quick"]
    assert chosen(12, 13) == ["tests/a/test_x.py::slow"], "nothing runs it here, but a process may that this one starts"
    seconds |= {"tests/a/test_x.py::sees": 0.1, "tests/a/test_all.py::sees": 0.2, "tests/c.py::does_not": 0.1}
    assert chosen(9, 9) == [
        "tests/a/test_x.py::sees",
        *chosen(5, 5)[:1],
        "tests/a/test_all.py::sees",
        *chosen(5, 5)[1:],
    ]


MODULE = '''"""A module."""


def positive(x):
    return x > 0


def up_to(n):
    i = 0
    while i < n:
        i += 1
    return i


def nobody_asks():
    return 1
'''
TESTS = """from potluck.things import positive, up_to


def test_positive():
    assert positive(1)
    assert not positive(-1)


def test_up_to():
    assert up_to(3) == 3


def test_that_fails():
    assert positive(-1)
"""


@pytest.mark.slow
def test_what_becomes_of_mutants(tmp_path, monkeypatch, capsys):
    root = tmp_path / "tree"
    for name, text in {"potluck/things.py": MODULE, "tests/test_things.py": TESTS}.items():
        path = root / name
        path.parent.mkdir(parents=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    monkeypatch.setattr(mutants, "ROOT", root)
    drawn = sample(["potluck"], 100, 0)
    judged = mutants.play(drawn, ["tests"], 1, 300)
    found = {f"{mutant.old} -> {mutant.new}": what for mutant, what in judged.items() if mutant.old not in "01"}
    assert found == {
        "return x > 0 -> return None": "killed by tests/test_things.py::test_positive",
        "x > 0 -> (x >= 0)": "survived",
        "i < n -> (i <= n)": "killed by tests/test_things.py::test_up_to",
        "i < n -> (not (i < n))": "killed by tests/test_things.py::test_up_to",
        "i += 1 -> pass": "killed by the clock",
        "return i -> return None": "killed by tests/test_things.py::test_up_to",
        "return 1 -> return None": "survived",
    }
    assert (root / "potluck" / "things.py").read_text() == MODULE
    assert "Fails as it is, and is not used: tests/test_things.py::test_that_fails" in capsys.readouterr().out
    told = mutants.report(drawn, judged)
    assert "potluck/things.py:5  x > 0  ->  (x >= 0)  in  return x > 0" in told
    assert f"potluck: {sum(what.startswith('killed') for what in judged.values())} of {len(judged)} mutants" in told
