"""``potluck bench``: a table beside the docs' figures, a file for those who want one."""

from __future__ import annotations

import json

import pytest

from potluck.bench import results, suite
from potluck.bench.results import Figure, Results
from potluck.bench.scenarios import IDLE
from potluck.bench.suite import overhead
from tests.cli.commands import potluck


@pytest.fixture
def quick(monkeypatch):
    """Benchmarks that take no time."""
    monkeypatch.setattr(suite, "BENCHMARKS", {"mlp": lambda: [Figure.of("a round", [2.0], "s", goal=3.0)]})
    monkeypatch.setattr(results, "load_reference", dict)


def test_it_says_where_the_machine_stands(quick, monkeypatch):
    known = {"a round": {"value": 8.0, "unit": "s", "machine": "M"}}
    monkeypatch.setattr(results, "load_reference", lambda: known)
    out = potluck("bench", "--only", "mlp").stdout
    assert "cores" in out
    assert "a round 2.00 s 8.00 s 4.00 × better ≤ 3.00 met" in " ".join(out.split())
    assert "no figure yet" not in out


def test_it_says_where_the_docs_have_no_figure(quick):
    assert "The docs have no figure yet for 1 of 1." in potluck("bench", "--only", "mlp").stdout


def test_it_writes_json(quick, tmp_path):
    file = tmp_path / "bench.json"
    assert f"Wrote {file}" in potluck("bench", "--only", "mlp", "--json", file).stdout.replace("\n", "")
    assert Results.read(file).figures[0].value == 2.0
    assert json.loads(file.read_text())["settings"] == {"benchmarks": ["mlp"]}


def test_a_real_benchmark_runs_and_fits_the_screen(monkeypatch):
    monkeypatch.setitem(suite.BENCHMARKS, "overhead", lambda: overhead(repeats=2, scenario=IDLE.replace(count=3)))
    result = potluck("bench", "--only", "overhead")
    assert "nothing, auto, one step" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()[2:]) <= 80


def test_an_unknown_benchmark_is_told():
    assert "There is no benchmark 'mpl'. Did you mean 'mlp'?" in potluck("bench", "--only", "mpl", fails=2).stderr
